mod any;

use std::collections::BTreeMap;

use api::migrate::names::FINALIZER;
use api::migrate::{
    ClaimRecord, ClusterAccess, Finding, Intent, Location, OrdinalRecord, Phase, Preflight,
    StatefulSetMigrationSpec, StepName,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kernel::PAUSED;
use proptest::prelude::*;
use rstest::rstest;

use super::super::RECORD_LIMIT;
use super::super::lock::{Lock, LockIdentity, LockPhase, StoredLock};
use super::*;
use any::{any_status, micro_time};

const RUN: &str = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";

fn spec() -> StatefulSetMigrationSpec {
    let access = ClusterAccess {
        kube_config_secret: "src".to_owned(),
        kube_config_key: "kubeconfig".to_owned(),
    };
    let fence = json!({"sourceClusterName": "old", "destClusterName": "new"});
    let spec = json!({
        "migrationId": "move-1",
        "sourceCluster": access,
        "destCluster": access,
        "sourceNamespace": "shop",
        "destNamespace": "store",
        "statefulSetName": "web",
        "storageClassMapping": {"gp2": "gp3"},
        "strategy": "Window",
        "abort": "Rollback",
        "retry": 2,
        "acknowledge": ["Health/1"],
        "fence": fence,
    });
    serde_json::from_value(spec).unwrap()
}

/// Ordinals 0 and 1 with one claim each; 0 has moved, 1 moves.
fn status() -> StatefulSetMigrationStatus {
    let ordinal = |ordinal: i32, location| OrdinalRecord {
        ordinal,
        location,
        claims: vec![ClaimRecord {
            name: format!("data-web-{ordinal}"),
            source_pv: format!("pvc-{ordinal}"),
            volume_id: format!("vol-0000000{ordinal}"),
            ..ClaimRecord::default()
        }],
        ..OrdinalRecord::default()
    };
    StatefulSetMigrationStatus {
        phase: Some(Phase::MigratingPods),
        current_index: 1,
        started: true,
        run_id: Some(RUN.to_owned()),
        intent: Some(Intent {
            step: StepName::Grow,
            ordinal: Some(1),
            token: "7".to_owned(),
            at: micro_time(7),
        }),
        ordinals: vec![
            ordinal(0, Location::Destination),
            ordinal(1, Location::Moving),
        ],
        ..StatefulSetMigrationStatus::default()
    }
}

fn identity() -> LockIdentity {
    LockIdentity {
        run_id: RUN.to_owned(),
        cluster: "cluster-1".to_owned(),
        object: "ops/move-web".to_owned(),
    }
}

fn stored(status: &StatefulSetMigrationStatus) -> StoredLock {
    let lock = Lock::of(identity(), LockPhase::Active, &spec(), &Journal::of(status)).unwrap();
    StoredLock::parse(&lock.config_map("shop", "web"))
}

#[test]
fn a_restored_migration_has_spec_and_record() {
    let restored = restore(&stored(&status())).unwrap();
    assert_eq!(restored.spec, spec());
    assert_eq!(restored.status, Some(status()));
}

#[test]
fn a_restored_migration_waits_for_its_status() {
    let metadata = restore(&stored(&status())).unwrap().metadata;
    assert_eq!(metadata.namespace.as_deref(), Some("ops"));
    assert_eq!(metadata.name.as_deref(), Some("move-web"));
    assert_eq!(metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    let paused = BTreeMap::from([(PAUSED.to_owned(), "true".to_owned())]);
    assert_eq!(metadata.annotations, Some(paused));
    assert_eq!(metadata.uid, None);
}

#[test]
fn a_restored_run_has_started() {
    let status = StatefulSetMigrationStatus {
        started: false,
        ..status()
    };
    assert!(restore(&stored(&status)).unwrap().status.unwrap().started);
}

#[test]
fn reports_are_not_in_the_journal() {
    let mut reported = StatefulSetMigrationStatus {
        conditions: vec![Condition {
            type_: "Stalled".to_owned(),
            status: "True".to_owned(),
            reason: "DetachBusy".to_owned(),
            message: "secret".to_owned(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }],
        last_error: Some("secret".to_owned()),
        observed_generation: Some(7),
        preflight: Some(Preflight {
            at: Time(Timestamp::UNIX_EPOCH),
            checks: Vec::<Finding>::new(),
        }),
        plan: vec!["secret".to_owned()],
        ..status()
    };
    reported.ordinals[1].last_error = Some("secret".to_owned());
    assert_eq!(Journal::of(&reported), Journal::of(&status()));
    assert!(!Journal::of(&reported).render().contains("secret"));
}

fn with(key: &str, text: &str) -> StoredLock {
    let mut found = stored(&status());
    let field = match key {
        "holder" => &mut found.holder,
        "object" => &mut found.object,
        "spec" => &mut found.spec,
        "journal" => &mut found.journal,
        other => panic!("{other} is no key"),
    };
    text.clone_into(field);
    found
}

fn edited(key: &str, pointer: &str, value: Value) -> StoredLock {
    let found = stored(&status());
    let text = if key == "spec" {
        found.spec
    } else {
        found.journal
    };
    let mut json: Value = serde_json::from_str(&text).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[field] = value;
    with(key, &json.to_string())
}

#[rstest]
#[case::no_journal(with("journal", ""), "journal: found none")]
#[case::no_spec(with("spec", ""), "spec: found none")]
#[case::half_a_journal(
    with("journal", "{\"version\":1"),
    "journal: found a text that cannot be read"
)]
#[case::half_a_spec(with("spec", "{"), "spec: found a text that cannot be read")]
#[case::a_list(with("journal", "[]"), "journal: found version none, need version 1")]
#[case::no_version(with("journal", "{}"), "journal: found version none, need version 1")]
#[case::a_newer_version(edited("journal", "/version", json!(2)), "journal: found version 2")]
#[case::no_record(
    with("journal", "{\"version\":1}"),
    "journal: found a text that cannot be read"
)]
#[case::an_unknown_step(
    edited("journal", "/record/intent/step", json!("leap")),
    "journal: found a text that cannot be read"
)]
#[case::an_unknown_field(
    edited("journal", "/record/ordinals/1/held", json!(true)),
    "journal: found .ordinals.1.held with a value that this version does not understand"
)]
#[case::an_unknown_setting(
    edited("spec", "/cutover", json!(true)),
    "spec: found .cutover with a value that this version does not understand"
)]
#[case::a_pod_that_was_left_out(
    edited("journal", "/record/migratedPods", json!([{"index": "zero"}])),
    "journal: found .migratedPods with a value"
)]
#[case::another_holder(with("holder", "other"), "need run \"other\", which holds the lock")]
#[case::no_run(edited("journal", "/record/runId", json!("")), "found run \"\"")]
#[case::no_object(with("object", ""), "object: found \"\"")]
#[case::no_namespace(with("object", "move-web"), "object: found \"move-web\"")]
fn a_lock_that_cannot_be_restored_is_refused(#[case] found: StoredLock, #[case] text: &str) {
    let error = restore(&found).unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn a_lock_without_run_is_not_restored_for_an_empty_holder() {
    let mut found = edited("journal", "/record/runId", json!(""));
    found.holder = String::new();
    assert!(matches!(
        restore(&found),
        Err(JournalError::OtherRun { .. })
    ));
}

/// Which lock is chosen: `true` for the destination's.
#[rstest]
#[case::both_equal(stored(&at(7)), stored(&at(7)), false)]
#[case::the_source_is_ahead(stored(&at(8)), stored(&at(7)), false)]
#[case::the_destination_is_ahead(stored(&at(7)), stored(&at(8)), true)]
#[case::the_source_is_damaged(with("journal", "{"), stored(&at(7)), true)]
#[case::the_destination_is_damaged(stored(&at(7)), with("journal", "{"), false)]
#[case::a_damaged_spec_counts(with("spec", "{"), stored(&at(7)), true)]
#[case::both_are_damaged(with("journal", "{"), with("journal", ""), false)]
#[case::no_times_but_readable(with("journal", "{"), stored(&without_times()), true)]
fn the_newest_readable_mirror_is_chosen(
    #[case] source: StoredLock,
    #[case] destination: StoredLock,
    #[case] expected: bool,
) {
    let chosen = newest(&source, &destination);
    assert_eq!(std::ptr::eq(chosen, &raw const destination), expected);
}

fn at(micros: i64) -> StatefulSetMigrationStatus {
    let mut status = status();
    status.intent.as_mut().unwrap().at = micro_time(micros);
    status
}

fn without_times() -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        intent: None,
        ..status()
    }
}

