//! Quiet: what is in order costs a look now and then, and nothing else; what goes leaves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stories::{Crew, Plan, Site, admits, reader, tell};
use api::vault::{VaultPolicy, VaultRole, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Clock, RealClock};
use kube::api::{Api, DeleteParams, ListParams};
use reqwest::Method;
use serde_json::json;
use testkit::{Entry, Result, eventually_within};
use tokio::sync::Mutex;

/// A minute passes in a second; a resync comes every five.
const WORLD: Plan = Plan {
    pace: 60,
    args: &[],
};

/// What the contract says, in the operator's time and in ours, where it may come a tenth early.
const RESYNC: Duration = Duration::from_millis(5000 * 9 / 10);
const HEALTH: Duration = Duration::from_millis(500 * 9 / 10);
/// Many objects on a small machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// These stories count, and one restarts the operator: they are told one after another.
static TURN: Mutex<()> = Mutex::const_new(());

/// How often each of the crew's policies and roles was read, by path.
fn reads(crew: &Crew) -> BTreeMap<String, usize> {
    let mut reads = BTreeMap::new();
    for call in crew.proxy.requests() {
        if call.method == Method::GET && call.path.contains(crew.name()) {
            *reads.entry(call.path).or_default() += 1;
        }
    }
    reads
}

/// How often each was read since `before`.
fn reads_since(crew: &Crew, before: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let mut reads = reads(crew);
    for (path, count) in &mut reads {
        *count -= before.get(path).copied().unwrap_or_default();
    }
    reads
}

/// How often `every` fits into `time`, the last one begun.
fn times(time: Duration, every: Duration) -> usize {
    let times = time.as_millis().div_ceil(every.as_millis());
    usize::try_from(times).expect("tests are short")
}

/// Waits until this many policies, and as many roles, are ready.
async fn all_ready(crew: &Crew, each: usize) -> Result<()> {
    let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
    let roles = Api::<VaultRole>::namespaced(crew.client(), crew.name());
    let is_ready = |conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]| {
        let mut ready = conditions.iter().filter(|one| one.type_ == "Ready");
        ready.any(|one| one.status == "True")
    };
    eventually_within(PATIENCE, "all are ready", async || {
        let policies = policies.list(&ListParams::default()).await?;
        let statuses = policies.iter().filter_map(|one| one.status.as_ref());
        let done = statuses.filter(|status| is_ready(&status.sync.conditions));
        let roles = roles.list(&ListParams::default()).await?;
        let statuses = roles.iter().filter_map(|one| one.status.as_ref());
        let roles = statuses.filter(|status| is_ready(&status.sync.conditions));
        Ok((done.count() == each && roles.count() == each).then_some(()))
    })
    .await
}

/// Declares this many policies, and a role for each.
async fn populate(crew: &Crew, each: usize) -> Result<()> {
    let mut manifests = String::new();
    for n in 0..each {
        let mut role = admits(&["sa1"]);
        role["policies"][0]["name"] = json!(format!("p{n}"));
        manifests += &crew.manifest::<VaultPolicy>(&format!("p{n}"), reader());
        manifests += &crew.manifest::<VaultRole>(&format!("r{n}"), role);
    }
    crew.apply(&manifests).await.map(drop)
}

#[test]
fn three_hundred_objects_in_order_are_read_once_a_resync_and_never_written() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        let crew = site.crew().await?;
        populate(&crew, 150).await?;
        all_ready(&crew, 150).await?;
        assert_eq!(crew.calls(Method::POST, "auth/*/login"), 1);

        settled(site, &crew).await?;
        let clock = RealClock::new();
        let (mark, writes, before) = (site.world.mark(), crew.writes(), reads(&crew));
        let upkeep = |crew: &Crew| {
            crew.calls(Method::GET, "sys/health") + crew.calls(Method::GET, "auth/token/*")
        };
        let looks = upkeep(&crew);
        eventually_within(PATIENCE, "three resyncs of all", async || {
            let since = reads_since(&crew, &before);
            let all = since.len() == 300 && since.values().all(|count| *count >= 3);
            Ok(all.then_some(()))
        })
        .await?;
        let most = reads_since(&crew, &before).into_values().max();
        let looks = upkeep(&crew) - looks;
        // Read after the calls were counted: none of them is later.
        let took = clock.elapsed();

        let at_most = |every: Duration| times(took, every) + 1;
        let (most, resyncs) = (most.unwrap_or_default(), at_most(RESYNC));
        assert!(most <= resyncs, "{most} reads in {resyncs} resyncs at most");
        let bar = 2 * at_most(HEALTH);
        assert!(looks <= bar, "{looks} calls of the connection, not {bar}");
        assert_eq!(crew.writes(), writes);
        assert_eq!(crew.kubernetes_writes(mark).await?, vec![]);
        assert_eq!(crew.calls(Method::POST, "auth/*/login"), 1);

        // The next life of the operator looks once at each and writes nothing. For that it waits
        // half a minute for its login, which takes real time: a minute passes in twelve seconds.
        let (mark, before) = (site.world.mark(), reads(&crew));
        at_pace(site, 5).await?;
        let read = eventually_within(PATIENCE, "each has been read", async || {
            let since = reads_since(&crew, &before);
            Ok(since.values().all(|count| *count >= 1).then_some(()))
        })
        .await;
        let most = reads_since(&crew, &before).into_values().max();
        let (changed, logins) = (crew.writes(), crew.calls(Method::POST, "auth/*/login"));
        // Its own login is told, by the connection.
        let mut written = crew.kubernetes_writes(mark).await?;
        written.retain(|one| one.name != crew.connection);
        // Whatever came of it, the next story finds its world.
        at_pace(site, WORLD.pace).await?;
        read?;
        // Before it ended, each may have been read, too.
        assert!(most <= Some(2), "{most:?} reads after a restart");
        assert_eq!((changed, logins), (writes, 2));
        assert_eq!(written, vec![]);
        Ok(())
    })
}

