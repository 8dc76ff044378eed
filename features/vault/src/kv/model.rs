//! A model of Vault's KV engine at the path of one seed for the simulator, with actions of others.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vault::{names, reasons};
use engine::Object;
use jiff::Timestamp;
use kernel::{CallError, Class};
use serde_json::{Map, Value, json};
use simulator::{DEADLINE, Happening, Model, Seeds, check, enumerate, search};
use vault_client::{KvMetadata, KvVersion, SecretEngine};

use super::tests::{connected, header};
use super::{Answer, Compared, Connected, Facts, Read, SeedCore, Step, marker};
use crate::cleanup::VaultLeftover;
use crate::owner::{self, Ownership, Recorded};
use crate::settings::Deadline;
use crate::sync::Unavailable;

/// After this time, a broken policy, connection or tenancy is repaired.
const REPAIR: Duration = Duration::from_secs(100);
const DELETION_DEADLINE: Duration = Duration::from_secs(120);
const ERROR_INTERVAL: Duration = Duration::from_secs(30);
/// The smallest difference between two times.
const SECOND: Duration = Duration::from_secs(1);

/// If the model is `RELIABLE`, no answer is lost and no process ends. Then the operator sees every refusal
/// and must respect it.
#[derive(Debug, Clone)]
struct KvModel<const RELIABLE: bool> {
    /// The version of the KV engine.
    engine: u32,
    secret: Option<Secret>,
    server: Server,
    /// Whether our token may read and update, or only create.
    may_read: bool,
    /// Our token may not write before this time.
    denied_until: Timestamp,
    /// Why the operator cannot use Vault, and until when.
    obstacle: Option<(Obstacle, Timestamp)>,
    /// All data that the spec has had. The operator may treat equal values as ours.
    desired: Vec<Map<String, Value>>,
    /// Others have deleted the secret or its newest version.
    is_lost: bool,
    /// The operator has recorded the leftover.
    is_recorded: bool,
    now: Timestamp,
    broken_law: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Up,
    Sealed,
    Away,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Tenancy,
    ConnectionStarting,
    ConnectionDown,
}

#[derive(Debug, Clone)]
struct Secret {
    versions: Vec<Version>,
    custom: BTreeMap<String, String>,
    marked_at: Timestamp,
}

#[derive(Debug, Clone)]
struct Version {
    is_ours: bool,
    values: Map<String, Value>,
    state: State,
    written_at: Timestamp,
    /// A write of ours was refused while this was the newest version.
    has_refused_us: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Readable,
    Deleted,
    Destroyed,
}

impl Secret {
    fn current(&self) -> u64 {
        self.versions.len() as u64
    }

    fn newest(&self) -> Option<&Version> {
        self.versions.last()
    }

    fn owner(&self) -> Ownership {
        let marker = marker::found(&self.custom);
        owner::judge(marker.as_ref(), &header(), Recorded::default())
    }

    fn is_foreign(&self) -> bool {
        matches!(self.owner(), Ownership::Foreign(_))
    }

    fn readable(&self) -> Option<&Version> {
        let newest = self.newest();
        newest.filter(|version| version.state == State::Readable)
    }

    fn metadata(&self) -> KvMetadata {
        let versions = (1..).zip(&self.versions).map(|(number, version)| {
            let is_deleted = version.state == State::Deleted;
            let shown = KvVersion {
                deletion_time: is_deleted.then_some(Timestamp::UNIX_EPOCH),
                destroyed: version.state == State::Destroyed,
            };
            (number, shown)
        });
        KvMetadata {
            current_version: self.current(),
            custom_metadata: self.custom.clone(),
            versions: versions.collect(),
        }
    }
}

fn spec_data(object: &Value) -> Map<String, Value> {
    let data = object["spec"]["data"].as_object();
    data.cloned().unwrap_or_default()
}

fn of_another_owner() -> BTreeMap<String, String> {
    let keys = [
        ("managed-by", names::SENTINEL),
        ("k8s-resource", "team-b/x"),
        ("auth-mount", "kubernetes"),
    ];
    let owned = keys.map(|(key, value)| (key.to_owned(), value.to_owned()));
    owned.into()
}

/// Whether Vault has found the write invalid. The operator does not send it again before an edit.
fn is_found_invalid(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["reason"] == reasons::VALIDATION_FAILED)
}

