//! A model of CloudFront that answers at once, plays tricks, and tells on callers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{Group, GroupBody as Body, GroupSummary};
use aws::{Error, Operation, Refusal};
use kernel::Marker;

use super::super::cloud::{Cloud, Listing};
use crate::tags::{Tags, Whose, whose};

/// How long a deployment takes.
const DEPLOYS: Duration = Duration::from_secs(45);

/// What happens to the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trick {
    /// Nothing.
    Fair,
    /// It is lost on its way.
    CutBefore,
    /// Its answer is lost.
    CutAfter,
    /// CloudFront fails.
    Breaks,
    /// Too many calls.
    Throttles,
    /// We may not.
    Denies,
    /// Somebody was faster.
    Stale,
}

/// A group, through time.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    id: String,
    name: String,
    pub(super) is_default: bool,
    pub(super) tags: Tags,
    /// From when on it was so; none: it was gone.
    history: Vec<(Duration, Option<Version>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) body: Body,
    pub(super) etag: String,
    deployed_at: Duration,
}

impl Kept {
    fn at(&self, time: Duration) -> Option<&Version> {
        let known = self.history.iter().rev().find(|(from, _)| *from <= time);
        known?.1.as_ref()
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// As it is now.
    pub(super) fn live(&self) -> Option<&Version> {
        self.history.last()?.1.as_ref()
    }

    fn arn(&self) -> String {
        format!("arn:aws:cloudfront::1:connection-group/{}", self.id)
    }
}

pub(super) struct Model {
    pub(super) now: Duration,
    /// How far reads are behind.
    pub(super) lag: Duration,
    /// Whether answers carry tags.
    pub(super) echoes: bool,
    pub(super) tricks: VecDeque<Trick>,
    pub(super) kept: BTreeMap<String, Kept>,
    /// Whose marker is ours, whether its owner adopts, and the id on its record.
    pub(super) marker: Marker,
    pub(super) adopts: bool,
    pub(super) on_record: Option<String>,
    pub(super) violations: Vec<String>,
    pub(super) calls: Vec<Operation>,
    /// What was refused for good, and when.
    refused: Option<(Operation, Duration)>,
    /// The group whose version was old, until it is read.
    stale: Option<String>,
    numbers: u32,
}

fn refused(operation: Operation, code: &str, status: u16) -> Error {
    Error::Refused(Box::new(Refusal {
        operation,
        resource: "edge".to_owned(),
        code: code.to_owned(),
        message: String::new(),
        status,
        request_id: None,
    }))
}

fn lost(operation: Operation) -> Error {
    Error::NoAnswer {
        operation,
        resource: "edge".to_owned(),
        reason: "cut".to_owned(),
    }
}

impl Model {
    pub(super) fn new(marker: Marker) -> Self {
        Self {
            now: Duration::from_secs(1000),
            lag: Duration::ZERO,
            echoes: true,
            tricks: VecDeque::new(),
            kept: BTreeMap::new(),
            marker,
            adopts: false,
            on_record: None,
            violations: Vec::new(),
            calls: Vec::new(),
            refused: None,
            stale: None,
            numbers: 0,
        }
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn wrong(&mut self, what: String) {
        self.violations.push(what);
    }

    /// The world changed: what was refused may be right now.
    pub(super) fn forgive(&mut self) {
        self.refused = None;
    }

    /// Makes a group, as we do or others.
    pub(super) fn make(&mut self, name: &str, tags: Tags, body: Body) -> String {
        let id = format!("cg_{}", self.number());
        let kept = Kept {
            id: id.clone(),
            name: name.to_owned(),
            is_default: false,
            tags,
            history: Vec::new(),
        };
        self.kept.insert(id.clone(), kept);
        self.put(&id, Some(body));
        id
    }

    /// Writes a group, as we do or others.
    pub(super) fn put(&mut self, id: &str, body: Option<Body>) {
        let etag = format!("E{}", self.number());
        let (now, deployed_at) = (self.now, self.now + DEPLOYS);
        let version = body.map(|body| Version {
            body,
            etag,
            deployed_at,
        });
        if let Some(kept) = self.kept.get_mut(id) {
            kept.history.push((now, version));
        }
    }

    /// The group of this name that is there.
    pub(super) fn named(&self, name: &str) -> Option<&Kept> {
        let mut all = self.kept.values();
        all.find(|kept| kept.name == name && kept.live().is_some())
    }

    fn shown(&self, kept: &Kept, version: &Version, time: Duration) -> Group {
        let deployed = version.deployed_at <= time;
        Group {
            id: kept.id.clone(),
            arn: kept.arn(),
            name: kept.name.clone(),
            etag: version.etag.clone(),
            status: if deployed { "Deployed" } else { "InProgress" }.to_owned(),
            modified: None,
            routing_endpoint: format!("{}.cloudfront.net", kept.id),
            is_default: kept.is_default,
            body: version.body.clone(),
            tags: self.echoes.then(|| kept.tags.clone()),
        }
    }

    fn read(&self, named: &str) -> Option<Group> {
        let time = self.now.saturating_sub(self.lag);
        let mut all = self.kept.values();
        all.find_map(|kept| {
            let version = kept.at(time)?;
            let is_it = kept.id == named || kept.name == named;
            is_it.then(|| self.shown(kept, version, time))
        })
    }

    /// Plays the next trick on a call; none: it is executed fairly.
    fn trick(&mut self, operation: Operation) -> Result<Trick, Error> {
        self.calls.push(operation);
        if let Some((last, at)) = self.refused
            && last == operation
            && operation.writes()
            && self.now.saturating_sub(at) < Duration::from_secs(4 * 60)
        {
            self.wrong(format!("{operation} was refused and sent again"));
        }
        let versioned = [
            Operation::UpdateConnectionGroup,
            Operation::DeleteConnectionGroup,
        ];
        match self.tricks.pop_front().unwrap_or(Trick::Fair) {
            Trick::Stale if versioned.contains(&operation) => {
                Err(refused(operation, "PreconditionFailed", 412))
            }
            Trick::Stale | Trick::Fair => Ok(Trick::Fair),
            Trick::CutAfter => Ok(Trick::CutAfter),
            Trick::CutBefore => Err(lost(operation)),
            Trick::Breaks => Err(refused(operation, "InternalError", 500)),
            Trick::Throttles => Err(refused(operation, "Throttling", 400)),
            Trick::Denies => {
                self.refused = Some((operation, self.now));
                Err(refused(operation, "AccessDenied", 403))
            }
        }
    }

    fn answered<T>(trick: Trick, operation: Operation, answer: T) -> Result<T, Error> {
        if trick == Trick::CutAfter {
            return Err(lost(operation));
        }
        Ok(answer)
    }

    /// Whether a write may touch the group; what may not be touched tells on the caller.
    fn touched(&mut self, id: &str, operation: Operation) {
        let Some(kept) = self.kept.get(id) else {
            return;
        };
        let may = match whose(&kept.tags, &self.marker) {
            Whose::Ours => true,
            Whose::Unmarked => self.adopts || self.on_record.as_deref() == Some(id),
            // Between looks at tags nobody can know.
            Whose::Other(_) => {
                !self.echoes
                    && self.on_record.as_deref() == Some(id)
                    && operation != Operation::DeleteConnectionGroup
            }
        };
        if !may {
            self.wrong(format!("{operation} of a group that is not ours"));
        }
    }

    /// The version a write is based on.
    fn matched(&mut self, id: &str, etag: &str, operation: Operation) -> Result<Version, Error> {
        if self.stale.take().is_some_and(|stale| stale == id) {
            self.wrong(format!("{operation} after a stale one without a read"));
        }
        let live = self.kept.get(id).and_then(Kept::live).cloned();
        let live = live.ok_or_else(|| refused(operation, "EntityNotFound", 404))?;
        if live.etag != etag {
            self.stale = Some(id.to_owned());
            return Err(refused(operation, "PreconditionFailed", 412));
        }
        Ok(live)
    }
}

impl Cloud for Model {
    async fn listing(&mut self) -> Result<Arc<Listing>, Error> {
        let trick = self.trick(Operation::ListConnectionGroups)?;
        let ids: Vec<String> = self.kept.keys().cloned().collect();
        let groups = ids.iter().filter_map(|id| self.read(id));
        let groups = groups.map(|group| GroupSummary {
            id: group.id,
            arn: group.arn,
            name: group.name,
            etag: group.etag,
            status: group.status,
            routing_endpoint: group.routing_endpoint,
            is_default: group.is_default,
            enabled: group.body.enabled,
            anycast_ip_list_id: group.body.anycast_ip_list_id,
        });
        let listing = Listing {
            at: self.now,
            until: self.now + Duration::from_secs(300),
            groups: groups.collect(),
        };
        Self::answered(trick, Operation::ListConnectionGroups, Arc::new(listing))
    }

