use super::*;
use ChangeKind::{Both, Drift, Edit, Same};
use assert_json_diff::assert_json_eq;
use rstest::rstest;
use serde_json::json;

fn kinds(diff: &Diff) -> Vec<(&str, ChangeKind)> {
    diff.changes
        .iter()
        .map(|change| (change.path.as_str(), change.kind))
        .collect()
}

#[rstest] //                           last         live         desired      kind
#[case::true_is_same(                  json!("a"),  json!("a"),  json!("a"),  Same)]
#[case::a_record_behind_is_same(       json!("z"),  json!("a"),  json!("a"),  Same)]
#[case::an_edit_is_no_drift(           json!("a"),  json!("a"),  json!("b"),  Edit)]
#[case::a_hand_edit_is_drift(          json!("a"),  json!("x"),  json!("a"),  Drift)]
#[case::edit_and_hand_edit_are_both(   json!("a"),  json!("x"),  json!("b"),  Both)]
#[case::a_new_field_is_an_edit(        json!(null), json!(null), json!("a"),  Edit)]
#[case::a_lost_field_is_drift(         json!("a"),  json!(null), json!("a"),  Drift)]
#[case::a_field_taken_by_others_is_both(json!(null), json!("x"), json!("a"),  Both)]
#[case::a_dropped_field_is_an_edit(    json!("a"),  json!("a"),  json!(null), Edit)]
#[case::a_dropped_field_already_gone(  json!("a"),  json!(null), json!(null), Same)]
#[case::dropped_and_changed_is_both(   json!("a"),  json!("x"),  json!(null), Both)]
#[case::an_int_equals_its_float(       json!(1.0),  json!(1),    json!(1.0),  Same)]
#[case::an_empty_object_is_wanted(     json!(null), json!(null), json!({}),   Edit)]
#[case::an_emptied_object_is_wanted(   json!({"a": 1}), json!(null), json!({}), Both)]
#[case::an_object_for_a_text_is_both(  json!("a"),  json!("x"),  json!({"a": 1}), Both)]
#[case::a_shorter_list_is_drift(       json!([1, 2]), json!([1]), json!([1, 2]), Drift)]
#[case::order_counts_without_a_rule(   json!([1, 2]), json!([2, 1]), json!([1, 2]), Drift)]
fn one_path_has_one_kind(
    #[case] last: Value,
    #[case] live: Value,
    #[case] desired: Value,
    #[case] kind: ChangeKind,
) {
    let (last, live, desired) = (
        json!({"f": last}),
        json!({"f": live}),
        json!({"f": desired}),
    );
    let diff = diff3(Some(&last), Some(&live), &desired, &Rules::new());
    assert_eq!(kinds(&diff), [("/f", kind)]);
}

#[test]
fn never_applied_means_every_difference_is_an_edit() {
    let live = json!({"a": 1, "b": 2, "theirs": 3});
    let desired = json!({"a": 9, "b": 2, "c": {"d": 4}});
    let diff = diff3(None, Some(&live), &desired, &Rules::new());
    assert_eq!(kinds(&diff), [("/a", Edit), ("/b", Same), ("/c/d", Edit)]);
    assert!(diff.edited() && !diff.drifted() && !diff.is_same());
}

#[test]
fn a_missing_document_is_drift_if_the_spec_is_as_applied() {
    let (old, new) = (json!({"a": 1}), json!({"a": 2}));
    let missing = |last, desired| diff3(last, None, desired, &Rules::new());
    assert_eq!(kinds(&missing(Some(&old), &old)), [("", Drift)]);
    assert_eq!(kinds(&missing(Some(&old), &new)), [("", Edit)]);
    assert_eq!(kinds(&missing(None, &new)), [("", Edit)]);
    assert_json_eq!(missing(None, &new).changes[0].desired, new);
}

