//! What is around a Probe, as a model: the emulator's service `probe`, its ConfigMap, its Secret.
//!
//! A schedule is either about the thing outside or about the ConfigMap. With both, a Probe may truly say
//! Ready of two things that were right one after the other, and the law knows one moment only.

use engine::Object;
use jiff::Timestamp;
use kernel::{CallError, Class, ClusterId, Marker, ObjectKey};
use serde_json::{Value, json};
use simulator::{DEADLINE, Model, Seeds, check};
use std::time::Duration;

use super::{Answer, Cached, ConfigMap, Digest, Facts, ProbeCore, Read, Step, Thing};

const SECRET_VALUE: &str = "kept";
const UID: &str = "uid-1";

#[derive(Debug, Clone)]
struct Around {
    is_about_thing: bool,
    thing: Option<(Thing, Since)>,
    config_map: Option<ModelMap>,
    maps: u64,
    has_secret: bool,
    now: Timestamp,
    broken_law: Option<String>,
}

/// The service writes without conditions. So only what was there for a whole pass must have been seen.
#[derive(Debug, Clone, Copy)]
struct Since(Timestamp);

#[derive(Debug, Clone)]
struct ModelMap {
    id: u64,
    is_ours: bool,
    text: String,
}

fn core() -> ProbeCore {
    ProbeCore {
        cluster: ClusterId::new("harbour").expect("it is a valid name"),
    }
}

fn marker() -> String {
    let marker = Marker::new(&core().cluster, &ObjectKey::namespaced("team", "ferry"));
    format!("{}|{}", marker.cluster, marker.object)
}

impl Around {
    fn is_ours(&self) -> bool {
        let marker = marker();
        let thing = self.thing.as_ref();
        thing.is_some_and(|(thing, _)| thing.marker.as_deref() == Some(&*marker))
    }

    fn put(&mut self, marker: Option<String>, value: Digest) {
        let since = Since(self.now);
        self.thing = Some((Thing { marker, value }, since));
    }

    fn write(&mut self, is_ours: bool, text: &str) {
        self.maps += 1;
        self.config_map = Some(ModelMap {
            id: self.maps,
            is_ours,
            text: text.to_owned(),
        });
    }

    /// A step that touches a thing must have seen whose it is.
    fn touches(&mut self, step: &Step) {
        let is_ours = self.is_ours();
        let seen = |Since(at): Since| self.now >= at + DEADLINE + Duration::from_secs(1);
        if !is_ours && self.thing.as_ref().is_some_and(|(_, since)| seen(*since)) {
            self.broken_law = Some(format!("nothing foreign is touched: {step}"));
        }
    }

    fn desired_value(&self, object: &Value) -> Option<Digest> {
        let outside = &object["spec"]["outside"];
        match outside["value"].as_str() {
            Some(value) => Some(Digest::of(value)),
            None => self.has_secret.then(|| Digest::of(SECRET_VALUE)),
        }
    }
}

impl Model<ProbeCore> for Around {
    const READ_LAG: Duration = Duration::ZERO;

    fn new(choice: u8) -> (Self, Value) {
        let mut around = Self {
            is_about_thing: choice & 1 == 0,
            thing: None,
            config_map: None,
            maps: 0,
            has_secret: choice & 2 != 0,
            now: Timestamp::UNIX_EPOCH,
            broken_law: None,
        };
        let mut spec = json!({"text": "a"});
        if around.is_about_thing {
            spec["outside"] = json!({"value": "a"});
        }
        if choice & 0b1100 == 0b1100 {
            spec["deletionPolicy"] = json!("Retain");
        }
        if choice & 0b11_0000 == 0b11_0000 && around.is_about_thing {
            around.put(Some("someone/else".to_owned()), Digest::of("a"));
        }
        let metadata = json!({"namespace": "team", "name": "ferry"});
        let object = json!({
            "apiVersion": "probe.pontoon.io/v1alpha1", "kind": "Probe",
            "metadata": metadata, "spec": spec,
        });
        (around, object)
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        let spec = &mut object["spec"];
        match choice % 6 {
            0 => spec["text"] = json!("a"),
            1 => spec["text"] = json!("b"),
            _ if !self.is_about_thing => {}
            2 => spec["outside"] = json!({"value": "a"}),
            3 => spec["outside"] = json!({"value": "b"}),
            4 => spec["outside"] = json!({"secret": {"name": "s", "key": "k"}}),
            _ => spec["outside"] = Value::Null,
        }
    }

