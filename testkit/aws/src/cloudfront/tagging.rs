//! Tags of tenants, groups and distributions, by ARN. They change neither ETag nor status.

use super::judge::Touched;
use super::store::Tags;
use super::{At, CloudFront, NAMESPACE, body, rules, told};
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::wire::{Request, Response};
use crate::xml::Element;
use crate::xml::read::{self, Node};

/// What an ARN means.
enum Tagged {
    Tenant(String),
    Group(String),
    Distribution(String),
}

impl CloudFront {
    pub(super) fn tag(
        &mut self,
        at: &At<'_>,
        arn: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let sent = read::document(&request.body, "Tags", NAMESPACE, body::tags)?;
        self.add_tags(at, arn, sent)?;
        Ok(Response::xml(204, String::new()))
    }

    pub(super) fn add_tags(
        &mut self,
        at: &At<'_>,
        arn: &str,
        sent: Vec<(String, String)>,
    ) -> Result<(), ApiError> {
        rules::tags(&sent)?;
        let tagged = self.tagged(at, arn)?;
        let mut tags = self.tags_of(at, &tagged);
        let before = tags.clone();
        tags.extend(sent);
        let all: Vec<_> = tags.clone().into_iter().collect();
        rules::tags(&all)?;
        self.retag(at, &tagged, &before, tags);
        Ok(())
    }

    pub(super) fn untag(
        &mut self,
        at: &At<'_>,
        arn: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let keys = |root: Node<'_, '_>| {
            let keys = root.list("Items", &["Key"])?.unwrap_or_default();
            Ok(keys.into_iter().map(Node::text).collect::<Vec<_>>())
        };
        let keys = read::document(&request.body, "TagKeys", NAMESPACE, keys)?;
        self.remove_tags(at, arn, &keys)?;
        Ok(Response::xml(204, String::new()))
    }

    pub(super) fn remove_tags(
        &mut self,
        at: &At<'_>,
        arn: &str,
        keys: &[String],
    ) -> Result<(), ApiError> {
        let tagged = self.tagged(at, arn)?;
        let before = self.tags_of(at, &tagged);
        let mut tags = before.clone();
        tags.retain(|key, _| !keys.contains(key));
        self.retag(at, &tagged, &before, tags);
        Ok(())
    }

    pub(super) fn list_tags(&self, at: &At<'_>, arn: &str) -> Result<Element, ApiError> {
        Ok(told::tags(&self.live_tags(at, arn)?))
    }

    pub(super) fn live_tags(&self, at: &At<'_>, arn: &str) -> Result<Tags, ApiError> {
        let tagged = self.tagged(at, arn)?;
        Ok(self.tags_of(at, &tagged))
    }

    fn tagged(&self, at: &At<'_>, arn: &str) -> Result<Tagged, ApiError> {
        let missing = || {
            let told = format!("A resource that was specified is not valid: {arn}");
            ApiError::new(404, "NoSuchResource", &told)
        };
        let prefix = format!("arn:aws:cloudfront::{}:", at.account);
        let (kind, id) = arn
            .strip_prefix(&prefix)
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(missing)?;
        let (account, id) = (at.account, id.to_owned());
        let (found, tagged) = match kind {
            "distribution-tenant" => {
                let found = self.store.tenant(account, &id, View::Live);
                (found.is_some_and(|one| one.id == id), Tagged::Tenant(id))
            }
            "connection-group" => {
                let found = self.store.group(account, &id, View::Live);
                (found.is_some_and(|one| one.id == id), Tagged::Group(id))
            }
            "distribution" => {
                let found = self.store.distribution(account, &id);
                (found.is_some(), Tagged::Distribution(id))
            }
            _ => return Err(missing()),
        };
        found.then_some(tagged).ok_or_else(missing)
    }

    fn tags_of(&self, at: &At<'_>, tagged: &Tagged) -> Tags {
        let tags = match tagged {
            Tagged::Tenant(id) => {
                let found = self.store.tenant(at.account, id, View::Live);
                found.map(|one| &one.tags)
            }
            Tagged::Group(id) => {
                let found = self.store.group(at.account, id, View::Live);
                found.map(|one| &one.tags)
            }
            Tagged::Distribution(id) => {
                let found = self.store.distribution(at.account, id);
                found.map(|one| &one.tags)
            }
        };
        tags.cloned().unwrap_or_default()
    }

    fn retag(&mut self, at: &At<'_>, tagged: &Tagged, before: &Tags, tags: Tags) {
        let now = at.moment.now;
        match tagged {
            Tagged::Tenant(id) => {
                let found = self.store.tenant(at.account, id, View::Live).cloned();
                let Some(mut tenant) = found else { return };
                self.judge_tagging(at, id, &tenant.name, before, &tags);
                tenant.tags = tags;
                self.store.put(at.account, tenant, now);
            }
            Tagged::Group(id) => {
                let found = self.store.group(at.account, id, View::Live).cloned();
                let Some(mut group) = found else { return };
                self.judge_tagging(at, id, &group.name, before, &tags);
                group.tags = tags;
                self.put_group(at.account, group, now);
            }
            Tagged::Distribution(id) => {
                let held = self.store.account(at.account);
                if let Some(distribution) = held.distributions.get_mut(id) {
                    distribution.tags = tags;
                }
            }
        }
    }

    fn judge_tagging(&mut self, at: &At<'_>, id: &str, name: &str, before: &Tags, tags: &Tags) {
        let touched = Touched {
            account: at.account,
            id,
            name,
            tags: before,
        };
        self.judge.foreign("foreignChanged", &touched, &at.moment);
        if before != tags {
            self.judge_twins(id, tags, at.moment.now);
        }
    }
}