#[test]
fn edit_and_drift_are_distinguished_in_one_document() {
    let last = json!({"spec": {"size": 3, "zone": "a"}});
    let live = json!({"spec": {"size": 3, "zone": "b", "defaulted": true}});
    let desired = json!({"spec": {"size": 5, "zone": "a"}});
    let diff = diff3(Some(&last), Some(&live), &desired, &Rules::new());
    assert_eq!(kinds(&diff), [("/spec/size", Edit), ("/spec/zone", Drift)]);
    assert!(diff.edited() && diff.drifted());
}

#[test]
fn a_list_map_goes_by_its_key() {
    let rules = Rules::new()
        .list_map("/containers", ["name"])
        .theirs("/containers/*/replicas");
    let last = json!({"containers": [{"name": "web", "image": "1"}, {"name": "old"}]});
    let live = json!({"containers": [
        {"name": "injected", "image": "x"},
        {"name": "old"},
        {"name": "web", "image": "1", "pull": "Always", "replicas": 7},
    ]});
    let desired =
        json!({"containers": [{"name": "web", "image": "2", "replicas": 1}, {"name": "new"}]});
    let diff = diff3(Some(&last), Some(&live), &desired, &rules);
    assert_eq!(
        kinds(&diff),
        [
            ("/containers/name=new/name", Edit),
            ("/containers/name=old/name", Edit),
            ("/containers/name=web/image", Edit),
            ("/containers/name=web/name", Same),
        ]
    );
}

#[test]
fn a_list_map_may_be_keyed_by_numbers() {
    let rules = Rules::new().list_map("/ports", ["port"]);
    let live = json!({"ports": [{"port": 443, "tls": true}, {"port": 80.0}]});
    let diff = diff3(None, Some(&live), &json!({"ports": [{"port": 80}]}), &rules);
    assert_eq!(kinds(&diff), [("/ports/port=80/port", Same)]);
}

fn ports() -> Rules {
    let protocol = ListKey::new("protocol").or("TCP");
    Rules::new().list_map("/ports", [ListKey::new("port"), protocol])
}

#[rstest]
#[case::the_default_is_implied(json!([{"port": 53}]), json!([{"port": 53, "protocol": "TCP"}]), true)]
#[case::an_explicit_default_is_missing(json!([{"port": 53, "protocol": "TCP"}]), json!([{"port": 53}]), false)]
#[case::another_protocol_is_another_port(json!([{"port": 53}]), json!([{"port": 53, "protocol": "UDP"}]), false)]
#[case::order_does_not_matter(
    json!([{"port": 53, "protocol": "UDP"}, {"port": 53}]),
    json!([{"port": 53}, {"port": 53, "protocol": "UDP"}]),
    true
)]
fn a_list_map_may_have_several_keys(
    #[case] desired: Value,
    #[case] live: Value,
    #[case] expected: bool,
) {
    let (live, desired) = (json!({"ports": live}), json!({"ports": desired}));
    let diff = diff3(None, Some(&live), &desired, &ports());
    assert_eq!(diff.is_same(), expected, "{}", diff.summary(9));
}

#[test]
fn a_path_names_every_key_of_an_element() {
    let last = json!({"ports": [{"port": 53, "name": "dns"}]});
    let live = json!({"ports": [{"port": 53, "protocol": "TCP", "name": "x"}]});
    let diff = diff3(Some(&last), Some(&live), &last, &ports());
    let expected = [
        ("/ports/port=53,protocol=TCP/name", Drift),
        ("/ports/port=53,protocol=TCP/port", Same),
    ];
    assert_eq!(kinds(&diff), expected);
}

#[rstest]
#[case::no_key(json!([{"x": 1}, {"x": 2}]), json!([{"x": 2}, {"x": 1}]))]
#[case::key_twice(json!([{"k": 1, "x": 1}, {"k": 1, "x": 2}]), json!([{"k": 1, "x": 2}, {"k": 1, "x": 1}]))]
fn a_list_map_without_proper_keys_counts_as_unordered(#[case] live: Value, #[case] desired: Value) {
    let rules = Rules::new().list_map("/l", ["k"]);
    let diff = diff3(
        None,
        Some(&json!({"l": live})),
        &json!({"l": desired}),
        &rules,
    );
    assert_eq!(kinds(&diff), [("/l", Same)]);
}

