//! When things happened to volumes, for tests that compare durations.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::service::TimelineEntry;

/// How many entries are stored; the oldest are dropped first.
const ENTRIES: usize = 50_000;

/// The last entries, in the order of their times.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    entries: VecDeque<TimelineEntry>,
    is_off: bool,
}

impl Timeline {
    /// A timeline that stores nothing, for models that are copied often.
    pub(super) fn off() -> Self {
        Self {
            entries: VecDeque::new(),
            is_off: true,
        }
    }

    /// What happened to a volume, and on which instance.
    pub(super) fn add(
        &mut self,
        time: Timestamp,
        event: &str,
        volume: &str,
        instance: Option<&str>,
    ) {
        self.add_with(time, event, volume, json!({ "instance": instance }));
    }

    /// The same with more fields; those without a value are left out.
    pub(super) fn add_with(&mut self, time: Timestamp, event: &str, volume: &str, more: Value) {
        if self.is_off {
            return;
        }
        let mut about = Map::from_iter([
            ("service".to_owned(), json!("ec2")),
            ("volume".to_owned(), json!(volume)),
        ]);
        if let Value::Object(more) = more {
            about.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self.entries.push_back(TimelineEntry {
            time,
            event: event.to_owned(),
            about,
        });
        if self.entries.len() > ENTRIES {
            self.entries.pop_front();
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &TimelineEntry> {
        self.entries.iter()
    }
}