    async fn group(&mut self, named: &str) -> Result<Group, Error> {
        let operation = Operation::GetConnectionGroup;
        let trick = self.trick(operation)?;
        let group = self.read(named);
        let group = group.ok_or_else(|| refused(operation, "EntityNotFound", 404))?;
        let group = Self::answered(trick, operation, group)?;
        self.stale.take_if(|stale| *stale == group.id);
        Ok(group)
    }

    async fn tags(&mut self, arn: &str) -> Result<Tags, Error> {
        let operation = Operation::ListTagsForResource;
        let trick = self.trick(operation)?;
        let mut all = self.kept.values();
        let kept = all.find(|kept| kept.arn() == arn && kept.live().is_some());
        let tags = kept.map(|kept| kept.tags.clone());
        let tags = tags.ok_or_else(|| refused(operation, "NoSuchResource", 404))?;
        Self::answered(trick, operation, tags)
    }

    async fn create(&mut self, name: &str, tags: &Tags, body: &Body) -> Result<Group, Error> {
        let operation = Operation::CreateConnectionGroup;
        let trick = self.trick(operation)?;
        if self.named(name).is_some() {
            self.refused = Some((operation, self.now));
            return Err(refused(operation, "EntityAlreadyExists", 409));
        }
        let id = self.make(name, tags.clone(), body.clone());
        let kept = &self.kept[&id];
        let group = self.shown(kept, kept.live().unwrap(), self.now);
        Self::answered(trick, operation, group)
    }

