//! Makes CloudFront hold the group as its object declares it.
//!
//! ```text
//! announced ──▶ Create ──▶ Deployed ──▶ Update, tags ──▶ Deployed ──▶ …
//!      └── found by its name: ours by its marker, or taken over if the spec says so
//! ```
//! A group that is not ours is never written to. What may have been done already is looked for
//! before it is done again.

use std::time::Duration;

use api::tenants::{
    AdoptBy, Adoption, DriftPolicy, GroupAdoptBy, GroupAdoption, GroupBody, conditions, events,
    reasons,
};
use aws::cloudfront::Group;
use aws::{Error, Fault};
use engine::Note;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Reason, spread};

use super::cloud::{Cloud, SPREAD};
use super::diff::{self, Update};
use super::draft::{Draft, Ended, unmet};
use super::gather::{DEPLOYED, Facts, Found, Look, Seen, by_name, find, is_missing};
use super::memory::{Creation, Memory};
use super::plan::{POLL, may_come};
use super::verdict::{self, Wrote};
use crate::failure::{Says, Way, counted};
use crate::tags::{Standing, Tags, Whose, at_creation, changes, standing, whose};

/// How far polls are spread.
const POLL_SPREAD: f64 = 0.2;
/// How often tags are read, give or take a tenth.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A missing group is looked for a second time after this long.
const SECOND_LOOK: Duration = Duration::from_secs(30);
/// How long a name that is taken, perhaps by us, is only looked for.
const TAKEN: Duration = Duration::from_secs(5 * 60);

/// A pass over a group that is to live.
pub(super) struct Life<'a, C> {
    pub(super) facts: &'a Facts,
    pub(super) memory: &'a mut Memory,
    pub(super) draft: &'a mut Draft,
    pub(super) cloud: &'a mut C,
}

