//! Connection groups: create, read, update, delete, list; and the default one.

use jiff::Timestamp;

use super::error::{exists, invalid, matched, not_disabled, not_found};
use super::judge::Touched;
use super::rules;
use super::store::{Group, Tags, Version};
use super::{At, CloudFront, NAMESPACE, answered, told};
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::wire::{Request, Response};
use crate::xml::Element;
use crate::xml::read::{self, Node};

pub(super) const KIND: &str = "connection group";

/// The members of a Create or an Update.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) name: Option<String>,
    pub(super) ipv6: Option<bool>,
    pub(super) anycast: Option<String>,
    pub(super) enabled: Option<bool>,
    pub(super) tags: Vec<(String, String)>,
}

fn sent(root: Node<'_, '_>) -> Result<Sent, ApiError> {
    let tags = root.child("Tags").map(super::body::tags).transpose()?;
    Ok(Sent {
        name: root.leaf("Name"),
        ipv6: root.flag("Ipv6Enabled")?,
        anycast: root.leaf("AnycastIpListId"),
        enabled: root.flag("Enabled")?,
        tags: tags.unwrap_or_default(),
    })
}

fn created(root: Node<'_, '_>) -> Result<Sent, ApiError> {
    root.only(&["Name", "Ipv6Enabled", "AnycastIpListId", "Enabled", "Tags"])?;
    sent(root)
}

fn updated(root: Node<'_, '_>) -> Result<Sent, ApiError> {
    root.only(&["Ipv6Enabled", "AnycastIpListId", "Enabled"])?;
    sent(root)
}

impl CloudFront {
    pub(super) fn create_group(
        &mut self,
        at: &At<'_>,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let root = "CreateConnectionGroupRequest";
        let sent = read::document(&request.body, root, NAMESPACE, created)?;
        let group = self.make_group(at, sent)?;
        let told = told::group(&group, at, at.write_answered());
        Ok(answered(201, told, Some(&group.version.etag)))
    }

    pub(super) fn make_group(&mut self, at: &At<'_>, sent: Sent) -> Result<Group, ApiError> {
        let name = sent.name.ok_or_else(|| invalid("Name is required."))?;
        rules::name(&name)?;
        rules::tags(&sent.tags)?;
        let there = self.store.group(at.account, &name, View::Live);
        if there.is_some_and(|there| there.name == name) {
            return Err(exists(KIND, &name));
        }
        let tags: Tags = sent.tags.into_iter().collect();
        let version = self.version(at, None);
        let mut group = self.new_group(at.account, name, version);
        group.ipv6 = sent.ipv6.unwrap_or(true);
        group.anycast = sent.anycast;
        group.enabled = sent.enabled.unwrap_or(true);
        group.tags = tags;
        self.put_group(at.account, group.clone(), at.moment.now);
        self.judge_twins(&group.id, &group.tags, at.moment.now);
        Ok(group)
    }

    pub(super) fn update_group(
        &mut self,
        at: &At<'_>,
        id: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let root = "UpdateConnectionGroupRequest";
        let sent = read::optional(&request.body, root, NAMESPACE, updated)?;
        let group = self.change_group(at, id, request.header("if-match"), sent)?;
        let told = told::group(&group, at, at.write_answered());
        Ok(answered(200, told, Some(&group.version.etag)))
    }

    pub(super) fn change_group(
        &mut self,
        at: &At<'_>,
        id: &str,
        version: Option<&str>,
        sent: Sent,
    ) -> Result<Group, ApiError> {
        let live = self.live_group(at, id)?;
        matched(version, &live.version.etag)?;
        let replaced = at.moment.switches.choice("update") == "replace";
        let group = Group {
            ipv6: sent.ipv6.unwrap_or(replaced || live.ipv6),
            anycast: sent
                .anycast
                .or_else(|| live.anycast.clone().filter(|_| !replaced)),
            enabled: sent.enabled.unwrap_or(replaced || live.enabled),
            ..live.clone()
        };
        let stops = live.enabled && !group.enabled;
        let used = || {
            self.store
                .users(at.account, &live.id)
                .any(|tenant| tenant.config.enabled)
        };
        if stops && used() {
            let told = "The connection group is used by distribution tenants that are enabled.";
            return Err(ApiError::new(409, "ResourceInUse", told));
        }
        self.judge
            .foreign("foreignChanged", &touched(at, &live), &at.moment);
        let what = |group: &Group| (group.ipv6, group.anycast.clone(), group.enabled);
        if what(&group) == what(&live) {
            let detail = format!("{} updated {} to what it was", at.account, live.name);
            self.judge.tell("updateEqualsLive", detail, at.moment.now);
        }
        let group = Group {
            version: self.version(at, Some(&live.version)),
            ..group
        };
        self.put_group(at.account, group.clone(), at.moment.now);
        Ok(group)
    }

    pub(super) fn delete_group(
        &mut self,
        at: &At<'_>,
        id: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        self.remove_group(at, id, request.header("if-match"))?;
        Ok(Response::xml(204, String::new()))
    }