#[test]
fn a_ready_ordinal_is_later_than_its_last_intent() {
    let mut status = status();
    status.ordinals[1].times.ready = Some(micro_time(9));
    assert_eq!(Journal::of(&status).latest(), Some(micro_time(9)));
}

#[rstest]
#[case::at_the_limit(RECORD_LIMIT, None)]
#[case::one_byte_more(
    RECORD_LIMIT + 1,
    Some("journal of StatefulSetMigration ops/move-web: found 901 KiB, need at most 900 KiB; ")
)]
fn a_journal_has_a_limit(#[case] bytes: usize, #[case] expected: Option<&str>) {
    let error = check_size("ops/move-web", bytes)
        .err()
        .map(|error| error.to_string());
    assert_eq!(error.is_some(), expected.is_some());
    let (error, expected) = (error.unwrap_or_default(), expected.unwrap_or_default());
    assert!(error.starts_with(expected), "{error}");
}

/// A set of so many ordinals with one claim each, before its run.
fn set_of(replicas: i32) -> StatefulSetMigrationStatus {
    let [first, _] = <[OrdinalRecord; 2]>::try_from(status().ordinals).unwrap();
    let ordinal = |ordinal| OrdinalRecord {
        ordinal,
        location: Location::Source,
        ..first.clone()
    };
    StatefulSetMigrationStatus {
        ordinals: (0..replicas).map(ordinal).collect(),
        ..StatefulSetMigrationStatus::default()
    }
}

