use rstest::rstest;
use serde_json::json;

use super::*;
use crate::migration::core::RECHECK;

const TOKEN: &str = "a-token-that-is-secret";

fn source() -> LoginSource {
    LoginSource {
        secret: ObjectKey::namespaced("ops", "src"),
        key: "kubeconfig".to_owned(),
    }
}

fn secret(key: &str, kubeconfig: &Value) -> Value {
    json!({"data": {key: STANDARD.encode(kubeconfig.to_string())}})
}

/// A kubeconfig whose user logs in so.
fn logging_in(user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.org"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "here",
    })
}

#[rstest]
#[case::no_secret(None, "there is no Secret ops/src; create it")]
#[case::no_key(
    Some(secret("config", &json!({}))), "Secret ops/src has no key kubeconfig")]
#[case::not_base64(
    Some(json!({"data": {"kubeconfig": "***"}})), "Secret ops/src has no key kubeconfig")]
#[case::a_program(
    Some(secret("kubeconfig", &logging_in(&json!({"exec": {"command": TOKEN}})))),
    "Secret ops/src, key kubeconfig: users[0].user.exec")]
#[case::a_file(
    Some(secret("kubeconfig", &logging_in(&json!({"tokenFile": TOKEN})))),
    "Secret ops/src, key kubeconfig: users[0].user.tokenFile")]
fn a_kubeconfig_is_refused_by_field(#[case] secret: Option<Value>, #[case] expected: &str) {
    let refusal = kubeconfig(&source(), secret.as_ref()).err().unwrap();
    assert!(refusal.starts_with(expected), "{refusal}");
    assert!(!refusal.contains(TOKEN), "{refusal}");
}

#[rstest]
#[case::not_recorded(None, "a", true)]
#[case::the_recorded_one(Some("a"), "a", true)]
#[case::another_one(Some("a"), "b", false)]
fn a_cluster_is_compared_with_the_recorded_one(
    #[case] recorded: Option<&str>,
    #[case] seen: &str,
    #[case] is_same: bool,
) {
    let connection = compared(&ClusterIdentity::new(seen).unwrap(), recorded);
    if is_same {
        assert_eq!(connection, Connection::Cluster(seen.to_owned()));
        return;
    }
    let Connection::Moved(message) = connection else {
        panic!("{connection:?}");
    };
    assert!(message.contains("cluster b, and the run began with cluster a"));
}

#[test]
fn a_kubeconfig_is_read_again_within_ten_seconds() {
    assert!(RECHECK + CHECK_INTERVAL < Duration::from_secs(10));
}

#[rstest]
#[case::denied(
    Class::Denied,
    "get Secret ops/src: refused; add ops to the chart's migrate.namespaces"
)]
#[case::unreachable(Class::Transient, "get Secret ops/src: refused")]
fn a_secret_that_may_not_be_read_names_the_value_of_the_chart(
    #[case] class: Class,
    #[case] expected: &str,
) {
    let error = CallError::new(class, "get Secret ops/src: refused");
    let error = unreadable(&source().secret, error);
    assert_eq!((error.class, &*error.message), (class, expected));
}
