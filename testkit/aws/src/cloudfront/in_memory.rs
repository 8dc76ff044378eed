//! Connection groups without HTTP: the emulator's state and rules for a test that simulates a caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::error::not_found;
use super::groups::{KIND, Sent};
use super::store::Group;
use super::{At, CloudFront, SWITCHES};
use crate::oracle::Declared;
use crate::protocol::ApiError;
use crate::service::{Moment, Violation};
use crate::shelf::View;
use crate::switches::Switches;

const ACCOUNT: &str = "000000000000";

/// The connection groups of one account. Switches have their first setting: a write is InProgress for
/// 10 s, answers carry tags, an Update replaces.
///
/// A clone is a snapshot. The oracle judges all but whose a group is: the caller knows what it adopts.
///
/// # When not to use it
/// For what HTTP, signatures, limits or faults have a part in: that is [`Emulator`](crate::Emulator).
#[derive(Debug, Clone)]
pub struct ConnectionGroups {
    cloudfront: CloudFront,
    switches: Arc<Switches>,
    declared: Arc<Declared>,
    now: Timestamp,
}

/// What a group is asked to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Whether it has addresses of IPv6.
    pub ipv6: bool,
    /// Whether it serves.
    pub enabled: bool,
    /// Its list of static addresses.
    pub anycast: Option<String>,
}

/// A group as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Its id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its routing endpoint.
    pub endpoint: String,
    /// What it was asked to be.
    pub config: GroupConfig,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its version.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: &'static str,
}

impl Default for ConnectionGroups {
    fn default() -> Self {
        let cloudfront = CloudFront::new(Arc::new(Mutex::default()), Arc::new(Mutex::default()));
        Self {
            cloudfront,
            switches: Arc::new(Switches::new(SWITCHES)),
            declared: Arc::new(Declared {
                owned: vec!["*".to_owned()],
                ..Declared::default()
            }),
            now: Timestamp::UNIX_EPOCH,
        }
    }
}

fn at<'a>(switches: &'a Switches, declared: &'a Declared, now: Timestamp) -> At<'a> {
    At {
        account: ACCOUNT,
        moment: Moment {
            now,
            switches,
            declared,
        },
        view: View::Live,
    }
}

impl ConnectionGroups {
    /// Moves its clock.
    pub fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// All groups, by id.
    pub fn groups(&self) -> Vec<GroupState> {
        let held = self.cloudfront.store.accounts.get(ACCOUNT);
        let groups = held
            .into_iter()
            .flat_map(|held| held.groups.list(View::Live));
        groups.map(|(_, group)| self.shown(group)).collect()
    }

    /// The group of this id or name.
    pub fn group(&self, named: &str) -> Result<GroupState, ApiError> {
        let group = self.cloudfront.store.group(ACCOUNT, named, View::Live);
        let group = group.ok_or_else(|| not_found(KIND, named))?;
        Ok(self.shown(group))
    }

    /// The tags of the group with this ARN.
    pub fn tags(&self, arn: &str) -> Result<BTreeMap<String, String>, ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        self.cloudfront.live_tags(&at, arn)
    }

    /// CreateConnectionGroup.
    pub fn create(
        &mut self,
        name: &str,
        tags: &BTreeMap<String, String>,
        config: &GroupConfig,
    ) -> Result<GroupState, ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        let sent = Sent {
            name: Some(name.to_owned()),
            tags: tags.clone().into_iter().collect(),
            ..sent(config)
        };
        let group = self.cloudfront.make_group(&at, sent)?;
        Ok(self.shown(&group))
    }

    /// UpdateConnectionGroup of the version `etag`.
    pub fn update(
        &mut self,
        id: &str,
        etag: &str,
        config: &GroupConfig,
    ) -> Result<GroupState, ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        let group = self
            .cloudfront
            .change_group(&at, id, Some(etag), sent(config))?;
        Ok(self.shown(&group))
    }

    /// DeleteConnectionGroup of the version `etag`.
    pub fn delete(&mut self, id: &str, etag: &str) -> Result<(), ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        self.cloudfront.remove_group(&at, id, Some(etag))
    }

    /// TagResource.
    pub fn tag(&mut self, arn: &str, tags: &BTreeMap<String, String>) -> Result<(), ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        let sent = tags.clone().into_iter().collect();
        self.cloudfront.add_tags(&at, arn, sent)
    }

    /// UntagResource.
    pub fn untag(&mut self, arn: &str, keys: &[String]) -> Result<(), ApiError> {
        let at = at(&self.switches, &self.declared, self.now);
        self.cloudfront.remove_tags(&at, arn, keys)
    }

    /// Someone removes a group, whatever its state.
    pub fn remove(&mut self, id: &str) {
        let held = self.cloudfront.store.account(ACCOUNT);
        held.groups.put(id, None, self.now);
    }

    /// The rules that callers broke.
    pub fn violations(&self) -> &[Violation] {
        &self.cloudfront.judge.violations
    }

    fn shown(&self, group: &Group) -> GroupState {
        GroupState {
            id: group.id.clone(),
            arn: group.arn.clone(),
            name: group.name.clone(),
            endpoint: group.endpoint.clone(),
            config: GroupConfig {
                ipv6: group.ipv6,
                enabled: group.enabled,
                anycast: group.anycast.clone(),
            },
            tags: group.tags.clone(),
            etag: group.version.etag.clone(),
            status: group.version.status(self.now),
        }
    }
}

fn sent(config: &GroupConfig) -> Sent {
    Sent {
        ipv6: Some(config.ipv6),
        anycast: config.anycast.clone(),
        enabled: Some(config.enabled),
        ..Sent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(enabled: bool) -> GroupConfig {
        GroupConfig {
            ipv6: true,
            enabled,
            anycast: None,
        }
    }

    #[test]
    fn a_group_is_deployed_later_and_goes_once_it_is_disabled() {
        let mut groups = ConnectionGroups::default();
        let made = groups.create("edge", &BTreeMap::new(), &config(true));
        let made = made.unwrap();
        assert_eq!(made.status, "InProgress");
        let twice = groups.create("edge", &BTreeMap::new(), &config(true));
        assert_eq!(twice.unwrap_err().code, "EntityAlreadyExists");
        let before = groups.clone();
        let off = groups.update(&made.id, &made.etag, &config(false)).unwrap();
        let early = groups.delete(&made.id, &off.etag);
        assert_eq!(early.unwrap_err().code, "ResourceNotDisabled");
        groups.set_time(Timestamp::from_second(10).unwrap());
        assert_eq!(groups.group("edge").unwrap().status, "Deployed");
        groups.delete(&made.id, &off.etag).unwrap();
        assert_eq!(groups.groups(), []);
        assert_eq!(before.groups(), [made]);
        assert_eq!(groups.violations()[0].rule, "deletedTooEarly");
    }
}