    pub(super) fn remove_group(
        &mut self,
        at: &At<'_>,
        id: &str,
        version: Option<&str>,
    ) -> Result<(), ApiError> {
        let live = self.live_group(at, id)?;
        matched(version, &live.version.etag)?;
        let now = at.moment.now;
        let deployed = live.version.status(now) == "Deployed";
        if live.enabled || !deployed {
            let detail = format!("{} deleted {} too early", at.account, live.name);
            self.judge.tell("deletedTooEarly", detail, now);
        }
        let waits = at.moment.switches.flag("deleteNeedsDeployed") && !deployed;
        if live.enabled || waits {
            return Err(not_disabled(KIND));
        }
        if live.is_default || self.store.users(at.account, &live.id).next().is_some() {
            let told = "The connection group is the default one or has distribution tenants.";
            return Err(ApiError::new(409, "CannotDeleteEntityWhileInUse", told));
        }
        self.judge
            .foreign("foreignDeleted", &touched(at, &live), &at.moment);
        self.store
            .account(at.account)
            .groups
            .put(&live.id, None, now);
        Ok(())
    }

    pub(super) fn get_group(&self, at: &At<'_>, named: &str) -> Result<Response, ApiError> {
        let group = self
            .store
            .group(at.account, named, at.view)
            .ok_or_else(|| not_found(KIND, named))?;
        let told = told::group(group, at, Some(at.seen()));
        Ok(answered(200, told, Some(&group.version.etag)))
    }

    pub(super) fn list_groups(&self, at: &At<'_>, request: &Request) -> Result<Element, ApiError> {
        let asking = |root: Node<'_, '_>| {
            root.only(&["AssociationFilter", "Marker", "MaxItems"])?;
            let filter = root.child("AssociationFilter");
            let anycast = filter.and_then(|filter| filter.leaf("AnycastIpListId"));
            Ok((anycast, root.leaf("Marker"), root.number("MaxItems")?))
        };
        let root = "ListConnectionGroupsRequest";
        let (anycast, marker, most) = read::optional(&request.body, root, NAMESPACE, asking)?;
        let most = at.page(most)?;
        let marker = marker.as_deref().unwrap_or_default();
        let held = self.store.accounts.get(at.account).into_iter();
        let all = held.flat_map(|held| held.groups.list_from(marker, at.view));
        let wanted = all
            .filter(|(id, _)| *id != marker)
            .map(|(_, group)| group)
            .filter(|group| anycast.is_none() || group.anycast == anycast);
        let mut found: Vec<_> = wanted.take(most.saturating_add(1)).collect();
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|group| group.id.as_str());
        let told = found.iter().map(|group| told::group_summary(group, at));
        Ok(Element::new("ListConnectionGroupsResult")
            .leaf_if("NextMarker", next)
            .child(Element::new("ConnectionGroups").children(told)))
    }

    /// Makes the account's default group if this is the moment for it and there is none: its id.
    pub(super) fn open_default_group(&mut self, at: &At<'_>, moment: &str) -> Option<String> {
        let wanted = at.moment.switches.choice("defaultGroup") == moment;
        if !wanted || self.store.default_group(at.account).is_some() {
            return None;
        }
        let now = at.moment.now;
        let version = Version {
            deployed_at: now,
            ..self.version(at, None)
        };
        let name = format!("default-{}", at.account);
        let mut group = self.new_group(at.account, name, version);
        group.is_default = true;
        let id = group.id.clone();
        self.put_group(at.account, group, now);
        Some(id)
    }

    /// The id of the default group; empty while there is none.
    pub(super) fn default_id(&self, account: &str) -> String {
        let group = self.store.default_group(account);
        group.map_or_else(String::new, |group| group.id.clone())
    }

    pub(super) fn new_group(&mut self, account: &str, name: String, version: Version) -> Group {
        let number = self.store.next();
        let id = format!("cg_3{number:026}");
        Group {
            arn: format!("arn:aws:cloudfront::{account}:connection-group/{id}"),
            id,
            name,
            endpoint: format!("d{number:013x}.cloudfront.net"),
            ipv6: true,
            anycast: None,
            enabled: true,
            is_default: false,
            tags: Tags::new(),
            version,
        }
    }

    pub(super) fn put_group(&mut self, account: &str, group: Group, now: Timestamp) {
        let id = group.id.clone();
        let held = self.store.account(account);
        held.groups.put(&id, Some(group), now);
    }

    fn live_group(&self, at: &At<'_>, id: &str) -> Result<Group, ApiError> {
        let group = self.store.group(at.account, id, View::Live);
        group.cloned().ok_or_else(|| not_found(KIND, id))
    }
}

fn touched<'a>(at: &At<'a>, group: &'a Group) -> Touched<'a> {
    Touched {
        account: at.account,
        id: &group.id,
        name: &group.name,
        tags: &group.tags,
    }
}