impl<const RELIABLE: bool> KvModel<RELIABLE> {
    fn check_server(&self) -> Result<(), CallError> {
        match self.server {
            Server::Up => Ok(()),
            Server::Sealed => Err(CallError::new(Class::Sealed, "Vault is sealed")),
            Server::Away => Err(CallError::new(Class::Unreachable, "connection refused")),
        }
    }

    fn is_readable(&self) -> bool {
        let secret = self.secret.as_ref();
        secret.is_some_and(|secret| secret.readable().is_some())
    }

    fn serves(&self) -> bool {
        self.server == Server::Up && self.engine == 2
    }

    fn change_secret(&mut self, change: impl FnOnce(&mut Secret)) {
        if let Some(secret) = &mut self.secret {
            change(secret);
        }
    }

    fn change_newest(&mut self, change: impl FnOnce(&mut Version)) {
        self.change_secret(|secret| {
            if let Some(version) = secret.versions.last_mut() {
                change(version);
            }
        });
    }

    fn push(&mut self, is_ours: bool, values: Map<String, Value>) {
        let now = self.now;
        let secret = self.secret.get_or_insert_with(|| Secret {
            versions: Vec::new(),
            custom: BTreeMap::new(),
            marked_at: now,
        });
        secret.versions.push(Version {
            is_ours,
            values,
            state: State::Readable,
            written_at: now,
            has_refused_us: false,
        });
        self.is_lost = false;
    }

    fn write(&mut self, cas: u64, values: Map<String, Value>) -> Result<u64, CallError> {
        let current = self.secret.as_ref().map_or(0, Secret::current);
        let is_denied = self.now < self.denied_until;
        let refusal = match (is_denied, cas == current) {
            (false, true) => None,
            // Vault denies an update to a token that may only create.
            (false, false) if self.may_read => Some(Class::Conflict),
            (false, false) | (true, _) => Some(Class::Denied),
        };
        let Some(class) = refusal else {
            self.push(true, values);
            return Ok(current + 1);
        };
        let owner = self.secret.as_ref().map(Secret::owner);
        if owner != Some(Ownership::Ours) {
            self.change_newest(|version| version.has_refused_us = !version.is_ours);
        }
        Err(CallError::new(class, "Vault refuses the write"))
    }

    /// Checks the law that the operator changes nothing foreign. A mark and a delete have no precondition.
    /// So the law covers only versions that existed for a whole pass or that refused us.
    fn check_owner(&mut self, step: &Step, done: &str) {
        let secret = self.secret.as_ref();
        let Some((secret, version)) = secret.and_then(|secret| Some((secret, secret.newest()?)))
        else {
            return;
        };
        let is_seen = |since: Timestamp| self.now >= since + DEADLINE + SECOND;
        let is_anothers = secret.is_foreign() && is_seen(secret.marked_at);
        let is_like_ours = self.desired.contains(&version.values);
        let is_foreign = !version.is_ours && !is_like_ours && is_seen(version.written_at);
        let is_refused = RELIABLE && !version.is_ours && version.has_refused_us;
        if is_anothers || is_foreign || is_refused {
            self.broken_law = Some(format!("nothing foreign is {done}: {step}"));
        }
    }
}

impl<const RELIABLE: bool> Model<SeedCore> for KvModel<RELIABLE> {
    /// Reads go to the active node, so they show every write.
    const READ_LAG: Duration = Duration::ZERO;

    fn can_happen(happening: Happening) -> bool {
        let loses = match happening {
            Happening::CrashBefore
            | Happening::CrashAfter
            | Happening::LostAnswer
            | Happening::StaleCache
            | Happening::TakeOver
            | Happening::TimePasses(_) => true, // a late pass is dropped
            Happening::Nothing
            | Happening::FailureBefore(_)
            | Happening::StaleRead
            | Happening::UserEdit(_)
            | Happening::UserDelete
            | Happening::OutsiderActs(_)
            | Happening::WakesEarly
            | Happening::SlowAnswer => false,
        };
        !(RELIABLE && loses)
    }