#[test]
fn a_set_goes_by_its_elements() {
    let rules = Rules::new().set("/tags");
    let last = json!({"tags": ["gone", "kept", "lost"]});
    let live = json!({"tags": ["foreign", "gone", "kept"]});
    let desired = json!({"tags": ["new", "kept", "lost", "kept"]});
    let diff = diff3(Some(&last), Some(&live), &desired, &rules);
    assert_eq!(
        kinds(&diff),
        [
            ("/tags/gone", Edit),
            ("/tags/kept", Same),
            ("/tags/lost", Drift),
            ("/tags/new", Edit)
        ]
    );
}

#[test]
fn an_unordered_list_is_ours_as_a_whole() {
    let rules = Rules::new().unordered("/l");
    let diff = |live| {
        diff3(
            Some(&json!({"l": [1, 2]})),
            Some(&json!({"l": live})),
            &json!({"l": [1, 2]}),
            &rules,
        )
    };
    assert!(diff(json!([2, 1])).is_same());
    assert_eq!(kinds(&diff(json!([2, 1, 3]))), [("/l", Drift)]);
}

#[test]
fn a_list_of_objects_is_read_position_by_position() {
    let last = json!({"l": [{"a": 1, "b": 1}, {"a": 2}]});
    let live = json!({"l": [{"a": 1, "b": 1, "x": 0}, {"a": 3, "x": 0}]});
    let desired = json!({"l": [{"a": 1}, {"a": 2}]});
    let diff = diff3(Some(&last), Some(&live), &desired, &Rules::new());
    assert_eq!(
        kinds(&diff),
        [("/l/0/a", Same), ("/l/0/b", Edit), ("/l/1/a", Drift)]
    );
}

#[test]
fn a_field_of_the_service_is_skipped_with_all_below() {
    let rules = Rules::new().theirs("/spec/replicas").theirs("/status");
    let live = json!({"spec": {"replicas": 7}, "status": {"a": 1}});
    let desired = json!({"spec": {"replicas": 1}, "status": {"a": 2}});
    assert_eq!(
        diff3(Some(&desired), Some(&live), &desired, &rules),
        Diff::default()
    );
}

#[test]
fn a_field_of_the_service_is_also_skipped_inside_a_list() {
    let rules = Rules::new().unordered("/l").theirs("/l/*/status");
    let live = json!({"l": [{"a": 2, "status": "x"}, {"a": 1}]});
    let desired = json!({"l": [{"a": 1, "status": "y"}, {"a": 2, "status": "z"}]});
    assert!(diff3(None, Some(&live), &desired, &rules).is_same());
}

#[test]
fn a_defaulted_field_no_longer_desired_is_same() {
    let rules = Rules::new().defaulted("/spec/mode");
    let last = json!({"spec": {"mode": "a", "size": 1}});
    let desired = json!({"spec": {"size": 1}});
    let diff = diff3(Some(&last), Some(&last), &desired, &rules);
    assert_eq!(kinds(&diff), [("/spec/mode", Same), ("/spec/size", Same)]);

    let desired = json!({"spec": {"mode": "b", "size": 1}});
    assert!(diff3(Some(&last), Some(&last), &desired, &rules).edited());
}

#[test]
fn a_change_has_its_three_sides() {
    let diff = diff3(
        Some(&json!({"a": 1})),
        Some(&json!({"a": 2})),
        &json!({"a": 3}),
        &Rules::new(),
    );
    let change = Change {
        path: "/a".to_owned(),
        kind: Both,
        last: Some(json!(1)),
        live: Some(json!(2)),
        desired: Some(json!(3)),
    };
    assert_eq!(diff.changes, [change]);
}
