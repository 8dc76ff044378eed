//! A model of the cloud, with the laws it can check itself.

use engine::Object;
use kernel::{CallError, Class, Ownership};
use serde::Deserialize;
use serde_json::{Value, json};
use simulator::Model;

use super::plan::ownership;
use super::{BucketSpec, Buckets, DriftPolicy, Read, Step};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bucket {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Our marker, another's, or none.
    pub(crate) owner: Option<String>,
    pub(crate) config: String,
    pub(crate) is_enabled: bool,
    pub(crate) version: u64,
}

/// The marker of the object of this name.
pub(crate) fn marker(object_name: &str) -> String {
    format!("pontoon/{object_name}")
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cloud {
    buckets: Vec<Bucket>,
    created: u32,
    broken_law: Option<String>,
}

impl Cloud {
    fn create(&mut self, name: &str, owner: Option<String>, config: &str) -> Bucket {
        self.created += 1;
        let bucket = Bucket {
            id: self.created,
            name: name.to_owned(),
            owner,
            config: config.to_owned(),
            is_enabled: true,
            version: 1,
        };
        self.buckets.push(bucket.clone());
        bucket
    }

    fn ours(&self) -> Option<&Bucket> {
        let mut buckets = self.buckets.iter();
        buckets.find(|bucket| ownership(bucket, &bucket.name) == Ownership::Ours)
    }
}

fn spec(object: &Value) -> BucketSpec {
    BucketSpec::deserialize(&object["spec"]).expect("the model's object has a spec")
}

impl Model<Buckets> for Cloud {
    fn new(choice: u8) -> (Self, Value) {
        let is_corrected = choice & 1 == 0;
        let spec = BucketSpec {
            config: "a".to_owned(),
            drift: if is_corrected {
                DriftPolicy::Correct
            } else {
                DriftPolicy::Report
            },
            adopt: choice & 2 != 0,
            retain: choice & 0b1100 == 0b1100,
        };
        let mut cloud = Self::default();
        if choice & 0b1_0000 != 0 {
            cloud.create("b", None, "x");
        }
        (cloud, json!({"metadata": {"name": "b"}, "spec": spec}))
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        let spec = &mut object["spec"];
        match choice % 4 {
            0 => spec["config"] = json!("a"),
            1 => spec["config"] = json!("b"),
            2 => spec["adopt"] = json!(spec["adopt"] != true),
            _ => {
                let is_corrected = spec["drift"] == "Correct";
                spec["drift"] = json!(if is_corrected { "Report" } else { "Correct" });
            }
        }
    }

    fn meddle(&mut self, object: &Value, choice: u8) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let index = usize::from(choice) / 5;
        match (choice % 5, self.buckets.len()) {
            (0, _) => {
                let bucket = self.create(name, None, "x");
                format!("creates unmarked bucket {}", bucket.id)
            }
            (1, _) => {
                let owner = Some("someone/else".to_owned());
                let bucket = self.create(name, owner, "x");
                format!("creates bucket {} of another owner", bucket.id)
            }
            (_, 0) => "does nothing".to_owned(),
            (2, count) => format!("deletes bucket {}", self.buckets.remove(index % count).id),
            (_, count) => {
                let bucket = &mut self.buckets[index % count];
                bucket.config = format!("edited by {choice}");
                bucket.version += 1;
                format!("edits bucket {}", bucket.id)
            }
        }
    }

    fn facts(&self, _object: &Object<Buckets>) {}

    fn read(&self, Read::List { name }: &Read) -> Result<Vec<Bucket>, CallError> {
        let named = self.buckets.iter().filter(|bucket| bucket.name == *name);
        Ok(named.cloned().collect())
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Bucket>, CallError> {
        let (id, version) = match step {
            Step::Create { name, config, .. } => {
                if self.ours().is_some() {
                    self.broken_law = Some(format!("no second create: {step}"));
                }
                let bucket = self.create(name, Some(marker(name)), config);
                return Ok(Some(bucket));
            }
            Step::Mark { id, version, .. }
            | Step::Update { id, version, .. }
            | Step::Disable { id, version }
            | Step::Delete { id, version } => (*id, *version),
        };
        let refusal = |class: Class| CallError::new(class, format!("{step}: {class:?}"));
        let index = self.buckets.iter().position(|bucket| bucket.id == id);
        let index = index.ok_or_else(|| refusal(Class::NotFound))?;
        let bucket = &mut self.buckets[index];
        if bucket.version != version {
            return Err(refusal(Class::Stale));
        }
        let is_permitted = match ownership(bucket, &bucket.name) {
            Ownership::Ours => true,
            Ownership::Unmarked => matches!(step, Step::Mark { .. }),
            Ownership::Foreign(_) => false,
        };
        if !is_permitted {
            self.broken_law = Some(format!("nothing foreign is touched: {step}"));
        }
        match step {
            Step::Create { .. } => {} // it has returned above
            Step::Mark { .. } => bucket.owner = Some(marker(&bucket.name)),
            Step::Update { config, .. } => bucket.config.clone_from(config),
            Step::Disable { .. } => bucket.is_enabled = false,
            Step::Delete { .. } if bucket.is_enabled => return Err(refusal(Class::Invalid)),
            Step::Delete { .. } => {
                self.buckets.remove(index);
                return Ok(None);
            }
        }
        bucket.version += 1;
        Ok(Some(bucket.clone()))
    }

    fn broken_law(&self) -> Option<String> {
        self.broken_law.clone()
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        let ours = self.ours();
        ours.is_some_and(|bucket| object["spec"]["config"] == bucket.config.as_str())
    }

    fn may_rest(&self, object: &Value) -> bool {
        let spec = spec(object);
        let is_reported = spec.drift == DriftPolicy::Report;
        match self.ours() {
            Some(_) => is_reported,
            None if self.buckets.is_empty() => is_reported,
            None => {
                let has_unmarked = self.buckets.iter().any(|bucket| bucket.owner.is_none());
                !(spec.adopt && has_unmarked)
            }
        }
    }

    fn leftover(&self, object: &Value) -> Option<String> {
        let ours = self.ours().filter(|_| !spec(object).retain)?;
        Some(format!("bucket {} of ours", ours.id))
    }
}
