//! What a write costs: few calls of Vault, and few of the API server.

use crate::stories::{Plan, admits, reader, rule, tell};
use api::vault::{VaultPolicy, VaultRole, names};
use kube::api::{Api, DeleteParams};
use reqwest::Method;
use serde_json::json;
use testkit::{Entry, Result, eventually, is};

/// Real time: no resync falls into what is counted.
const WORLD: Plan = Plan { pace: 1, args: &[] };

/// Whether it changes the object of this name itself.
fn is_patch(write: &Entry, name: &str) -> bool {
    write.group == names::GROUP && write.name == name && write.subresource.is_empty()
}

#[test]
fn a_write_costs_few_calls_and_at_most_two_statuses() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (policy, role) = (
            format!("sys/policies/acl/{}", crew.vault_name("app")),
            format!("auth/kubernetes/role/{}", crew.vault_name("r")),
        );
        let calls = |path: &str| {
            let any = testkit::fault_proxy::AnyMethod::any();
            crew.proxy.count(any, &format!("/v1/{path}"))
        };
        let statuses = async |mark, name: &str| -> Result<usize> {
            let writes = crew.kubernetes_writes(mark).await?;
            let of = writes.iter().filter(|one| one.subresource == "status");
            Ok(of.filter(|one| one.name == name).count())
        };
        crew.searched().await?;
        let lists = || crew.calls(Method::from_bytes(b"LIST").expect("a word"), "*");
        let listed = lists();
        let edited = json!({"rules": [rule("secret/data/edited", &["read"])]});
        let mut longer = admits(&["sa1"]);
        longer["tokenTTL"] = json!("1h");
        let mut dear = Vec::new();
        for (what, spec, most) in [
            ("a new policy", reader(), 2),
            ("an edited policy", edited, 2),
            ("a new role", admits(&["sa1"]), 3),
            ("an edited role", longer, 3),
        ] {
            let (mark, is_policy) = (site.world.mark(), what.ends_with("policy"));
            let (name, path) = if is_policy {
                ("app", &policy)
            } else {
                ("r", &role)
            };
            let before = calls(path);
            if is_policy {
                crew.declare::<VaultPolicy>(name, spec).await?;
                crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                    .await?;
            } else {
                crew.declare::<VaultRole>(name, spec).await?;
                crew.until::<VaultRole>(name, is("Ready", "Succeeded"))
                    .await?;
            }
            let (asked, told) = (calls(path) - before, statuses(mark, name).await?);
            if asked > most || told > 2 {
                dear.push(format!("{what}: {asked} calls, {told} statuses"));
            }
        }
        for (name, path) in [("r", &role), ("app", &policy)] {
            let (mark, before) = (site.world.mark(), calls(path));
            let how = DeleteParams::default();
            if name == "r" {
                let roles = Api::<VaultRole>::namespaced(crew.client(), crew.name());
                roles.delete(name, &how).await?;
            } else {
                let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
                policies.delete(name, &how).await?;
            }
            let asked = eventually("it is deleted", async || {
                let writes = crew.kubernetes_writes(mark).await?;
                let patched = writes.iter().any(|one| is_patch(one, name));
                Ok(patched.then(|| calls(path) - before))
            })
            .await?;
            let writes = crew.kubernetes_writes(mark).await?;
            let codes: Vec<_> = writes.iter().filter(|one| is_patch(one, name)).collect();
            if asked > 2 || codes.len() > 1 || codes.iter().any(|one| one.code != 200) {
                dear.push(format!("deletion of {name}: {asked} calls, {codes:?}"));
            }
        }
        assert_eq!(dear, Vec::<String>::new());
        assert_eq!(lists(), listed, "nothing is listed for a write");
        Ok(())
    })
}
