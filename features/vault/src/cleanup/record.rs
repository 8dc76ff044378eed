//! A record: a leftover and how often its removal was tried, as a ConfigMap keeps both. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vault::names as words;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::{Backoff, cap};
use serde_json::{Map, Value};

use super::leftover::{Leftover, Site};

/// No two tries are further apart, unless even the first two are.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

const KIND: &str = "kind";
const RESOURCE: &str = "resource";
const VAULT_PATH: &str = "vaultPath";
const VAULT_NAMESPACE: &str = "vaultNamespace";
const CONNECTION: &str = "connection";
const ADDRESS: &str = "address";
const OWNER: &str = "owner";
const CANONICAL_HASH: &str = "canonicalHash";
const SEEDED_VERSION: &str = "seededVersion";
const RECORDED: &str = "recorded";
const CREATED_AT: &str = "createdAt";
const ATTEMPTS: &str = "attempts";
const LAST_ATTEMPT_AT: &str = "lastAttemptAt";
const NEXT_ATTEMPT_AT: &str = "nextAttemptAt";
const LAST_ERROR: &str = "lastError";

/// A leftover and what became of it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) leftover: Leftover,
    pub(super) created_at: Option<Timestamp>,
    /// Tries that failed.
    pub(super) attempts: u32,
    pub(super) last_attempt_at: Option<Timestamp>,
    /// Not before this.
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Why it is still there.
    pub(super) last_error: Option<String>,
}

/// A record that nobody can work off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record's {key} is missing or wrong; correct it, or delete the ConfigMap and look in Vault"
)]
pub(super) struct Unreadable {
    key: &'static str,
}

impl Record {
    /// A record that nobody has tried to work off yet.
    pub(super) fn new(leftover: Leftover, now: Timestamp) -> Self {
        Self {
            leftover,
            created_at: Some(now),
            attempts: 0,
            last_attempt_at: None,
            next_attempt_at: None,
            last_error: None,
        }
    }

    /// What `map` says.
    pub(super) fn read(map: &ConfigMap) -> Result<Self, Unreadable> {
        let text = |key: &str| {
            let held = map.data.as_ref().and_then(|data| data.get(key));
            held.filter(|text| !text.is_empty()).cloned()
        };
        let must = |key: &'static str| text(key).ok_or(Unreadable { key });
        let time = |key: &str| text(key).and_then(|text| text.parse().ok());
        let version = match text(SEEDED_VERSION).map(|text| text.parse()) {
            None => None,
            Some(Ok(version)) => Some(version),
            Some(Err(_)) => {
                return Err(Unreadable {
                    key: SEEDED_VERSION,
                });
            }
        };
        Ok(Self {
            leftover: Leftover {
                kind: must(KIND)?,
                resource: text(RESOURCE).unwrap_or_default(),
                site: Site::parse(&must(VAULT_PATH)?).ok_or(Unreadable { key: VAULT_PATH })?,
                vault_namespace: text(VAULT_NAMESPACE),
                connection: must(CONNECTION)?,
                address: text(ADDRESS),
                owner: text(OWNER),
                canonical_hash: text(CANONICAL_HASH),
                seeded_version: version,
                recorded: text(RECORDED).as_deref() != Some("false"),
            },
            created_at: time(CREATED_AT),
            attempts: text(ATTEMPTS)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            last_attempt_at: time(LAST_ATTEMPT_AT),
            next_attempt_at: time(NEXT_ATTEMPT_AT),
            last_error: text(LAST_ERROR),
        })
    }