/// Ends the operator and starts it again; time then runs so many times as fast in it.
async fn at_pace(site: &Site, pace: u32) -> Result<()> {
    let operator = site.world.operator();
    let ended = operator.terminate(Duration::from_secs(25)).await?;
    assert!(ended.success());
    let again = operator.restart(|options| options.time_factor = Some(pace));
    again.await
}

/// Waits for a time in which every object is read once more and nothing is written: the passes and
/// events that the last writes asked for are over.
async fn settled(site: &Site, crew: &Crew) -> Result<()> {
    let resync = async || {
        let before = reads(crew);
        eventually_within(PATIENCE, "all have been read again", async || {
            let since = reads_since(crew, &before);
            Ok(since.values().all(|count| *count >= 1).then_some(()))
        })
        .await
    };
    // As many resyncs as come in PATIENCE.
    let is_meant = |write: &Entry| crew.is_about(write);
    site.world.settle(24, resync, is_meant).await.map(drop)
}

#[test]
fn what_comes_and_goes_leaves_nothing_behind() -> Result<()> {
    tell(WORLD, async |site| {
        let _turn = TURN.lock().await;
        let crew = site.crew().await?;
        let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
        let roles = Api::<VaultRole>::namespaced(crew.client(), crew.name());
        for round in 0..10 {
            populate(&crew, 50).await?;
            // Every other time they go while they are still being written.
            let all_written = round % 2 == 0;
            if all_written {
                all_ready(&crew, 50).await?;
            }
            let mark = site.world.mark();
            let (how, all) = (DeleteParams::default(), ListParams::default());
            policies.delete_collection(&how, &all).await?;
            roles.delete_collection(&how, &all).await?;
            eventually_within(PATIENCE, "all are gone", async || {
                let left = policies.list(&all).await?.items.len();
                let left = left + roles.list(&all).await?.items.len();
                Ok((left == 0).then_some(()))
            })
            .await?;
            assert_eq!(
                left_in_vault(site, crew.name()).await?,
                Vec::<String>::new()
            );
            if all_written {
                let writes = crew.kubernetes_writes(mark).await?;
                let vain: Vec<_> = writes.iter().filter(|one| one.code == 404).collect();
                assert!(vain.is_empty(), "written though gone: {vain:?}");
            }
        }
        let home = Api::<ConfigMap>::namespaced(crew.client(), site.world.operator_namespace());
        let records = ListParams::default().labels(names::CLEANUP_RECORD_LABEL);
        let records = home.list(&records).await?.items;
        assert!(records.is_empty(), "{records:?}");
        Ok(())
    })
}

/// The policies and roles in Vault whose name has `part` in it.
async fn left_in_vault(site: &Site, part: &str) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for path in ["sys/policies/acl", "auth/kubernetes/role"] {
        let found = site.read(&format!("{path}?list=true")).await?;
        let found = found.unwrap_or_default();
        let keys = found["keys"].as_array().cloned().unwrap_or_default();
        let named = keys.iter().filter_map(|key| key.as_str());
        let ours = named.filter(|name| name.contains(part));
        left.extend(ours.map(|name| format!("{path}/{name}")));
    }
    Ok(left)
}

#[test]
fn passes_of_a_connection_are_counted_by_how_they_ended() -> Result<()> {
    tell(WORLD, async |site| {
        let _crew = site.crew().await?;
        let succeeded = [("resource", "VaultConnection"), ("status", "success")];
        let took = [("kind", "VaultConnection"), ("result", "success")];
        eventually_within(PATIENCE, "a pass is counted", async || {
            let passes = site.metric("reconcile_total", &succeeded).await?;
            let timed = site
                .metric("reconcile_duration_seconds_count", &took)
                .await?;
            Ok((passes > 0.0 && timed > 0.0).then_some(()))
        })
        .await
    })
}
