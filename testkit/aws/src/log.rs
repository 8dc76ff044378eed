//! The request log: request, caller and answer, in the order of effects.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

/// How many entries the log keeps; the oldest are dropped first.
const ENTRIES: usize = 100_000;
/// Bytes of bodies kept over all entries.
const BYTES: usize = 128 << 20;
/// Bytes kept of one body.
const BODY: usize = 64 << 10;

/// One request. `seq`, `time` and the rest are the names in `GET /_emu/log`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Entry {
    /// Number of the request, from 1, never used twice.
    pub seq: u64,
    /// When it was executed or refused, on the emulator's clock.
    pub time: Timestamp,
    /// Account of the caller.
    pub account: Option<String>,
    /// Access key, known or not.
    pub key: Option<String>,
    /// Role of the caller; the access key of a user. Absent for an unknown key.
    pub caller: Option<String>,
    /// Credential scope.
    pub scope: Option<String>,
    /// Service.
    pub service: Option<String>,
    /// Operation.
    pub operation: Option<String>,
    /// The resource.
    pub resource: Option<String>,
    /// Body as text, cut after 64 KiB.
    pub body: String,
    /// Status of the answer; absent if the connection was cut instead.
    pub status: Option<u16>,
    /// Error code of the answer.
    pub code: Option<String>,
    /// The effect of the fault rule that applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
}

/// A bounded list of entries that counts how many it has dropped.
#[derive(Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
    last: u64,
    dropped: u64,
}

impl Log {
    /// Adds an entry under the next number.
    pub fn add(&mut self, mut entry: Entry) {
        self.last += 1;
        entry.seq = self.last;
        self.bytes += entry.body.len();
        self.entries.push_back(entry);
        while self.entries.len() > ENTRIES || self.bytes > BYTES {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.bytes -= oldest.body.len();
            self.dropped += 1;
        }
    }

    /// Entries with a number above `since`, the last number, and how many old entries were dropped.
    pub fn since(&self, since: u64) -> Value {
        let skipped = self.entries.partition_point(|entry| entry.seq <= since);
        let entries: Vec<_> = self.entries.range(skipped..).collect();
        json!({ "entries": entries, "last": self.last, "dropped": self.dropped })
    }

    /// Removes the entries. Numbers continue, so that a reader's `since` stays valid.
    pub fn reset(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.dropped = 0;
    }
}

/// A body as the log stores it.
pub fn kept(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.len() <= BODY {
        return text.into_owned();
    }
    let cut = text.floor_char_boundary(BODY);
    format!("{}… ({} bytes in all)", &text[..cut], body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_are_dropped_and_counted() {
        let mut log = Log::default();
        for _ in 0..ENTRIES + 3 {
            log.add(Entry::default());
        }
        let shown = log.since(0);
        assert_eq!(shown["dropped"], 3);
        assert_eq!(shown["entries"][0]["seq"], 4);
        assert_eq!(shown["entries"].as_array().map(Vec::len), Some(ENTRIES));
    }

    #[test]
    fn numbers_continue_after_a_reset() {
        let mut log = Log::default();
        log.add(Entry::default());
        log.reset();
        log.add(Entry::default());
        assert_eq!(log.since(1)["entries"][0]["seq"], 2);
    }

    #[test]
    fn a_long_body_is_cut_on_a_character() {
        let shown = kept("ä".repeat(BODY).as_bytes());
        assert!(shown.len() < BODY + 50 && shown.ends_with("bytes in all)"));
    }
}