    async fn update(&mut self, id: &str, etag: &str, body: &Body) -> Result<Group, Error> {
        let operation = Operation::UpdateConnectionGroup;
        let trick = self.trick(operation)?;
        let live = self.matched(id, etag, operation)?;
        if live.body == *body {
            self.wrong(format!("{operation} to what it was"));
        }
        self.touched(id, operation);
        self.put(id, Some(body.clone()));
        let kept = &self.kept[id];
        let group = self.shown(kept, kept.live().unwrap(), self.now);
        Self::answered(trick, operation, group)
    }

    async fn delete(&mut self, id: &str, etag: &str) -> Result<(), Error> {
        let operation = Operation::DeleteConnectionGroup;
        let trick = self.trick(operation)?;
        let live = self.matched(id, etag, operation)?;
        self.touched(id, operation);
        if live.body.enabled || live.deployed_at > self.now {
            self.wrong(format!("{operation} too early"));
            return Err(refused(operation, "ResourceNotDisabled", 409));
        }
        if self.kept[id].is_default {
            self.wrong(format!("{operation} of the default group"));
        }
        self.put(id, None);
        Self::answered(trick, operation, ())
    }

    async fn tag(&mut self, arn: &str, tags: &Tags) -> Result<(), Error> {
        let operation = Operation::TagResource;
        let trick = self.trick(operation)?;
        let id = arn.rsplit('/').next().unwrap().to_owned();
        self.touched(&id, operation);
        let kept = self.kept.get_mut(&id).unwrap();
        kept.tags.extend(tags.clone());
        Self::answered(trick, operation, ())
    }

    async fn untag(&mut self, arn: &str, keys: &[String]) -> Result<(), Error> {
        let operation = Operation::UntagResource;
        let trick = self.trick(operation)?;
        let id = arn.rsplit('/').next().unwrap().to_owned();
        self.touched(&id, operation);
        let kept = self.kept.get_mut(&id).unwrap();
        kept.tags.retain(|key, _| !keys.contains(key));
        Self::answered(trick, operation, ())
    }
}
