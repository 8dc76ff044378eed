//! Swap: what vault-access-operator 0.12 left in a cluster and in Vault is taken over as it is.
//!
//! `fixtures/swap` has its objects with their status, and what Vault returned of them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stories::{Plan, Site, said, tell};
use api::vault::{
    Phase, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Logged};
use testkit::{Result, Story, eventually, is};
use tokio::sync::{Mutex, OnceCell};

/// A minute passes in a second, and every object is looked at once a minute.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m"],
};

const CLUSTER: &str = include_str!("../fixtures/swap/cluster-objects.yaml");
const TEAM: &str = include_str!("../fixtures/swap/team-a-objects.yaml");
const LEASE: &str = "2bf9394e.platform.io";
/// Who holds it before the swap.
const OTHER: &str = "vault-access-operator-0";
/// Vault's address in them.
const ADDRESS: &str = "http://127.0.0.1:28200";

/// What vault-access-operator wrote to Vault, by path.
const POLICIES: [(&str, &str); 2] = [
    (
        "sys/policies/acl/vao.kubernetes._.shared",
        include_str!("../fixtures/swap/policy-vao.kubernetes._.shared.hcl"),
    ),
    (
        "sys/policies/acl/vao.kubernetes.team-a.app",
        include_str!("../fixtures/swap/policy-vao.kubernetes.team-a.app.hcl"),
    ),
];
const ROLES: [(&str, &str); 2] = [
    (
        "auth/kubernetes/role/vao.kubernetes._.wide",
        include_str!("../fixtures/swap/role-vao.kubernetes._.wide.json"),
    ),
    (
        "auth/kubernetes/role/vao.kubernetes.team-a.r",
        include_str!("../fixtures/swap/role-vao.kubernetes.team-a.r.json"),
    ),
];
const SEED: &str = "secret/metadata/team-a/seed";

/// What the operator may do in Vault, there as here.
const GRANTS: &str = r#"
path "sys/policies/acl/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "auth/kubernetes/role/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "secret/data/*" { capabilities = ["create", "read", "update"] }
path "secret/metadata/*" { capabilities = ["read", "patch", "delete"] }
"#;

/// Stories that wait for quiet, or disturb it.
static TURN: Mutex<()> = Mutex::const_new(());

/// A cluster after the swap.
struct Swap {
    proxy: &'static FaultProxy,
    team: Story,
    /// The same once more, to be deleted.
    leavers: Story,
    /// What was asked of Vault while the other operator still held its Lease.
    early: Vec<Logged>,
    /// What Vault had at each recorded path before.
    before: BTreeMap<&'static str, Value>,
}

/// The swap, which happens once for all stories: each looks at something else of it.
async fn swapped(site: &'static Site) -> Result<&'static Swap> {
    static SWAP: OnceCell<Swap> = OnceCell::const_new();
    SWAP.get_or_try_init(|| swap(site)).await
}

async fn swap(site: &'static Site) -> Result<Swap> {
    // Before: another operator's work, and none of ours runs.
    let operator = site.world.operator();
    operator.terminate(Duration::from_secs(30)).await?;
    let proxy = site.proxy().await?;
    let before = furnish(site).await?;
    let plane = site.world.control_plane();
    for namespace in ["team-a", "team-b"] {
        plane.ensure_namespace(namespace).await?;
    }
    for list in [CLUSTER, TEAM, &TEAM.replace("team-a", "team-b")] {
        restore(site, &list.replace(ADDRESS, proxy.url())).await?;
    }
    let leases = hold(site).await?;

    // Then ours comes, and waits for the Lease.
    operator.restart(|_| ()).await?;
    eventually("ours waits for the other's Lease", async || {
        let (_, told) = operator.probe("/readyz?verbose").await?;
        Ok(told.contains(OTHER).then_some(()))
    })
    .await?;
    let early = proxy.requests();
    leases.delete(LEASE, &DeleteParams::default()).await?;

    // It looks at all of it, and again at every resync.
    for path in before.keys() {
        eventually(&format!("{path} is read by several passes"), async || {
            let read = proxy.count(Method::GET, &format!("/v1/{path}"));
            Ok((read >= 4).then_some(()))
        })
        .await?;
    }
    Ok(Swap {
        proxy,
        team: site.in_namespace("team-a"),
        leavers: site.in_namespace("team-b"),
        early,
        before,
    })
}

/// Takes the Lease that vault-access-operator holds while it runs.
async fn hold(site: &Site) -> Result<Api<Lease>> {
    let client = site.world.control_plane().admin();
    let leases = Api::<Lease>::namespaced(client, site.world.operator_namespace());
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
        "spec": {"holderIdentity": OTHER, "leaseDurationSeconds": 60},
    });
    let how = PatchParams::apply("vault-access-operator").force();
    leases.patch(LEASE, &how, &Patch::Apply(held)).await?;
    Ok(leases)
}

