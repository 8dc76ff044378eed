//! What a decision at one name stands on, and what it comes to.

use std::collections::BTreeSet;

use api::tenants::{DnsRecord, DriftedField};

use super::known::{Answer, Sight, Told};
use super::owner::{Holder, Owner, holder};
use super::record::{Change, RecordSet};
use super::verdict::Clash;
use super::{Bundle, Spot, ZoneAccess};

/// What a decision at one name stands on.
pub(super) struct Ground<'a> {
    pub(super) spot: &'a Spot,
    /// Where changes are sent.
    pub(super) place: ZoneAccess,
    /// The name of the mark.
    pub(super) mark_name: String,
    pub(super) us: &'a Owner,
    /// What became of the last bundle, unless it was taken and that is known.
    pub(super) told: Option<&'a Told>,
    /// What was read since.
    pub(super) sight: Option<&'a Sight>,
    /// Changes Route 53 knows nothing of.
    pub(super) lost: &'a BTreeSet<String>,
}

impl<'a> Ground<'a> {
    /// Our mark.
    pub(super) fn mark(&self) -> RecordSet {
        RecordSet::txt(&self.mark_name, self.us.txt())
    }

    /// Changes that change nothing, and that Route 53 refuses unless the mark is as it was seen; if
    /// it was not, as it must be. Other changes beside them happen only where the name is ours.
    pub(super) fn proof(&self, seen: Option<&RecordSet>) -> [Change; 2] {
        let there = seen.cloned().unwrap_or_else(|| self.mark());
        [Change::delete(there), Change::create(self.mark())]
    }

    /// Whose the name is.
    pub(super) fn holder<'s>(&self, sight: &'s Sight) -> Holder<'s> {
        holder(sight, &self.mark_name, self.us)
    }

    /// Whether the zone is not, or may not be, as the last bundle left or took it to be.
    pub(super) fn must_look(&self) -> bool {
        self.told.is_some_and(|told| match told.answer {
            Answer::Differs { .. } | Answer::Lost => true,
            Answer::Pending
            | Answer::Accepted { .. }
            | Answer::Refused { .. }
            | Answer::NoZone { .. } => false,
        })
    }

    /// Whether nothing that was sent can change the name any more: the last bundle was refused.
    pub(super) fn is_still(&self) -> bool {
        self.told.is_some_and(|told| match told.answer {
            Answer::Differs { .. } | Answer::Refused { .. } | Answer::NoZone { .. } => true,
            Answer::Pending | Answer::Accepted { .. } | Answer::Lost => false,
        })
    }

    /// The bundle of which nobody knows whether it was carried out.
    pub(super) fn lost_bundle(&self) -> Option<&'a Bundle> {
        match self.told {
            Some(Told {
                bundle,
                answer: Answer::Lost,
            }) => bundle.as_ref(),
            Some(_) | None => None,
        }
    }

    /// Whether the change that wrote a record is lost.
    pub(super) fn is_lost(&self, record: &DnsRecord) -> bool {
        let change = record.change_id.as_ref();
        change.is_some_and(|change| self.lost.contains(change))
    }

    /// What was sent and refused, and why.
    pub(super) fn refused(&self) -> Option<(&'a Bundle, &'a str)> {
        let Told { bundle, answer } = self.told?;
        match answer {
            Answer::Differs { text } | Answer::Refused { text } | Answer::NoZone { text } => {
                Some((bundle.as_ref()?, text))
            }
            Answer::Pending | Answer::Accepted { .. } | Answer::Lost => None,
        }
    }

    /// Sends `changes`, unless just these were refused.
    pub(super) fn offer(&self, changes: Vec<Change>) -> Act {
        let bundle = Bundle {
            place: self.place.clone(),
            name: self.spot.name.clone(),
            changes,
        };
        match self.refused() {
            Some((sent, text)) if *sent == bundle => Act::Failed(text.to_owned()),
            Some(_) | None => Act::Submit(bundle),
        }
    }

    /// A record that keeps us out.
    pub(super) fn clash(&self, set: &RecordSet, owner: Option<String>) -> Clash {
        Clash {
            zone: self.spot.zone.clone(),
            name: set.name.clone(),
            kind: set.kind.as_str().to_owned(),
            value: set.content.to_string(),
            owner,
        }
    }
}

/// What is to be done at one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing.
    Rest,
    /// Wait for the writer's answer.
    Await {
        /// It is only about our mark.
        only_marks: bool,
    },
    /// Read it.
    Read,
    /// Send this.
    Submit(Bundle),
    /// Leave it: it is not ours.
    Clash(Clash),
    /// Leave it until a slow look: Route 53 refused, in these words.
    Failed(String),
    /// Leave it as others made it.
    Drifted {
        /// The condition says so, too.
        told: bool,
    },
}

/// What a decision at one name comes to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What the status says of the name.
    pub(super) records: Vec<DnsRecord>,
    pub(super) act: Act,
    /// What others changed.
    pub(super) drift: Vec<DriftedField>,
    /// What stays in the zone although the name goes.
    pub(super) left: Vec<Clash>,
}

impl Outcome {
    pub(super) fn new(records: Vec<DnsRecord>, act: Act) -> Self {
        Self {
            records,
            act,
            drift: Vec::new(),
            left: Vec::new(),
        }
    }
}
