//! From a decision to the next calls of a pass.

use std::time::Duration;

use engine::{Next, Stop};
use kernel::Reason;

use super::decide::decide;
use super::{MigrationCore, Move, Read, World, Write};

/// A change within the operator's own cluster, or of a kubeconfig, is noticed after this time at the latest.
pub(super) const RECHECK: Duration = Duration::from_secs(10);

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
