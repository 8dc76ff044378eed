//! A model of CloudFront for the simulator: the emulator's state, actions of others, and laws.

use std::sync::Arc;
use std::time::Duration;

use api::tenants::{ConnectionGroupSpec, DeletionPolicy, DriftPolicy, GroupBody as Declared};
use aws::cloudfront::{Group, GroupBody as Body, GroupSummary};
use aws::{Error, Operation, Refusal};
use aws_emulator::cloudfront::{ConnectionGroups, GroupConfig, GroupState};
use aws_emulator::protocol::ApiError;
use engine::Object;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{CallError, ClusterId, Marker, ObjectKey};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use simulator::{Model, Seeds, check, enumerate};

use super::users::Users;
use super::{Answer, Facts, GroupCore, Listing, Read, Step, declared};
use crate::tags::{Tags, Whose, at_creation, whose};

pub(super) const NAME: &str = "edge";
pub(super) const SWEEP: Duration = Duration::from_secs(300);
/// Tenants leave this long after the deletion of the group that they use.
const TENANTS_STAY: Duration = Duration::from_secs(120);

/// The marker of the object of this name.
pub(super) fn marker(object: &str) -> Marker {
    let cluster = ClusterId::new("c1").expect("it is a valid cluster id");
    Marker::new(&cluster, &ObjectKey::cluster(object))
}

#[derive(Clone)]
struct CloudFrontModel {
    cloudfront: ConnectionGroups,
    /// The newest state. Reads of tags are never stale in CloudFront, so snapshots use it.
    newest: Arc<Mutex<ConnectionGroups>>,
    /// Whether others set the value of IPv6 and of enabled.
    by_others: (bool, bool),
    /// Others deleted our group.
    is_lost: bool,
    /// The spec has or had `adoption`.
    may_adopt: bool,
    has_tenant: bool,
    /// The generation of the newest spec.
    generation: i64,
    now: Timestamp,
    broken_law: Option<String>,
}

fn spec(object: &Value) -> ConnectionGroupSpec {
    ConnectionGroupSpec::deserialize(&object["spec"]).expect("the model's object has a spec")
}

fn generation(object: &Value) -> i64 {
    let generation = object["metadata"]["generation"].as_i64();
    generation.unwrap_or(1)
}

fn config(body: &Body) -> GroupConfig {
    GroupConfig {
        ipv6: body.ipv6_enabled,
        enabled: body.enabled,
        anycast: body.anycast_ip_list_id.clone(),
    }
}

fn group(state: GroupState) -> Group {
    Group {
        id: state.id,
        arn: state.arn,
        name: state.name,
        etag: state.etag,
        status: state.status.to_owned(),
        modified: None,
        routing_endpoint: state.endpoint,
        is_default: false,
        body: Body {
            ipv6_enabled: state.config.ipv6,
            enabled: state.config.enabled,
            anycast_ip_list_id: state.config.anycast,
        },
        tags: Some(state.tags),
    }
}

fn summary(state: GroupState) -> GroupSummary {
    let Group {
        id,
        arn,
        name,
        etag,
        status,
        routing_endpoint,
        is_default,
        body,
        ..
    } = group(state);
    GroupSummary {
        id,
        arn,
        name,
        etag,
        status,
        routing_endpoint,
        is_default,
        enabled: body.enabled,
        anycast_ip_list_id: body.anycast_ip_list_id,
    }
}

/// The answer as a client of CloudFront classifies it.
fn answered<T>(
    operation: Operation,
    resource: &str,
    answer: Result<T, ApiError>,
) -> Result<T, CallError> {
    answer.map_err(|error| {
        let refusal = Refusal {
            operation,
            resource: resource.to_owned(),
            code: error.code,
            message: error.message,
            status: error.status,
            request_id: None,
        };
        CallError::from(&Error::Refused(Box::new(refusal)))
    })
}

impl CloudFrontModel {
    fn live(&self) -> Option<GroupState> {
        self.cloudfront.group(NAME).ok()
    }