/// Puts into Vault what vault-access-operator had written there.
async fn furnish(site: &Site) -> Result<BTreeMap<&'static str, Value>> {
    site.write_policy("vao", GRANTS).await?;
    site.let_operator_in("kubernetes", "vao", "vao").await?;
    for (path, text) in POLICIES {
        site.put(path, json!({"policy": text})).await?;
    }
    for (path, fields) in ROLES {
        site.put(path, serde_json::from_str(fields)?).await?;
    }
    let values = json!({"data": {"password": "initial"}});
    site.put("secret/data/team-a/seed", values.clone()).await?;

    let again = |text: &str| text.replace("team-a", "team-b");
    let text = again(POLICIES[1].1);
    site.put(&again(POLICIES[1].0), json!({"policy": text}))
        .await?;
    let fields = serde_json::from_str(&again(ROLES[1].1))?;
    site.put(&again(ROLES[1].0), fields).await?;
    site.put("secret/data/team-b/seed", values).await?;
    in_vault(site).await
}

/// What Vault has at each recorded path.
async fn in_vault(site: &Site) -> Result<BTreeMap<&'static str, Value>> {
    let paths = POLICIES.iter().chain(&ROLES).map(|(path, _)| *path);
    let mut all = BTreeMap::new();
    for path in paths.chain([SEED]) {
        let found = site.read(path).await?;
        all.insert(path, found.expect("it was put there"));
    }
    Ok(all)
}

