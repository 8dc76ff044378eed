//! Two replicas: a leader that was frozen right before a change does not make it once another has begun.

use std::time::Duration;

use api::migrate::Phase;
use serde_json::json;
use testkit::{Entry, Result, eventually_within};

use crate::ends::Before;
use crate::stories::{DESTINATION, SOURCE, replicas, run_story_of};
use crate::supervisor::OPERATOR;

/// A lease that runs out within a story.
const SHORT_LEASE: [&str; 3] = [
    "--lease-duration=3s",
    "--lease-renew-deadline=2s",
    "--lease-retry-period=500ms",
];
/// The successor's, which does not: a thawed leader would rightly lead again.
const LONG_LEASE: [&str; 3] = [
    "--lease-duration=600s",
    "--lease-renew-deadline=500s",
    "--lease-retry-period=500ms",
];
const PATIENCE: Duration = Duration::from_secs(60);
/// Right before the destination may run an ordinal, after everything was read again.
const POINT: &str = "migration.grow.before";

#[test]
fn a_leader_that_was_frozen_at_a_change_does_not_make_it() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        let _alone = OPERATOR.write().await;
        let cluster = shop.cluster(DESTINATION);
        let leader = cluster.operator();
        shop.open_shop().await?;
        let before = Before::of(shop).await?;
        let short = SHORT_LEASE.map(str::to_owned);
        cluster
            .restart_operator(|options| options.args.extend(short))
            .await?;
        leader.kill_file().pause(POINT)?;
        shop.migrate(&json!({})).await?;
        leader.logs(&format!("kill point {POINT} held")).await?;
        leader.freeze()?;

        let long = LONG_LEASE.map(str::to_owned);
        let successor = cluster.replica_with("successor", |options| options.args.extend(long));
        let successor = successor.await?;
        shop.until_phase(Phase::Completed).await?;
        let marks = [SOURCE, DESTINATION].map(|name| (name, shop.cluster(name).mark()));
        leader.kill_file().release(POINT)?;
        leader.thaw()?;
        eventually_within(PATIENCE, "the thawed leader stands by", async || {
            let answer = leader.probe("/readyz?verbose").await;
            let stands_by = answer.is_ok_and(|(_, text)| text.contains("lease standby"));
            Ok(stands_by.then_some(()))
        })
        .await?;
        for (name, mark) in marks {
            let late = shop.writes_since(name, mark).await?;
            assert_eq!(late, Vec::<Entry>::new(), "{name}");
        }
        before.has_moved(shop).await?;

        drop(successor);
        let is_of_lease = |flag: &String| flag.starts_with("--lease-");
        cluster
            .restart_operator(|options| options.args.retain(|flag| !is_of_lease(flag)))
            .await
    })
}
