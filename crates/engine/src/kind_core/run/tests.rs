//! The rules of the loop, with a small kind as the example.

mod graph;
mod kill_points;

use std::time::Duration;

use kernel::{CallError, Class, Progress};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Remembered, decide, run_pass};
use crate::Note;
use crate::kind_core::{Ended, PassFacts};
use graph::{FINALIZER, Graph, InMemory};

fn pass_facts() -> PassFacts {
    PassFacts {
        id: "00000000".to_owned(),
        random: 0.5,
        retry_in: Duration::from_secs(5),
        is_urgent: false,
    }
}

/// Runs a pass over the stored object.
async fn pass(
    kind: &Graph,
    remembered: &mut Remembered<Graph>,
    server: &InMemory,
) -> Result<Progress, CallError> {
    run_pass(kind, server.object(), pass_facts(), remembered, server).await
}

/// Runs the first pass of a process over the object.
async fn first_pass(kind: &Graph, server: &InMemory) -> Result<Progress, CallError> {
    pass(kind, &mut Remembered::default(), server).await
}

/// Runs a pass over an object that changes before its status is written.
async fn outdated_pass(kind: &Graph, remembered: &mut Remembered<Graph>, server: &InMemory) {
    let object = server.object();
    server.change(|object| object["metadata"]["resourceVersion"] = json!("2"));
    let outdated = run_pass(kind, object, pass_facts(), remembered, server).await;
    assert_eq!(outdated.unwrap_err().class, Class::Stale);
}

fn written(writes: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let owned = |(name, version): &(&'static str, &str)| (*name, (*version).to_owned());
    writes.iter().map(owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_child_starts_when_its_own_dependencies_are_applied() {
    let children =
        json!({"slow": [], "first": [], "second": ["first"], "last": ["slow", "second"]});
    let server = InMemory::with_children(children);
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    let calls = server.calls.lock().clone();
    let at = |entry: &str| calls.iter().position(|call| call == entry).unwrap();
    assert!(at("apply second ends") < at("apply slow ends"), "{calls:?}");
    assert!(at("apply slow ends") < at("apply last begins"), "{calls:?}");
    assert_eq!(calls.len(), 8, "each child is applied once: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn reads_run_concurrently() {
    let server = InMemory::with_spec(json!({"reads": ["x", "y"]}));
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    let calls = server.calls.lock().clone();
    let mut first = calls[..2].to_vec();
    first.sort_unstable();
    assert_eq!(first, ["read x begins", "read y begins"]);
    assert_eq!(calls.len(), 4, "each read is made once: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_held_off_step_is_refused_without_a_call() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    *server.error.lock() = Some(CallError::new(Class::Denied, "not permitted"));
    let mut remembered = Remembered::default();
    for (second, calls) in [(0, 1), (299, 1), (300, 2), (2_099, 2), (2_100, 3)] {
        *server.elapsed.lock() = Duration::from_secs(second);
        let progress = pass(&kind, &mut remembered, &server).await;
        let is_blocked = matches!(progress, Ok(Progress::Blocked { .. }));
        assert!(is_blocked, "at {second} s: {progress:?}");
        assert_eq!(server.times("apply a begins"), calls, "at {second} s");
    }
    assert_eq!(*server.writes.lock(), written(&[("status", "1")]));
}

#[tokio::test(start_paused = true)]
async fn an_urgent_pass_ends_a_hold_off() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    *server.error.lock() = Some(CallError::new(Class::Denied, "not permitted"));
    let mut remembered = Remembered::default();
    let refused = pass(&kind, &mut remembered, &server).await;
    assert!(matches!(refused, Ok(Progress::Blocked { .. })));
    *server.error.lock() = None;
    let facts = PassFacts {
        is_urgent: true,
        ..pass_facts()
    };
    let progress = run_pass(&kind, server.object(), facts, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::done()));
}

#[tokio::test(start_paused = true)]
async fn a_refused_step_does_not_renew_its_intent() {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["status"] = json!({"intents": ["a"]}));
    *server.error.lock() = Some(CallError::new(Class::Denied, "not permitted"));
    let mut remembered = Remembered::default();
    for _ in 0..3 {
        let progress = pass(&kind, &mut remembered, &server).await;
        assert!(matches!(progress, Ok(Progress::Blocked { .. })));
    }
    assert_eq!(server.times("apply a begins"), 1);
    assert_eq!(*server.writes.lock(), written(&[("status", "1")]));
}

#[rstest]
#[case::before_a_step(json!({"a": []}))]
#[case::before_the_status(json!({}))]
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing(#[case] children: Value) {
    let server = InMemory {
        is_deposed: true,
        ..InMemory::with_children(children)
    };
    let error = first_pass(&Graph::default(), &server).await.unwrap_err();
    assert_eq!(error.class, Class::Deposed);
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    assert_eq!(*server.writes.lock(), written(&[]));
    assert!(server.events.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn finalizer_and_intent_are_saved_before_their_step() {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["finalizers"] = json!([]));
    let mut remembered = Remembered::default();

    let progress = pass(&kind, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::Again));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    let announced = written(&[("add finalizer", "1"), ("status", "2")]);
    assert_eq!(*server.writes.lock(), announced);
    assert_eq!(server.object().status.intents, ["a"]);
    assert_eq!(remembered.fresh_intents, ["a"]);

    let progress = pass(&kind, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    assert_eq!(server.times("apply a ends"), 1);
    assert_eq!(server.object().status.applied, ["a"]);
    assert_eq!(remembered.fresh_intents, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_step_without_an_intent_still_needs_the_finalizer() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    server.change(|object| object["metadata"]["finalizers"] = json!([]));
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::Again));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    assert!(server.object().has_finalizer(FINALIZER));
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    assert_eq!(server.times("apply a ends"), 1);
}

#[tokio::test(start_paused = true)]
async fn metadata_is_written_before_any_step() {
    let kind = Graph {
        obsolete_annotation: Some("obsolete"),
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["annotations"] = json!({"obsolete": "x"}));
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::Again));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    let first = written(&[("remove annotation", "1"), ("status", "2")]);
    assert_eq!(*server.writes.lock(), first);
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    assert_eq!(server.times("apply a ends"), 1);
}

