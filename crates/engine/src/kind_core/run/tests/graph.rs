//! The example kind of these tests, and an API server in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kernel::{CallError, Class, ObjectKey, Reason, find};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Note;
use crate::kind_core::{
    Call, Effect, Effects, Ended, KillPoint, KindCore, Learned, Mode, Next, Object, ObjectWrite,
    Report, Stop, World,
};
use crate::patch::merged;

pub(super) const FINALIZER: &str = "example.pontoon.io/graph";

/// A kind with children that depend on each other, and with reads that no child needs.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The step of a child needs an intent: the child's name.
    pub(super) has_intents: bool,
    /// `learn` stores nothing.
    pub(super) ignores_answers: bool,
    /// The engine removes this annotation before anything else.
    pub(super) obsolete_annotation: Option<&'static str>,
    /// The merge patch that every pass names.
    pub(super) edit: Option<Value>,
    /// The labels that every pass applies to the object itself.
    pub(super) labels: Option<Value>,
    pub(super) replaces_status: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GraphResource {
    pub(super) spec: GraphSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct GraphSpec {
    /// Each child, with the children that it depends on.
    pub(super) children: BTreeMap<String, Vec<String>>,
    pub(super) reads: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct GraphStatus {
    pub(super) applied: Vec<String>,
    pub(super) intents: Vec<String>,
    pub(super) previewed: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReadOne(pub(super) String);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApplyChild(pub(super) String);

impl fmt::Display for ReadOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read {}", self.0)
    }
}

impl fmt::Display for ApplyChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apply {}", self.0)
    }
}

impl Call for ReadOne {}

impl Call for ApplyChild {}

impl Effect for ApplyChild {
    const NAMES: &'static [&'static str] = &["apply"];

    fn name(&self) -> &'static str {
        "apply"
    }

    fn lane(&self) -> String {
        self.0.clone()
    }

    fn points_after(&self) -> Vec<String> {
        vec![format!("{} applied", self.0)]
    }
}

#[derive(Debug, Default)]
pub(super) struct GraphObserved {
    pub(super) children: BTreeMap<String, Result<(), CallError>>,
    pub(super) reads: Vec<String>,
}

impl KindCore for Graph {
    type Resource = GraphResource;
    type Status = GraphStatus;
    type Facts = ();
    type Observed = GraphObserved;
    type Memory = ();
    type Read = ReadOne;
    type Answer = ();
    type Step = ApplyChild;
    type Outcome = ();
    type Intent = String;

    fn name(&self) -> &'static str {
        "graph"
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn next(&self, world: &World<Self>) -> Result<Next<ReadOne, ApplyChild>, Stop> {
        if world.object.exists && world.object.is_deleting() {
            return Ok(Next::done());
        }
        let (spec, observed) = (&world.object.resource.spec, &world.observed);
        let is_applied = |name: &String| matches!(observed.children.get(name), Some(Ok(())));
        let mut steps = Vec::new();
        for (name, needs) in &spec.children {
            if !observed.children.contains_key(name) && needs.iter().all(is_applied) {
                steps.push(ApplyChild(name.clone()));
            }
        }
        let mut reads: Vec<ReadOne> = spec.reads.iter().cloned().map(ReadOne).collect();
        reads.retain(|ReadOne(name)| !observed.reads.contains(name));
        if !(reads.is_empty() && steps.is_empty()) {
            return Ok(Next::Calls { reads, steps });
        }
        let mut outcomes = observed.children.values();
        match outcomes.find_map(|outcome| outcome.as_ref().err()) {
            Some(error) => Err(stop_after(error)),
            None => Ok(Next::done()),
        }
    }

    fn learn(&self, world: &mut World<Self>, learned: Learned<Self>) {
        match learned {
            Learned::Answer { .. } | Learned::Outcome { .. } if self.ignores_answers => {}
            Learned::Answer { read, .. } => world.observed.reads.push(read.0),
            Learned::Outcome { step, outcome } => {
                world.observed.children.insert(step.0, outcome);
            }
        }
    }

