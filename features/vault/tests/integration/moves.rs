//! Moves: a new place first, then those who depend on it, and only then the old place goes.

use std::time::Duration;

use crate::stories::{Crew, Plan, Site, admits, annotate, event, reader, rule, said, tell};
use api::vault::{Phase, RoleStatus, VaultClusterPolicy, VaultClusterRole, VaultPolicy, VaultRole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Clock, PAUSED, RealClock};
use kube::api::{Api, Patch, PatchParams};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, holds, is};

/// A minute passes in a second.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m"],
};

pub(crate) fn grace(length: &str) -> Value {
    json!({"defaults": {"renameGrace": length}})
}

/// A crew with a second connection to the same Vault, which logs in at `kubernetes-x`, so that
/// names through it differ. Both keep earlier names for `length`.
async fn two_ways(site: &'static Site, length: &str) -> Result<(Crew, String)> {
    let crew = site.crew_with(grace(length)).await?;
    let second = crew.own("x");
    let mut change = grace(length);
    change["auth"] = json!({"kubernetes": {"authPath": "kubernetes-x"}});
    crew.connect(&second, change).await?;
    Ok((crew, second))
}

/// Declares the policy `app` through a connection, with this path, and waits until it is written.
async fn write_through(crew: &Crew, connection: &str, path: &str) -> Result<VaultPolicy> {
    let rules = json!([rule(path, &["read"])]);
    let spec = json!({"connectionRef": connection, "rules": rules});
    crew.declare::<VaultPolicy>("app", spec).await?;
    crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await
}

/// The name of the policy `app` through the second connection.
fn new_name(crew: &Crew) -> String {
    format!("vao.kubernetes-x.{}.app", crew.name())
}

async fn role_is_bound(crew: &Crew, policy: &str) -> Result<()> {
    let bound = |role: &VaultRole| {
        let status = role.status.as_ref();
        status.is_some_and(|status: &RoleStatus| status.resolved_policies == [policy])
    };
    crew.until::<VaultRole>("r", bound).await?;
    let role = crew.site.role(&crew.vault_name("r")).await?.unwrap();
    assert_eq!(role["token_policies"], json!([policy]));
    Ok(())
}

pub(crate) async fn is_gone(site: &Site, policy: &str) -> Result<()> {
    eventually(&format!("{policy} is gone in Vault"), async || {
        Ok(site.policy(policy).await?.is_none().then_some(()))
    })
    .await
}

#[test]
fn a_role_moves_to_the_new_mount_and_is_gone_at_the_old() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("0s")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let name = crew.vault_name("r");
        assert!(site.role(&name).await?.is_some());

        let mut change = grace("0s");
        change["defaults"]["authPath"] = json!("kubernetes-x");
        crew.connect(&crew.connection, change).await?;
        let path = format!("auth/kubernetes-x/role/{name}");
        let moved = |role: &VaultRole| {
            let sync = role.status.as_ref().map(|status| &status.sync);
            sync.is_some_and(|sync| {
                let binding = sync.binding.as_ref();
                let at = binding.and_then(|binding| binding.vault_path.as_ref());
                at == Some(&path) && sync.previous_names.is_empty()
            })
        };
        crew.until::<VaultRole>("r", moved).await?;
        assert_eq!(site.role(&name).await?, None);
        let jwt = site.jwt(crew.name(), "sa1", None).await?;
        assert_eq!(site.login("kubernetes-x", &name, &jwt).await?.status, 200);
        assert_ne!(site.login("kubernetes", &name, &jwt).await?.status, 200);
        Ok(())
    })
}

#[test]
fn a_moved_policy_leaves_its_old_name_when_its_roles_have_followed() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, second) = two_ways(site, "0s").await?;
        let (old, new) = (crew.vault_name("app"), new_name(&crew));
        write_through(&crew, &crew.connection, "secret/data/a").await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        role_is_bound(&crew, &old).await?;

        // The role cannot be written, so it keeps the old policy and the policy says so.
        let path = format!("/v1/auth/kubernetes/role/{}", crew.vault_name("r"));
        let fails = Rule::on(Method::POST, &path)
            .status(StatusCode::INTERNAL_SERVER_ERROR, r#"{"errors":["no"]}"#);
        let fails = crew.proxy.rule(fails);
        write_through(&crew, &second, "secret/data/a").await?;
        let app = crew
            .until::<VaultPolicy>("app", is("RenamePending", "RolesNotRebound"))
            .await?;
        let status = app.status.unwrap();
        assert_eq!(status.vault_name.as_deref(), Some(&*new));
        let message = said(&status.sync.conditions, "RenamePending");
        let role = format!("VaultRole/{}/r", crew.name());
        assert!(message.contains(&role), "{message}");
        // It waits for the role, and looks at Vault once a resync meanwhile: once a second.
        let clock = RealClock::new();
        let began = clock.elapsed();
        crew.rereads(&format!("sys/policies/acl/{new}"), 3).await?;
        let took = clock.elapsed().saturating_sub(began);
        assert!(took > Duration::from_millis(1500), "{took:?}");
        assert!(site.policy(&old).await?.is_some());

        crew.proxy.remove(fails);
        role_is_bound(&crew, &new).await?;
        is_gone(site, &old).await?;
        let settled = |app: &VaultPolicy| {
            let sync = app.status.as_ref().map(|status| &status.sync);
            sync.is_some_and(|sync| {
                sync.previous_names.is_empty() && said(&sync.conditions, "RenamePending").is_empty()
            })
        };
        crew.until::<VaultPolicy>("app", settled).await?;
        assert!(site.policy(&new).await?.is_some());
        Ok(())
    })
}