    fn new(choice: u8) -> (Self, Value) {
        let is_retained = choice & 0b110 == 0b110;
        let is_plain = choice & 0b1110_0000 == 0b1110_0000;
        let spec = json!({
            "connectionRef": "c",
            "path": "secret/data/team-a/seed",
            "data": {"k": "a"},
            "deletionPolicy": if is_retained { "Retain" } else { "Delete" },
            "reseedDeleted": choice & 1 != 0,
        });
        let object = json!({"metadata": {"namespace": "team-a", "name": "seed"}, "spec": spec});
        let mut model = Self {
            engine: if is_plain { 1 } else { 2 },
            secret: None,
            server: Server::Up,
            may_read: true,
            denied_until: Timestamp::UNIX_EPOCH,
            obstacle: None,
            desired: vec![spec_data(&object)],
            is_lost: false,
            is_recorded: false,
            now: Timestamp::UNIX_EPOCH,
            broken_law: None,
        };
        if choice & 0b1_1000 == 0b1_1000 && !is_plain {
            model.push(false, Map::new());
        }
        (model, object)
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        let spec = &mut object["spec"];
        match choice % 4 {
            0 => spec["data"] = json!({"k": "a"}),
            1 => spec["data"] = json!({"k": "b"}),
            2 => spec["reseedDeleted"] = json!(spec["reseedDeleted"] != true),
            _ => {
                let is_retained = spec["deletionPolicy"] == "Retain";
                spec["deletionPolicy"] = json!(if is_retained { "Delete" } else { "Retain" });
            }
        }
        self.desired.push(spec_data(object));
    }

    fn meddle(&mut self, object: &Value, choice: u8) -> String {
        if self.engine != 2 {
            self.engine = 2;
            return "mounts version 2 of the engine".to_owned();
        }
        let action = match choice % 12 {
            0 => {
                self.push(false, Map::new());
                "writes other values"
            }
            1 => {
                self.push(false, spec_data(object));
                "writes the same values"
            }
            2 => {
                self.push(false, Map::new());
                let now = self.now;
                self.change_secret(|secret| {
                    secret.custom = of_another_owner();
                    secret.marked_at = now;
                });
                "writes other values for another owner"
            }
            3 => {
                self.change_newest(|version| version.state = State::Deleted);
                self.is_lost |= self.secret.is_some();
                "deletes the newest version"
            }
            4 => {
                self.change_newest(|version| {
                    version.has_refused_us = false; // it counts as a new version
                    if version.state == State::Deleted {
                        version.state = State::Readable;
                    }
                });
                "undeletes the newest version"
            }
            5 => {
                self.change_newest(|version| version.state = State::Destroyed);
                self.is_lost |= self.secret.is_some();
                "destroys the newest version"
            }
            6 => {
                self.is_lost |= self.secret.take().is_some();
                "removes all versions"
            }
            7 => {
                self.change_secret(|secret| secret.custom.clear());
                "removes the marker"
            }
            8 => {
                self.server = match self.server {
                    Server::Up if choice & 0b1_0000 == 0 => Server::Sealed,
                    Server::Up => Server::Away,
                    Server::Sealed | Server::Away => Server::Up,
                };
                "seals, stops or starts Vault"
            }
            9 => {
                self.may_read = !self.may_read;
                "changes whether our token may read"
            }
            10 => {
                self.denied_until = self.now + REPAIR;
                "removes the permission to write"
            }
            _ => {
                let obstacle = match choice / 12 % 3 {
                    0 => Obstacle::Tenancy,
                    1 => Obstacle::ConnectionStarting,
                    _ => Obstacle::ConnectionDown,
                };
                self.obstacle = Some((obstacle, self.now + REPAIR));
                "breaks the connection or its tenancy"
            }
        };
        action.to_owned()
    }

    fn facts(&self, object: &Object<SeedCore>) -> Facts {
        let connected = Connected {
            write_inputs_hash: object.generation().unsigned_abs(),
            ..connected()
        };
        let others_first = None;
        let connection = match self.obstacle {
            None => Ok(connected),
            Some((Obstacle::Tenancy, _)) => Ok(Connected {
                denial: Some("the tenancy denies the path".to_owned()),
                ..connected
            }),
            Some((Obstacle::ConnectionStarting, _)) => Err(Unavailable::Starting),
            Some((Obstacle::ConnectionDown, _)) => Err(Unavailable::Down { others_first }),
        };
        let leftover = || VaultLeftover::of_seed(&object.resource, None);
        Facts {
            connection,
            leftover: object.is_deleting().then(leftover),
            deletion_deadline: Deadline::After(DELETION_DEADLINE),
            error_interval: ERROR_INTERVAL,
        }
    }