    fn ours(&self) -> Option<GroupState> {
        let ours = |group: &GroupState| whose(&group.tags, &marker(NAME)) == Whose::Ours;
        self.live().filter(ours)
    }

    /// Whether the fields of our group are as declared, except for excused ones.
    fn is_given(&self, declared: &Declared, is_excused: (bool, bool)) -> bool {
        self.ours().is_some_and(|GroupState { config, .. }| {
            (config.ipv6 == declared.ipv6_enabled || is_excused.0)
                && (config.enabled == declared.enabled || is_excused.1)
        })
    }

    fn create(
        &mut self,
        tags: &Tags,
        config: &GroupConfig,
        by_others: bool,
    ) -> Result<GroupState, ApiError> {
        let created = self.cloudfront.create(NAME, tags, config)?;
        self.by_others = (by_others, by_others);
        Ok(created)
    }

    fn update(
        &mut self,
        id: &str,
        etag: &str,
        config: &GroupConfig,
        by_others: bool,
    ) -> Result<GroupState, ApiError> {
        let before = self.cloudfront.group(id)?.config;
        let updated = self.cloudfront.update(id, etag, config)?;
        if config.ipv6 != before.ipv6 {
            self.by_others.0 = by_others;
        }
        if config.enabled != before.enabled {
            self.by_others.1 = by_others;
        }
        Ok(updated)
    }

    /// Checks the law: a step changes only a group of ours, or marks an unmarked group that is adopted.
    fn check_owner(&mut self, named: &str, step: &Step) {
        let id = named.rsplit('/').next().unwrap_or(named);
        let Ok(group) = self.cloudfront.group(id) else {
            return;
        };
        let is_permitted = match whose(&group.tags, &marker(NAME)) {
            Whose::Ours => true,
            Whose::Unmarked => self.may_adopt && matches!(step, Step::Mark { .. }),
            Whose::Other(_) => false,
        };
        if !is_permitted {
            self.broken_law = Some(format!("nothing foreign is touched: {step}"));
        }
    }

    fn perform(&mut self, step: &Step) -> Result<Option<Group>, CallError> {
        match step {
            Step::Create {
                name, tags, body, ..
            } => {
                let created = self.create(tags, &config(body), false);
                let created = answered(Operation::CreateConnectionGroup, name, created)?;
                self.is_lost = false;
                Ok(Some(group(created)))
            }
            Step::Mark { arn, tags, .. } | Step::Tag { arn, tags } => {
                self.check_owner(arn, step);
                self.is_lost = false;
                let tagged = self.cloudfront.tag(arn, tags);
                answered(Operation::TagResource, arn, tagged).map(|()| None)
            }
            Step::Untag { arn, keys } => {
                self.check_owner(arn, step);
                let untagged = self.cloudfront.untag(arn, keys);
                answered(Operation::UntagResource, arn, untagged).map(|()| None)
            }
            Step::Update {
                id, etag, update, ..
            } => {
                self.check_owner(id, step);
                let updated = self.update(id, etag, &config(&update.body), false);
                let updated = answered(Operation::UpdateConnectionGroup, id, updated)?;
                Ok(Some(group(updated)))
            }
            Step::Disable { id, etag, body } => {
                self.check_owner(id, step);
                let disabled = self.update(id, etag, &config(body), false);
                let disabled = answered(Operation::UpdateConnectionGroup, id, disabled)?;
                Ok(Some(group(disabled)))
            }
            Step::Delete { id, etag } => {
                self.check_owner(id, step);
                let deleted = self.cloudfront.delete(id, etag);
                answered(Operation::DeleteConnectionGroup, id, deleted).map(|()| None)
            }
        }
    }

    /// Makes the current tags visible to earlier snapshots.
    fn publish(&self) {
        *self.newest.lock() = self.cloudfront.clone();
    }
}