    fn status(&self, world: &World<Self>, ended: &Ended<String>) -> (GraphStatus, Report) {
        let children = world.observed.children.iter();
        let applied = children.filter(|(_, outcome)| outcome.is_ok());
        let mut status = GraphStatus {
            applied: applied.map(|(name, _)| name.clone()).collect(),
            ..GraphStatus::default()
        };
        let (is_ready, reason) = match ended {
            Ended::Done { .. } => (true, Reason::new("Applied", "every child is applied")),
            Ended::Announcing(intents) => {
                status.intents.clone_from(intents);
                (false, Reason::new("Applying", "children are applied next"))
            }
            Ended::Previewed(steps) => {
                status.previewed.clone_from(steps);
                (false, Reason::new("DryRun", "nothing is applied"))
            }
            Ended::Stopped(stop) => (false, stop.reason().clone()),
        };
        let note = Note::normal(reason.code.clone(), reason.message.clone());
        let report = Report::default()
            .condition("Ready", is_ready, reason)
            .event_on_new_reason("Ready", note);
        (status, report)
    }

    fn intent_for(&self, step: &ApplyChild) -> Option<String> {
        self.has_intents.then(|| step.0.clone())
    }

    fn saved_intents(&self, status: &GraphStatus) -> Vec<String> {
        status.intents.clone()
    }

    fn metadata(&self, world: &World<Self>) -> Option<ObjectWrite<'_>> {
        if let Some(edit) = &self.edit {
            return Some(ObjectWrite::Edit(edit.clone()));
        }
        if let Some(labels) = &self.labels {
            return Some(ObjectWrite::ApplyOwn {
                manager: "labeller",
                body: json!({"metadata": {"labels": labels}}),
                force: true,
            });
        }
        let obsolete = self.obsolete_annotation?;
        world.object.annotation(obsolete)?;
        Some(ObjectWrite::RemoveAnnotation(obsolete))
    }

    fn replaces_status(&self) -> bool {
        self.replaces_status
    }

    fn is_dry_run(&self, object: &Object<Self>) -> bool {
        object.annotation("dry-run") == Some("true")
    }

    fn assumed_outcome(&self, _world: &World<Self>, _step: &ApplyChild) -> Option<()> {
        Some(())
    }

    /// The intents, all by one name.
    fn points_at_begin(&self, object: &Object<Self>) -> Vec<KillPoint> {
        let point = |intent: &String| KillPoint {
            name: "announced".to_owned(),
            about: intent.clone(),
        };
        object.status.intents.iter().map(point).collect()
    }

    /// The reads that were answered.
    fn points_reached(&self, world: &World<Self>) -> Vec<KillPoint> {
        let point = |read: &String| KillPoint {
            name: format!("{read} read"),
            about: String::new(),
        };
        let mut points = self.points_at_begin(&world.object);
        points.extend(world.observed.reads.iter().map(point));
        points
    }
}

fn stop_after(error: &CallError) -> Stop {
    let reason = Reason::new("NotApplied", error.message.clone());
    if error.class == Class::Denied {
        Stop::blocked(reason)
    } else {
        let class = error.class;
        Stop::Failed { reason, class }
    }
}

/// An API server with one object, and a service that accepts every step unless `error` is set.
#[derive(Default)]
pub(super) struct InMemory {
    pub(super) stored: Mutex<Value>,
    pub(super) elapsed: Mutex<Duration>,
    /// The answer to every step.
    pub(super) error: Mutex<Option<CallError>>,
    /// The answer to every write of metadata.
    pub(super) refusal: Option<CallError>,
    pub(super) is_deposed: bool,
    pub(super) is_preview: bool,
    /// The start and the end of each call.
    pub(super) calls: Mutex<Vec<String>>,
    /// Each write of the object, and the version it was bound to.
    pub(super) writes: Mutex<Vec<(&'static str, String)>>,
    pub(super) events: Mutex<Vec<Note>>,
    /// The kind is asked for kill points of its own.
    pub(super) has_kill_points: bool,
    pub(super) kill_points: Mutex<Vec<String>>,
}

impl InMemory {
    pub(super) fn with_spec(spec: Value) -> Self {
        let metadata = json!({
            "name": "g",
            "generation": 1,
            "resourceVersion": "1",
            "finalizers": [FINALIZER],
        });
        Self {
            stored: Mutex::new(json!({"metadata": metadata, "spec": spec})),
            ..Self::default()
        }
    }

    pub(super) fn with_children(children: Value) -> Self {
        Self::with_spec(json!({"children": children}))
    }

    /// Changes the stored object before a pass.
    pub(super) fn change(&self, change: impl FnOnce(&mut Value)) {
        change(&mut self.stored.lock());
    }

