//! 5,000 policies and 5,000 roles at once: the time until all are ready, and the cost.

use std::time::Duration;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::{peak, until_ready};
use super::super::found::Found;
use super::audit::{is_status, lasted};
use super::pairs::Kind;
use super::setup::{VaultSetup, number};
use super::{CROWD, RATE};
use crate::progress::Progress;
use crate::verdict::Error;

/// No resync falls into the measurement.
const NO_RESYNC: &str = "--vault-resync=24h";
/// Three times the target of the bar.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    progress.step("5,000 policies and 5,000 roles: from the first create until all are ready");
    let begin = setup.now();
    setup.cluster.run(&[NO_RESYNC]).await?;
    until_ready(setup.cluster.operator(), true).await?;
    for kind in Kind::BOTH {
        setup.cluster.create(CROWD.all(kind)).await?;
    }
    // Reading all objects is work for the same cores, so it waits until the operator is idle.
    setup.until_quiet(PATIENCE).await?;
    setup.until_ready(CROWD, PATIENCE).await?;
    setup.until_quiet(PATIENCE).await?;

    let calls = setup.calls(begin);
    let writes = setup.cluster.plane.entries_since(begin.kubernetes).await?;
    let seconds = lasted(&writes).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let least = number(calls.count())? / f64::from(RATE);
    let each = number(CROWD.count)?;
    let per_policy = number(calls.about(Kind::Policy))? / each;
    let per_role = number(calls.about(Kind::Role))? / each;
    let statuses = number(writes.iter().filter(|one| is_status(one)).count())?;
    let memory = peak(setup.cluster.operator())?;
    let (most_policy, policy) = calls.most_about(Kind::Policy);
    let (most_role, role) = calls.most_about(Kind::Role);
    let notes = vec![
        format!(
            "first create to last status: {seconds:.1} s for {} calls at {RATE} a second",
            calls.count()
        ),
        format!("most calls about one: {most_policy} ({policy}), {most_role} ({role})"),
    ];
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "5,000 policies and 5,000 roles: until all are ready ÷ calls at the rate allowed",
                seconds / least,
                1.3,
                "",
            )
            .fine(),
            Bar::at_most("their making: peak resident memory", memory, 150.0, " MiB"),
            Bar::at_most("their making: calls a policy", per_policy, 2.0, "").fine(),
            Bar::at_most("their making: calls a role", per_role, 3.0, "").fine(),
            Bar::at_most(
                "their making: status writes an object",
                statuses / number(CROWD.objects())?,
                2.0,
                "",
            )
            .fine(),
            Bar::at_most("their making: logins", number(calls.logins())?, 1.0, "").whole(),
        ],
        notes,
    })
}
