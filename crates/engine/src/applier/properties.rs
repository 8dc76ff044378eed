//! The comparison against server-side apply in memory, over random objects.

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::model::{Server, document};
use super::shape::Document;
use super::{ServerAnswer, Verdict, fields, values_hash, verdict};
use crate::Kind;

const US: &str = "us";

fn kind() -> Kind {
    Kind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Model".to_owned(),
        plural: "models".to_owned(),
        namespaced: true,
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    (0..3_i64).prop_map(Value::from)
}

fn map() -> impl Strategy<Value = Value> {
    btree_map("[a-c]", scalar(), 0..3).prop_map(|fields| json!(fields))
}

fn list() -> impl Strategy<Value = Value> {
    vec(scalar(), 0..3).prop_map(Value::from)
}

fn ports() -> impl Strategy<Value = Value> {
    let entry = (0..2_i64, option::of(prop_oneof![Just("TCP"), Just("UDP")]));
    let fields = (option::of(scalar()), option::of(list()));
    btree_map(entry, fields, 0..4).prop_map(|entries| {
        let mut ports: Vec<Value> = Vec::new();
        for ((port, protocol), (name, args)) in entries {
            let is_implied = |other: &Value| {
                let other_protocol = other.get("protocol").and_then(Value::as_str);
                other["port"] == port
                    && other_protocol.unwrap_or("TCP") == protocol.unwrap_or("TCP")
            };
            if !ports.iter().any(is_implied) {
                let entry = json!({"port": port, "protocol": protocol, "name": name, "args": args});
                ports.push(without_nulls(entry));
            }
        }
        Value::from(ports)
    })
}

fn without_nulls(mut value: Value) -> Value {
    super::requests::drop_nulls(&mut value);
    value
}

fn desired() -> impl Strategy<Value = Value> {
    let inner = (option::of(scalar()), option::of(scalar()));
    let inner = inner.prop_map(|(x, y)| without_nulls(json!({"x": x, "y": y})));
    let tags = btree_set("[a-c]", 0..3).prop_map(|tags| json!(tags));
    let fields = (
        option::of(scalar()),
        option::of(inner),
        option::of(map()),
        option::of(map()),
        option::of(list()),
        option::of(tags),
        option::of(ports()),
    );
    let spec = fields.prop_map(|(a, inner, texts, whole, args, tags, ports)| {
        without_nulls(
            json!({"a": a, "inner": inner, "texts": texts, "whole": whole, "args": args,
            "tags": tags, "ports": ports}),
        )
    });
    // Without a spec, the manager owns no field.
    option::weighted(0.9, spec).prop_map(|spec| without_nulls(json!({"spec": spec})))
}

/// Another manager applies, or someone updates one field.
fn disturbance() -> impl Strategy<Value = (bool, Value)> {
    (any::<bool>(), desired())
}

fn judged(
    document: Option<&Document>,
    desired: &Value,
    server: &Server,
    answer: Option<ServerAnswer>,
) -> Verdict {
    let live = server.live();
    let shape = document.and_then(|document| document.shape(&kind()));
    verdict(desired, &live, shape, entry(&live), answer)
}

fn entry(live: &Value) -> &Value {
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let ours = entries.iter().find(|entry| entry["manager"] == US);
    ours.map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

fn answer(document: Option<&Document>, desired: &Value, server: &Server) -> ServerAnswer {
    let live = server.live();
    let shape = document.and_then(|document| document.shape(&kind()));
    ServerAnswer {
        desired: 0,
        values: values_hash(desired, &live, shape, entry(&live)),
        plain_values: values_hash(desired, &live, shape, &Value::Null),
        entry: fields::hash(entry(&live)),
    }
}

proptest! {
    #[test]
    fn what_was_applied_is_as_desired(
        others in desired(),
        before in option::of(desired()),
        desired in desired(),
    ) {
        let document = document();
        let mut server = Server::default();
        server.apply("others", &others, true).unwrap();
        if let Some(before) = before {
            server.apply(US, &before, true).unwrap();
        }
        server.apply(US, &desired, true).unwrap();
        prop_assert_eq!(judged(Some(&document), &desired, &server, None), Verdict::AsDesired);
    }

    #[test]
    fn what_was_applied_is_as_desired_without_a_schema(
        others in desired(),
        desired in desired(),
    ) {
        let mut server = Server::default();
        server.apply("others", &others, true).unwrap();
        server.apply(US, &desired, true).unwrap();
        let answer = answer(None, &desired, &server);
        prop_assert_eq!(judged(None, &desired, &server, Some(answer)), Verdict::AsDesired);
    }

    #[test]
    fn what_others_apply_beside_us_is_no_reason_to_write(
        desired in desired(),
        others in desired(),
    ) {
        let document = document();
        let mut server = Server::default();
        server.apply(US, &desired, true).unwrap();
        if server.apply("others", &others, false).is_ok() {
            prop_assert_eq!(judged(Some(&document), &desired, &server, None), Verdict::AsDesired);
        }
    }

    #[test]
    fn an_apply_to_an_object_that_is_as_desired_changes_nothing(
        before in desired(),
        disturbances in vec(disturbance(), 0..3),
        change in option::of(desired()),
        with_schema in any::<bool>(),
    ) {
        let document = document();
        let document = with_schema.then_some(&document);
        let mut server = Server::default();
        server.apply(US, &before, true).unwrap();
        let answer = answer(document, &before, &server);
        for (is_apply, theirs) in disturbances {
            if is_apply {
                server.apply("others", &theirs, true).unwrap();
            } else {
                server.update(|object| {
                    let spec = theirs["spec"].as_object().cloned().unwrap_or_default();
                    for (name, value) in spec.into_iter().take(1) {
                        object["spec"][&name] = value;
                    }
                });
            }
        }
        let answer = Some(answer).filter(|_| change.is_none());
        let desired = change.unwrap_or(before);
        if judged(document, &desired, &server, answer) == Verdict::AsDesired {
            let unchanged = server.clone();
            server.apply(US, &desired, true).unwrap();
            prop_assert_eq!(&server.object, &unchanged.object);
            // Without a schema, an empty map that we own may be merged in either way.
            prop_assert!(server == unchanged || !with_schema);
        }
    }

    #[test]
    fn no_json_makes_the_comparison_panic(
        names in vec("[a-c.:]{0,3}|f:a|k:\\{\\}|k:x|v:1|\\.", 0..4),
        desired in desired(),
    ) {
        let owned: Map<String, Value> = names.into_iter().map(|name| (name, json!({}))).collect();
        let entry = json!({"f:spec": {"f:ports": owned.clone(), "f:texts": owned}});
        let live = json!({"metadata": {"managedFields": []}, "spec": desired["spec"].clone()});
        let document = document();
        verdict(&desired, &live, document.shape(&kind()), &entry, None);
    }
}
