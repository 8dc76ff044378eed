//! The marker of a run: an annotation with its id, on every object that the run made or changed.

use std::collections::BTreeMap;

use api::migrate::names::RUN;
use kernel::Ownership;
use serde_json::Value;

/// Whose an object with these annotations is.
///
/// | annotation      | ownership            |
/// |-----------------|----------------------|
/// | absent or empty | unmarked             |
/// | our run         | ours                 |
/// | any other text  | foreign, by that run |
pub fn ownership(annotations: Option<&BTreeMap<String, String>>, run_id: &str) -> Ownership {
    let marker = annotations.and_then(|annotations| annotations.get(RUN));
    owner(marker.map(String::as_str), run_id)
}

/// Whose an object is, from its JSON.
pub fn ownership_of(object: &Value, run_id: &str) -> Ownership {
    let annotations = object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"));
    let marker = annotations.and_then(|annotations| annotations.get(RUN));
    owner(marker.and_then(Value::as_str), run_id)
}

/// The marker of a run, as an annotation to be added.
pub fn annotation(run_id: &str) -> (String, String) {
    (RUN.to_owned(), run_id.to_owned())
}

fn owner(marker: Option<&str>, run_id: &str) -> Ownership {
    match marker {
        None | Some("") => Ownership::Unmarked,
        Some(run) if run == run_id => Ownership::Ours,
        Some(run) => Ownership::Foreign(run.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::no_annotation(json!({}), Ownership::Unmarked)]
    #[case::another_annotation(json!({"a": "run-1"}), Ownership::Unmarked)]
    #[case::an_emptied_marker(json!({RUN: ""}), Ownership::Unmarked)]
    #[case::our_run(json!({RUN: "run-1"}), Ownership::Ours)]
    #[case::another_run(json!({RUN: "run-2"}), Ownership::Foreign("run-2".to_owned()))]
    #[case::a_longer_id(json!({RUN: "run-10"}), Ownership::Foreign("run-10".to_owned()))]
    fn rule(#[case] annotations: Value, #[case] expected: Ownership) {
        let object = json!({"metadata": {"annotations": annotations}});
        assert_eq!(ownership_of(&object, "run-1"), expected);
        let annotations: BTreeMap<String, String> = serde_json::from_value(annotations).unwrap();
        assert_eq!(ownership(Some(&annotations), "run-1"), expected);
    }

    #[rstest]
    #[case::no_metadata(json!({}))]
    #[case::no_annotations(json!({"metadata": {}}))]
    #[case::a_number(json!({"metadata": {"annotations": {RUN: 1}}}))]
    #[case::not_an_object(json!("text"))]
    fn without_annotations_it_is_unmarked(#[case] object: Value) {
        assert_eq!(ownership_of(&object, "run-1"), Ownership::Unmarked);
        assert_eq!(ownership(None, "run-1"), Ownership::Unmarked);
    }

    #[test]
    fn what_we_mark_is_ours() {
        let annotations = BTreeMap::from([annotation("run-1")]);
        assert_eq!(ownership(Some(&annotations), "run-1"), Ownership::Ours);
    }
}
