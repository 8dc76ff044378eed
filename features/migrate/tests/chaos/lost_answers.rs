//! The answers of API servers are lost after the effect: nothing is done twice.

use api::migrate::Phase;
use http::Method;
use serde_json::json;
use testkit::Result;
use testkit::fault_proxy::{AnyMethod, FaultProxy, Rule, RuleId};

use crate::ends::Before;
use crate::stories::{DESTINATION, SOURCE, Shop, replicas, run_story_of};

/// The writes of a run, by method and resource. PersistentVolumes have no namespace.
const WRITES: [(Method, &str); 10] = [
    (Method::POST, "secrets"),
    (Method::POST, "configmaps"),
    (Method::PATCH, "configmaps/*"),
    (Method::DELETE, "configmaps/*"),
    (Method::PATCH, "statefulsets/web"),
    (Method::DELETE, "statefulsets/web"),
    (Method::POST, "persistentvolumeclaims"),
    (Method::DELETE, "persistentvolumeclaims/*"),
    (Method::PATCH, "persistentvolumes/*"),
    (Method::DELETE, "persistentvolumes/*"),
];

/// A proxy of the story's own before a cluster. It loses the answers to the first two of each of these writes.
struct Loss {
    proxy: FaultProxy,
    rules: Vec<(String, RuleId)>,
}

impl Loss {
    async fn start(shop: &Shop, cluster: &str, writes: &[(Method, &str)]) -> Result<Self> {
        let proxy = shop.cluster(cluster).control_plane().proxy().await?;
        proxy.rule(Rule::on_regex(AnyMethod::any(), "dryRun=All")?);
        let rules = writes.iter().map(|(method, resource)| {
            let rule = Rule::on(method.clone(), &format!("*/{resource}"));
            let id = proxy.rule(rule.times(2).cut_after());
            (format!("{method} {resource}"), id)
        });
        let rules = rules.collect();
        shop.use_proxy(cluster, &proxy).await?;
        Ok(Self { proxy, rules })
    }

    /// The writes that lost no answer.
    fn unused(&self) -> Vec<&str> {
        let rules = self.rules.iter();
        let unused = rules.filter(|(_, id)| self.proxy.hits(*id) == 0);
        unused.map(|(name, _)| name.as_str()).collect()
    }
}

#[test]
fn a_run_ends_the_same_after_lost_answers() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        let loss = Loss::start(shop, SOURCE, &WRITES).await?;
        shop.open_shop().await?;
        let before = Before::of(shop).await?;
        shop.migrate(&json!({})).await?;
        shop.until_phase(Phase::Completed).await?;
        before.has_moved(shop).await?;
        assert_eq!(loss.unused(), Vec::<&str>::new());
        Ok(())
    })
}

#[test]
fn a_rollback_ends_the_same_after_lost_answers() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        let writes = WRITES.iter().filter(|(_, resource)| *resource != "secrets");
        let writes: Vec<_> = writes.cloned().collect();
        let loss = Loss::start(shop, DESTINATION, &writes).await?;
        shop.open_shop().await?;
        let before = Before::of(shop).await?;
        shop.migrate(&json!({"ordinalLimit": 1})).await?;
        shop.until_paused("OrdinalLimit").await?;
        shop.edit(&json!({"abort": "Rollback"})).await?;
        shop.until_phase(Phase::RolledBack).await?;
        before.has_returned(shop).await?;
        assert_eq!(loss.unused(), ["PATCH persistentvolumes/*"]);
        Ok(())
    })
}