    fn meddle(&mut self, _object: &Value, choice: u8) -> String {
        let action = match (choice % 4, self.is_about_thing) {
            (0, true) => {
                self.thing = None;
                "deletes the thing"
            }
            (1, true) => {
                if let Some((thing, _)) = &mut self.thing {
                    thing.value = Digest::of("edited");
                }
                "edits the thing"
            }
            (2, true) if self.thing.is_none() => {
                let owner = (choice & 4 == 0).then(|| "someone/else".to_owned());
                self.put(owner, Digest::of("a"));
                "creates a thing of our name"
            }
            (_, true) => {
                self.has_secret = true;
                "creates the Secret"
            }
            (0, false) => {
                self.config_map = None;
                "deletes the ConfigMap"
            }
            (1, false) if self.config_map.is_none() => {
                self.write(false, "a");
                "creates a ConfigMap of our name"
            }
            (_, false) => {
                if let Some(map) = &mut self.config_map {
                    "edited".clone_into(&mut map.text);
                }
                "edits the ConfigMap"
            }
        };
        action.to_owned()
    }

    fn facts(&self, _object: &Object<ProbeCore>) -> Facts {
        let is_labelled = self.config_map.as_ref().is_some_and(|map| map.is_ours);
        Facts {
            config_map: if is_labelled {
                Cached::Present
            } else {
                Cached::Absent
            },
        }
    }

    fn passes(&mut self, now: Timestamp) {
        self.now = now;
    }

    fn read(&self, read: &Read) -> Result<Answer, CallError> {
        Ok(match read {
            Read::Thing(_) => Answer::Thing(self.thing.as_ref().map(|(thing, _)| thing.clone())),
            Read::ConfigMap(child) => {
                Answer::ConfigMap(self.config_map.as_ref().map(|map| ConfigMap {
                    owner: map.is_ours.then(|| UID.to_owned()),
                    is_current: map.text == child.text,
                    live: json!(map.id),
                }))
            }
            Read::Secret(_) => Answer::Secret(self.has_secret.then(|| Digest::of(SECRET_VALUE))),
            Read::Misbehave(behaviour) => panic!("no model asks for {behaviour:?}"),
        })
    }

    fn apply(&mut self, step: &Step) -> Result<(), CallError> {
        match step {
            Step::Put { marker, value, .. } => {
                self.touches(step);
                self.put(Some(marker.clone()), *value);
            }
            Step::Remove { .. } => {
                self.touches(step);
                self.thing = None;
            }
            Step::Write { child, over } => {
                let live = self.config_map.as_ref();
                if live.map(|map| json!(map.id)) != *over {
                    return Err(CallError::new(Class::Stale, "it is another one"));
                }
                if live.is_some_and(|map| !map.is_ours) {
                    self.broken_law = Some(format!("nothing foreign is touched: {step}"));
                }
                match &mut self.config_map {
                    Some(map) => map.text.clone_from(&child.text),
                    None => self.write(true, &child.text),
                }
            }
        }
        Ok(())
    }

    fn broken_law(&self) -> Option<String> {
        self.broken_law.clone()
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        if !self.is_about_thing {
            let map = self.config_map.as_ref().filter(|map| map.is_ours);
            return map.is_some_and(|map| object["spec"]["text"] == map.text.as_str());
        }
        if object["spec"]["outside"].is_null() {
            return !self.is_ours();
        }
        let value = self.thing.as_ref().map(|(thing, _)| thing.value);
        self.is_ours() && value.is_some() && value == self.desired_value(object)
    }

    fn may_rest(&self, object: &Value) -> bool {
        if !self.is_about_thing {
            return self.config_map.as_ref().is_some_and(|map| !map.is_ours);
        }
        let is_taken = self.thing.is_some() && !self.is_ours();
        is_taken || self.desired_value(object).is_none()
    }

    fn leftover(&self, object: &Value) -> Option<String> {
        let is_kept = object["spec"]["deletionPolicy"] == "Retain";
        (self.is_ours() && !is_kept).then(|| "a thing of ours".to_owned())
    }
}

#[test]
fn every_law_holds_for_probes() {
    check::<ProbeCore, Around>(&core(), &Seeds::first(2_000));
}