/// Makes the objects of a list anew, with the status they had.
async fn restore(site: &Site, list: &str) -> Result<()> {
    let list: Value = serde_saphyr::from_str(list)?;
    for item in list["items"].as_array().expect("a list has items") {
        let mut object: DynamicObject = serde_json::from_value(item.clone())?;
        let kind =
            ApiResource::from_gvk(&object.types.as_ref().expect("it has a kind").try_into()?);
        let name = object.name_any();
        let client = site.world.cluster().client();
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client, &namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let status = json!({"status": object.data["status"].take()});
        object.metadata.uid = None;
        object.metadata.resource_version = None;
        api.create(&PostParams::default(), &object).await?;
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(())
}

#[test]
fn while_the_other_operator_holds_its_lease_nothing_is_asked_of_vault() -> Result<()> {
    tell(WORLD, async |site| {
        assert_eq!(swapped(site).await?.early, []);
        Ok(())
    })
}

#[test]
fn nothing_is_written_but_the_exact_roles_beside_a_wide_one() -> Result<()> {
    tell(WORLD, async |site| {
        let swap = swapped(site).await?;
        let methods = [Method::PUT, Method::POST, Method::PATCH, Method::DELETE];
        let calls = swap.proxy.requests().into_iter();
        let mut writes: Vec<_> = calls
            .filter(|call| methods.contains(&call.method))
            .filter(|call| !call.path.ends_with("/login") && !call.path.contains("team-b"))
            .map(|call| (call.method, call.path))
            .collect();
        writes.sort_by(|one, other| one.1.cmp(&other.1));
        let exact = |namespace: &str| {
            let path = format!("/v1/auth/kubernetes/role/vao.kubernetes._.wide__{namespace}");
            (Method::POST, path)
        };
        assert_eq!(writes, [exact("ns1"), exact("ns2")]);
        assert_eq!(in_vault(site).await?, swap.before);
        Ok(())
    })
}

#[test]
fn a_wide_role_stays_and_says_whom_it_admits_beyond_the_exact_ones() -> Result<()> {
    tell(WORLD, async |site| {
        swapped(site).await?;
        let cluster = site.world.cluster();
        let wide = cluster
            .until::<VaultClusterRole>("wide", is("BindingExact", "LegacyProductRole"))
            .await?;
        let status = wide.status.unwrap();
        let base = "vao.kubernetes._.wide";
        assert_eq!(status.vault_role_name.as_deref(), Some(base));
        let message = said(&status.sync.conditions, "BindingExact");
        for stranger in ["ns1/b", "ns2/a"] {
            assert!(message.contains(stranger), "{message}");
        }
        for (namespace, account) in [("ns1", "a"), ("ns2", "b")] {
            let name = format!("{base}__{namespace}");
            let mut named = status.vault_role_names.iter();
            assert!(named.any(|one| one.vault_role_name.as_deref() == Some(&*name)));
            let role = site.role(&name).await?.unwrap();
            assert_eq!(role["bound_service_account_names"], json!([account]));
            assert_eq!(role["bound_service_account_namespaces"], json!([namespace]));
            let policies = json!(["vao.kubernetes._.shared"]);
            assert_eq!(role["token_policies"], policies);
        }
        Ok(())
    })
}

#[test]
fn policies_and_roles_are_ready_under_their_recorded_names() -> Result<()> {
    tell(WORLD, async |site| {
        let swap = swapped(site).await?;
        let (cluster, team) = (site.world.cluster(), &swap.team);
        let ready = || is("Ready", "Succeeded");
        cluster.until::<VaultConnection>("c", ready()).await?;
        let shared = cluster
            .until::<VaultClusterPolicy>("shared", ready())
            .await?;
        let app = team.until::<VaultPolicy>("app", ready()).await?;
        let wide = cluster.until::<VaultClusterRole>("wide", ready()).await?;
        let r = team.until::<VaultRole>("r", ready()).await?;
        let (shared, app) = (shared.status.unwrap(), app.status.unwrap());
        let (wide, r) = (wide.status.unwrap(), r.status.unwrap());
        let names = [shared.vault_name, app.vault_name];
        let names = names
            .into_iter()
            .chain([wide.vault_role_name, r.vault_role_name]);
        let names: Vec<_> = names.map(Option::unwrap_or_default).collect();
        assert_eq!(
            names,
            [
                "vao.kubernetes._.shared",
                "vao.kubernetes.team-a.app",
                "vao.kubernetes._.wide",
                "vao.kubernetes.team-a.r",
            ]
        );
        for sync in [shared.sync, app.sync, wide.sync, r.sync] {
            assert_eq!(sync.phase, Some(Phase::Active));
            assert_ne!(sync.drift_detected, Some(true));
            assert!(sync.previous_names.is_empty());
            // Recorded by us, too, now.
            let binding = sync.binding.unwrap();
            assert_eq!(binding.connection.as_deref(), Some("c"));
        }
        Ok(())
    })
}

#[test]
fn a_seed_stays_as_it_is() -> Result<()> {
    tell(WORLD, async |site| {
        let swap = swapped(site).await?;
        let seed = swap
            .team
            .until::<VaultKVSecret>("seed", is("Ready", "Succeeded"))
            .await?;
        let status = seed.status.unwrap();
        assert_eq!(status.sync.phase, Some(Phase::Active));
        assert_ne!(status.seeded, Some(true));
        let path = "secret/data/team-a/seed";
        assert_eq!(status.vault_path.as_deref(), Some(path));
        let values = site.read(path).await?.unwrap();
        assert_eq!(values["data"], json!({"password": "initial"}));
        assert_eq!(site.read(SEED).await?.as_ref(), swap.before.get(SEED));
        Ok(())
    })
}

#[test]
fn after_the_swap_all_is_quiet() -> Result<()> {
    tell(WORLD, async |site| {
        let swap = swapped(site).await?;
        let _turn = TURN.lock().await;
        let reads = || swap.proxy.count(Method::GET, &format!("/v1/{SEED}"));
        let (mark, before) = (site.world.mark(), reads());
        eventually("two more resyncs", async || {
            Ok((reads() >= before + 2).then_some(()))
        })
        .await?;
        let writes = site.world.writes_since(mark).await?;
        let about = |group: &str| group == VaultPolicy::group(&());
        assert!(!writes.iter().any(|one| about(&one.group)), "{writes:?}");
        Ok(())
    })
}

#[test]
fn what_was_taken_over_goes_with_its_object_but_for_a_seed_of_unknown_origin() -> Result<()> {
    tell(WORLD, async |site| {
        let swap = swapped(site).await?;
        let _turn = TURN.lock().await;
        let team = &swap.leavers;
        team.delete::<VaultRole>("r").await?;
        team.gone::<VaultRole>("r").await?;
        team.delete::<VaultPolicy>("app").await?;
        team.gone::<VaultPolicy>("app").await?;
        team.delete::<VaultKVSecret>("seed").await?;
        team.gone::<VaultKVSecret>("seed").await?;
        assert_eq!(site.role("vao.kubernetes.team-b.r").await?, None);
        assert_eq!(site.policy("vao.kubernetes.team-b.app").await?, None);
        let seed = site.read("secret/data/team-b/seed").await?.unwrap();
        assert_eq!(seed["data"], json!({"password": "initial"}));

        // Who else had to do with them has heard of it: quiet returns.
        let alone = |shared: &VaultClusterPolicy| {
            let used = shared.status.iter().flat_map(|one| &one.used_by_roles);
            !used.into_iter().any(|role| role.contains("team-b"))
        };
        let cluster = site.world.cluster();
        cluster
            .until::<VaultClusterPolicy>("shared", alone)
            .await
            .map(drop)
    })
}
