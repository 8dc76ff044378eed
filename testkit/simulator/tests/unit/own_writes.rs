//! A kind without an outside, which writes its own object: labels, a default of its spec, its whole status.

use std::time::Duration;

use engine::{Ended, KindCore, Learned, Never, Next, Object, ObjectWrite, Report, Stop, World};
use kernel::{CallError, Reason};
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};
use simulator::{Model, Seeds, check};

const FINALIZER: &str = "example.pontoon.io/note";

/// How the kind writes the label.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Edit,
    Apply,
}

#[derive(Debug)]
struct Notes {
    form: Form,
}

#[derive(Debug, Clone, Deserialize)]
struct Note {
    spec: NoteSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct NoteSpec {
    text: String,
}

impl KindCore for Notes {
    type Resource = Note;
    type Status = Value;
    type Facts = ();
    type Observed = ();
    type Memory = ();
    type Read = Never;
    type Answer = ();
    type Step = Never;
    type Outcome = ();
    type Intent = ();

    fn name(&self) -> &'static str {
        "note"
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn next(&self, _world: &World<Self>) -> Result<Next<Never, Never>, Stop> {
        Ok(Next::Done {
            recheck: Some(Duration::from_secs(60)),
        })
    }

    fn learn(&self, _world: &mut World<Self>, _learned: Learned<Self>) {}

    fn status(&self, world: &World<Self>, ended: &Ended<()>) -> (Value, Report) {
        let reason = Reason::new("Labelled", "the label has the text of the spec");
        let is_done = matches!(ended, Ended::Done { .. });
        let report = Report::default().condition("Ready", is_done, reason);
        (json!({"text": world.object.resource.spec.text}), report)
    }

    fn metadata(&self, world: &World<Self>) -> Option<ObjectWrite<'_>> {
        if world.object.is_deleting() {
            return None;
        }
        let labels = json!({"text": world.object.resource.spec.text});
        Some(match self.form {
            Form::Edit => {
                let finalizers = world.object.finalizers_with(FINALIZER);
                ObjectWrite::Edit(json!({"metadata": {"labels": labels, "finalizers": finalizers}}))
            }
            Form::Apply => ObjectWrite::ApplyOwn {
                manager: "labeller",
                body: json!({"metadata": {"labels": labels, "finalizers": [FINALIZER]}}),
                force: true,
            },
        })
    }

    fn replaces_status(&self) -> bool {
        true
    }
}

/// There is no outside.
#[derive(Clone)]
struct Nothing;

impl Model<Notes> for Nothing {
    fn new(choice: u8) -> (Self, Value) {
        let mut object = json!({"metadata": {"name": "n"}, "spec": {"text": "a"}});
        if choice.is_multiple_of(2) {
            object["metadata"]["labels"] = json!({"theirs": "x", "text": "x"});
            object["status"] = json!({"theirs": 1});
        }
        (Self, object)
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        match choice % 4 {
            0 => object["spec"]["text"] = json!("b"),
            1 => object["spec"]["text"] = json!("a"),
            2 => object["metadata"]["labels"] = json!({"text": "edited"}),
            _ => object["metadata"]["labels"] = json!({}),
        }
    }

    fn meddle(&mut self, _object: &Value, _choice: u8) -> String {
        "does nothing".to_owned()
    }

    fn facts(&self, _object: &Object<Notes>) {}

    fn read(&self, read: &Never) -> Result<(), CallError> {
        match *read {}
    }

    fn apply(&mut self, step: &Never) -> Result<(), CallError> {
        match *step {}
    }

    fn broken_law(&self) -> Option<String> {
        None
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        object["metadata"]["labels"]["text"] == object["spec"]["text"]
    }

    fn allows_ready(&self, _object: &Value) -> bool {
        true // the label is in the object, where everyone sees it change
    }

    fn may_rest(&self, _object: &Value) -> bool {
        false
    }

    fn leftover(&self, _object: &Value) -> Option<String> {
        None
    }
}

#[rstest]
#[case::by_a_merge_patch(Form::Edit)]
#[case::by_server_side_apply(Form::Apply)]
fn every_law_holds_for_a_kind_that_writes_its_own_object(#[case] form: Form) {
    check::<_, Nothing>(&Notes { form }, &Seeds::first(2_000));
}
