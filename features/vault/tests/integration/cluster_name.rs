//! The cluster's name is part of every name in Vault: with another one, objects move.

use std::time::Duration;

use crate::moves::{grace, is_gone, role_is_in_grace_at, role_is_only_at};
use crate::stories::{Plan, Site, admits, reader, tell};
use api::vault::{VaultPolicy, VaultRole};
use serde_json::json;
use testkit::{Result, is};

/// A minute passes in a second. The story restarts the operator, so no other uses this world.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m"],
};

/// Ends the operator and starts it again with these flags besides the plan's.
async fn restart(site: &Site, flags: &[&str]) -> Result<()> {
    let operator = site.world.operator();
    let ended = operator.terminate(Duration::from_secs(25)).await?;
    assert!(ended.success());
    let args = WORLD.args.iter().chain(flags);
    let args = args.map(|&flag| flag.to_owned()).collect();
    operator.restart(|options| options.args = args).await
}

// The server keeps no marker on roles: only `previousNames` says that the old name is ours.
#[test]
fn a_cluster_name_given_and_taken_back_leaves_the_first_names() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("24h")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let name = |cluster: &str, of: &str| format!("vao.{cluster}.{}.{of}", crew.name());
        let path = |cluster: &str| format!("auth/kubernetes/role/{}", name(cluster, "r"));

        restart(site, &["--cluster-name=blue"]).await?;
        role_is_in_grace_at(&crew, &path("blue")).await?;

        restart(site, &[]).await?;
        crew.connect(&crew.connection, grace("0s")).await?;
        role_is_only_at(&crew, &path("kubernetes")).await?;
        assert_eq!(site.read(&path("blue")).await?, None);
        let role = site.read(&path("kubernetes")).await?.unwrap_or_default();
        assert_eq!(role["token_policies"], json!([name("kubernetes", "app")]));
        is_gone(site, &name("blue", "app")).await?;
        assert!(site.policy(&name("kubernetes", "app")).await?.is_some());
        Ok(())
    })
}