    /// Every key, and its value if it has one.
    fn keys(&self) -> [(&'static str, Option<String>); 15] {
        let Self {
            leftover,
            created_at,
            attempts,
            last_attempt_at,
            next_attempt_at,
            last_error,
        } = self;
        let Leftover {
            kind,
            resource,
            site,
            vault_namespace,
            connection,
            address,
            owner,
            canonical_hash,
            seeded_version,
            recorded,
        } = leftover;
        let time = |time: &Option<Timestamp>| time.as_ref().map(ToString::to_string);
        [
            (KIND, Some(kind.clone())),
            (
                RESOURCE,
                Some(resource.clone()).filter(|text| !text.is_empty()),
            ),
            (VAULT_PATH, Some(site.to_string())),
            (VAULT_NAMESPACE, vault_namespace.clone()),
            (CONNECTION, Some(connection.clone())),
            (ADDRESS, address.clone()),
            (OWNER, owner.clone()),
            (CANONICAL_HASH, canonical_hash.clone()),
            (
                SEEDED_VERSION,
                seeded_version.map(|version| version.to_string()),
            ),
            (RECORDED, (!recorded).then(|| "false".to_owned())),
            (CREATED_AT, time(created_at)),
            (ATTEMPTS, Some(attempts.to_string())),
            (LAST_ATTEMPT_AT, time(last_attempt_at)),
            (NEXT_ATTEMPT_AT, time(next_attempt_at)),
            (LAST_ERROR, last_error.clone()),
        ]
    }

    /// The ConfigMap that holds it.
    pub(super) fn config_map(&self, namespace: &str) -> ConfigMap {
        let held = self.keys().into_iter();
        let held = held.filter_map(|(key, value)| Some((key.to_owned(), value?)));
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.leftover.record_name()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels()),
                ..ObjectMeta::default()
            },
            data: Some(held.collect()),
            ..ConfigMap::default()
        }
    }

    /// The `data` of a merge patch that makes a ConfigMap hold it.
    pub(super) fn patch(&self) -> Value {
        let keys = self.keys().into_iter();
        let keys =
            keys.map(|(key, value)| (key.to_owned(), value.map_or(Value::Null, Value::from)));
        Value::Object(keys.collect::<Map<_, _>>())
    }

    /// How long until the next try; none if it is due.
    pub(super) fn due_in(&self, now: Timestamp) -> Option<Duration> {
        let wait = self.next_attempt_at?.duration_since(now);
        let wait = Duration::try_from(wait).ok()?;
        (!wait.is_zero()).then_some(wait)
    }

    /// The record after a try that failed; `first` is the wait after the first one.
    pub(super) fn failed(&self, error: &str, first: Duration, now: Timestamp) -> Self {
        let attempts = self.attempts.saturating_add(1);
        let backoff = Backoff {
            first,
            cap: LONGEST_WAIT.max(first),
            jitter: 0.0,
        };
        let next = now.checked_add(backoff.delay(attempts, 0.0));
        Self {
            attempts,
            last_attempt_at: Some(now),
            next_attempt_at: Some(next.unwrap_or(Timestamp::MAX)),
            ..self.said(error)
        }
    }

    /// The same, with another word on why it is still there.
    pub(super) fn said(&self, why: &str) -> Self {
        Self {
            last_error: Some(cap(why, words::MESSAGE_BYTES)),
            ..self.clone()
        }
    }

    /// Whether it makes a record of `leftover` needless: it says the same, or says for certain what
    /// the other only suspects.
    pub(super) fn covers(&self, leftover: &Leftover) -> bool {
        self.leftover == *leftover || (self.leftover.recorded && !leftover.recorded)
    }
}

/// The connection that a record names, whatever else it says.
pub(super) fn connection_of(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get(CONNECTION).map(String::as_str)
}

