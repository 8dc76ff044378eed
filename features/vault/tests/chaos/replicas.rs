//! Two replicas: a leader that was frozen writes nothing to Vault once another has begun.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use crate::stories::{Crew, Plan, rule, tell};
use api::vault::VaultPolicy;
use serde_json::{Value, json};
use testkit::fault_proxy::Logged;
use testkit::{Result, eventually_within, is};

/// A lease that runs out within a story.
const WORLD: Plan = Plan {
    pace: 1,
    args: &[
        "--vault-deletion-deadline=never",
        "--lease-duration=5s",
        "--lease-renew-deadline=3s",
        "--lease-retry-period=500ms",
    ],
};
/// The successor's, which does not: a thawed leader would rightly lead again.
const LONG_LEASE: [&str; 3] = [
    "--lease-duration=600s",
    "--lease-renew-deadline=500s",
    "--lease-retry-period=500ms",
];
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two edits, so that they leave room for the replicas.
const PAUSE: Duration = Duration::from_millis(20);
const POLICIES: usize = 20;

fn policy(version: usize) -> Value {
    let path = format!("secret/data/{{{{namespace}}}}/{version}/*");
    json!({"rules": [rule(&path, &["read"])]})
}

/// Edits the policies in turn, again and again; `edits` counts.
async fn edit_without_end(crew: &Crew, edits: &Cell<usize>) -> Result<Infallible> {
    loop {
        let n = edits.get();
        let name = format!("p{:02}", n % POLICIES);
        crew.declare::<VaultPolicy>(&name, policy(n)).await?;
        edits.set(n + 1);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn more(edits: &Cell<usize>, count: usize) -> Result<()> {
    let goal = edits.get() + count;
    eventually_within(PATIENCE, "more edits", async || {
        Ok((edits.get() >= goal).then_some(()))
    })
    .await
}

/// The writes of policies so far. Each replica has a token of its own.
fn writes(crew: &Crew) -> Vec<Logged> {
    let mut all = crew.proxy.requests();
    let is_read = |one: &Logged| matches!(one.method.as_str(), "GET" | "LIST");
    all.retain(|one| one.path.starts_with("/v1/sys/policies/") && !is_read(one));
    all
}

#[test]
fn a_leader_that_was_frozen_writes_nothing_to_vault() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        for n in 0..POLICIES {
            let name = format!("p{n:02}");
            crew.declare::<VaultPolicy>(&name, policy(n)).await?;
            crew.until::<VaultPolicy>(&name, is("Ready", "Succeeded"))
                .await?;
        }
        let edits = Cell::new(POLICIES);
        let story = async {
            more(&edits, 100).await?;
            let leader = site.world.operator();
            leader.freeze()?;
            let tokens: BTreeSet<_> = crew
                .proxy
                .requests()
                .into_iter()
                .filter_map(|one| one.vault_token)
                .collect();
            let is_leaders = |one: &Logged| {
                let token = one.vault_token.as_ref();
                token.is_some_and(|token| tokens.contains(token))
            };
            let successor = site.world.replica_with("successor", |options| {
                options.args.retain(|flag| !flag.starts_with("--lease-"));
                options.args.extend(LONG_LEASE.map(str::to_owned));
            });
            let successor = successor.await?;
            let first = eventually_within(PATIENCE, "the successor writes", async || {
                Ok(writes(&crew).into_iter().find(|one| !is_leaders(one)))
            });
            let first = first.await?;
            leader.thaw()?;
            eventually_within(PATIENCE, "the thawed leader stands by", async || {
                let told = leader.probe("/readyz?verbose").await;
                let stands_by = told.is_ok_and(|(_, text)| text.contains("lease standby"));
                Ok(stands_by.then_some(()))
            })
            .await?;
            more(&edits, 200).await?;
            let (early, late) = writes(&crew)
                .into_iter()
                .filter(is_leaders)
                .partition::<Vec<_>, _>(|one| one.seq < first.seq);
            assert!(early.len() > POLICIES, "the leader wrote under load");
            assert_eq!(late, Vec::<Logged>::new());
            Result::<testkit::Operator>::Ok(successor)
        };
        let successor = tokio::select! {
            ended = edit_without_end(&crew, &edits) => ended.map(|never| match never {})?,
            successor = story => successor?,
        };
        for n in 0..POLICIES {
            let name = format!("p{n:02}");
            crew.until::<VaultPolicy>(&name, is("Ready", "Succeeded"))
                .await?;
        }
        drop(successor);
        Ok(())
    })
}
