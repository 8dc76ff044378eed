//! What is to be done about a seed, from what stands at its path and what was announced. Pure.

use std::fmt;

use api::vault::IntentKind;

use crate::owner::Ownership;

/// What stands at the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Live {
    /// The mount keeps no versions: this is what it is.
    OtherEngine(String),
    /// Nothing, and nothing ever was.
    Absent,
    /// Nobody can read it: its newest version was deleted or destroyed, or there is none (0).
    Deleted { version: u64 },
    /// This version can be read.
    Current { version: u64 },
}

/// Whether the values there are those of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Nobody asked: there was no doubt.
    Unasked,
    Equal,
    Different,
    /// We may not read them, or they went meanwhile.
    Unreadable,
}

/// Everything a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) live: Live,
    /// What its marker says; without one it is unmarked, whatever the record says.
    pub(super) owner: Ownership,
    /// A write was announced and nobody knows how it ended. `Create`: there was nothing; `Correct`:
    /// what was there had been deleted.
    pub(super) announced: Option<IntentKind>,
    /// The version on record as ours.
    pub(super) recorded: Option<u64>,
    pub(super) values: Values,
    /// What was deleted is written again.
    pub(super) reseed: bool,
}

impl World {
    /// The version we wrote. Our marker where nothing was when we announced tells what a crash kept
    /// from the record.
    pub(super) fn seeded(&self) -> Option<u64> {
        match (self.announced, &self.owner) {
            (Some(IntentKind::Create), Ownership::Ours) => Some(1),
            (Some(IntentKind::Create), Ownership::Unmarked | Ownership::Foreign(_)) => None,
            (Some(IntentKind::Correct) | None, _) => self.recorded,
        }
    }

    /// Whether only the values tell if what stands there is what we announced.
    pub(super) fn is_doubtful(&self) -> bool {
        let Live::Current { version } = self.live else {
            return false;
        };
        match (self.announced, &self.owner) {
            (None, _)
            | (Some(_), Ownership::Foreign(_))
            | (Some(IntentKind::Create), Ownership::Ours) => false,
            (Some(IntentKind::Create), Ownership::Unmarked) => version == 1,
            (Some(IntentKind::Correct), Ownership::Ours | Ownership::Unmarked) => {
                self.recorded != Some(version)
            }
        }
    }
}

impl World {
    /// What is known once Vault has refused a write of this kind and shows `live` with this owner.
    /// Nothing there is ours by that write, even if it has the same values. A refused create also
    /// ends an older record: what it was about was gone before.
    pub(super) fn after_refusal(&self, kind: IntentKind, live: Live, owner: Ownership) -> Self {
        Self {
            live,
            owner,
            announced: None,
            recorded: match kind {
                IntentKind::Create => None,
                IntentKind::Correct => self.recorded,
            },
            values: Values::Unasked,
            reseed: self.reseed,
        }
    }
}

/// One effect, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing can be seeded in such an engine.
    Refuse { engine: String },
    /// Announce, write as the version after `cas`, mark, record.
    Write { cas: u64, kind: IntentKind },
    /// Written by us before a crash: mark, record.
    Claim { version: u64 },
    /// Leave it: we wrote this version once, or it is somebody else's.
    Keep {
        seeded: Option<u64>,
        owner: Option<String>,
    },
    /// Leave it: nobody can tell whether we wrote it.
    Doubt,
    /// Leave it, and say that nobody can read it.
    Gone { owner: Option<String> },
}

