use rstest::rstest;

use super::*;

fn settings_beside(before: &[(&str, &str)], flags: &[&str]) -> Result<Settings, Usage> {
    let value = |name: &str| {
        let found = before.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let namespace = flag("namespace", "NAME", "").default_value("pontoon-system");
    let command = clap::Command::new("run")
        .no_binary_name(true)
        .args_override_self(true)
        .args(args_beside(value))
        .arg(namespace);
    read(&command.try_get_matches_from(flags).unwrap())
}

fn settings(flags: &[&str]) -> Result<Settings, Usage> {
    settings_beside(&[], flags)
}

#[test]
fn without_flags_the_predecessors_defaults_hold() {
    let expected = Settings {
        cluster_name: None,
        watch_namespaces: vec![],
        resync: Duration::from_secs(300),
        error_interval: Duration::from_secs(30),
        min_scan_interval: Duration::from_secs(300),
        cleanup_retry: Duration::from_secs(300),
        deletion_deadline: Deadline::After(Duration::from_secs(60)),
        service_account: ServiceAccountRef {
            name: "pontoon".into(),
            namespace: "pontoon-system".into(),
        },
        aws_region: None,
        legacy_lease: Some(LegacyLease {
            namespace: None,
            name: "2bf9394e.platform.io".into(),
        }),
        controllers: Controllers::all(),
    };
    assert_eq!(settings(&[]), Ok(expected));
}

#[test]
fn the_predecessors_environment_counts() {
    let before = [
        ("CLUSTER_NAME", "prod-eu"),
        ("OPERATOR_REQUEUE_SUCCESS_INTERVAL", "10m0s"),
        ("OPERATOR_REQUEUE_ERROR_INTERVAL", "1m30s"),
        ("OPERATOR_MIN_SCAN_INTERVAL", "1h0m0s"),
        ("OPERATOR_CLEANUP_RETRY_INTERVAL", "500ms"),
        ("OPERATOR_SERVICE_ACCOUNT", "vao"),
    ];
    let read = settings_beside(&before, &["--namespace=vault-system"]).unwrap();
    assert_eq!(read.cluster_name.as_deref(), Some("prod-eu"));
    assert_eq!(read.resync, Duration::from_secs(600));
    assert_eq!(read.error_interval, Duration::from_secs(90));
    assert_eq!(read.min_scan_interval, Duration::from_secs(3600));
    assert_eq!(read.cleanup_retry, Duration::from_millis(500));
    assert_eq!(read.service_account.name, "vao");
    assert_eq!(read.service_account.namespace, "vault-system");
}

#[test]
fn a_flag_counts_before_the_environment() {
    let before = [
        ("CLUSTER_NAME", "wrong name"),
        ("OPERATOR_REQUEUE_SUCCESS_INTERVAL", "soon"),
    ];
    let read = settings_beside(&before, &["--cluster-name=a", "--vault-resync=1m"]).unwrap();
    assert_eq!(read.cluster_name.as_deref(), Some("a"));
    assert_eq!(read.resync, Duration::from_secs(60));
}

#[test]
fn an_empty_variable_is_none() {
    let before = [("CLUSTER_NAME", ""), ("OPERATOR_MIN_SCAN_INTERVAL", "")];
    assert_eq!(settings_beside(&before, &[]), settings(&[]));
    assert_eq!(settings(&["--cluster-name="]), settings(&[]));
}

#[rstest]
#[case::deadline("1h0m0s", Deadline::After(Duration::from_secs(3600)))]
#[case::at_once("0", Deadline::After(Duration::ZERO))]
#[case::at_once_with_a_unit("0s", Deadline::After(Duration::ZERO))]
#[case::as_long_as_it_takes("never", Deadline::Never)]
fn a_deletion_has_its_deadline(#[case] given: &str, #[case] deadline: Deadline) {
    let read = settings(&[&format!("--vault-deletion-deadline={given}")]).unwrap();
    assert_eq!(read.deletion_deadline, deadline);
}

#[rstest]
#[case::none("none", None)]
#[case::elsewhere("vault-system/lock", Some((Some("vault-system"), "lock")))]
#[case::at_home("lock", Some((None, "lock")))]
fn the_predecessors_lease_can_be_elsewhere(
    #[case] given: &str,
    #[case] lease: Option<(Option<&str>, &str)>,
) {
    let read = settings(&[&format!("--vault-legacy-lease={given}")]).unwrap();
    let lease = lease.map(|(namespace, name)| LegacyLease {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    });
    assert_eq!(read.legacy_lease, lease);
}

#[rstest]
#[case::name("--cluster-name=a.b", "--cluster-name=a.b: write letters")]
#[case::blank("--cluster-name=a b", "hyphens")]
#[case::no_unit("--vault-resync=300", "such as 5m")]
#[case::word("--vault-error-interval=soon", "--vault-error-interval=soon: write")]
#[case::negative("--vault-min-scan-interval=-5m", "above zero")]
#[case::zero("--vault-cleanup-retry=0s", "above zero")]
#[case::deadline("--vault-deletion-deadline=Never", "or never")]
#[case::lease("--vault-legacy-lease=a/b/c", "--vault-legacy-lease: ")]
#[case::controller("--vault-controllers=roles", "there is no \"roles\"")]
#[case::namespace("--watch-namespaces=a,Team_B", "\"Team_B\" cannot be a namespace")]
fn what_cannot_be_used_is_refused_with_what_to_write(#[case] flag: &str, #[case] hint: &str) {
    let Usage(why) = settings(&[flag]).unwrap_err();
    assert!(why.contains(hint), "{why}");
}

#[rstest]
#[case("CLUSTER_NAME", "a_b")]
#[case("OPERATOR_REQUEUE_ERROR_INTERVAL", "30")]
fn an_unfit_variable_is_named(#[case] name: &str, #[case] value: &str) {
    let Usage(why) = settings_beside(&[(name, value)], &[]).unwrap_err();
    assert!(why.starts_with(&format!("{name}={value}: ")), "{why}");
}

#[test]
fn namespaces_are_a_set() {
    let flags = ["--watch-namespaces=b, a,,b", "--watch-namespaces", "c"];
    let read = settings(&flags).unwrap();
    assert_eq!(read.watch_namespaces, ["a", "b", "c"]);
    assert_eq!(settings(&["--watch-namespaces="]), settings(&[]));
}

#[rstest]
#[case::all("", Some("team-a"), true)]
#[case::named("team-a,team-b", Some("team-b"), true)]
#[case::unnamed("team-a", Some("team-b"), false)]
#[case::cluster_wide("team-a", None, true)]
fn only_watched_namespaces_are_ours(
    #[case] watched: &str,
    #[case] namespace: Option<&str>,
    #[case] ours: bool,
) {
    let read = settings(&[&format!("--watch-namespaces={watched}")]).unwrap();
    assert_eq!(read.watches(namespace), ours);
}
