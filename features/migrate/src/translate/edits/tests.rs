//! Which edits are named, and what is shown of them.

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::translate::fixtures::{stateful_set, with};

const CONTAINER: &str = "/spec/template/spec/containers/0";

fn set(value: Value) -> Document<StatefulSet> {
    Document::read(value).unwrap()
}

fn inside(pointer: &str) -> String {
    format!("{CONTAINER}{pointer}")
}

fn edited(pointer: &str, changed: Value) -> Document<StatefulSet> {
    set(with(stateful_set(), pointer, changed))
}

fn fields(before: &Document<StatefulSet>, after: &Document<StatefulSet>) -> Vec<String> {
    between(before, after).into_keys().collect()
}

#[rstest]
#[case::image(
    inside("/image"), json!("web:2"),
    r#"/spec/template/spec/containers/name=app/image: "web:1" -> "web:2""#)]
#[case::variable(
    inside("/env"), json!([{"name": "A", "value": "s3cret"}]),
    "/spec/template/spec/containers/name=app/env/name=A/value: *** -> ***")]
#[case::argument(
    inside("/args"), json!(["--password=s3cret"]),
    "/spec/template/spec/containers/name=app/args: absent -> ***")]
#[case::annotation(
    "/spec/template/metadata/annotations".to_owned(), json!({"token": "s3cret"}),
    "/spec/template/metadata/annotations/token: absent -> ***")]
#[case::number("/spec/minReadySeconds".to_owned(), json!(77), "/spec/minReadySeconds: 5 -> 77")]
#[case::a_list_with_objects(
    "/spec/volumeClaimTemplates".to_owned(), json!([]), "/spec/volumeClaimTemplates: *** -> []")]
fn an_edit_shows_no_value_that_may_be_a_secret(
    #[case] pointer: String,
    #[case] changed: Value,
    #[case] expected: &str,
) {
    let text = edits(&set(stateful_set()), &edited(&pointer, changed));
    assert_eq!(text, expected);
}

#[test]
fn a_long_value_is_cut_and_further_fields_are_counted() {
    let mut after = stateful_set();
    for field in ["a", "b", "c", "d", "e"] {
        after["spec"]["template"]["spec"]["nodeSelector"][field] = "x".repeat(200).into();
    }
    let text = edits(&set(stateful_set()), &set(after));
    assert!(text.ends_with("… and 2 more"), "{text}");
    assert!(text.len() < 500, "{text}");
}

#[test]
fn an_edit_of_what_was_sent_is_told_from_defaults() {
    let sent = set(stateful_set());
    let defaulted = with(
        stateful_set(),
        "/spec/template/spec/dnsPolicy",
        json!("ClusterFirst"),
    );
    let edited = set(with(defaulted, &inside("/image"), json!("web:2")));
    assert_eq!(
        edits_of_sent(&sent, &edited),
        r#"/spec/template/spec/containers/name=app/image: "web:1" -> "web:2""#
    );
}

#[test]
fn an_addition_is_named_if_all_that_was_sent_is_there() {
    let live = edited("/spec/template/spec/hostNetwork", json!(true));
    assert_eq!(
        edits_of_sent(&set(stateful_set()), &live),
        "/spec/template/spec/hostNetwork: absent -> true"
    );
}

#[rstest]
#[case::image(inside("/image"), json!("web:2"), "/spec/template/spec/containers/name=app/image")]
#[case::added("/spec/template/spec/hostNetwork".to_owned(), json!(true), "/spec/template/spec/hostNetwork")]
#[case::removed("/spec/serviceName".to_owned(), json!(null), "/spec/serviceName")]
#[case::emptied("/spec/template/spec/nodeSelector".to_owned(), json!({}), "/spec/template/spec/nodeSelector")]
fn an_edit_is_named(#[case] pointer: String, #[case] changed: Value, #[case] field: &str) {
    let before = set(stateful_set());
    let after = set(with(stateful_set(), &pointer, changed));
    assert_eq!(fields(&before, &after), [field]);
    assert_eq!(fields(&after, &before), [field]);
    assert_ne!(
        template_sha256(before.value()),
        template_sha256(after.value())
    );
}

#[test]
fn an_edit_of_the_order_alone_is_named() {
    let both = |first: &str, second: &str| {
        let containers = json!([{"name": first}, {"name": second}]);
        set(with(
            stateful_set(),
            "/spec/template/spec/initContainers",
            containers,
        ))
    };
    assert_eq!(
        fields(&both("a", "b"), &both("b", "a")),
        [
            "/spec/template/spec/initContainers/0/name",
            "/spec/template/spec/initContainers/1/name",
        ]
    );
}

#[rstest]
#[case::replicas("/spec/replicas", json!(1))]
#[case::ordinals("/spec/ordinals", json!({"start": 6}))]
#[case::retention("/spec/persistentVolumeClaimRetentionPolicy", json!(null))]
#[case::metadata("/metadata/labels", json!({}))]
#[case::status("/status", json!(null))]
fn what_a_run_changes_is_no_edit(#[case] pointer: &str, #[case] changed: Value) {
    let before = set(stateful_set());
    let after = set(with(stateful_set(), pointer, changed));
    assert_eq!(fields(&before, &after), Vec::<String>::new());
}

/// Any JSON, with fields and lists that the rules name.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[ab]{0,1}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let field = prop_oneof![
            Just("containers".to_owned()),
            Just("env".to_owned()),
            Just("name".to_owned()),
            Just("a".to_owned()),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(field, inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn fields_are_named_exactly_if_the_hashes_differ(one in any_json(), other in any_json()) {
        let of = |pod: Value| set(with(stateful_set(), "/spec/template/spec/containers", pod));
        let (one, other) = (of(one), of(other));
        let differ = template_sha256(one.value()) != template_sha256(other.value());
        prop_assert_eq!(!fields(&one, &other).is_empty(), differ);
        prop_assert_eq!(fields(&one, &one), Vec::<String>::new());
    }
}
