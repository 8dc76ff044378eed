use std::collections::BTreeMap;

use api::vault::VaultPolicy;
use engine::leftovers::Unreadable;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn policy() -> VaultPolicy {
    serde_json::from_value(json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": "VaultPolicy",
        "metadata": {"namespace": "team-a", "name": "app"},
        "spec": {"connectionRef": "c", "vaultNamespace": "/child/"},
    }))
    .unwrap()
}

fn connection(spec: Value) -> VaultConnection {
    let mut whole = json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": "VaultConnection",
        "metadata": {"name": "c"},
        "spec": {"address": "https://vault", "auth": {}},
    });
    for (key, value) in spec.as_object().unwrap() {
        whole["spec"][key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn earlier(path: &str) -> VaultLeftover {
    let entry = PreviousName {
        owner: Some("VaultPolicy team-a/app".to_owned()),
        ..PreviousName::default()
    };
    VaultLeftover::of(&policy(), &entry, &Place::parse(path).unwrap(), "gone")
}

#[rstest]
#[case::policy("sys/policies/acl/vao.k.team-a.app", "policy")]
#[case::role("auth/eu/kubernetes/role/r", "role")]
#[case::seed("secret/metadata/team-a/seed", "secret")]
fn a_recorded_path_reads_back(#[case] text: &str, #[case] resource_type: &str) {
    let path = VaultPath::parse(text).unwrap();
    assert_eq!(path.to_string(), text);
    assert_eq!(path.resource_type(), resource_type);
}

#[rstest]
#[case("secret/data/team-a/seed")]
#[case("secret/metadata/")]
#[case("auth/kubernetes/config")]
#[case("")]
fn other_texts_are_no_paths(#[case] text: &str) {
    assert_eq!(VaultPath::parse(text), None);
}

#[test]
fn a_seed_is_left_with_its_metadata() {
    let path = VaultPath::of_seed("secret/data/a/data/b").unwrap();
    assert_eq!(path.to_string(), "secret/metadata/a/data/b");
}

#[rstest]
#[case::on_record(json!({"seeded": true, "seededVersion": 4}), Some(4))]
#[case::announced_and_not_recorded(json!({"intent": {"kind": "create"}}), Some(1))]
#[case::announced_again(json!({"seededVersion": 4, "intent": {"kind": "correct"}}), Some(4))]
#[case::never(json!({}), None)]
fn a_seed_is_known_by_the_version_we_wrote(#[case] status: Value, #[case] ours: Option<u64>) {
    assert_eq!(seeded(&serde_json::from_value(status).unwrap()), ours);
}

#[test]
fn an_earlier_place_knows_its_object_and_no_address() {
    let left = earlier("sys/policies/acl/old");
    assert_eq!(
        (&*left.kind, &*left.resource),
        ("VaultPolicy", "team-a/app")
    );
    assert_eq!((&*left.connection, &left.address), ("gone", &None));
    assert_eq!(left.owner.as_deref(), Some("VaultPolicy team-a/app"));
    assert!(left.recorded);
}

#[test]
fn a_namespace_is_kept_from_the_root_if_the_connection_is_known() {
    let parent = connection(json!({"vaultNamespace": "parent/"}));
    let unknown = earlier("sys/policies/acl/x");
    assert_eq!(unknown.namespace(&parent).as_deref(), Some("parent/child"));
    let known = unknown.over(Some(&parent), Some("child"));
    assert_eq!(known.vault_namespace.as_deref(), Some("parent/child"));
    let moved = connection(json!({"vaultNamespace": "elsewhere"}));
    assert_eq!(known.namespace(&moved).as_deref(), Some("parent/child"));
    assert_eq!(namespace(Some("/"), None), None);
}

#[test]
fn a_connection_that_leads_elsewhere_is_told() {
    let left = earlier("sys/policies/acl/x");
    let other = connection(json!({"address": "https://other"}));
    assert!(left.is_behind(&other));
    let known = left.over(
        Some(&connection(json!({"address": "https://vault/"}))),
        None,
    );
    assert!(known.is_behind(&connection(json!({}))));
    assert!(!known.is_behind(&other));
}

#[test]
fn one_thing_over_one_connection_has_one_record() {
    let name = |path: &str| earlier(path).record_name();
    assert_eq!(name("sys/policies/acl/App"), name("sys/policies/acl/app"));
    assert_ne!(name("sys/policies/acl/a"), name("sys/policies/acl/b"));
    let mut other = earlier("sys/policies/acl/a");
    other.connection = "another".to_owned();
    assert_ne!(other.record_name(), name("sys/policies/acl/a"));
    other.connection = "gone".to_owned();
    other.vault_namespace = None;
    assert_ne!(other.record_name(), name("sys/policies/acl/a"));
    assert_eq!(
        name("sys/policies/acl/a").len(),
        "vault-cleanup-".len() + 32
    );
}

fn role() -> VaultLeftover {
    VaultLeftover {
        kind: "VaultRole".to_owned(),
        resource: "team-a/r".to_owned(),
        path: VaultPath::parse("auth/kubernetes/role/vao.k.team-a.r").unwrap(),
        vault_namespace: None,
        connection: "c".to_owned(),
        address: Some("https://vault".to_owned()),
        owner: Some("VaultRole team-a/r".to_owned()),
        canonical_hash: Some("abc".to_owned()),
        seeded_version: None,
        recorded: true,
    }
}

fn with_every_field() -> VaultLeftover {
    VaultLeftover {
        path: VaultPath::parse("secret/metadata/x").unwrap(),
        vault_namespace: Some("child".to_owned()),
        seeded_version: Some(3),
        recorded: false,
        ..role()
    }
}

/// As its ConfigMap has it.
fn texts(leftover: &VaultLeftover) -> BTreeMap<String, String> {
    let fields = leftover.fields().into_iter();
    fields
        .filter_map(|(key, text)| Some((key, text?)))
        .collect()
}

#[rstest]
#[case::usual(
    role(),
    "address=https://vault canonicalHash=abc connection=c kind=VaultRole owner=VaultRole team-a/r \
     resource=team-a/r vaultPath=auth/kubernetes/role/vao.k.team-a.r"
)]
#[case::with_every_field(
    with_every_field(),
    "address=https://vault canonicalHash=abc connection=c kind=VaultRole owner=VaultRole team-a/r \
     recorded=false resource=team-a/r seededVersion=3 vaultNamespace=child \
     vaultPath=secret/metadata/x"
)]
fn a_record_has_these_keys(#[case] leftover: VaultLeftover, #[case] expected: &str) {
    let texts = texts(&leftover);
    let keys: Vec<_> = texts
        .iter()
        .map(|(key, text)| format!("{key}={text}"))
        .collect();
    assert_eq!(keys.join(" "), expected);
    assert_eq!(leftover.fields().len(), 10, "a patch removes the others");
    assert_eq!(VaultLeftover::from_fields(&texts), Ok(leftover));
}

#[rstest]
#[case("vaultPath", "nowhere")]
#[case("vaultPath", "")]
#[case("connection", "")]
#[case("kind", "")]
#[case("seededVersion", "first")]
fn a_record_that_does_not_say_what_is_left_is_unreadable(#[case] key: &str, #[case] text: &str) {
    let mut texts = texts(&with_every_field());
    texts.insert(key.to_owned(), text.to_owned());
    let key = key.to_owned();
    assert_eq!(VaultLeftover::from_fields(&texts), Err(Unreadable { key }));
}

#[test]
fn what_is_certain_is_not_replaced_by_a_suspicion() {
    let suspicion = VaultLeftover {
        canonical_hash: None,
        recorded: false,
        ..role()
    };
    assert!(role().covers(&suspicion));
    assert!(role().covers(&role()));
    assert!(!suspicion.covers(&role()));
    let newer = VaultLeftover {
        canonical_hash: Some("def".to_owned()),
        ..role()
    };
    assert!(!role().covers(&newer));
}
