//! The journal: the part of the status that a run depends on.
//!
//! With it and the spec, the lock alone is enough to continue or undo the run of a lost migration.
//! It has no secrets: names, identities, times, and tags of disks.

mod error;
mod full;
mod restore;
#[cfg(test)]
mod tests;

use api::migrate::StatefulSetMigrationStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::RECORD_LIMIT;

pub use error::{JournalError, JournalTooLarge};
pub use full::full_size;
pub use restore::{newest, restore};

/// The version of the JSON. A change of its meaning, or a new field that a run depends on, raises it.
const VERSION: u64 = 1;

/// What a run has recorded, without reports: no conditions, findings, plan and errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    record: StatefulSetMigrationStatus,
}

impl Journal {
    /// The journal of a migration with this status.
    pub fn of(status: &StatefulSetMigrationStatus) -> Self {
        // The reports are made anew. Anything else is kept, new fields included.
        let mut record = StatefulSetMigrationStatus {
            conditions: Vec::new(),
            last_error: None,
            observed_generation: None,
            preflight: None,
            plan: Vec::new(),
            ..status.clone()
        };
        for ordinal in &mut record.ordinals {
            ordinal.last_error = None;
        }
        Self { record }
    }

    /// The recorded part of the status.
    pub fn record(&self) -> &StatefulSetMigrationStatus {
        &self.record
    }

    /// The journal as JSON. Equal journals give equal texts.
    pub fn render(&self) -> String {
        json!({ "version": VERSION, "record": self.record }).to_string()
    }

    /// The journal in a text that this version of Pontoon wrote, or one that it fully understands.
    pub fn parse(text: &str) -> Result<Self, JournalError> {
        let value = json_of("journal", text)?;
        let version = value.get("version").and_then(Value::as_u64);
        if version != Some(VERSION) {
            return Err(JournalError::Version(version));
        }
        let record = value.get("record").unwrap_or(&Value::Null);
        let record = understood("journal", record)?;
        Ok(Self { record })
    }

    /// The latest time that it records.
    fn latest(&self) -> Option<MicroTime> {
        let status = &self.record;
        let of_ordinals = status.ordinals.iter().flat_map(|ordinal| {
            let times = ordinal.times.clone();
            [
                times.released,
                times.unready,
                times.gone,
                times.detached,
                times.grown,
                times.attached,
                times.ready,
            ]
        });
        let of_run = [&status.start_time, &status.completion_time];
        let of_run = of_run.map(|time| time.as_ref().map(|time| MicroTime(time.0)));
        let intent = status.intent.as_ref().map(|intent| intent.at.clone());
        of_ordinals.chain(of_run).chain([intent]).flatten().max()
    }
}

/// Whether a journal of so many bytes fits. `object` is the migration, as `<namespace>/<name>`.
pub fn check_size(object: &str, bytes: usize) -> Result<(), JournalTooLarge> {
    if bytes <= RECORD_LIMIT {
        return Ok(());
    }
    Err(JournalTooLarge {
        object: object.to_owned(),
        bytes,
    })
}

fn json_of(key: &'static str, text: &str) -> Result<Value, JournalError> {
    if text.is_empty() {
        return Err(JournalError::Absent(key));
    }
    serde_json::from_str(text).map_err(|error| JournalError::NotJson {
        key,
        reason: error.to_string(),
    })
}

/// Reads a value whole: whoever continues a run from half of its record may destroy the rest.
fn understood<T: Serialize + DeserializeOwned>(
    key: &'static str,
    value: &Value,
) -> Result<T, JournalError> {
    let read: T = serde_json::from_value(value.clone()).map_err(|error| JournalError::NotJson {
        key,
        reason: error.to_string(),
    })?;
    let again = serde_json::to_value(&read).expect("what was read from JSON becomes JSON");
    match difference(value, &again) {
        None => Ok(read),
        Some(path) => Err(JournalError::NotUnderstood { key, path }),
    }
}

/// The first path at which two values differ.
fn difference(stored: &Value, read: &Value) -> Option<String> {
    if stored == read {
        return None;
    }
    let below = |key: String, stored: Option<&Value>, read: Option<&Value>| {
        let null = &Value::Null;
        let (stored, read) = (stored.unwrap_or(null), read.unwrap_or(null));
        difference(stored, read).map(|path| format!(".{key}{path}"))
    };
    let path = match (stored, read) {
        (Value::Object(stored), Value::Object(read)) => {
            let mut keys = stored.keys().chain(read.keys());
            keys.find_map(|key| below(key.clone(), stored.get(key), read.get(key)))
        }
        (Value::Array(stored), Value::Array(read)) => (0..stored.len().max(read.len()))
            .find_map(|at| below(at.to_string(), stored.get(at), read.get(at))),
        _ => None,
    };
    Some(path.unwrap_or_default())
}
