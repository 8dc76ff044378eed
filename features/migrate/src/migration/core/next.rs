//! From a decision to the next calls of a pass.

use std::time::Duration;

use engine::{Next, Stop};
use kernel::Reason;

use super::decide::decide;
use super::{MigrationCore, Move, Read, World, Write};

/// The next pass comes after this time at the latest. A kubeconfig must be read again within 10 seconds, and what was
/// read up to a second before a pass is not read again in it: the other second is for the passes themselves.
pub(crate) const RECHECK: Duration = Duration::from_secs(8);

/// | decision                       | next                                     |
/// |--------------------------------|------------------------------------------|
/// | reads                          | make them                                |
/// | a change                       | make it; the engine saves its intent first |
/// | wait                           | wait for a change, and look again in time |
/// | a person has to act            | blocked                                  |
/// | nothing is left                | done; a deleted object may go            |
/// | a call of the own cluster failed | failed                                 |
pub(super) fn next(core: &MigrationCore, world: &World) -> Result<Next<Read, Write>, Stop> {
    let decided = decide(core, world);
    let reason = || Reason::new(decided.reason.clone(), decided.message.clone());
    match decided.next {
        Move::Read(reads) => Ok(Next::reads(reads)),
        Move::Write(write) => Ok(Next::step(*write)),
        Move::Wait(after) => Err(Stop::waiting(reason(), after.min(RECHECK))),
        Move::Block => Err(Stop::blocked(reason())),
        Move::End => Ok(Next::done()),
        Move::Fail(class) => Err(Stop::Failed {
            reason: reason(),
            class,
        }),
    }
}