/// | at the path        | marker    | announced | values     | so                             |
/// |--------------------|-----------|-----------|------------|--------------------------------|
/// | no versions there  |           |           |            | refuse                         |
/// | nothing            |           |           |            | write the first version        |
/// | deleted            | another's |           |            | gone                           |
/// | deleted            | ours, no  |           |            | gone; `reseedDeleted`: write   |
/// | version 1          | no        | a create  | equal      | claim: a crash, a lost answer  |
/// | version 1          | no        | a create  | unreadable | doubt                          |
/// | version 1          | no        | a create  | different  | keep: not ours                 |
/// | any version        | ours      | a create  |            | keep: we wrote version 1       |
/// | not the recorded   | ours, no  | a reseed  | equal      | claim                          |
/// | not the recorded   | ours, no  | a reseed  | unreadable | doubt                          |
/// | any other          |           |           |            | keep, seeded as recorded       |
pub(super) fn plan(world: &World) -> Step {
    let owner = match &world.owner {
        Ownership::Foreign(owner) => Some(owner.clone()),
        Ownership::Ours | Ownership::Unmarked => None,
    };
    match &world.live {
        Live::OtherEngine(engine) => Step::Refuse {
            engine: engine.clone(),
        },
        Live::Absent => Step::Write {
            cas: 0,
            kind: IntentKind::Create,
        },
        Live::Deleted { version } if world.reseed && owner.is_none() => Step::Write {
            cas: *version,
            kind: IntentKind::Correct,
        },
        Live::Deleted { .. } => Step::Gone { owner },
        Live::Current { version } => match (world.is_doubtful(), world.values) {
            (true, Values::Equal) => Step::Claim { version: *version },
            (true, Values::Unreadable | Values::Unasked) => Step::Doubt,
            (true, Values::Different) | (false, _) => Step::Keep {
                seeded: world.seeded(),
                owner,
            },
        },
    }
}

/// What becomes of it in Vault when the object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It is gone already.
    Gone,
    /// It is as we wrote it: it goes.
    Delete,
    /// It stays, for this reason.
    Leave(String),
}

/// | at the path | marker | version      | so                                         |
/// |-------------|--------|--------------|--------------------------------------------|
/// | nothing     |        |              | gone                                       |
/// | something   | ours   | the one ours | delete                                     |
/// | something   |        | in doubt     | delete if the values are those we announced |
/// | any other   |        |              | leave                                      |
pub(super) fn end(world: &World) -> End {
    let version = match &world.live {
        Live::OtherEngine(engine) => return End::Leave(format!("its mount is {engine} now")),
        Live::Absent => return End::Gone,
        Live::Deleted { version } | Live::Current { version } => *version,
    };
    if world.is_doubtful() && world.values == Values::Equal {
        return End::Delete;
    }
    match (&world.owner, world.seeded()) {
        (Ownership::Foreign(owner), _) => End::Leave(format!("it belongs to {owner}")),
        (Ownership::Ours, Some(seeded)) if seeded == version => End::Delete,
        (Ownership::Ours | Ownership::Unmarked, None) => {
            End::Leave("it is not known to be ours".to_owned())
        }
        (Ownership::Ours, Some(seeded)) => End::Leave(format!(
            "version {version} is not the one we wrote, which was {seeded}"
        )),
        (Ownership::Unmarked, Some(_)) => {
            End::Leave("it does not carry our marker any more".to_owned())
        }
    }
}

/// A plan for people.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse { engine } => write!(f, "refused: the mount is {engine}"),
            Self::Write { cas: 0, .. } => f.write_str("write the first version"),
            Self::Write { cas, .. } => write!(f, "write again, after deleted version {cas}"),
            Self::Claim { version } => write!(f, "mark version {version}, which we wrote"),
            Self::Keep {
                seeded: Some(version),
                ..
            } => write!(f, "nothing to do: version {version} was ours"),
            Self::Keep {
                seeded: None,
                owner: Some(owner),
            } => write!(f, "nothing to do: it belongs to {owner}"),
            Self::Keep {
                seeded: None,
                owner: None,
            } => f.write_str("nothing to do: it was there already"),
            Self::Doubt => f.write_str("nothing to do: whether it is ours cannot be told"),
            Self::Gone { .. } => f.write_str("nothing to do: its newest version was deleted"),
        }
    }
}

#[cfg(test)]
mod tests;
