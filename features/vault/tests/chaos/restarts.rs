//! The operator starts, and what it has not read yet it does not take for absent.

use std::time::Duration;

use crate::stories::{Plan, Site, admits, event, label, reader, rule, tell};
use api::vault::{VaultConnection, VaultPolicy, VaultRole};
use kube::ResourceExt;
use reqwest::{Method, StatusCode};
use serde_json::json;
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, is};

/// Ten seconds pass in one.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

/// Long enough for everything else to be read and looked at.
const LATE: Duration = Duration::from_secs(2);

/// Starts the operator anew; these of the feature's kinds are read late.
async fn start_slowly(site: &Site, plurals: &[&str]) -> Result<()> {
    let front = site.front().await?;
    for plural in plurals {
        let path = format!("/apis/vault.platform.io/v1alpha1/{plural}");
        front.rule(Rule::on(Method::GET, &path).delay(LATE));
    }
    site.start_behind(front).await
}

#[test]
fn connections_that_are_read_late_are_waited_for_without_a_word() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let used = |policy: &VaultPolicy| {
            let status = policy.status.as_ref();
            status.is_some_and(|status| !status.used_by_roles.is_empty())
        };
        crew.until::<VaultPolicy>("app", used).await?;
        let paths = [
            format!("sys/policies/acl/{}", crew.vault_name("app")),
            format!("auth/kubernetes/role/{}", crew.vault_name("r")),
        ];
        let reads = || paths.iter().map(|path| crew.calls(Method::GET, path));
        let before: Vec<_> = reads().collect();
        let (mark, writes) = (site.world.mark(), crew.writes());
        start_slowly(site, &["vaultconnections"]).await?;

        eventually("all is looked at again", async || {
            let all = reads().zip(&before).all(|(now, before)| now > *before);
            Ok(all.then_some(()))
        })
        .await?;
        crew.rereads("sys/health", 1).await?;
        assert_eq!(crew.writes(), writes);
        // A login of its own is told of in the status of the connection.
        let mut written = crew.kubernetes_writes(mark).await?;
        written.retain(|one| one.resource != "vaultconnections" || one.subresource != "status");
        assert_eq!(written, vec![]);
        crew.delete::<VaultRole>("r").await?;
        crew.gone::<VaultRole>("r").await?;
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        crew.leave().await
    })
}

#[test]
fn what_is_not_recorded_goes_from_vault_though_connections_are_read_late() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        site.doom("vault-after-write").await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        site.died().await?;
        let name = crew.vault_name("app");
        assert!(site.policy(&name).await?.is_some());
        crew.delete::<VaultPolicy>("app").await?;
        start_slowly(site, &["vaultconnections"]).await?;

        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&name).await?, None);
        crew.leave().await
    })
}

#[test]
fn a_connection_does_not_go_before_objects_that_are_read_late() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let refused = Rule::on(Method::DELETE, "/v1/sys/policies/*");
        let refused = refused.status(StatusCode::INTERNAL_SERVER_ERROR, r#"{"errors":["no"]}"#);
        let refused = crew.proxy.rule(refused);
        let (cluster, name) = (crew.cluster(), crew.connection.clone());
        crew.delete::<VaultPolicy>("app").await?;
        cluster.delete::<VaultConnection>(&name).await?;
        cluster
            .until::<VaultConnection>(&name, is("Deleting", "ChildrenExist"))
            .await?;
        start_slowly(site, &["vaultpolicies"]).await?;

        crew.proxy.remove(refused);
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        cluster.gone::<VaultConnection>(&name).await
    })
}

#[test]
fn a_namesake_of_a_template_that_is_read_late_is_left_alone() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let given = json!({"tenancy": {"templates": [{
            "name": "given",
            "namespaceSelector": {"matchLabels": {"crew": "late"}},
            "rules": [rule("secret/data/{{namespace}}/given", &["read"])],
            "serviceAccounts": ["app"],
        }]}});
        let crew = site.crew_with(given).await?;
        crew.declare::<VaultPolicy>("given", reader()).await?;
        let own = crew
            .until::<VaultPolicy>("given", is("Ready", "Succeeded"))
            .await?;
        label(&crew, "crew", Some("late")).await?;
        let (cluster, name) = (crew.cluster(), &crew.connection);
        event(&cluster, name, "TemplateNameTaken").await?;
        let mark = site.world.mark();
        start_slowly(site, &["vaultpolicies", "vaultroles"]).await?;

        crew.rereads("sys/health", 2).await?;
        let mut written = crew.kubernetes_writes(mark).await?;
        written.retain(|one| one.resource == "vaultpolicies" && one.subresource.is_empty());
        assert_eq!(written, vec![]);
        let now = crew.until::<VaultPolicy>("given", is("Ready", "Succeeded"));
        let now = now.await?;
        assert!(now.labels().is_empty(), "{:?}", now.labels());
        assert_eq!(now.metadata.generation, own.metadata.generation);
        label(&crew, "crew", None).await?;
        crew.gone::<VaultRole>("given").await?;
        crew.delete::<VaultPolicy>("given").await?;
        crew.gone::<VaultPolicy>("given").await?;
        crew.leave().await
    })
}