#[test]
fn tightened_rules_reach_tokens_issued_under_the_old_name_until_its_grace_is_over() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, second) = two_ways(site, "24h").await?;
        let (old, new) = (crew.vault_name("app"), new_name(&crew));
        let (wide, narrow) = (format!("{}/wide", crew.name()), "secret/data/narrow");
        site.secret(&wide).await?;
        let wide = format!("secret/data/{wide}");
        write_through(&crew, &crew.connection, &wide).await?;
        let token = site.token_with(&old).await?;
        assert_eq!(site.status_as(&token, &wide).await?, 200);

        write_through(&crew, &second, &wide).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("RenamePending", "InGrace"))
            .await?;
        let sync = app.status.unwrap().sync;
        let previous = sync.previous_names;
        let path = format!("sys/policies/acl/{old}");
        assert_eq!(previous.len(), 1);
        assert_eq!(previous[0].vault_path.as_ref(), Some(&path));
        let until = previous[0].until.as_ref().unwrap().0;
        let left = (until - sync.last_attempt_at.unwrap().0).total(jiff::Unit::Hour)?;
        assert!((23.0..=24.1).contains(&left), "{left}");
        assert_eq!(site.status_as(&token, &wide).await?, 200);

        write_through(&crew, &second, narrow).await?;
        for name in [&old, &new] {
            let text = site.policy(name).await?.unwrap();
            assert!(text.contains(narrow), "{name}: {text}");
        }
        assert_eq!(site.status_as(&token, &wide).await?, 403);

        end_grace(&crew).await?;
        is_gone(site, &old).await?;
        assert!(site.policy(&new).await?.is_some());
        Ok(())
    })
}

#[test]
fn moving_back_within_the_grace_swaps_the_places() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, second) = two_ways(site, "24h").await?;
        let (old, new) = (crew.vault_name("app"), new_name(&crew));
        write_through(&crew, &crew.connection, "secret/data/a").await?;
        write_through(&crew, &second, "secret/data/a").await?;
        let app = write_through(&crew, &crew.connection, "secret/data/a").await?;
        let status = app.status.unwrap();
        assert_eq!(status.vault_name.as_deref(), Some(&*old));
        let previous: Vec<_> = status
            .sync
            .previous_names
            .into_iter()
            .filter_map(|one| one.vault_path)
            .collect();
        assert_eq!(previous, [format!("sys/policies/acl/{new}")]);

        // Deleted, it leaves neither.
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        for name in [&old, &new] {
            assert_eq!(site.policy(name).await?, None, "{name}");
        }
        Ok(())
    })
}

#[test]
fn drift_is_seen_during_a_grace() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, second) = two_ways(site, "24h").await?;
        write_through(&crew, &crew.connection, "secret/data/a").await?;
        write_through(&crew, &second, "secret/data/a").await?;
        crew.until::<VaultPolicy>("app", is("RenamePending", "InGrace"))
            .await?;
        let changed = "path \"secret/data/b\" { capabilities = [\"read\"] }";
        site.write_policy(&new_name(&crew), changed).await?;
        crew.until::<VaultPolicy>("app", is("Drifted", "DriftDetected"))
            .await?;
        Ok(())
    })
}

/// Waits until the role `r` is ready at `path` and nowhere else.
pub(crate) async fn role_is_only_at(crew: &Crew, path: &str) -> Result<()> {
    let settled = |role: &VaultRole| {
        let sync = role.status.as_ref().map(|status| &status.sync);
        sync.is_some_and(|sync| {
            let binding = sync.binding.as_ref();
            let at = binding.and_then(|binding| binding.vault_path.as_deref());
            at == Some(path) && sync.previous_names.is_empty()
        })
    };
    crew.until::<VaultRole>("r", settled).await?;
    crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
        .await?;
    Ok(())
}

