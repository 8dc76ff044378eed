//! Where a chaos test may end the process: around each call and write, and where the kind says.

use kernel::{CallError, Class, Progress};
use serde_json::json;

use super::graph::{Graph, InMemory};
use super::{Remembered, first_pass, pass};

const WITH_INTENTS: Graph = Graph {
    has_intents: true,
    ignores_answers: false,
    obsolete_annotation: None,
    edit: None,
    labels: None,
    replaces_status: false,
};

/// A service for a chaos build, with the child `a` and the read `x`.
fn chaos_build() -> InMemory {
    InMemory {
        has_kill_points: true,
        ..InMemory::with_spec(json!({"children": {"a": []}, "reads": ["x"]}))
    }
}

/// The points that were reached since the last call.
fn reached(server: &InMemory) -> Vec<String> {
    std::mem::take(&mut *server.kill_points.lock())
}

#[tokio::test(start_paused = true)]
async fn kill_points_surround_each_step_and_each_write() {
    let server = InMemory::with_children(json!({"a": []}));
    let progress = first_pass(&Graph::default(), &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    let expected = [
        "graph.apply.before",
        "graph.apply.after",
        "graph.status.before",
        "graph.status.after",
    ];
    assert_eq!(*server.kill_points.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_kind_has_kill_points_of_its_own() {
    let (server, mut remembered) = (chaos_build(), Remembered::default());
    let progress = pass(&WITH_INTENTS, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::Again));
    assert_eq!(
        reached(&server),
        ["x read", "graph.status.before", "graph.status.after"]
    );
    let progress = pass(&WITH_INTENTS, &mut remembered, &server).await;
    assert_eq!(progress, Ok(Progress::done()));
    let points = reached(&server);
    assert_eq!(points[..2], ["announced", "graph.apply.before"]);
    let mut calls = points[2..5].to_vec();
    calls.sort_unstable(); // the read and the step run beside each other
    assert_eq!(calls, ["a applied", "graph.apply.after", "x read"]);
    assert_eq!(points[5..], ["graph.status.before", "graph.status.after"]);
}

#[tokio::test(start_paused = true)]
async fn a_point_is_reached_once_while_it_is_named_again() {
    let (server, mut remembered) = (chaos_build(), Remembered::default());
    let mut announced = Vec::new();
    for intent in ["b", "b", "c"] {
        server.change(|object| object["status"] = json!({"intents": [intent]}));
        pass(&WITH_INTENTS, &mut remembered, &server).await.unwrap();
        let points = reached(&server);
        announced.push(points.iter().filter(|name| *name == "announced").count());
    }
    assert_eq!(announced, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_step_without_effect_does_not_reach_its_points() {
    let server = chaos_build();
    *server.error.lock() = Some(CallError::new(Class::Transient, "failed"));
    first_pass(&Graph::default(), &server).await.unwrap_err();
    let points = reached(&server);
    assert!(points.contains(&"graph.apply.after".to_owned()));
    assert!(!points.contains(&"a applied".to_owned()), "{points:?}");
}

#[tokio::test(start_paused = true)]
async fn a_usual_build_asks_no_kind_for_points() {
    let server = InMemory {
        has_kill_points: false,
        ..chaos_build()
    };
    first_pass(&Graph::default(), &server).await.unwrap();
    let points = reached(&server);
    assert!(points.iter().all(|name| name.starts_with("graph.")));
}