/// The labels by which records are found.
pub(super) fn labels() -> BTreeMap<String, String> {
    [(words::CLEANUP_RECORD_LABEL.to_owned(), "true".to_owned())].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn leftover() -> Leftover {
        Leftover {
            kind: "VaultRole".to_owned(),
            resource: "team-a/r".to_owned(),
            site: Site::parse("auth/kubernetes/role/vao.k.team-a.r").unwrap(),
            vault_namespace: None,
            connection: "c".to_owned(),
            address: Some("https://vault".to_owned()),
            owner: Some("VaultRole team-a/r".to_owned()),
            canonical_hash: Some("abc".to_owned()),
            seeded_version: None,
            recorded: true,
        }
    }

    fn full() -> Record {
        Record {
            leftover: Leftover {
                site: Site::parse("secret/metadata/x").unwrap(),
                vault_namespace: Some("child".to_owned()),
                seeded_version: Some(3),
                recorded: false,
                ..leftover()
            },
            created_at: Some(at(1)),
            attempts: 2,
            last_attempt_at: Some(at(2)),
            next_attempt_at: Some(at(3)),
            last_error: Some("refused".to_owned()),
        }
    }

    #[rstest]
    #[case::new(Record::new(leftover(), at(1)))]
    #[case::with_everything(full())]
    fn a_record_reads_back(#[case] record: Record) {
        let map = record.config_map("operators");
        assert_eq!(map.metadata.labels, Some(labels()));
        assert_eq!(map.metadata.name, Some(record.leftover.record_name()));
        assert_eq!(Record::read(&map), Ok(record));
    }

    #[test]
    fn what_is_not_known_has_no_key_and_a_patch_removes_it() {
        let record = Record::new(leftover(), at(1));
        let data = record.config_map("operators").data.unwrap();
        let keys: Vec<_> = data.keys().map(String::as_str).collect();
        let expected =
            "address attempts canonicalHash connection createdAt kind owner resource vaultPath";
        assert_eq!(keys.join(" "), expected);
        let patch = record.patch();
        assert_eq!(patch["lastError"], Value::Null);
        assert_eq!(patch["attempts"], "0");
        assert_eq!(patch.as_object().unwrap().len(), 15);
    }

    #[rstest]
    #[case(VAULT_PATH, "nowhere")]
    #[case(VAULT_PATH, "")]
    #[case(CONNECTION, "")]
    #[case(KIND, "")]
    #[case(SEEDED_VERSION, "first")]
    fn a_record_that_does_not_say_what_is_left_is_unreadable(
        #[case] key: &'static str,
        #[case] value: &str,
    ) {
        let mut map = full().config_map("operators");
        map.data
            .as_mut()
            .unwrap()
            .insert(key.to_owned(), value.to_owned());
        assert_eq!(Record::read(&map), Err(Unreadable { key }));
    }

    #[test]
    fn waits_double_up_to_an_hour_and_never_end() {
        let mut record = Record::new(leftover(), at(0));
        let mut waits = Vec::new();
        for _ in 0..6 {
            record = record.failed("refused", Duration::from_secs(300), at(0));
            waits.push(record.due_in(at(0)).unwrap().as_secs() / 60);
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60]);
        record.attempts = u32::MAX;
        let last = record.failed("refused", Duration::from_secs(300), at(0));
        assert_eq!(last.due_in(at(0)), Some(LONGEST_WAIT));
    }

    #[test]
    fn a_longer_first_wait_is_kept() {
        let day = Duration::from_secs(86_400);
        let record = Record::new(leftover(), at(0)).failed("refused", day, at(0));
        assert_eq!(record.due_in(at(0)), Some(day));
    }

    #[test]
    fn a_record_is_due_at_its_time_and_a_new_one_at_once() {
        assert_eq!(Record::new(leftover(), at(9)).due_in(at(9)), None);
        assert_eq!(full().due_in(at(2)), Some(Duration::from_secs(1)));
        assert_eq!(full().due_in(at(3)), None);
        assert_eq!(full().due_in(at(4)), None);
    }

    #[test]
    fn what_is_certain_is_not_replaced_by_a_suspicion() {
        let certain = Record::new(leftover(), at(1));
        let suspicion = Leftover {
            canonical_hash: None,
            recorded: false,
            ..leftover()
        };
        assert!(certain.covers(&suspicion));
        assert!(certain.covers(&leftover()));
        assert!(!Record::new(suspicion, at(1)).covers(&leftover()));
        let newer = Leftover {
            canonical_hash: Some("def".to_owned()),
            ..leftover()
        };
        assert!(!certain.covers(&newer));
    }
}
