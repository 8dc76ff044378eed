//! Tables from which sources make tenants.
#![allow(dead_code)] // each file uses its part

pub(crate) mod places;

use std::collections::BTreeMap;

use api::tenants::{DistributionTenant, TenantSource, TenantSourceStatus};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use testkit::{Mark, Result, Sign, Story, eventually};

use crate::stories::Site;
use crate::stories::objects::{declare, with};

/// The source of most stories, and the ConfigMap with its table.
pub(crate) const SOURCE: &str = "customers";

/// Lets the operator read Secrets and ConfigMaps of the story's namespace, as the chart does for
/// the namespaces it is told.
pub(crate) async fn lets_read(site: &Site) -> Result<()> {
    let rules = json!([{
        "apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"],
    }]);
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "Role",
        "metadata": {"name": "tables"}, "rules": rules,
    });
    let account = json!({
        "kind": "ServiceAccount", "name": "pontoon",
        "namespace": site.world.operator_namespace(),
    });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "tables"}, "subjects": [account],
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "tables"},
    });
    site.apply(&format!("---\n{role}\n---\n{binding}\n"))
        .await
        .map(drop)
}

/// Writes the table: a line for each row below `header`.
pub(crate) async fn writes(site: &Site, header: &str, rows: &[&str]) -> Result<()> {
    let table = format!("{header}\n{}\n", rows.join("\n"));
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": SOURCE}, "data": {"tenants.csv": table},
    });
    site.apply(&format!("---\n{map}\n")).await.map(drop)
}

/// A row for each of so many tenants, those left out that `without` names.
pub(crate) async fn writes_many(site: &Site, count: usize, without: &[usize]) -> Result<()> {
    let rows = (0..count).filter(|n| !without.contains(n));
    let rows: Vec<_> = rows
        .map(|n| format!("site-{n:02},n{n:02}.example.com"))
        .collect();
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    writes(site, "name,domain", &rows).await
}

/// The spec of the source: of a ConfigMap, read as often as may be.
pub(crate) fn of_config_map() -> Value {
    json!({
        "provider": "configMap", "configMap": {"name": SOURCE},
        "distributionId": "E1", "pollInterval": "30s",
    })
}

/// Declares the source, its spec changed by a merge patch.
pub(crate) async fn reads(site: &Site, change: Value) -> Result<()> {
    let spec = with(of_config_map(), change);
    declare::<TenantSource>(site, SOURCE, &spec).await
}

/// Waits until the source says so; all that it says.
pub(crate) async fn says(site: &Site, sign: impl Sign<TenantSource>) -> Result<TenantSourceStatus> {
    site.until_status::<TenantSource>(SOURCE, sign).await
}

/// The tenants in a namespace, by name.
pub(crate) async fn tenants(story: &Story) -> Result<BTreeMap<String, DistributionTenant>> {
    let api = Api::<DistributionTenant>::namespaced(story.client(), story.name());
    let all = api.list(&ListParams::default()).await?.items.into_iter();
    Ok(all.map(|one| (one.name_any(), one)).collect())
}

/// The domains in a tenant's spec.
pub(crate) fn domains(tenant: &DistributionTenant) -> Vec<&str> {
    let domains = tenant.spec.domains.iter();
    domains.map(|one| one.domain.as_str()).collect()
}

/// How often the operator read the source's ConfigMap since `mark`.
async fn readings(site: &Site, mark: Mark) -> Result<usize> {
    let home = site.world.operator_namespace();
    let operator = format!("system:serviceaccount:{home}:pontoon");
    let asked = site.world.control_plane().entries_since(mark).await?;
    let readings = asked.iter().filter(|one| {
        one.user == operator && one.resource == "configmaps" && one.namespace == site.name()
    });
    Ok(readings.count())
}

/// Waits until the table was read this often from now on, and what the last one said is done.
pub(crate) async fn polls(site: &Site, times: usize) -> Result<()> {
    let mark = site.world.mark();
    eventually("the table is read again", async || {
        Ok((readings(site, mark).await? > times).then_some(()))
    })
    .await
}

/// The names of the tenants whose spec the operator wrote since `mark`.
pub(crate) async fn written(site: &Site, mark: Mark) -> Result<Vec<String>> {
    let mut writes = site.world.writes_since(mark).await?;
    writes.retain(|one| one.resource == "distributiontenants" && one.subresource.is_empty());
    let mut names: Vec<_> = writes.into_iter().map(|one| one.name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
