//! The cost of an edit: one object after another, among 10,000.

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::PATIENCE;
use super::super::found::Found;
use super::CROWD;
use super::audit::is_status;
use super::pairs::{Kind, edit};
use super::setup::{VaultSetup, number};
use crate::progress::Progress;

/// Of each kind.
const EDITS: usize = 100;

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    progress.step("edits of 100 policies and 100 roles");
    let begin = setup.now();
    for kind in Kind::BOTH {
        for index in 0..EDITS {
            let path = CROWD.path(kind, index * (CROWD.count / EDITS));
            setup.cluster.edit(&path, &edit(kind, index)).await?;
        }
    }
    setup.until_quiet(PATIENCE).await?;
    setup.until_ready(CROWD, PATIENCE).await?;

    let (calls, writes) = (setup.calls(begin), setup.writes(begin).await?);
    let statuses = number(writes.iter().filter(|one| is_status(one)).count())?;
    let each = number(EDITS)?;
    let per_policy = number(calls.about(Kind::Policy))? / each;
    let per_role = number(calls.about(Kind::Role))? / each;
    Ok(Found {
        bars: vec![
            Bar::at_most("an edit: calls a policy", per_policy, 2.0, "").fine(),
            Bar::at_most("an edit: calls a role", per_role, 3.0, "").fine(),
            Bar::at_most("an edit: status writes", statuses / (2.0 * each), 2.0, "").fine(),
        ],
        notes: Vec::new(),
    })
}