impl Model<GroupCore> for CloudFrontModel {
    fn new(choice: u8) -> (Self, Value) {
        let cloudfront = ConnectionGroups::default();
        let mut model = Self {
            newest: Arc::new(Mutex::new(cloudfront.clone())),
            cloudfront,
            by_others: (false, false),
            is_lost: false,
            may_adopt: choice & 4 != 0,
            has_tenant: choice & 0b1000_0000 != 0,
            generation: 1,
            now: Timestamp::UNIX_EPOCH,
            broken_law: None,
        };
        let mut spec = json!({"deletionPolicy": "Delete"});
        match choice & 3 {
            2 => spec["driftPolicy"] = json!("report"),
            3 => spec["driftPolicy"] = json!("suspend"),
            _ => {}
        }
        if model.may_adopt {
            spec["adoption"] = json!({"by": "Name"});
        }
        if choice & 0b110_0000 == 0b110_0000 {
            spec["deletionPolicy"] = json!("Retain");
        }
        let existing = (choice >> 3) & 3;
        if existing >= 2 {
            model.meddle(&Value::Null, existing - 2);
        }
        let object = json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1", "kind": "ConnectionGroup",
            "metadata": {"name": NAME}, "spec": spec,
        });
        (model, object)
    }

    fn edit(&mut self, object: &mut Value, choice: u8) {
        let generation = generation(object);
        let before = object["spec"].clone();
        let spec = &mut object["spec"];
        match choice % 6 {
            0 => spec["ipv6Enabled"] = json!(true),
            1 => spec["ipv6Enabled"] = json!(false),
            2 => spec["enabled"] = json!(spec["enabled"] == false),
            3 if spec["tags"].is_array() => spec["tags"] = Value::Null,
            3 => spec["tags"] = json!([{"key": "team", "value": "a"}]),
            4 if spec["driftPolicy"] == "report" => spec["driftPolicy"] = json!("enforce"),
            4 => spec["driftPolicy"] = json!("report"),
            _ if spec["adoption"].is_object() => spec["adoption"] = Value::Null,
            _ => spec["adoption"] = json!({"by": "Name"}),
        }
        if let Value::Object(fields) = spec {
            fields.retain(|_, value| !value.is_null());
        }
        self.may_adopt |= spec["adoption"].is_object();
        self.generation = generation + i64::from(object["spec"] != before);
    }

    fn meddle(&mut self, _object: &Value, choice: u8) -> String {
        let off = GroupConfig {
            ipv6: false,
            enabled: true,
            anycast: None,
        };
        let action = match (choice % 6, self.live()) {
            (0, None) => {
                let created = self.create(&Tags::new(), &off, true);
                created.map(|_| "creates a group with our name and without a marker")
            }
            (1, None) => {
                let tags = at_creation(&Tags::new(), &marker("other"));
                let created = self.create(&tags, &off, true);
                created.map(|_| "creates a group with our name and another owner")
            }
            (2, Some(live)) => {
                self.is_lost |= self.ours().is_some();
                self.cloudfront.remove(&live.id);
                Ok("deletes the group")
            }
            (3, Some(live)) => {
                let mut config = live.config;
                config.ipv6 = !config.ipv6;
                let updated = self.update(&live.id, &live.etag, &config, true);
                updated.map(|_| "switches IPv6")
            }
            (4, Some(live)) => {
                let mut config = live.config;
                config.enabled = !config.enabled;
                let updated = self.update(&live.id, &live.etag, &config, true);
                updated.map(|_| "enables or disables the group")
            }
            (5, _) => {
                self.has_tenant = !self.has_tenant;
                Ok("adds or removes a tenant")
            }
            (_, Some(_) | None) => Ok("does nothing"),
        };
        self.publish();
        action.map_or_else(|error| error.message, str::to_owned)
    }

    fn facts(&self, object: &Object<GroupCore>) -> Facts {
        let spec = &object.resource.spec;
        let deleted = object.metadata.deletion_timestamp.as_ref();
        let are_gone = deleted.is_some_and(|Time(at)| self.now >= *at + TENANTS_STAY);
        let mut users = Users::default();
        if self.has_tenant && !are_gone {
            let tenant = ObjectKey::namespaced("web", "acme");
            users.referring.insert(tenant.clone());
            users.using.insert(tenant);
        }
        Facts {
            name: NAME.to_owned(),
            marker: marker(NAME),
            declared: declared(spec),
            policy: spec.drift_policy.unwrap_or_default(),
            users,
            sweep: SWEEP,
        }
    }

    fn passes(&mut self, now: Timestamp) {
        self.now = now;
        self.cloudfront.set_time(now);
    }

    fn read(&self, read: &Read) -> Result<Answer, CallError> {
        match read {
            Read::List => {
                let at = self.now.duration_since(Timestamp::UNIX_EPOCH);
                let at = Duration::try_from(at).unwrap_or_default();
                let groups = self.cloudfront.groups();
                Ok(Answer::Listing(Arc::new(Listing {
                    at,
                    until: at + SWEEP,
                    groups: groups.into_iter().map(summary).collect(),
                })))
            }
            Read::ById(named, _) | Read::ByName(named, _) => {
                let found = self.cloudfront.group(named);
                let found = answered(Operation::GetConnectionGroup, named, found)?;
                Ok(Answer::Group(Box::new(group(found))))
            }
            Read::Tags(arn) => {
                let tags = self.newest.lock().tags(arn);
                answered(Operation::ListTagsForResource, arn, tags).map(Answer::Tags)
            }
        }
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Group>, CallError> {
        let performed = self.perform(step);
        self.publish();
        performed
    }

    fn broken_law(&self) -> Option<String> {
        let violations = self.cloudfront.violations().iter();
        let mut violations = violations.map(|seen| format!("{}: {}", seen.rule, seen.detail));
        self.broken_law.clone().or_else(|| violations.next())
    }

    fn is_as_desired(&self, object: &Value) -> bool {
        let spec = spec(object);
        let is_drift_accepted = spec.drift_policy.unwrap_or_default() != DriftPolicy::Enforce;
        self.is_given(&declared(&spec), (is_drift_accepted, is_drift_accepted))
    }

    /// Ready means that the group is Deployed. It may be older than an action of others, a newer spec or a
    /// deletion. Synced reports what others changed.
    fn allows_ready(&self, object: &Value) -> bool {
        let is_deleting = object["metadata"].get("deletionTimestamp").is_some();
        let is_outdated = is_deleting || generation(object) < self.generation;
        is_outdated
            || self.is_lost
            || self.is_as_desired(object)
            || self.is_given(&declared(&spec(object)), self.by_others)
    }

    fn may_rest(&self, object: &Value) -> bool {
        let spec = spec(object);
        match self.live() {
            Some(group) => match whose(&group.tags, &marker(NAME)) {
                Whose::Ours => false,
                Whose::Unmarked => spec.adoption.is_none(),
                Whose::Other(_) => true,
            },
            None => spec.drift_policy.unwrap_or_default() != DriftPolicy::Enforce,
        }
    }

    fn leftover(&self, object: &Value) -> Option<String> {
        let is_retained = spec(object).deletion_policy == DeletionPolicy::Retain;
        let ours = self.ours().filter(|_| !is_retained)?;
        Some(format!("connection group {} of ours", ours.id))
    }
}

#[test]
fn every_law_holds_for_groups_and_every_kill_point_is_reached() {
    check::<GroupCore, CloudFrontModel>(&GroupCore, &Seeds::first(2_000));
}

#[test]
fn every_law_holds_for_groups_with_any_two_early_faults() {
    let count = enumerate::<GroupCore, CloudFrontModel>(&GroupCore, 1, 5);
    let count = count.unwrap_or_else(|found| panic!("{found}"));
    assert!(count > 4_000, "only {count} schedules");
}
