//! Two replicas: a leader that was frozen writes nothing to AWS once another has begun.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::Duration;

use crate::stories::calls::Call;
use crate::stories::objects::serving;
use crate::stories::{Plan, Site, tell};
use serde_json::json;
use testkit::{Result, eventually_within};

/// A lease that runs out within a story.
const WORLD: Plan = Plan {
    pace: 60,
    args: &[
        "--tenants-sweep-interval=30s",
        "--lease-duration=5s",
        "--lease-renew-deadline=3s",
        "--lease-retry-period=500ms",
    ],
};
/// The successor's: it never runs out. A machine that is too slow to renew it must not make the other
/// one the leader again, who would rightly write then.
const LONG_LEASE: [&str; 3] = [
    "--lease-duration=600s",
    "--lease-renew-deadline=500s",
    "--lease-retry-period=500ms",
];
/// The successor's key in AWS, so that AWS's log tells the replicas apart.
const SUCCESSOR: &str = "AKIA000000000000SUCC";
const PATIENCE: Duration = Duration::from_secs(60);
const TENANTS: usize = 6;

/// Gives each tenant another domain, again and again; `edits` counts.
async fn edit_without_end(site: &Site, edits: &Cell<usize>) -> Result<Infallible> {
    loop {
        let n = edits.get();
        let tenant = n % TENANTS;
        let domain = format!("t{tenant}-{n}.example.com");
        let edit = json!({"domains": [{"domain": domain}]});
        site.edit(&format!("tenant-{tenant}"), edit).await?;
        edits.set(n + 1);
        tokio::time::sleep(Duration::from_millis(20)).await; // the pace of the story, not luck
    }
}

async fn more(edits: &Cell<usize>, count: usize) -> Result<()> {
    let goal = edits.get() + count;
    eventually_within(PATIENCE, "more edits", async || {
        Ok((edits.get() >= goal).then_some(()))
    })
    .await
}

fn writes_of(site: &Site, key: &str) -> Result<Vec<Call>> {
    site.those(|call| call.is_write() && call.key.as_deref() == Some(key))
}

#[test]
fn a_leader_that_was_frozen_writes_nothing_to_aws() -> Result<()> {
    tell(WORLD, async |site| {
        for n in 0..TENANTS {
            let domain = format!("t{n}.example.com");
            site.makes(&format!("tenant-{n}"), serving(&[&domain]))
                .await?;
        }
        let edits = Cell::new(0);
        let story = async {
            more(&edits, 30).await?;
            let leader = site.world.operator();
            leader.freeze()?;
            let successor = site.replica_with("successor", |options| {
                let keys = options.env.iter_mut();
                for (_, value) in keys.filter(|(name, _)| name == "AWS_ACCESS_KEY_ID") {
                    SUCCESSOR.clone_into(value);
                }
                options.args.retain(|arg| !arg.starts_with("--lease-"));
                options.args.extend(LONG_LEASE.map(str::to_owned));
            });
            let successor = successor.await?;
            let first = eventually_within(PATIENCE, "the successor writes", async || {
                Ok(writes_of(site, SUCCESSOR)?.into_iter().next())
            });
            let first = first.await?;
            leader.thaw()?;
            eventually_within(PATIENCE, "the thawed leader stands by", async || {
                let told = leader.probe("/readyz?verbose").await;
                let stands_by = told.is_ok_and(|(_, text)| text.contains("lease standby"));
                Ok(stands_by.then_some(()))
            })
            .await?;
            more(&edits, 60).await?;
            let (early, late) = writes_of(site, "test")?
                .into_iter()
                .partition::<Vec<_>, _>(|call| call.seq < first.seq);
            assert!(early.len() > TENANTS, "the leader wrote under load");
            assert_eq!(late, Vec::<Call>::new());
            Result::<testkit::Operator>::Ok(successor)
        };
        let successor = tokio::select! {
            ended = edit_without_end(site, &edits) => ended.map(|never| match never {})?,
            successor = story => successor?,
        };
        for n in 0..TENANTS {
            site.ready(&format!("tenant-{n}")).await?;
        }
        drop(successor);
        Ok(())
    })
}