/// Waits until the role `r` is at `path` and keeps another place.
pub(crate) async fn role_is_in_grace_at(crew: &Crew, path: &str) -> Result<()> {
    let moved = |role: &VaultRole| {
        let sync = role.status.as_ref().map(|status| &status.sync);
        sync.is_some_and(|sync| {
            let binding = sync.binding.as_ref();
            let at = binding.and_then(|binding| binding.vault_path.as_deref());
            at == Some(path) && !sync.previous_names.is_empty()
        })
    };
    crew.until::<VaultRole>("r", moved).await.map(drop)
}

// The server keeps no marker on roles: only the record tells that the old place is ours.
#[test]
fn a_role_moves_back_within_the_grace_and_leaves_the_other_place() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("24h")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let name = crew.vault_name("r");
        let [old, new] =
            ["kubernetes", "kubernetes-x"].map(|mount| format!("auth/{mount}/role/{name}"));
        let mut change = grace("24h");
        change["defaults"]["authPath"] = json!("kubernetes-x");
        crew.connect(&crew.connection, change).await?;
        role_is_in_grace_at(&crew, &new).await?;
        assert!(site.read(&old).await?.is_some());

        crew.connect(&crew.connection, grace("0s")).await?;
        role_is_only_at(&crew, &old).await?;
        assert!(site.read(&old).await?.is_some());
        assert_eq!(site.read(&new).await?, None);
        Ok(())
    })
}

#[test]
fn the_parts_of_a_role_move_back_within_the_grace() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("24h")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let policy = json!({"kind": "VaultPolicy", "name": "app", "namespace": crew.name()});
        let pair = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
        let pairs = [pair("a", "x"), pair("a", "y"), pair("b", "x")];
        let (cluster, name) = (crew.cluster(), crew.own("r"));
        let spec = json!({"policies": [policy], "serviceAccounts": pairs});
        crew.declare::<VaultClusterRole>(&name, spec).await?;
        let is_at = async |mount: &str, earlier: usize| {
            let settled = |role: &VaultClusterRole| {
                let Some(status) = &role.status else {
                    return false;
                };
                let binding = status.sync.binding.as_ref();
                let at = binding.and_then(|binding| binding.auth_mount.as_deref());
                at == Some(mount)
                    && status.vault_role_names.len() == 2
                    && status.sync.previous_names.len() == earlier
                    && status.sync.phase == Some(Phase::Active)
            };
            cluster.until::<VaultClusterRole>(&name, settled).await
        };
        is_at("kubernetes", 0).await?;
        let mut change = grace("24h");
        change["defaults"]["authPath"] = json!("kubernetes-x");
        crew.connect(&crew.connection, change).await?;
        is_at("kubernetes-x", 2).await?;

        crew.connect(&crew.connection, grace("0s")).await?;
        is_at("kubernetes", 0).await?;
        for part in ["a", "b"] {
            let path = |mount: &str| format!("auth/{mount}/role/vao.kubernetes._.{name}__{part}");
            assert!(site.read(&path("kubernetes")).await?.is_some(), "{part}");
            assert_eq!(site.read(&path("kubernetes-x")).await?, None, "{part}");
        }
        Ok(())
    })
}

#[test]
fn another_name_format_is_a_move_there_and_back() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("24h")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        let (app, role) = (crew.vault_name("app"), crew.vault_name("r"));
        role_is_bound(&crew, &app).await?;
        let (short_app, short_role) = (crew.own("app"), crew.own("r"));

        let mut change = grace("24h");
        change["defaults"]["nameFormat"] = json!("NamespaceName");
        crew.connect(&crew.connection, change).await?;
        role_is_in_grace_at(&crew, &format!("auth/kubernetes/role/{short_role}")).await?;
        let bound = |role: &VaultRole| {
            let status = role.status.as_ref();
            status.is_some_and(|status| status.resolved_policies == [short_app.clone()])
        };
        crew.until::<VaultRole>("r", bound).await?;
        let moved = site.role(&short_role).await?.unwrap();
        assert_eq!(moved["token_policies"], json!([short_app]));
        for name in [&app, &short_app] {
            assert!(site.policy(name).await?.is_some(), "{name}");
        }

        crew.connect(&crew.connection, grace("0s")).await?;
        role_is_only_at(&crew, &format!("auth/kubernetes/role/{role}")).await?;
        role_is_bound(&crew, &app).await?;
        is_gone(site, &short_app).await?;
        assert_eq!(site.role(&short_role).await?, None);
        Ok(())
    })
}

