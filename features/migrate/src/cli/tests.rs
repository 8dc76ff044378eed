//! Arguments of the verbs, and a migration for the tests of all of them.

use api::migrate::StatefulSetMigration;
use clap::error::ErrorKind;
use kernel::ObjectKey;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// The migration of the tests.
pub(super) fn key() -> ObjectKey {
    ObjectKey::namespaced("ops", "move-web")
}

/// A migration in generation 2 with these fields besides those that every spec has.
pub(super) fn migration(spec: Value, status: Value) -> StatefulSetMigration {
    let mut object = json!({
        "metadata": {
            "namespace": "ops", "name": "move-web", "uid": "uid-1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "migrationId": "move-1",
            "sourceCluster": {"kubeConfigSecret": "src"},
            "destCluster": {"kubeConfigSecret": "dst"},
            "sourceNamespace": "shop",
            "destNamespace": "store",
            "statefulSetName": "web",
        },
        "status": status,
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn parsed(arguments: &str) -> Result<ArgMatches, clap::Error> {
    let all = arguments.split(' ').filter(|one| !one.is_empty());
    command().no_binary_name(true).try_get_matches_from(all)
}

#[test]
fn the_verbs_are_consistent() {
    let verbs = verbs();
    verbs.command.debug_assert();
    storagemover_verbs().command.debug_assert();
}

#[rstest]
#[case::all("status")]
#[case::one("status ops/move-web --watch --timeout 5m")]
#[case::start_of_a_file("start -f x.yaml --yes")]
#[case::start_of_a_name("start move-web -n ops")]
#[case::plan_of_a_file("plan -f x.yaml --timeout 90s")]
#[case::plan_of_a_name("plan move-web")]
#[case::pause("pause move-web")]
#[case::resume("resume move-web --yes")]
#[case::retry("retry move-web --timeout 1h")]
#[case::abort("abort move-web --rollback")]
#[case::leave("abort move-web --leave")]
#[case::rollback("rollback move-web")]
#[case::journal_of_a_migration("journal --migration ops/move-web")]
#[case::journal_of_files(
    "journal --source-kubeconfig a --dest-kubeconfig b --statefulset shop/web"
)]
#[case::restore(
    "journal --source-kubeconfig a --dest-kubeconfig b --restore --statefulset shop/web"
)]
#[case::audit("audit --migration ops/move-web --release --by-hand --yes")]
#[case::kubeconfig("kubeconfig --context other")]
#[case::stored_kubeconfig("kubeconfig --context other --apply --secret src -n ops")]
fn arguments_are_accepted(#[case] arguments: &str) {
    parsed(arguments).unwrap();
}

#[rstest]
#[case::no_verb("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, "rollback")]
#[case::an_unknown_verb("move", ErrorKind::InvalidSubcommand, "unrecognized subcommand")]
#[case::start_of_nothing("start", ErrorKind::MissingRequiredArgument, "--filename <FILE>")]
#[case::start_of_both("start web -f x", ErrorKind::ArgumentConflict, "cannot be used with")]
#[case::pause_of_nothing("pause", ErrorKind::MissingRequiredArgument, "[NAMESPACE/]NAME")]
#[case::abort_without_how("abort web", ErrorKind::MissingRequiredArgument, "--rollback|--leave")]
#[case::abort_both(
    "abort web --rollback --leave",
    ErrorKind::ArgumentConflict,
    "cannot be used with"
)]
#[case::a_time_without_unit("status --timeout 5", ErrorKind::ValueValidation, "such as 90s or 5m")]
#[case::no_clusters("audit", ErrorKind::MissingRequiredArgument, "--migration")]
#[case::one_cluster(
    "audit --source-kubeconfig a",
    ErrorKind::MissingRequiredArgument,
    "--dest-kubeconfig"
)]
#[case::clusters_twice(
    "audit --migration a/b --source-kubeconfig a --dest-kubeconfig b",
    ErrorKind::ArgumentConflict,
    "cannot be used with"
)]
#[case::restore_of_nothing(
    "journal --migration a/b --restore",
    ErrorKind::MissingRequiredArgument,
    "--statefulset"
)]
#[case::by_hand_alone(
    "audit --migration a/b --by-hand",
    ErrorKind::MissingRequiredArgument,
    "--release"
)]
#[case::no_context("kubeconfig", ErrorKind::MissingRequiredArgument, "--context")]
#[case::secret_without_apply(
    "kubeconfig --context a --secret b",
    ErrorKind::MissingRequiredArgument,
    "--apply"
)]
fn wrong_usage_names_what_is_valid(
    #[case] arguments: &str,
    #[case] kind: ErrorKind,
    #[case] hint: &str,
) {
    let error = parsed(arguments).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains(hint), "{error}");
}

#[rstest]
#[case::start("start web", SpecEdit::Start)]
#[case::pause("pause web", SpecEdit::Pause)]
#[case::resume("resume web", SpecEdit::Resume)]
#[case::retry("retry web", SpecEdit::Retry)]
#[case::abort_rollback("abort web --rollback", SpecEdit::Rollback)]
#[case::abort_leave("abort web --leave", SpecEdit::Leave)]
#[case::rollback("rollback web", SpecEdit::Rollback)]
fn a_verb_stands_for_a_change(#[case] arguments: &str, #[case] expected: SpecEdit) {
    let matches = parsed(arguments).unwrap();
    let (verb, args) = matches.subcommand().unwrap();
    assert_eq!(spec_edit(verb, args), expected);
}
