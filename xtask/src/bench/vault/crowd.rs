//! 5,000 policies and 5,000 roles at once: how long until all are ready, and what that costs.

use std::time::Duration;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::{peak, until_ready};
use super::super::found::Found;
use super::audit::{is_status, lasted};
use super::pairs::Kind;
use super::site::{Site, number};
use super::{CROWD, RATE};
use crate::progress::Progress;
use crate::verdict::Error;

/// No resync falls into the measurement.
const NO_RESYNC: &str = "--vault-resync=24h";
/// Thrice what the bar allows.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub(super) async fn measure(site: &Site, progress: &Progress) -> Result<Found> {
    progress.step("5,000 policies and 5,000 roles: from the first create until all are ready");
    let begin = site.now();
    site.cluster.run(&[NO_RESYNC]).await?;
    until_ready(site.cluster.operator(), true).await?;
    for kind in Kind::BOTH {
        site.cluster.create(CROWD.all(kind)).await?;
    }
    // A look at all objects is work for the same cores: it waits until there is no other.
    site.at_rest(PATIENCE).await?;
    site.until_ready(CROWD, PATIENCE).await?;
    site.at_rest(PATIENCE).await?;

    let calls = site.calls(begin);
    let writes = site.cluster.plane.entries_since(begin.kubernetes).await?;
    let seconds = lasted(&writes).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let least = number(calls.count())? / f64::from(RATE);
    let each = number(CROWD.count)?;
    let per_policy = number(calls.about(Kind::Policy))? / each;
    let per_role = number(calls.about(Kind::Role))? / each;
    let statuses = number(writes.iter().filter(|one| is_status(one)).count())?;
    let memory = peak(site.cluster.operator())?;
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
