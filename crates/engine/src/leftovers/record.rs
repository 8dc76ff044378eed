//! A record in a ConfigMap: a leftover and the attempts to remove it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::{Backoff, cap};
use serde_json::{Map, Value};

use super::{Leftover, Unreadable};

/// The longest pause between two attempts, unless the first pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// The longest error message in a record, in bytes.
const ERROR_BYTES: usize = 4096;

const CREATED_AT: &str = "createdAt";
const ATTEMPTS: &str = "attempts";
const LAST_ATTEMPT_AT: &str = "lastAttemptAt";
const NEXT_ATTEMPT_AT: &str = "nextAttemptAt";
const LAST_ERROR: &str = "lastError";

/// A leftover and the attempts to remove it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record<L> {
    pub(super) leftover: L,
    pub(super) created_at: Option<Timestamp>,
    /// The number of failed attempts.
    pub(super) attempts: u32,
    pub(super) last_attempt_at: Option<Timestamp>,
    /// The next attempt is not before this time.
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub(super) last_error: Option<String>,
}

impl<L: Leftover> Record<L> {
    /// A record without attempts.
    pub(super) fn new(leftover: L, now: Timestamp) -> Self {
        Self {
            leftover,
            created_at: Some(now),
            attempts: 0,
            last_attempt_at: None,
            next_attempt_at: None,
            last_error: None,
        }
    }

    /// Parses the record in `map`. Wrong fields about attempts are ignored, others are an error.
    pub(super) fn read(map: &ConfigMap) -> Result<Self, Unreadable> {
        let empty = BTreeMap::new();
        let fields = map.data.as_ref().unwrap_or(&empty);
        let text = |key: &str| fields.get(key).filter(|text| !text.is_empty());
        let time = |key: &str| text(key).and_then(|text| text.parse().ok());
        let attempts = text(ATTEMPTS).and_then(|text| text.parse().ok());
        Ok(Self {
            leftover: L::from_fields(fields)?,
            created_at: time(CREATED_AT),
            attempts: attempts.unwrap_or_default(),
            last_attempt_at: time(LAST_ATTEMPT_AT),
            next_attempt_at: time(NEXT_ATTEMPT_AT),
            last_error: text(LAST_ERROR).cloned(),
        })
    }

    /// Every key, with its text if it has one.
    fn fields(&self) -> BTreeMap<String, Option<String>> {
        let Self {
            leftover,
            created_at,
            attempts,
            last_attempt_at,
            next_attempt_at,
            last_error,
        } = self;
        let time = |time: &Option<Timestamp>| time.as_ref().map(ToString::to_string);
        let attempt_fields = [
            (CREATED_AT, time(created_at)),
            (ATTEMPTS, Some(attempts.to_string())),
            (LAST_ATTEMPT_AT, time(last_attempt_at)),
            (NEXT_ATTEMPT_AT, time(next_attempt_at)),
            (LAST_ERROR, last_error.clone()),
        ];
        let mut fields = leftover.fields();
        fields.extend(attempt_fields.map(|(key, text)| (key.to_owned(), text)));
        fields
    }

    /// The ConfigMap of this record.
    pub(super) fn config_map(&self, namespace: &str) -> ConfigMap {
        let fields = self.fields().into_iter();
        let fields = fields.filter_map(|(key, text)| Some((key, text?)));
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.leftover.record_name()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels::<L>()),
                ..ObjectMeta::default()
            },
            data: Some(fields.collect()),
            ..ConfigMap::default()
        }
    }

    /// The `data` of a merge patch that writes this record to a ConfigMap.
    pub(super) fn patch(&self) -> Value {
        let fields = self.fields().into_iter();
        let fields = fields.map(|(key, text)| (key, text.map_or(Value::Null, Value::from)));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    /// The time until the next attempt; none if it is due.
    pub(super) fn due_in(&self, now: Timestamp) -> Option<Duration> {
        let pause = self.next_attempt_at?.duration_since(now);
        let pause = Duration::try_from(pause).ok()?;
        (!pause.is_zero()).then_some(pause)
    }

    /// The record after a failed attempt. `first_pause` is the pause after the first one.
    pub(super) fn failed(&self, error: &str, first_pause: Duration, now: Timestamp) -> Self {
        let attempts = self.attempts.saturating_add(1);
        let backoff = Backoff {
            first: first_pause,
            cap: LONGEST_PAUSE.max(first_pause),
            jitter: 0.0,
        };
        let next = now.checked_add(backoff.delay(attempts, 0.0));
        Self {
            attempts,
            last_attempt_at: Some(now),
            next_attempt_at: Some(next.unwrap_or(Timestamp::MAX)),
            ..self.with_error(error)
        }
    }

    /// The same record with another error.
    pub(super) fn with_error(&self, error: &str) -> Self {
        Self {
            last_error: Some(cap(error, ERROR_BYTES)),
            ..self.clone()
        }
    }
}