#[test]
fn of_two_objects_that_derive_one_name_the_second_is_a_conflict() -> Result<()> {
    tell(WORLD, async |site| {
        let format = json!({"defaults": {"nameFormat": "NamespaceName"}});
        let crew = site.crew_with(format).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let (app, role) = (crew.own("app"), crew.own("r"));
        let (text, fields) = (site.policy(&app).await?, site.role(&role).await?);
        assert!(text.is_some() && fields.is_some());

        let cluster = crew.cluster();
        let other = json!({"rules": [rule("secret/data/other", &["read"])]});
        crew.declare::<VaultClusterPolicy>(&app, other.clone())
            .await?;
        let pair = json!({"namespace": "other", "name": "sa"});
        let reference = json!({"kind": "VaultPolicy", "name": "app", "namespace": crew.name()});
        let other_role = json!({"serviceAccounts": [pair], "policies": [reference]});
        crew.declare::<VaultClusterRole>(&role, other_role).await?;
        let second = cluster
            .until::<VaultClusterPolicy>(&app, is("Ready", "Conflict"))
            .await?;
        let message = said(&second.status.unwrap().sync.conditions, "Ready");
        let first = format!("VaultPolicy {}/app", crew.name());
        assert!(message.contains(&first), "{message}");
        let second = cluster
            .until::<VaultClusterRole>(&role, is("Ready", "Conflict"))
            .await?;
        let message = said(&second.status.unwrap().sync.conditions, "Ready");
        let first = format!("VaultRole {}/r", crew.name());
        assert!(message.contains(&first), "{message}");

        // The first ones keep what they have, also when the second ones go.
        cluster.delete::<VaultClusterRole>(&role).await?;
        cluster.gone::<VaultClusterRole>(&role).await?;
        cluster.delete::<VaultClusterPolicy>(&app).await?;
        cluster.gone::<VaultClusterPolicy>(&app).await?;
        assert_eq!(site.policy(&app).await?, text);
        assert_eq!(site.role(&role).await?, fields);

        // Vault's own policies are nobody's to declare.
        crew.declare::<VaultClusterPolicy>("default-ceiling", other)
            .await?;
        cluster
            .until::<VaultClusterPolicy>("default-ceiling", is("Ready", "ValidationFailed"))
            .await?;
        cluster
            .delete::<VaultClusterPolicy>("default-ceiling")
            .await?;
        cluster.gone::<VaultClusterPolicy>("default-ceiling").await
    })
}

/// Changes the status of the policy `app`, as the operator would.
async fn patch_status(crew: &Crew, status: Value) -> Result<()> {
    let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
    let (how, patch) = (
        PatchParams::default(),
        Patch::Merge(json!({"status": status})),
    );
    policies.patch_status("app", &how, &patch).await?;
    Ok(())
}

/// Lets the grace of the earlier name of the policy `app` be over.
async fn end_grace(crew: &Crew) -> Result<()> {
    let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
    let app = policies.get("app").await?;
    let mut previous = app.status.unwrap_or_default().sync.previous_names;
    previous[0].until = Some(Time(RealClock::new().now()));
    patch_status(crew, json!({"previousNames": previous})).await
}

/// Declares the policy `app` through a connection, with the status that the predecessor gave it
/// when it had written `text` by this name.
async fn recorded_as(crew: &Crew, connection: &str, name: &str, text: &str) -> Result<()> {
    crew.site.write_policy(name, text).await?;
    let mut spec = reader();
    spec["connectionRef"] = json!(connection);
    let manifest = crew.manifest::<VaultPolicy>("app", spec);
    let mut object: Value = serde_json::from_str(manifest.trim_start_matches("---"))?;
    object["metadata"]["annotations"] = json!({PAUSED: "true"});
    crew.apply(&object.to_string()).await?;
    crew.until::<VaultPolicy>("app", holds("Paused")).await?;
    let record = json!({
        "phase": "Active", "vaultName": name, "managed": true, "rulesCount": 1,
        "lastAppliedHash": format!("{:x}", Sha256::digest(text)),
        "binding": {"vaultPath": format!("sys/policies/acl/{name}"), "vaultResourceName": name},
    });
    patch_status(crew, record).await?;
    annotate::<VaultPolicy>(crew, "app", PAUSED, None).await
}