    pub(super) fn object(&self) -> Object<Graph> {
        let stored = self.stored.lock().clone();
        let (metadata, status) = (&stored["metadata"], &stored["status"]);
        Object {
            key: ObjectKey::cluster("g"),
            metadata: ObjectMeta::deserialize(metadata).unwrap(),
            resource: GraphResource::deserialize(&stored).unwrap(),
            status: GraphStatus::deserialize(status).unwrap_or_default(),
            conditions: Vec::<Condition>::deserialize(&status["conditions"]).unwrap_or_default(),
            exists: true,
        }
    }

    /// The reason of the stored condition Ready.
    pub(super) fn reason(&self) -> Option<String> {
        let conditions = self.object().conditions;
        find(&conditions, "Ready").map(|ready| ready.reason.clone())
    }

    fn guard(&self) -> Result<(), CallError> {
        if self.is_deposed {
            return Err(CallError::new(Class::Deposed, "another operator leads"));
        }
        Ok(())
    }

    async fn call(&self, call: String, duration: Duration) {
        self.calls.lock().push(format!("{call} begins"));
        tokio::time::sleep(duration).await;
        self.calls.lock().push(format!("{call} ends"));
    }

    /// How often `calls` has this entry.
    pub(super) fn times(&self, call: &str) -> usize {
        let calls = self.calls.lock();
        calls.iter().filter(|made| *made == call).count()
    }
}

impl Effects<Graph> for InMemory {
    fn mode(&self) -> Mode {
        if self.is_preview {
            Mode::Preview
        } else {
            Mode::Perform
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + *self.elapsed.lock()
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.lock()
    }

    fn gather(&self, _object: &Object<Graph>) {}

    fn has_kill_points(&self) -> bool {
        self.has_kill_points
    }

    async fn kill_point(&self, name: &str) {
        self.kill_points.lock().push(name.to_owned());
    }

    fn event(&self, note: Note) {
        self.events.lock().push(note);
    }

    async fn read(&self, read: &ReadOne) -> Result<(), CallError> {
        self.call(read.to_string(), Duration::from_secs(1)).await;
        Ok(())
    }

    async fn apply(&self, step: &ApplyChild) -> Result<(), CallError> {
        self.guard()?;
        let duration = Duration::from_secs(if step.0 == "slow" { 9 } else { 1 });
        self.call(step.to_string(), duration).await;
        let error = self.error.lock().clone();
        error.map_or(Ok(()), Err)
    }

    async fn is_needed(&self, write: &ObjectWrite<'_>) -> Result<bool, CallError> {
        let stored = self.stored.lock();
        Ok(match write {
            ObjectWrite::Edit(patch) | ObjectWrite::ApplyOwn { body: patch, .. } => {
                merged(&stored, patch) != *stored
            }
            ObjectWrite::ReplaceStatus(status) => stored.get("status") != *status,
            ObjectWrite::AddFinalizer(_)
            | ObjectWrite::RemoveFinalizer(_)
            | ObjectWrite::RemoveAnnotation(_)
            | ObjectWrite::Status { .. } => true,
        })
    }

    async fn write(&self, write: ObjectWrite<'_>, version: &str) -> Result<String, CallError> {
        self.guard()?;
        let mut stored = self.stored.lock();
        if stored["metadata"]["resourceVersion"] != version {
            return Err(CallError::new(Class::Stale, "the object has changed"));
        }
        if let Some(refusal) = self.refusal.clone().filter(|_| write.name() == "metadata") {
            return Err(refusal);
        }
        let written = match write {
            ObjectWrite::AddFinalizer(finalizer) => {
                stored["metadata"]["finalizers"] = json!([finalizer]);
                "add finalizer"
            }
            ObjectWrite::RemoveFinalizer(_) => {
                stored["metadata"]["finalizers"] = json!([]);
                "remove finalizer"
            }
            ObjectWrite::RemoveAnnotation(annotation) => {
                let annotations = stored["metadata"]["annotations"].as_object_mut();
                annotations.unwrap().remove(annotation);
                "remove annotation"
            }
            ObjectWrite::Edit(patch) => {
                *stored = merged(&stored, &patch);
                "edit"
            }
            ObjectWrite::ApplyOwn { body, .. } => {
                *stored = merged(&stored, &body);
                "apply own"
            }
            ObjectWrite::Status { after, .. } => {
                stored["status"] = after.clone();
                "status"
            }
            ObjectWrite::ReplaceStatus(status) => {
                stored["status"] = status.cloned().unwrap_or_default();
                "replace status"
            }
        };
        self.writes.lock().push((written, version.to_owned()));
        let newer = version.parse::<u64>().unwrap() + 1;
        stored["metadata"]["resourceVersion"] = json!(newer.to_string());
        Ok(newer.to_string())
    }
}
