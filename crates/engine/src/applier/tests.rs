use std::time::Duration;

use rstest::rstest;

use super::requests::NO_VERSION;
use super::*;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kernel::{ChangeKind, TestClock};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

const US: &str = "us";

fn kind() -> Kind {
    Kind::of::<Service>()
}

/// A part of the schema of a Service.
fn document() -> Document {
    let ports = json!({
        "items": {"properties": {"port": {}, "protocol": {"default": "TCP"}, "name": {}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
    });
    let spec = json!({"properties": {
        "ports": ports,
        "tags": {"items": {}, "x-kubernetes-list-type": "set"},
        "args": {"items": {"properties": {"name": {}}}, "x-kubernetes-list-type": "atomic"},
        "selector": {"additionalProperties": {}, "x-kubernetes-map-type": "atomic"},
        "inner": {"properties": {"x": {}, "y": {}}},
        "size": {},
    }});
    let service = json!({"properties": {"spec": spec},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Service"}]});
    let document = json!({"components": {"schemas": {"Service": service}}});
    Document::parse(&document.to_string()).unwrap()
}

/// An object of which we own `owned`.
fn live(spec: Value, owned: Value) -> Value {
    let entry = json!({"manager": US, "operation": "Apply", "apiVersion": "v1",
        "fieldsV1": {"f:spec": owned}});
    json!({"metadata": {"name": "s", "uid": "u", "managedFields": [entry]}, "spec": spec})
}

fn judge(desired: Value, live: &Value) -> Verdict {
    let desired = body(json!({"metadata": {"name": "s"}, "spec": desired}), &kind()).unwrap();
    let document = document();
    let entry = &live["metadata"]["managedFields"][0]["fieldsV1"];
    verdict(&desired, live, document.shape(&kind()), entry, None)
}

#[rstest]
#[case::equal(json!({"size": 1}), json!({"size": 1}), true)]
#[case::a_field_of_others(json!({"size": 1, "theirs": 2}), json!({"size": 1}), true)]
#[case::a_missing_field(json!({}), json!({"size": 1}), false)]
#[case::another_value(json!({"size": 2}), json!({"size": 1}), false)]
#[case::numbers_are_values(json!({"size": 1.0}), json!({"size": 1}), true)]
#[case::null_is_absent(json!({"size": 1}), json!({"size": 1, "inner": null}), true)]
fn a_value_is_compared(#[case] spec: Value, #[case] desired: Value, #[case] expected: bool) {
    let live = live(spec, json!({"f:size": {}}));
    assert_eq!(judge(desired, &live) == Verdict::AsDesired, expected);
}

#[rstest]
#[case::exactly(json!({"f:size": {}}), true)]
#[case::not_owned(json!({}), false)]
#[case::a_field_no_longer_desired(json!({"f:size": {}, "f:tags": {"v:\"a\"": {}}}), false)]
#[case::a_field_of_a_map_no_longer_desired(json!({"f:size": {}, "f:inner": {"f:x": {}}}), false)]
fn our_entry_owns_exactly_the_desired_fields(#[case] owned: Value, #[case] expected: bool) {
    let live = live(json!({"size": 1, "tags": ["a"], "inner": {"x": 1}}), owned);
    assert_eq!(
        judge(json!({"size": 1}), &live) == Verdict::AsDesired,
        expected
    );
}

#[rstest]
#[case::no_field(json!({"metadata": {"name": "s"}}), true)]
#[case::a_field_that_is_not_owned(json!({"metadata": {"name": "s"}, "spec": {"size": 1}}), false)]
fn an_apply_of_no_field_needs_no_entry(#[case] desired: Value, #[case] expected: bool) {
    let mut live = live(json!({"size": 1}), json!({}));
    live["metadata"]["managedFields"] = json!([]);
    let desired = body(desired, &kind()).unwrap();
    let verdict = verdict(&desired, &live, None, &Value::Null, None);
    assert_eq!(verdict == Verdict::AsDesired, expected);
}

#[rstest]
#[case::another_operation("operation", "Update")]
#[case::another_manager("manager", "them")]
#[case::another_version("apiVersion", "v2")]
#[case::a_subresource("subresource", "status")]
#[tokio::test]
async fn only_our_own_entry_counts(#[case] field: &str, #[case] value: &str) {
    let mut live = live(json!({"size": 1}), json!({"f:size": {}}));
    let desired = json!({"metadata": {"name": "s"}, "spec": {"size": 1}});
    let applier = Applier::new(client(&Arc::default(), |_| (404, json!({}))), US);
    assert!(applier.is_applied(&kind(), desired.clone(), &live));
    live["metadata"]["managedFields"][0][field] = json!(value);
    assert!(!applier.is_applied(&kind(), desired, &live));
}

#[rstest]
#[case::as_desired(json!([{"port": 80, "protocol": "TCP"}]), true)]
#[case::beside_another(json!([{"port": 1, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]), true)]
#[case::another_protocol(json!([{"port": 80, "protocol": "UDP"}]), false)]
#[case::missing(json!([]), false)]
fn an_associative_list_is_compared_by_its_keys(#[case] ports: Value, #[case] expected: bool) {
    let owned = json!({r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}}});
    let live = live(json!({"ports": ports}), json!({"f:ports": owned}));
    let desired = json!({"ports": [{"port": 80}]});
    assert_eq!(judge(desired, &live) == Verdict::AsDesired, expected);
}

#[rstest]
#[case::as_desired(json!([{"name": "a"}, {"name": "b"}]), true)]
#[case::an_extra_entry(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]), false)]
#[case::another_order(json!([{"name": "b"}, {"name": "a"}]), false)]
#[case::an_extra_field(json!([{"name": "a", "x": 1}, {"name": "b"}]), false)]
fn an_atomic_list_is_compared_as_a_whole(#[case] args: Value, #[case] expected: bool) {
    let live = live(json!({"args": args}), json!({"f:args": {}}));
    let desired = json!({"args": [{"name": "a"}, {"name": "b"}]});
    assert_eq!(judge(desired, &live) == Verdict::AsDesired, expected);
}

#[rstest]
#[case::a_value_of_others(json!(["theirs", "ours"]), true)]
#[case::missing(json!(["theirs"]), false)]
fn a_set_may_have_values_of_others(#[case] tags: Value, #[case] expected: bool) {
    let live = live(
        json!({"tags": tags}),
        json!({"f:tags": {r#"v:"ours""#: {}}}),
    );
    assert_eq!(
        judge(json!({"tags": ["ours"]}), &live) == Verdict::AsDesired,
        expected
    );
}

#[rstest]
#[case::granular(json!({"inner": {"x": 1, "y": 2}}), json!({"inner": {"x": 1}}), json!({"f:inner": {"f:x": {}}}), true)]
#[case::atomic(json!({"selector": {"x": 1, "y": 2}}), json!({"selector": {"x": 1}}), json!({"f:selector": {}}), false)]
#[case::empty_may_be_dropped(json!({}), json!({"inner": {}}), json!({"f:inner": {}}), true)]
#[case::empty_list_may_be_dropped(json!({}), json!({"args": []}), json!({"f:args": {}}), true)]
#[case::empty_list_is_empty(json!({"args": [1]}), json!({"args": []}), json!({"f:args": {}}), false)]
fn a_map_is_compared_by_its_type(
    #[case] spec: Value,
    #[case] desired: Value,
    #[case] owned: Value,
    #[case] expected: bool,
) {
    assert_eq!(
        judge(desired, &live(spec, owned)) == Verdict::AsDesired,
        expected
    );
}

#[rstest]
#[case::by_the_entry(json!({r#"k:{"name":"a"}"#: {".": {}, "f:name": {}}}), true)]
#[case::else_as_a_whole(json!({}), false)]
fn without_a_schema_our_entry_shows_the_list_type(#[case] owned: Value, #[case] expected: bool) {
    let live = live(
        json!({"any": [{"name": "theirs"}, {"name": "a"}]}),
        json!({"f:any": owned}),
    );
    let entry = &live["metadata"]["managedFields"][0]["fieldsV1"];
    let desired = json!({"metadata": {"name": "s"}, "spec": {"any": [{"name": "a"}]}});
    let desired = body(desired, &kind()).unwrap();
    let verdict = verdict(&desired, &live, None, entry, None);
    assert_eq!(verdict == Verdict::AsDesired, expected);
}

#[test]
fn the_mark_of_older_releases_causes_no_write() {
    let mut live = live(json!({"size": 1}), json!({"f:size": {}}));
    live["metadata"]["annotations"] = json!({kernel::APPLIED: "hash"});
    let mark = format!("f:{}", kernel::APPLIED);
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] =
        json!({"f:annotations": {mark: {}}});
    assert_eq!(judge(json!({"size": 1}), &live), Verdict::AsDesired);
}

#[rstest]
#[case::not_a_map(json!("text"), "not a map")]
#[case::no_metadata(json!({}), "metadata is not a map")]
#[case::metadata_is_text(json!({"metadata": "text"}), "metadata is not a map")]
#[case::no_name(json!({"metadata": {}}), "name is missing")]
#[case::annotations_are_text(json!({"metadata": {"name": "n", "annotations": "text"}}), "annotations is not a map")]
#[case::annotation_is_a_number(json!({"metadata": {"name": "n", "annotations": {"a": 1}}}), "value of a is not a string")]
#[case::labels_are_a_list(json!({"metadata": {"name": "n", "labels": []}}), "labels is not a map")]
fn a_malformed_object_is_refused(#[case] desired: Value, #[case] expected: &str) {
    let message = body(desired, &Kind::of::<ConfigMap>()).unwrap_err();
    assert!(message.contains(expected), "{message}");
}

#[rstest]
#[case::new(None, None, json!({"name": "n", "resourceVersion": NO_VERSION}))]
#[case::by_uid(Some("u"), None, json!({"name": "n", "uid": "u"}))]
#[case::by_version(Some("u"), Some("7"), json!({"name": "n", "uid": "u", "resourceVersion": "7"}))]
fn a_write_is_bound_to_the_object_it_was_decided_on(
    #[case] uid: Option<&str>,
    #[case] version: Option<&str>,
    #[case] expected: Value,
) {
    let binding = Binding {
        uid,
        version,
        force: false,
    };
    let sent = bound(json!({"metadata": {"name": "n"}}), binding);
    assert_eq!(sent["metadata"], expected);
}

#[test]
fn a_deletion_is_bound_to_uid_and_version() {
    let deletion = Deletion {
        uid: "u",
        version: Some(7),
        propagation: Propagation::Orphan,
        grace_seconds: Some(0),
    };
    assert_eq!(
        deletion.options(false),
        json!({"preconditions": {"uid": "u", "resourceVersion": "7"},
            "propagationPolicy": "Orphan", "gracePeriodSeconds": 0})
    );
    let plain = Deletion {
        uid: "u",
        ..Deletion::default()
    };
    assert_eq!(
        plain.options(true),
        json!({"preconditions": {"uid": "u"}, "propagationPolicy": "Background",
            "dryRun": ["All"]})
    );
}

#[test]
fn an_object_may_have_one_or_several_managers() {
    let by = |managers: &[&str]| {
        let entries: Vec<_> = managers.iter().map(|m| json!({"manager": m})).collect();
        is_managed_only_by(&json!({"metadata": {"managedFields": entries}}), US)
    };
    assert!(by(&[US, US]));
    assert!(!by(&[US, "their-status"]));
    assert!(!is_managed_only_by(&json!({"metadata": {}}), US));
}

#[test]
fn a_diff_shows_what_an_apply_would_change() {
    let owned = json!({
        "f:size": {},
        "f:inner": {"f:x": {}, "f:y": {}},
        "f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}}},
    });
    let spec = json!({"size": 1, "inner": {"x": 1}, "selector": {"theirs": 1},
        "ports": [{"port": 80, "protocol": "TCP"}, {"port": 1, "protocol": "TCP"}]});
    let live = live(spec, owned);
    let desired = json!({"spec": {"size": 2, "inner": {"y": 2}, "selector": {"a": 1},
        "ports": [{"port": 80, "name": "new"}]}});
    let document = document();
    let entry = &live["metadata"]["managedFields"][0]["fieldsV1"];
    let diff = diff(&desired, &live, document.shape(&kind()), entry);
    let changes = diff.changes.iter();
    let changes: Vec<_> = changes.map(|one| (&*one.path, one.kind)).collect();
    let port = "/spec/ports/port=80,protocol=TCP";
    assert_eq!(
        changes,
        [
            ("/spec/inner/x", ChangeKind::Edit),
            ("/spec/inner/y", ChangeKind::Drift),
            (&*format!("{port}/name"), ChangeKind::Edit),
            (&*format!("{port}/port"), ChangeKind::Same),
            ("/spec/selector", ChangeKind::Both),
            ("/spec/size", ChangeKind::Edit),
        ]
    );
}

type Log = Arc<Mutex<Vec<String>>>;

/// A client that logs requests. `answer` has the status and the body for a method.
fn client(
    log: &Log,
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + Sync + 'static,
) -> Client {
    let log = log.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path();
        let call = format!("{} {path}", request.method());
        let (code, body) = answer(&call);
        log.lock().push(call);
        let mut response = http::Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    Client::new(server, "a")
}

/// What the server makes of a Service with the size `1000m`: the size is `1`.
fn normalized() -> Value {
    let mut live = live(json!({"size": "1"}), json!({"f:size": {}}));
    live["metadata"]["resourceVersion"] = json!("7");
    live
}

fn service(size: &str) -> Value {
    json!({"metadata": {"name": "s"}, "spec": {"size": size}})
}

#[tokio::test]
async fn a_normalized_value_is_written_once() {
    let log = Log::default();
    let applier = Applier::new(client(&log, |_| (200, normalized())), US);
    let apply = async |size: &str, live: &Value| {
        let applied = applier.apply(&kind(), service(size), Some(live)).await;
        applied.unwrap() == Applied::Unchanged
    };
    let mut live = normalized();
    assert!(!apply("1000m", &live).await);
    live["metadata"]["resourceVersion"] = json!("8"); // others write status
    live["spec"]["theirs"] = json!(1);
    assert!(apply("1000m", &live).await);
    live["spec"]["size"] = json!("2");
    assert!(!apply("1000m", &live).await, "someone has changed it");
    assert!(
        !apply("2000m", &normalized()).await,
        "another value is desired"
    );
    assert_eq!(log.lock().len(), 3);
}

#[tokio::test]
async fn an_object_cached_without_managers_is_read_once() {
    let log = Log::default();
    let applier = Applier::new(client(&log, |_| (200, normalized())), US);
    let mut cached = normalized();
    cached["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    for _ in 0..2 {
        let applied = applier.apply(&kind(), service("1"), Some(&cached)).await;
        assert_eq!(applied.unwrap(), Applied::Unchanged);
    }
    assert_eq!(*log.lock(), ["GET /api/v1/services/s"]);
}

#[tokio::test]
async fn schemas_are_read_once_and_again_after_a_write_without_them() {
    let log = Log::default();
    let answer = |call: &str| match call {
        "GET /openapi/v3/api/v1" => (404, json!({"code": 404})),
        _ => (
            200,
            live(json!({"tags": ["a"]}), json!({"f:tags": {r#"v:"a""#: {}}})),
        ),
    };
    let clock = Arc::new(TestClock::new());
    let memory = ApplyMemory::with_clock(clock.clone());
    let applier = Applier::with_memory(client(&log, answer), US, memory);
    let desired = json!({"metadata": {"name": "s"}, "spec": {"tags": ["a"]}});
    let live = live(json!({"tags": ["b"]}), json!({}));
    for _ in 0..2 {
        clock.advance(Duration::from_mins(5));
        applier
            .apply(&kind(), desired.clone(), Some(&live))
            .await
            .unwrap();
    }
    let (schemas, write) = ("GET /openapi/v3/api/v1", "PATCH /api/v1/services/s");
    assert_eq!(*log.lock(), [schemas, write, schemas, write]);
    let written = answer("").1;
    let applied = applier
        .apply(&kind(), desired.clone(), Some(&written))
        .await;
    assert_eq!(applied.unwrap(), Applied::Unchanged);
    applier
        .diff(&kind(), desired, Some(&written))
        .await
        .unwrap();
    assert_eq!(
        log.lock().len(),
        5,
        "a missing schema is not asked for again"
    );
}

#[tokio::test]
async fn schemas_are_not_read_again_at_every_write() {
    let log = Log::default();
    // The server merges the list otherwise than its schema says.
    let written = live(json!({"tags": ["a"]}), json!({"f:tags": {r#"v:"a""#: {}}}));
    let answer = move |call: &str| match call {
        "GET /openapi/v3/api/v1" => (404, json!({"code": 404})),
        _ => (200, written.clone()),
    };
    let applier = Applier::new(client(&log, answer), US);
    let desired = json!({"metadata": {"name": "s"}, "spec": {"tags": ["a"]}});
    let live = live(json!({"tags": ["b"]}), json!({}));
    for _ in 0..4 {
        let applied = applier.apply(&kind(), desired.clone(), Some(&live)).await;
        applied.unwrap();
    }
    let log = log.lock();
    let reads = log.iter().filter(|call| call.starts_with("GET")).count();
    assert_eq!((reads, log.len() - reads), (2, 4));
}

#[rstest]
#[case::there_is_none(404, 1)]
#[case::the_server_fails(500, 2)]
#[case::it_is_not_permitted(403, 2)]
#[tokio::test]
async fn only_missing_schemas_are_remembered(#[case] code: u16, #[case] expected: usize) {
    let log = Log::default();
    let answer = move |_: &str| (code, json!({"code": code}));
    let applier = Applier::new(client(&log, answer), US);
    let desired = json!({"metadata": {"name": "s"}, "spec": {"tags": ["a"]}});
    for _ in 0..2 {
        let diff = applier.diff(&kind(), desired.clone(), None).await;
        diff.unwrap();
    }
    assert_eq!(log.lock().len(), expected);
}

#[test]
fn a_schema_is_outdated_if_the_server_merges_otherwise() {
    let document = document();
    let shape = document.shape(&kind()).unwrap();
    let desired = json!({"spec": {"args": [{"name": "a"}], "tags": ["a"]}});
    let as_by_schema = json!({"f:spec": {"f:args": {}, "f:tags": {r#"v:"a""#: {}}}});
    assert!(!is_outdated(shape, &desired, &as_by_schema));
    let by_name = json!({r#"k:{"name":"a"}"#: {".": {}, "f:name": {}}});
    assert!(is_outdated(
        shape,
        &desired,
        &json!({"f:spec": {"f:args": by_name}})
    ));
    assert!(is_outdated(
        shape,
        &desired,
        &json!({"f:spec": {"f:tags": {}}})
    ));
}

#[tokio::test]
async fn a_created_object_is_applied_and_thus_as_desired() {
    let log = Log::default();
    let applier = Applier::new(client(&log, |_| (200, normalized())), US);
    let created = applier.create(&kind(), service("1000m")).await.unwrap();
    let applied = applier
        .apply(&kind(), service("1000m"), Some(&created))
        .await;
    assert_eq!(applied.unwrap(), Applied::Unchanged);
    assert_eq!(*log.lock(), ["PATCH /api/v1/services/s"]);
}

#[rstest]
#[case::of_the_same_fields(json!([]), Class::AlreadyExists)]
#[case::with_fields_of_others(json!([{"reason": "FieldManagerConflict"}]), Class::AlreadyExists)]
#[tokio::test]
async fn a_create_writes_no_object_that_exists(#[case] causes: Value, #[case] expected: Class) {
    let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409,
        "reason": "Conflict", "message": "the object has been modified",
        "details": {"causes": causes}});
    let applier = Applier::new(client(&Log::default(), move |_| (409, refused.clone())), US);
    let error = applier.create(&kind(), service("1")).await.unwrap_err();
    assert_eq!(error.class(), expected);
}

#[tokio::test]
async fn an_apply_onto_no_uid_is_refused() {
    let log = Log::default();
    let applier = Applier::new(client(&log, |_| (200, normalized())), US);
    let onto = Onto {
        uid: "",
        version: None,
        force: true,
    };
    let refused = applier.apply_onto(&kind(), service("1"), onto, None).await;
    assert_eq!(refused.unwrap_err().class(), Class::Invalid);
    assert!(log.lock().is_empty());
}
