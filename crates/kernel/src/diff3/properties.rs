use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ab~/é]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    // `k` is the key of list maps, so that some lists are valid list maps.
    btree_map("[a-dk]", inner, 0..4).prop_map(|fields| fields.into_iter().collect())
}

/// Documents with fields that the rules below name.
fn any_document() -> impl Strategy<Value = Value> {
    fields(any_json()).prop_map(Value::Object)
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let path = prop_oneof![
        "/[a-d]",
        "/[a-d]/[a-dk]",
        Just("/*".to_owned()),
        Just("/*/*".to_owned())
    ];
    vec((0..6, path), 0..5).prop_map(|chosen| {
        chosen
            .into_iter()
            .fold(Rules::new(), |rules, (rule, path)| match rule {
                0 => rules.list_map(&path, ["k"]),
                1 => rules.set(&path),
                2 => rules.unordered(&path),
                3 => rules.theirs(&path),
                4 => rules.list_map(&path, [ListKey::new("k"), ListKey::new("a").or(0)]),
                _ => rules.defaulted(&path),
            })
    })
}

/// Live after an apply: desired wins, fields that only live has stay.
fn applied(live: &Value, desired: &Value) -> Value {
    let (Value::Object(live), Value::Object(desired)) = (live, desired) else {
        return desired.clone();
    };
    let mut fields = live.clone();
    for (name, desired) in desired.iter().filter(|(_, value)| !value.is_null()) {
        let value = live
            .get(name)
            .map_or_else(|| desired.clone(), |live| applied(live, desired));
        fields.insert(name.clone(), value);
    }
    Value::Object(fields)
}

const LIVE_ONLY: &str = "live-only";

/// `value` with one more field in each of its objects.
fn defaulted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Map<String, Value> = fields
                .iter()
                .map(|(name, value)| (name.clone(), defaulted(value)))
                .collect();
            fields.insert(LIVE_ONLY.to_owned(), json!({"by": "the other side"}));
            Value::Object(fields)
        }
        Value::Array(elements) => elements.iter().map(defaulted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// One list and the same list in another order.
fn shuffled() -> impl Strategy<Value = (Vec<Value>, Vec<Value>)> {
    let element = (0..5_i64, any_json()).prop_map(|(k, v)| json!({"k": k, "v": v}));
    vec(element, 0..5).prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle()))
}

fn kinds(diff: &Diff) -> Vec<(String, ChangeKind)> {
    diff.changes
        .iter()
        .map(|change| (change.path.clone(), change.kind))
        .collect()
}

proptest! {
    #[test]
    fn live_as_desired_is_same_whatever_was_applied(
        last in proptest::option::of(any_document()),
        desired in any_document(),
        rules in any_rules(),
    ) {
        let diff = diff3(last.as_ref(), Some(&desired), &desired, &rules);
        prop_assert!(diff.is_same(), "{}", diff.summary(9));
    }

    #[test]
    fn applying_desired_makes_it_same(
        live in any_document(),
        desired in any_document(),
        rules in any_rules(),
        recorded in any::<bool>(),
    ) {
        let last = recorded.then_some(&desired);
        let diff = diff3(last, Some(&applied(&live, &desired)), &desired, &rules);
        prop_assert!(diff.is_same(), "{}", diff.summary(9));
    }

    #[test]
    fn order_matters_in_no_list_with_a_rule(
        (last, last_shuffled) in shuffled(),
        (live, live_shuffled) in shuffled(),
        (desired, desired_shuffled) in shuffled(),
    ) {
        for rules in [
            Rules::new().list_map("/l", ["k"]),
            Rules::new().list_map("/l", [ListKey::new("k"), ListKey::new("j").or("x")]),
            Rules::new().set("/l"),
            Rules::new().unordered("/l"),
        ] {
            let diff = |last: &[Value], live: &[Value], desired: &[Value]| {
                let (last, live) = (json!({"l": last}), json!({"l": live}));
                kinds(&diff3(Some(&last), Some(&live), &json!({"l": desired}), &rules))
            };
            prop_assert_eq!(
                diff(&last, &live, &desired),
                diff(&last_shuffled, &live_shuffled, &desired_shuffled)
            );
        }
    }

    #[test]
    fn no_json_makes_it_panic(
        last in proptest::option::of(any_json()),
        live in proptest::option::of(any_json()),
        desired in any_json(),
        rules in any_rules(),
        lines in 0..4_usize,
    ) {
        let diff = diff3(last.as_ref(), live.as_ref(), &desired, &rules);
        prop_assert!(diff.summary(lines).lines().count() <= lines);
    }

    #[test]
    fn a_field_only_live_has_never_appears(
        desired in any_document(),
        recorded in any::<bool>(),
        key in any::<bool>(),
    ) {
        let rules = if key { Rules::new().list_map("/*", ["k"]) } else { Rules::new().unordered("/*") };
        let last = recorded.then_some(&desired);
        let diff = diff3(last, Some(&defaulted(&desired)), &desired, &rules);
        prop_assert!(diff.is_same(), "{}", diff.summary(9));
        prop_assert!(diff.changes.iter().all(|change| !change.path.contains(LIVE_ONLY)));
    }

    #[test]
    fn an_untouched_live_never_drifts(
        last in any_document(),
        desired in any_document(),
        rules in any_rules(),
    ) {
        prop_assert!(!diff3(Some(&last), Some(&last), &desired, &rules).drifted());
    }

    #[test]
    fn an_unchanged_spec_is_never_edited(
        live in any_document(),
        desired in any_document(),
        rules in any_rules(),
    ) {
        prop_assert!(!diff3(Some(&desired), Some(&live), &desired, &rules).edited());
    }
}