#[test]
fn an_oversized_journal_makes_no_lock() {
    let journal = Journal::of(&set_of(8000));
    let error = Lock::of(identity(), LockPhase::Active, &spec(), &journal).unwrap_err();
    assert_eq!(error.bytes, journal.render().len());
}

/// The limit in practice: sets of this size pass preflight, and much larger ones do not.
#[rstest]
#[case::three(3, true)]
#[case::four_hundred(400, true)]
#[case::two_thousand(2000, false)]
fn a_set_of_ordinals_fits(#[case] replicas: i32, #[case] fits: bool) {
    let size = full_size(&spec(), &set_of(replicas));
    assert_eq!(check_size("ops/move-web", size).is_ok(), fits, "{size}");
}

proptest! {
    #[test]
    fn restore_gives_the_same_spec_and_record(status in any_status(RUN)) {
        let restored = restore(&stored(&status)).unwrap();
        prop_assert_eq!(restored.spec, spec());
        let expected = Journal::of(&status);
        prop_assert_eq!(restored.status.as_ref(), Some(expected.record()));
        prop_assert_eq!(Journal::parse(&expected.render()), Ok(expected));
    }

    #[test]
    fn a_run_never_outgrows_its_full_size(status in any_status(RUN)) {
        let mut before = set_of(0);
        before.ordinals = status.ordinals.iter().map(any::before_the_run).collect();
        let full = full_size(&spec(), &before);
        prop_assert!(Journal::of(&status).render().len() <= full);
    }

    #[test]
    fn junk_is_an_error_and_no_panic(text in ".{0,40}", key in 0_usize..4) {
        let key = ["holder", "object", "spec", "journal"][key];
        let found = with(key, &text);
        let is_readable = restore(&found).is_ok();
        prop_assert!(!is_readable || key == "object", "{text}");
    }

    #[test]
    fn a_cut_journal_is_never_read(status in any_status(RUN), at in any::<prop::sample::Index>()) {
        let text = Journal::of(&status).render();
        let at = at.index(text.chars().count());
        let cut: String = text.chars().take(at).collect();
        prop_assert!(Journal::parse(&cut).is_err());
    }
}
