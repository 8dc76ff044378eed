//! The end of a group: switched off, deployed, deleted; then its object may go.
//!
//! ```text
//! Update(enabled: false) ──▶ Deployed ──▶ Delete ──▶ finalizer
//! ```
//! What is sent is the live group switched off, so that nothing in the spec can stand in the way.
//! A group with the marker of another is left alone, and the object goes without it.

use api::tenants::{events, reasons};
use aws::Error;
use aws::cloudfront::{Group, GroupBody as Body};
use engine::Note;
use kernel::{Reason, spread};

use super::cloud::Cloud;
use super::draft::{Draft, Ended};
use super::gather::{DEPLOYED, Facts, Found, Look, Seen, find, is_missing};
use super::memory::Memory;
use super::plan::{IS_DEFAULT, POLL, may_come, retained};
use crate::tags::{Standing, Tags, Whose, standing, whose};

/// How far polls are spread.
const SPREAD: f64 = 0.2;

/// A pass over a group that is to go.
pub(super) struct Removal<'a, C> {
    pub(super) facts: &'a Facts,
    pub(super) memory: &'a mut Memory,
    pub(super) draft: &'a mut Draft,
    pub(super) cloud: &'a mut C,
}

impl<C: Cloud> Removal<'_, C> {
    pub(super) async fn run(&mut self, look: Look) -> Result<Ended, Error> {
        let found = find(look, self.facts, self.memory, self.cloud).await?;
        if found == Found::Nothing {
            self.memory.missed.get_or_insert(self.facts.elapsed);
        }
        match found {
            Found::Nothing if may_come(self.facts, self.memory) => {
                let message = "CloudFront was asked for it a moment ago and may still make it";
                self.draft
                    .not_ready(Reason::new(reasons::DELETING, message));
                Ok(self.soon())
            }
            Found::Nothing => Ok(self.deleted()),
            Found::Behind | Found::Steady { .. } => Ok(self.soon()),
            Found::There(seen) => self.there(*seen).await,
        }
    }

    async fn there(&mut self, seen: Seen) -> Result<Ended, Error> {
        let Seen {
            group,
            tags,
            on_record,
        } = seen;
        let whose = whose(&tags.unwrap_or_else(Tags::new), &self.facts.marker);
        match standing(whose, on_record, None) {
            Standing::Ours | Standing::Adopt { .. } => {}
            Standing::NotOwned(whose) => return Ok(left(&group, &whose)),
        }
        if group.is_default {
            return Ok(Ended::Released(retained(self.facts, IS_DEFAULT)));
        }
        self.memory.saw(self.facts.elapsed);
        self.memory.reviewed(&group, self.facts.elapsed);
        self.draft.record(&group);
        if group.body.enabled {
            return self.disable(&group).await;
        }
        if group.status != DEPLOYED {
            self.memory.trouble.over();
            self.disabling("it is switched off, and CloudFront is deploying that");
            return Ok(self.soon());
        }
        self.delete(&group).await
    }

    async fn disable(&mut self, group: &Group) -> Result<Ended, Error> {
        let off = Body {
            enabled: false,
            ..group.body.clone()
        };
        let elapsed = self.facts.elapsed;
        let held = self.memory.ineffective.as_ref();
        if let Some(left) = held.and_then(|held| held.holds_back(&off, elapsed)) {
            self.disabling("CloudFront took that it is to be switched off, and does not show it");
            return Ok(Ended::After(left));
        }
        let after = match self.cloud.update(&group.id, &group.etag, &off).await {
            Ok(after) => after,
            Err(error) if is_missing(&error) => return Ok(self.soon()),
            Err(error) => return Err(error),
        };
        self.memory.trouble.over();
        self.memory.updated(&group.etag, &off, &after, elapsed);
        self.draft.record(&after);
        let message = format!(
            "{} is switched off before it is deleted",
            self.facts.called()
        );
        self.draft.note(Note::normal(reasons::DISABLING, message));
        self.disabling("it is being switched off");
        Ok(self.soon())
    }

    async fn delete(&mut self, group: &Group) -> Result<Ended, Error> {
        let message = "it is switched off everywhere and is being deleted";
        self.draft
            .not_ready(Reason::new(reasons::DELETING, message));
        match self.cloud.delete(&group.id, &group.etag).await {
            Ok(()) => Ok(self.deleted()),
            Err(error) if is_missing(&error) => Ok(self.deleted()),
            Err(error) => Err(error),
        }
    }

    fn disabling(&mut self, what: &str) {
        self.draft.not_ready(Reason::new(reasons::DISABLING, what));
    }

    fn deleted(&self) -> Ended {
        let message = format!("{} is gone from CloudFront", self.facts.called());
        Ended::Released(Note::normal(events::DELETED, message))
    }

    fn soon(&self) -> Ended {
        Ended::After(spread(POLL, SPREAD, self.facts.random))
    }
}

/// It is not ours, or not any more.
fn left(group: &Group, whose: &Whose) -> Ended {
    let Group { name, id, .. } = group;
    Ended::Released(match whose {
        Whose::Other(owner) => Note::warning(
            events::OWNERSHIP_LOST,
            format!("connection group {name} ({id}) belongs to {owner} and was left alone"),
        ),
        Whose::Ours | Whose::Unmarked => Note::normal(
            events::RETAINED,
            format!("connection group {name} ({id}) was never ours and was left alone"),
        ),
    })
}