/// The target of a record. Other fields may be wrong.
pub(super) fn target_of<L: Leftover>(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get(L::TARGET).map(String::as_str)
}

/// The labels by which records are found.
pub(super) fn labels<L: Leftover>() -> BTreeMap<String, String> {
    let (key, value) = L::LABEL;
    [(key.to_owned(), value.to_owned())].into()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fmt;

    use rstest::rstest;
    use serde::{Deserialize, Serialize};

    use super::*;

    /// A leftover for tests.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(in crate::leftovers) struct Disk {
        pub(in crate::leftovers) id: String,
        pub(in crate::leftovers) account: String,
        pub(in crate::leftovers) owner: Option<String>,
    }

    impl Leftover for Disk {
        const LABEL: (&'static str, &'static str) = ("pontoon.io/leftover", "disks");
        const TARGET: &'static str = "account";
        const OUTSIDE: &'static str = "AWS";

        fn record_name(&self) -> String {
            format!("disk-{}", self.id)
        }
    }

    impl fmt::Display for Disk {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.id)
        }
    }

    pub(in crate::leftovers) fn disk() -> Disk {
        Disk {
            id: "d".to_owned(),
            account: "1".to_owned(),
            owner: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn full() -> Record<Disk> {
        Record {
            leftover: Disk {
                owner: Some("us".to_owned()),
                ..disk()
            },
            created_at: Some(at(1)),
            attempts: 2,
            last_attempt_at: Some(at(2)),
            next_attempt_at: Some(at(3)),
            last_error: Some("refused".to_owned()),
        }
    }

    #[rstest]
    #[case::new(Record::new(disk(), at(1)))]
    #[case::with_everything(full())]
    fn a_record_reads_back(#[case] record: Record<Disk>) {
        let map = record.config_map("operators");
        assert_eq!(map.metadata.labels, Some(labels::<Disk>()));
        assert_eq!(map.metadata.name.as_deref(), Some("disk-d"));
        assert_eq!(target_of::<Disk>(&map), Some("1"));
        assert_eq!(Record::<Disk>::read(&map), Ok(record));
    }

    #[test]
    fn an_empty_field_has_no_key_and_a_patch_removes_it() {
        let record = Record::new(disk(), at(1));
        let fields = record.config_map("operators").data.unwrap();
        let keys: Vec<_> = fields.keys().map(String::as_str).collect();
        assert_eq!(keys, ["account", "attempts", "createdAt", "id"]);
        let patch = record.patch();
        assert_eq!(
            (&patch["lastError"], &patch["owner"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(patch["attempts"], "0");
        assert_eq!(patch.as_object().unwrap().len(), 8);
    }

    #[rstest]
    #[case::no_number(ATTEMPTS, "many")]
    #[case::no_time(NEXT_ATTEMPT_AT, "soon")]
    fn unreadable_fields_about_attempts_are_ignored(#[case] key: &str, #[case] text: &str) {
        let mut map = Record::new(disk(), at(1)).config_map("operators");
        let fields = map.data.as_mut().unwrap();
        fields.insert(key.to_owned(), text.to_owned());
        assert_eq!(Record::<Disk>::read(&map), Ok(Record::new(disk(), at(1))));
    }

    #[test]
    fn pauses_double_up_to_an_hour() {
        let mut record = Record::new(disk(), at(0));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            record = record.failed("refused", Duration::from_secs(300), at(0));
            pauses.push(record.due_in(at(0)).unwrap().as_secs() / 60);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
        record.attempts = u32::MAX;
        let last = record.failed("refused", Duration::from_secs(300), at(0));
        assert_eq!(last.due_in(at(0)), Some(LONGEST_PAUSE));
    }

    #[test]
    fn a_first_pause_of_more_than_an_hour_is_used() {
        let day = Duration::from_secs(86_400);
        let record = Record::new(disk(), at(0)).failed("refused", day, at(0));
        assert_eq!(record.due_in(at(0)), Some(day));
    }

    #[test]
    fn a_record_is_due_at_its_time_and_a_new_one_at_once() {
        assert_eq!(Record::new(disk(), at(9)).due_in(at(9)), None);
        assert_eq!(full().due_in(at(2)), Some(Duration::from_secs(1)));
        assert_eq!(full().due_in(at(3)), None);
        assert_eq!(full().due_in(at(4)), None);
    }
}