#[rstest]
#[case::an_edit(Graph { edit: Some(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"reads": ["x"]}})), ..Graph::default() }, "edit")]
#[case::an_own_apply(Graph { labels: Some(json!({"a": "b"})), ..Graph::default() }, "apply own")]
#[tokio::test(start_paused = true)]
async fn metadata_that_is_always_named_is_written_once(
    #[case] kind: Graph,
    #[case] name: &'static str,
) {
    let server = InMemory::with_children(json!({"a": []}));
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::Again));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    let first = written(&[(name, "1"), ("status", "2")]);
    assert_eq!(*server.writes.lock(), first);
    let points = ["graph.metadata.before", "graph.metadata.after"];
    assert_eq!(server.kill_points.lock()[..2], points);
    for _ in 0..2 {
        assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    }
    let all = written(&[(name, "1"), ("status", "2"), ("status", "3")]);
    assert_eq!(*server.writes.lock(), all);
}

#[rstest]
#[case::a_conflict(Class::Conflict, &[("status", "1")])]
#[case::an_invalid_write(Class::Invalid, &[("status", "1")])]
#[case::a_lost_answer(Class::Unreachable, &[])]
#[tokio::test(start_paused = true)]
async fn status_names_a_refusal_of_metadata(
    #[case] class: Class,
    #[case] writes: &[(&'static str, &str)],
) {
    let server = InMemory {
        refusal: Some(CallError::new(class, "refused by a webhook")),
        ..InMemory::with_children(json!({"a": []}))
    };
    let kind = Graph {
        labels: Some(json!({"a": "b"})),
        ..Graph::default()
    };
    for _ in 0..2 {
        let error = first_pass(&kind, &server).await.unwrap_err();
        assert_eq!(
            (error.class, &*error.message),
            (class, "refused by a webhook")
        );
    }
    assert_eq!(*server.writes.lock(), written(writes));
    let conditions = server.object().conditions;
    let messages: Vec<_> = conditions.iter().map(|one| &*one.message).collect();
    assert_eq!(messages, vec!["refused by a webhook"; writes.len()]);
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_edit_with_the_finalizer_precedes_steps_by_one_pass() {
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["finalizers"] = json!(["theirs"]));
    let finalizers = server.object().finalizers_with(FINALIZER);
    let kind = Graph {
        edit: Some(json!({"metadata": {"finalizers": finalizers}, "spec": {"size": 1}})),
        ..Graph::default()
    };
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::Again));
    assert!(server.object().has_finalizer("theirs"));
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    assert_eq!(server.times("apply a ends"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_own_apply_without_the_finalizer_delays_it_by_one_pass() {
    let kind = Graph {
        labels: Some(json!({"a": "b"})),
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["finalizers"] = json!([]));
    for _ in 0..2 {
        assert_eq!(first_pass(&kind, &server).await, Ok(Progress::Again));
    }
    let writes = written(&[("apply own", "1"), ("status", "2"), ("add finalizer", "3")]);
    assert_eq!(*server.writes.lock(), writes);
}

#[rstest]
#[case::with_steps(json!({"a": []}), vec!["edit spec.size", "apply a"])]
#[case::alone(json!({}), vec!["edit spec.size"])]
#[tokio::test(start_paused = true)]
async fn a_preview_shows_the_edit_before_the_steps(
    #[case] children: Value,
    #[case] expected: Vec<&str>,
) {
    let kind = Graph {
        edit: Some(json!({"spec": {"size": 1}})),
        ..Graph::default()
    };
    let server = InMemory {
        is_preview: true,
        ..InMemory::with_children(children)
    };
    let mut remembered = Remembered::default();
    let object = server.object();
    let decided = decide(&kind, object, pass_facts(), &mut remembered, &server).await;
    let expected = expected.into_iter().map(str::to_owned).collect();
    assert_eq!(decided.unwrap().1, Ended::Previewed(expected));
    assert_eq!(*server.writes.lock(), written(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_status_loses_what_others_set() {
    let kind = Graph {
        replaces_status: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| {
        object["status"] =
            json!({"theirs": 1, "conditions": [{"type": "Theirs", "status": "True"}]});
    });
    for _ in 0..2 {
        assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    }
    assert_eq!(*server.writes.lock(), written(&[("replace status", "1")]));
    let status = server.stored.lock()["status"].clone();
    assert_eq!(status.get("theirs"), None);
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.reason().as_deref(), Some("Applied"));
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_dropped_leaves_no_fresh_intent() {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    let mut remembered = Remembered::default();
    let progress = pass(&kind, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::Again));
    assert_eq!(remembered.fresh_intents, ["a"]);

    let deadline = Duration::from_millis(500);
    let dropped = tokio::time::timeout(deadline, pass(&kind, &mut remembered, &server)).await;
    assert!(dropped.is_err());
    assert_eq!(*server.calls.lock(), ["apply a begins"]);
    assert_eq!(remembered.fresh_intents, Vec::<String>::new());
}

#[rstest]
#[case::no_effect(CallError::new(Class::Transient, "failed"), vec!["a".to_owned()])]
#[case::unknown(CallError::new(Class::Unreachable, "no answer").with_unknown_effect(), vec![])]
#[tokio::test(start_paused = true)]
async fn an_intent_is_fresh_again_only_if_nothing_happened(
    #[case] error: CallError,
    #[case] fresh: Vec<String>,
) {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    let mut remembered = Remembered::default();
    let progress = pass(&kind, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::Again));
    *server.error.lock() = Some(error.clone());
    let failed = pass(&kind, &mut remembered, &server).await.unwrap_err();
    assert_eq!(failed.class, error.class);
    assert_eq!(remembered.fresh_intents, fresh);
}

#[tokio::test(start_paused = true)]
async fn an_intent_of_an_earlier_process_does_not_become_fresh() {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["status"] = json!({"intents": ["a"]}));
    *server.error.lock() = Some(CallError::new(Class::Transient, "failed"));
    let mut remembered = Remembered::default();
    let failed = pass(&kind, &mut remembered, &server).await.unwrap_err();
    assert_eq!(failed.class, Class::Transient);
    // The earlier process may have performed the step.
    assert_eq!(remembered.fresh_intents, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn status_is_written_only_if_it_differs() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    for second in [0, 100, 200] {
        *server.elapsed.lock() = Duration::from_secs(second);
        assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    }
    assert_eq!(*server.writes.lock(), written(&[("status", "1")]));
}

#[tokio::test(start_paused = true)]
async fn status_is_bound_to_the_version_read() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    let mut remembered = Remembered::default();
    outdated_pass(&kind, &mut remembered, &server).await;
    assert_eq!(*server.writes.lock(), written(&[]));
    assert!(server.events.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pass_knows_that_the_last_one_could_not_write_the_object() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    let mut remembered = Remembered::default();
    outdated_pass(&kind, &mut remembered, &server).await;
    for expected in [true, false] {
        let object = server.object();
        let decided = decide(&kind, object, pass_facts(), &mut remembered, &server).await;
        assert_eq!(decided.unwrap().0.is_unsaved, expected);
        let progress = pass(&kind, &mut remembered, &server).await;
        assert_eq!(progress, Ok(Progress::done()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_performs_no_step_and_writes_its_status() {
    let server = InMemory::with_children(json!({"a": ["b"], "b": []}));
    server.change(|object| {
        object["metadata"]["finalizers"] = json!([]);
        object["metadata"]["annotations"] = json!({"dry-run": "true"});
    });
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    assert_eq!(*server.writes.lock(), written(&[("status", "1")]));
    let previewed = server.object().status.previewed;
    assert_eq!(previewed, ["apply b", "apply a"]);
}

#[tokio::test(start_paused = true)]
async fn a_preview_lists_the_steps_in_order_and_writes_nothing() {
    let kind = Graph {
        has_intents: true,
        ..Graph::default()
    };
    let server = InMemory {
        is_preview: true,
        ..InMemory::with_children(json!({"a": ["b"], "b": ["c"], "c": []}))
    };
    server.change(|object| object["metadata"]["finalizers"] = json!([]));
    let mut remembered = Remembered::default();
    let object = server.object();
    let decided = decide(&kind, object, pass_facts(), &mut remembered, &server).await;
    let (_, ended) = decided.unwrap();
    let steps = ["apply c", "apply b", "apply a"].map(str::to_owned);
    assert_eq!(ended, Ended::Previewed(steps.to_vec()));
    assert_eq!(*server.calls.lock(), Vec::<String>::new());
    assert_eq!(*server.writes.lock(), written(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_ignores_answers_is_stopped() {
    let kind = Graph {
        ignores_answers: true,
        ..Graph::default()
    };
    let server = InMemory::with_children(json!({"a": []}));
    let error = first_pass(&kind, &server).await.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert_eq!(server.times("apply a ends"), super::CALLS_PER_LANE);
    assert_eq!(server.reason().as_deref(), Some("OperatorDefect"));
}

#[tokio::test(start_paused = true)]
async fn a_finished_deletion_removes_the_finalizer() {
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z"));
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    assert_eq!(*server.writes.lock(), written(&[("remove finalizer", "1")]));
    // Without the finalizer there is no effect outside, so the next pass has nothing to do.
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    assert_eq!(server.writes.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_transition_causes_an_event() {
    let (kind, server) = (Graph::default(), InMemory::with_children(json!({"a": []})));
    let applied = Note::normal("Applied", "every child is applied");
    let failed = Note::normal("NotApplied", "failed");
    for expected in [vec![applied.clone()], vec![]] {
        assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
        assert_eq!(std::mem::take(&mut *server.events.lock()), expected);
    }
    *server.error.lock() = Some(CallError::new(Class::Transient, "failed"));
    for expected in [vec![failed], vec![]] {
        let error = first_pass(&kind, &server).await.unwrap_err();
        assert_eq!(error.class, Class::Transient);
        assert_eq!(std::mem::take(&mut *server.events.lock()), expected);
    }
    *server.error.lock() = None;
    assert_eq!(first_pass(&kind, &server).await, Ok(Progress::done()));
    assert_eq!(*server.events.lock(), [applied]);
}

#[tokio::test(start_paused = true)]
async fn a_key_without_an_object_has_steps_and_no_writes() {
    let server = InMemory::with_children(json!({"a": []}));
    server.change(|object| object["metadata"]["finalizers"] = json!([]));
    let mut object = server.object();
    object.exists = false;
    let kind = Graph {
        has_intents: true,
        labels: Some(json!({"a": "b"})),
        ..Graph::default()
    };
    let mut remembered = Remembered::default();
    let progress = run_pass(&kind, object, pass_facts(), &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    assert_eq!(server.times("apply a ends"), 1);
    assert_eq!(*server.writes.lock(), []);
}