impl<C: Cloud> Life<'_, C> {
    pub(super) async fn run(&mut self, look: Look) -> Result<Ended, Error> {
        let Facts {
            status,
            elapsed,
            random,
            ..
        } = self.facts;
        // After a restart the reading of tags is spread over the day.
        let spread_out = *elapsed + DAY.mul_f64(*random);
        self.memory.tags_at.get_or_insert(spread_out);
        let is_new = status.id.is_none() && self.memory.creation == Creation::Unasked;
        if is_new && self.facts.adoption.is_none() && !self.memory.doubted {
            return self.create().await; // nobody can have made it since it was announced
        }
        let found = find(look, self.facts, self.memory, self.cloud).await?;
        match found {
            Found::Steady { until } => {
                self.memory.trouble.over();
                let left = until.saturating_sub(*elapsed);
                // A little later than the list is due, so that not all come in one moment.
                Ok(self.later(left + POLL.mul_f64(random / 3.0)))
            }
            Found::Behind => Ok(self.soon()),
            Found::Nothing if status.id.is_some() => Ok(self.missing()),
            Found::Nothing => self.create().await,
            Found::There(seen) => self.there(*seen).await,
        }
    }

    async fn create(&mut self) -> Result<Ended, Error> {
        let Facts {
            name,
            marker,
            declared,
            elapsed,
            ..
        } = self.facts;
        let is_waiting = |at: Duration| elapsed.saturating_sub(at) < TAKEN;
        if self.memory.taken.is_some_and(is_waiting) {
            return Ok(self.soon());
        }
        let before = std::mem::replace(&mut self.memory.creation, Creation::Asked(*elapsed));
        let may_be_ours = before != Creation::Unasked && self.memory.taken.is_none();
        let tags = at_creation(&declared.tags, marker);
        let body = diff::body(declared);
        let error = match self.cloud.create(name, &tags, &body).await {
            Ok(group) => return Ok(self.created(&group)),
            Err(error) => error,
        };
        if !error.may_have_happened() {
            self.memory.creation = before; // an earlier one may still have been accepted
        }
        if error.fault() != Fault::NameTaken {
            return Err(error);
        }
        self.memory.taken = Some(*elapsed);
        let found = by_name(self.facts, self.cloud).await?;
        match found {
            Found::There(seen) => {
                if let Standing::NotOwned(_) = self.standing(&seen) {
                    self.draft.count(counted(&error, Way::Group));
                }
                self.there(*seen).await
            }
            Found::Nothing | Found::Behind | Found::Steady { .. } if may_be_ours => {
                self.memory.doubted = true;
                Ok(self.soon())
            }
            Found::Nothing | Found::Behind | Found::Steady { .. } => Err(error),
        }
    }

    fn created(&mut self, group: &Group) -> Ended {
        let facts = self.facts;
        self.memory.saw(facts.elapsed);
        self.memory.replaced = None;
        self.memory.sent = Some((group.etag.clone(), diff::body(&facts.declared)));
        self.memory.reviewed(group, facts.elapsed);
        self.memory.tags_at = Some(facts.elapsed + spread(DAY, SPREAD, facts.random));
        self.draft.record(group);
        self.draft.drift(&[]);
        self.draft.status.last_applied = Some(facts.declared.clone());
        let message = format!("connection group {} ({}) was made", group.name, group.id);
        self.draft.note(Note::normal(events::CREATED, message));
        self.settled(group, Wrote::Created)
    }

    /// It is there: if it is ours it becomes what the spec says.
    async fn there(&mut self, seen: Seen) -> Result<Ended, Error> {
        let facts = self.facts;
        let standing = self.standing(&seen);
        let Seen {
            group,
            mut tags,
            on_record,
        } = seen;
        match standing {
            Standing::NotOwned(whose) => return Ok(self.not_owned(&group, &whose)),
            Standing::Ours if on_record => {}
            Standing::Ours => self.adopted(&group, "it carries our marker"),
            Standing::Adopt { .. } => {
                // First of all: without it, a crash would leave a group that nobody owns.
                let marks = at_creation(&Tags::new(), &facts.marker);
                self.cloud.tag(&group.arn, &marks).await?;
                tags.get_or_insert_default().extend(marks);
                self.adopted(&group, "spec.adoption says so");
            }
        }
        if tags.is_some() {
            let next = facts.elapsed + spread(DAY, SPREAD, facts.random);
            self.memory.tags_at = Some(next);
        }
        self.memory.saw(facts.elapsed);
        self.memory.reviewed(&group, facts.elapsed);
        if !on_record {
            self.draft.forget(); // what is on record is of another group
        }
        self.draft.record(&group);
        let last = self.last(&group, on_record);
        let Some((group, wrote)) = self.update(group, &last).await? else {
            return Ok(self.missing());
        };
        self.retag(&group, &last, tags.as_ref()).await?;
        Ok(self.settled(&group, wrote))
    }

    fn standing(&self, seen: &Seen) -> Standing {
        let adoption = self.facts.adoption.map(|GroupAdoption { by }| Adoption {
            by: match by {
                GroupAdoptBy::Name => AdoptBy::Name,
            },
            from_owner: None,
        });
        match &seen.tags {
            Some(tags) => {
                let whose = whose(tags, &self.facts.marker);
                standing(whose, seen.on_record, adoption.as_ref())
            }
            None => Standing::Ours, // tags are left out only for one that is on record
        }
    }

    fn adopted(&mut self, group: &Group, why: &str) {
        let message = format!(
            "connection group {} ({}) is this one: {why}",
            group.name, group.id
        );
        self.draft.note(Note::normal(events::ADOPTED, message));
    }

    fn not_owned(&mut self, group: &Group, whose: &Whose) -> Ended {
        self.memory.doubted = true;
        self.memory.taken = None;
        let message = verdict::not_owned(group, whose);
        self.draft.say(Says::Both(reasons::NOT_OWNED), &message);
        let at = self.facts.moment();
        Ended::After(self.memory.trouble.blocked(reasons::NOT_OWNED, &at))
    }

    /// What CloudFront was last given; of a group that was found, what it has.
    fn last(&self, group: &Group, on_record: bool) -> GroupBody {
        let Facts {
            status, declared, ..
        } = self.facts;
        let live = || diff::record(&group.body, Tags::new());
        match &status.last_applied {
            Some(applied) if on_record => applied.clone(),
            None if on_record && status.observed_generation == self.facts.generation => {
                declared.clone()
            }
            Some(_) | None => live(),
        }
    }

    /// Sends what differs. None: the group went meanwhile.
    async fn update(
        &mut self,
        group: Group,
        last: &GroupBody,
    ) -> Result<Option<(Group, Wrote)>, Error> {
        let facts = self.facts;
        let desired = diff::body(&facts.declared);
        let plan = diff::plan(&diff::body(last), &group.body, &desired, self.may_correct());
        let known = self.memory.ineffective.as_ref();
        let is_edit = plan.update.as_ref().is_some_and(|update| update.edits);
        let update = match known {
            None => {
                self.draft.drift(&plan.drift);
                plan.update
            }
            Some(_) if is_edit => plan.update,
            // What CloudFront took and does not show is not what others did: it is sent again.
            Some(known) => Some(Update {
                body: known.sent().clone(),
                edits: false,
                corrects: false,
            }),
        };
        let is_held = |update: &Update| {
            known.is_some_and(|known| known.holds_back(&update.body, facts.elapsed).is_some())
        };
        let Some(update) = update.filter(|update| !is_held(update)) else {
            self.draft.status.last_applied = Some(diff::record(&desired, last.tags.clone()));
            return Ok(Some((group, Wrote::Nothing)));
        };
        let sent = self.cloud.update(&group.id, &group.etag, &update.body);
        let after = match sent.await {
            Ok(after) => after,
            Err(error) if is_missing(&error) => return self.vanished(&group, error).await,
            Err(error) => return Err(error),
        };
        self.memory
            .updated(&group.etag, &update.body, &after, facts.elapsed);
        self.updated(&update, &after);
        self.draft.status.last_applied = Some(diff::record(&desired, last.tags.clone()));
        Ok(Some((after, Wrote::Updated)))
    }

    /// Drift is undone once in an interval, however often others cause it.
    fn may_correct(&self) -> bool {
        let Facts { elapsed, sweep, .. } = *self.facts;
        let interval = sweep.mul_f64(1.0 - SPREAD);
        let is_time = |at: Duration| elapsed.saturating_sub(at) >= interval;
        self.facts.policy == DriftPolicy::Enforce && self.memory.corrected.is_none_or(is_time)
    }

    /// CloudFront does not know what the Update named: the group, or the list of addresses.
    async fn vanished(
        &mut self,
        group: &Group,
        error: Error,
    ) -> Result<Option<(Group, Wrote)>, Error> {
        match self.cloud.group(&group.id).await {
            Err(gone) if is_missing(&gone) => Ok(None),
            Ok(_) | Err(_) => Err(error),
        }
    }

    fn updated(&mut self, update: &Update, after: &Group) {
        self.draft.record(after);
        let called = self.facts.called();
        if update.corrects {
            self.memory.corrected = Some(self.facts.elapsed);
            let drift = crate::diff::told(&self.draft.status.drift);
            let message = format!("{called} was changed in AWS, which is undone: {drift}");
            self.draft
                .note(Note::warning(events::DRIFT_CORRECTED, message));
            self.draft.drift(&[]);
        }
        if update.edits {
            let message = format!("{called} was given what the spec says");
            self.draft.note(Note::normal(events::UPDATED, message));
        }
    }

    /// Sets and removes tags; those that neither spec nor record has stay.
    async fn retag(
        &mut self,
        group: &Group,
        last: &GroupBody,
        live: Option<&Tags>,
    ) -> Result<(), Error> {
        let Facts {
            declared,
            marker,
            policy,
            ..
        } = self.facts;
        let changes = changes(&last.tags, live, &declared.tags, marker, *policy);
        if !changes.set.is_empty() {
            self.cloud.tag(&group.arn, &changes.set).await?;
        }
        if !changes.remove.is_empty() {
            let keys: Vec<_> = changes.remove.iter().cloned().collect();
            self.cloud.untag(&group.arn, &keys).await?;
        }
        if let Some(applied) = &mut self.draft.status.last_applied {
            applied.tags.clone_from(&declared.tags);
        }
        if !changes.is_empty() {
            let message = format!("{} was given the tags of the spec", self.facts.called());
            self.draft.note(Note::normal(events::UPDATED, message));
        }
        Ok(())
    }

    /// All that could be done is done: says how it stands, and when to look again.
    fn settled(&mut self, group: &Group, wrote: Wrote) -> Ended {
        let facts = self.facts;
        self.memory.trouble.over();
        self.draft.status.observed_generation = facts.generation;
        verdict::say(self.draft, group, wrote, facts, self.memory);
        if group.status != DEPLOYED {
            return self.soon();
        }
        let held = self.memory.ineffective.as_ref();
        let held = held.and_then(|held| held.holds_back(held.sent(), facts.elapsed));
        let interval = spread(facts.sweep, SPREAD, facts.random);
        self.later(held.map_or(interval, |held| held.min(interval)))
    }

    /// Nothing of its id or name is there, though it was.
    fn missing(&mut self) -> Ended {
        let facts = self.facts;
        let known = unmet(&facts.status, conditions::READY) == Some(reasons::EXTERNALLY_DELETED);
        let first = *self.memory.missed.get_or_insert(facts.elapsed);
        let is_early = facts.elapsed.saturating_sub(first) < SECOND_LOOK;
        if !known && (is_early || may_come(facts, self.memory)) {
            self.memory.doubted = true;
            return self.soon();
        }
        let message = format!("{} was deleted in AWS", facts.called());
        if !known {
            let note = Note::warning(events::EXTERNAL_DELETION, message.clone());
            self.draft.note(note);
        }
        match facts.policy {
            DriftPolicy::Enforce => {
                self.draft.forget();
                announce(self.draft, self.memory, facts);
                Ended::Again
            }
            DriftPolicy::Report | DriftPolicy::Suspend => self.left_deleted(&message),
        }
    }

    fn left_deleted(&mut self, what: &str) -> Ended {
        let message = format!(
            "{what} and is left so, because driftPolicy is {}; set it to enforce to have it made \
             anew",
            self.facts.policy.as_str()
        );
        let reason = Reason::new(reasons::EXTERNALLY_DELETED, message);
        self.draft.not_ready(reason);
        let at = self.facts.moment();
        let wait = self
            .memory
            .trouble
            .blocked(reasons::EXTERNALLY_DELETED, &at);
        Ended::After(wait)
    }

    fn soon(&mut self) -> Ended {
        self.later(spread(POLL, POLL_SPREAD, self.facts.random))
    }

    fn later(&mut self, after: Duration) -> Ended {
        self.memory.look_at = Some(self.facts.elapsed + after);
        Ended::After(after)
    }
}

/// Records that CloudFront is about to be asked for the group.
pub(super) fn announce(draft: &mut Draft, memory: &mut Memory, facts: &Facts) {
    memory.creation = Creation::Unasked;
    memory.doubted = false;
    draft.status.create_requested_at = Some(Time(facts.now));
    let message = format!("connection group {} is to be made", facts.name);
    draft.not_ready(Reason::new(reasons::CREATING, message));
}