/// A mount in capitals at which the operator can log in.
async fn in_capitals(site: &Site) -> Result<&'static str> {
    const MOUNT: &str = "K8S-Up";
    let kind = json!({"type": "kubernetes"});
    site.put(&format!("sys/auth/{MOUNT}"), kind).await?;
    let mut config = site.read("auth/kubernetes/config").await?.unwrap();
    let home = site.world.operator_namespace();
    config["token_reviewer_jwt"] = json!(site.jwt(home, "reviewer", None).await?);
    site.put(&format!("auth/{MOUNT}/config"), config).await?;
    site.let_operator_in(MOUNT, "pontoon", "pontoon").await?;
    Ok(MOUNT)
}

#[test]
fn capitals_in_a_mount_make_no_other_name() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, mount) = (site.crew_with(grace("0s")).await?, in_capitals(site).await?);
        let (name, team) = (crew.own("up"), crew.name());
        let mut change = grace("0s");
        change["auth"] = json!({"kubernetes": {"authPath": mount}});
        change["defaults"]["authPath"] = json!("kubernetes");
        crew.connect(&name, change).await?;

        // The predecessor recorded the name as it derived it; Vault keeps names in lower case.
        let text = format!(
            "# managed-by: vault-access-operator\n# auth-mount: {mount}\n\
             # k8s-resource: {team}/app\n# k8s-kind: VaultPolicy\n\n\
             path \"secret/data/{team}/*\" {{\n  capabilities = [\"read\"]\n}}\n"
        );
        recorded_as(&crew, &name, &format!("vao.{mount}.{team}.app"), &text).await?;
        let lower = format!("vao.k8s-up.{team}.app");
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        crew.rereads(&format!("sys/policies/acl/{lower}"), 2)
            .await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Drifted", "NoDrift"))
            .await?;
        let status = app.status.unwrap();
        assert!(status.sync.previous_names.is_empty(), "it has not moved");
        assert_eq!(status.vault_name.as_deref(), Some(&*lower));
        assert_eq!(crew.writes(), 0);
        assert_eq!(site.policy(&lower).await?, Some(text));

        // What is new gets the name in lower case, and is in order at the next look.
        let mut spec = admits(&["sa1"]);
        spec["connectionRef"] = json!(name);
        crew.declare::<VaultRole>("r", spec).await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let role = format!("vao.k8s-up.{team}.r");
        let status = r.status.unwrap();
        assert_eq!(status.vault_role_name.as_ref(), Some(&role));
        assert_eq!(status.resolved_policies, [lower]);
        let writes = crew.writes();
        crew.rereads(&format!("auth/kubernetes/role/{role}"), 2)
            .await?;
        assert_eq!(crew.writes(), writes);
        Ok(())
    })
}

#[test]
fn an_older_name_that_the_predecessor_recorded_moves() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(grace("0s")).await?;
        let (team, old) = (crew.name(), crew.own("app"));
        let text = format!(
            "# managed-by: vault-access-operator\n# auth-mount: kubernetes\n\
             # k8s-resource: {team}/app\n# k8s-kind: VaultPolicy\n\n\
             path \"secret/data/{team}/*\" {{\n  capabilities = [\"read\"]\n}}\n"
        );
        recorded_as(&crew, &crew.connection, &old, &text).await?;
        let moved = |app: &VaultPolicy| {
            let name = app.status.as_ref().and_then(|s| s.vault_name.as_deref());
            name == Some(&*crew.vault_name("app"))
        };
        crew.until::<VaultPolicy>("app", moved).await?;
        is_gone(site, &old).await?;
        let written = site.policy(&crew.vault_name("app")).await?;
        assert_eq!(written, Some(text));
        Ok(())
    })
}

#[test]
fn an_old_place_that_others_took_is_left_to_them() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, second) = two_ways(site, "24h").await?;
        let (old, new) = (crew.vault_name("app"), new_name(&crew));
        write_through(&crew, &crew.connection, "secret/data/a").await?;
        write_through(&crew, &second, "secret/data/a").await?;
        let theirs = "# managed-by: vault-access-operator\n# auth-mount: elsewhere\n\
                      # k8s-resource: other/app\n# k8s-kind: VaultPolicy\n\n\
                      path \"secret/data/theirs\" { capabilities = [\"read\"] }\n";
        site.write_policy(&old, theirs).await?;
        end_grace(&crew).await?;
        let settled = |app: &VaultPolicy| {
            let status = app.status.as_ref();
            status.is_some_and(|status| status.sync.previous_names.is_empty())
        };
        crew.until::<VaultPolicy>("app", settled).await?;
        assert_eq!(site.policy(&old).await?.as_deref(), Some(theirs));
        assert!(site.policy(&new).await?.is_some());
        event(&crew, "app", "ForeignPolicyNotDeleted").await?;
        Ok(())
    })
}