    fn passes(&mut self, now: Timestamp) {
        self.now = now;
        self.obstacle = self.obstacle.filter(|(_, until)| now < *until);
    }

    fn read(&self, read: &Read) -> Result<Answer, CallError> {
        let secret = self.secret.as_ref();
        if let Read::Health(_) = read {
            let is_away = self.server != Server::Up;
            return Ok(Answer::Health { is_away });
        }
        self.check_server()?;
        match read {
            Read::Engine(_) | Read::Health(_) => Ok(Answer::Engine(SecretEngine {
                kind: "kv".to_owned(),
                version: Some(self.engine),
            })),
            Read::Metadata(_) => Ok(Answer::Metadata(secret.map(Secret::metadata))),
            Read::Values { .. } if !self.may_read => {
                Err(CallError::new(Class::Denied, "our token may not read"))
            }
            Read::Values { expected, .. } => Ok(Answer::Values(secret.and_then(|secret| {
                let version = secret.readable()?;
                Some(Compared {
                    version: secret.current(),
                    is_equal: version.values == *expected.expose(),
                })
            }))),
        }
    }

    fn apply(&mut self, step: &Step) -> Result<u64, CallError> {
        if let Step::HandOver(_) = step {
            self.is_recorded = true;
            return Ok(0);
        }
        self.check_server()?;
        match step {
            Step::Write { cas, values, .. } => self.write(*cas, values.expose().clone()),
            Step::Mark { version, keys, .. } => {
                self.check_owner(step, "marked as ours");
                let missing = || CallError::new(Class::NotFound, "there is no such secret");
                let secret = self.secret.as_mut().ok_or_else(missing)?;
                secret.custom.extend(keys.clone());
                secret.marked_at = self.now;
                Ok(*version)
            }
            Step::Delete(_) | Step::HandOver(_) => {
                self.check_owner(step, "deleted");
                self.secret = None;
                Ok(0)
            }
        }
    }

    fn broken_law(&self) -> Option<String> {
        self.broken_law.clone()
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        self.serves() && self.is_readable() && !is_found_invalid(object)
    }

    /// A status that announces a write does not change Ready, so Ready may be outdated.
    fn allows_ready(&self, _object: &Value) -> bool {
        self.serves() && (self.is_readable() || self.is_lost)
    }

    fn may_rest(&self, object: &Value) -> bool {
        let is_reseeded = object["spec"]["reseedDeleted"] == true;
        let is_left_deleted = self.secret.as_ref().is_some_and(|secret| {
            let is_left = !is_reseeded || secret.is_foreign();
            secret.readable().is_none() && is_left
        });
        !self.serves() || is_left_deleted || is_found_invalid(object)
    }

    fn leftover(&self, object: &Value) -> Option<String> {
        let secret = self.secret.as_ref()?;
        let (status, current) = (&object["status"], secret.current());
        let is_on_record = status["seeded"] == true && status["seededVersion"] == current;
        let is_announced = status["intent"]["kind"] == "create" && current == 1;
        let is_ours = secret.newest()?.is_ours && secret.owner() == Ownership::Ours;
        let is_permitted = self.is_recorded || object["spec"]["deletionPolicy"] == "Retain";
        let is_left = is_ours && (is_on_record || is_announced) && !is_permitted;
        is_left.then(|| format!("version {current} of ours"))
    }
}

#[test]
fn every_law_holds_for_seeds() {
    check::<SeedCore, KvModel<false>>(&SeedCore::default(), &Seeds::first(2_000));
}

#[test]
fn every_law_holds_for_seeds_whose_answers_arrive() {
    check::<SeedCore, KvModel<true>>(&SeedCore::default(), &Seeds::first(2_000));
}

#[test]
fn every_law_holds_with_any_two_early_faults() {
    let count = enumerate::<SeedCore, KvModel<false>>(&SeedCore::default(), 1, 4);
    let count = count.unwrap_or_else(|found| panic!("{found}"));
    assert!(count > 3_000, "only {count} schedules");
}

#[test]
fn a_refusal_taken_for_a_lost_answer_is_caught() {
    let core = SeedCore {
        takes_refusals_for_lost_answers: true,
    };
    let found = search::<SeedCore, KvModel<true>>(&core, &Seeds::exactly(20_000), true);
    let found = found.expect_err("no law was broken");
    let law = &found.failure.law;
    assert!(
        law.starts_with("nothing foreign is marked as ours"),
        "{found}"
    );
}
