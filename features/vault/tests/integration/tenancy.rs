//! Tenancy: what namespaces may do through a connection, and what they are told when they may not.

use crate::stories::{Crew, Plan, admits, annotate, event, label, reader, rule, said, tell};
use api::vault::{Phase, VaultClusterPolicy, VaultPolicy, VaultRole, names};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::AnyMethod;
use testkit::{Result, eventually, is};

/// A minute passes in a second. Nobody is looked at again without a reason.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=24h"],
};

fn tenancy(tenancy: Value) -> Value {
    json!({"tenancy": tenancy})
}

fn of(path: &str, capabilities: &[&str]) -> Value {
    json!({"rules": [rule(path, capabilities)]})
}

/// Waits until a policy is denied; the message.
async fn denied(crew: &Crew, name: &str) -> Result<String> {
    let policy = crew
        .until::<VaultPolicy>(name, is("Ready", "TenancyDenied"))
        .await?;
    let sync = policy.status.expect("it is denied").sync;
    assert_eq!(sync.phase, Some(Phase::Error));
    Ok(said(&sync.conditions, "Ready"))
}

#[test]
fn a_namespace_that_is_not_allowed_is_denied_until_it_is_labelled() -> Result<()> {
    tell(WORLD, async |site| {
        let selector = json!({"selector": {"matchLabels": {"vault": "yes"}}});
        let crew = site
            .crew_with(tenancy(json!({"allowedNamespaces": selector})))
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        denied(&crew, "app").await?;
        crew.until::<VaultRole>("r", is("Ready", "TenancyDenied"))
            .await?;
        event(&crew, "app", "SyncFailed").await?;
        let of_kind = [("kind", "VaultPolicy"), ("namespace", crew.name())];
        let gauge = async || site.metric("tenancy_denied", &of_kind).await;
        assert!((gauge().await? - 1.0).abs() < f64::EPSILON);
        let of_ours = format!("/v1/*{}*", crew.name());
        assert_eq!(crew.proxy.count(AnyMethod::any(), &of_ours), 0);

        label(&crew, "vault", Some("yes")).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(app.metadata.generation, Some(1), "nobody edited it");
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        assert!(gauge().await?.abs() < f64::EPSILON);
        Ok(())
    })
}

#[test]
fn what_was_applied_before_a_denial_stays_and_is_named() -> Result<()> {
    tell(WORLD, async |site| {
        let selector = json!({"selector": {"matchLabels": {"vault": "yes"}}});
        let crew = site
            .crew_with(tenancy(json!({"allowedNamespaces": selector})))
            .await?;
        label(&crew, "vault", Some("yes")).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&crew.vault_name("app")).await?;

        label(&crew, "vault", None).await?;
        let message = denied(&crew, "app").await?;
        assert!(message.contains(&crew.vault_name("app")), "{message}");
        assert_eq!(site.policy(&crew.vault_name("app")).await?, text);
        Ok(())
    })
}

#[test]
fn no_rule_reaches_above_its_ceiling() -> Result<()> {
    tell(WORLD, async |site| {
        let ceilings = json!([
            {"path": "secret/data/{{namespace}}/*", "capabilities": ["read", "update"]},
        ]);
        let crew = site
            .crew_with(tenancy(json!({"ceilings": ceilings})))
            .await?;
        let below = "secret/data/{{namespace}}/app/*";
        for (name, spec) in [
            ("elsewhere", of("secret/data/other/*", &["read"])),
            ("more", of(below, &["read", "delete"])),
            ("wider", of("secret/data/+/x", &["read"])),
            ("all", of("secret/*", &["read"])),
        ] {
            crew.declare::<VaultPolicy>(name, spec).await?;
            denied(&crew, name).await?;
            assert_eq!(site.policy(&crew.vault_name(name)).await?, None, "{name}");
        }
        for (name, spec) in [
            ("within", of(below, &["read"])),
            ("deny", of("secret/data/other/*", &["deny"])),
        ] {
            crew.declare::<VaultPolicy>(name, spec).await?;
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
        }

        // The connection's edit reaches those who were denied.
        let wider = json!([{"path": "secret/*", "capabilities": ["read", "update", "delete"]}]);
        crew.connect(&crew.connection, tenancy(json!({"ceilings": wider})))
            .await?;
        for name in ["elsewhere", "more", "wider", "all"] {
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
        }
        Ok(())
    })
}

#[test]
fn a_connection_can_keep_every_policy_within_its_namespace() -> Result<()> {
    tell(WORLD, async |site| {
        let boundary =
            json!({"enforceNamespaceBoundary": true, "boundaryPrefixes": ["secret/data/"]});
        let crew = site.crew_with(tenancy(boundary)).await?;
        for (name, path) in [
            ("outside", "secret/data/shared/*"),
            ("prefix", "plain/{{namespace}}/*"),
        ] {
            crew.declare::<VaultPolicy>(name, of(path, &["read"]))
                .await?;
            denied(&crew, name).await?;
        }
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        Ok(())
    })
}

#[test]
fn text_of_ones_own_needs_a_grant_and_keeps_to_the_ceilings() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let raw = |path: &str| {
            let text = format!("path \"{path}\" {{ capabilities = [\"read\"] }} # by hand\n");
            json!({"rawHCL": text})
        };
        let own = "secret/data/{{namespace}}/*";
        crew.declare::<VaultPolicy>("app", raw(own)).await?;
        denied(&crew, "app").await?;
        assert_eq!(crew.writes(), 0);

        let ceilings = json!([{"path": own, "capabilities": ["read"]}]);
        let granted = json!({"rawHCL": "Allow", "ceilings": ceilings});
        crew.connect(&crew.connection, tenancy(granted)).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&crew.vault_name("app")).await?.unwrap();
        let path = format!("path \"secret/data/{}/*\"", crew.name());
        assert!(text.contains(&path) && text.contains("# by hand"), "{text}");

        crew.declare::<VaultPolicy>("greedy", raw("secret/*"))
            .await?;
        denied(&crew, "greedy").await?;

        // What is declared for the whole cluster is not guarded.
        let name = crew.own("shared");
        crew.declare::<VaultClusterPolicy>(&name, raw("secret/*"))
            .await?;
        crew.cluster()
            .until::<VaultClusterPolicy>(&name, is("Ready", "Succeeded"))
            .await?;
        Ok(())
    })
}

#[test]
fn another_namespaces_policy_is_bound_only_if_it_says_so() -> Result<()> {
    tell(WORLD, async |site| {
        let granted = tenancy(json!({"crossNamespaceRefs": "Granted"}));
        let crew = site.crew_with(granted).await?;
        let name = crew.own("shared");
        let shared = |more: Value| {
            let mut spec = of("secret/data/shared", &["read"]);
            spec["bindableFrom"] = more;
            spec
        };
        let nobody = json!({"names": ["nobody"]});
        crew.declare::<VaultClusterPolicy>(&name, shared(nobody))
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let mut spec = admits(&["sa1"]);
        let policy = json!({"kind": "VaultClusterPolicy", "name": name});
        spec["policies"] = json!([{"kind": "VaultPolicy", "name": "app"}, policy]);
        crew.declare::<VaultRole>("r", spec).await?;
        let r = crew
            .until::<VaultRole>("r", is("PoliciesResolved", "ReferenceNotGranted"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "PoliciesResolved");
        assert!(message.contains(&name), "{message}");
        // The rest of the role is written all the same.
        let role = site.role(&crew.vault_name("r")).await?.unwrap();
        assert_eq!(role["token_policies"], json!([crew.vault_name("app")]));

        let us = json!({"names": [crew.name()]});
        crew.declare::<VaultClusterPolicy>(&name, shared(us))
            .await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let role = site.role(&crew.vault_name("r")).await?.unwrap();
        let bound = role["token_policies"].as_array().unwrap();
        assert!(bound.contains(&json!(format!("vao.kubernetes._.{name}"))));
        Ok(())
    })
}

#[test]
fn tokens_live_no_longer_than_the_connection_lets_them() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site
            .crew_with(tenancy(json!({"maxTokenTTL": "1h"})))
            .await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let mut long = admits(&["sa1"]);
        for field in ["tokenTTL", "tokenMaxTTL", "tokenPeriod"] {
            long[field] = json!("8h");
        }
        crew.declare::<VaultRole>("long", long).await?;
        crew.declare::<VaultRole>("unset", admits(&["sa1"])).await?;
        for name in ["long", "unset"] {
            crew.until::<VaultRole>(name, is("Ready", "Succeeded"))
                .await?;
            let role = site.role(&crew.vault_name(name)).await?.unwrap();
            assert_eq!(role["token_max_ttl"], 3600, "{name}");
            let hour = |field: &str| role[field].as_i64().is_some_and(|time| time <= 3600);
            assert!(hour("token_ttl") && hour("token_period"), "{role}");
        }
        Ok(())
    })
}

#[test]
fn adoption_can_be_denied() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(tenancy(json!({"adoption": "Deny"}))).await?;
        let (name, theirs) = (
            crew.vault_name("app"),
            r#"path "secret/data/legacy" { capabilities = ["read"] }"#,
        );
        site.write_policy(&name, theirs).await?;
        let mut spec = reader();
        spec["conflictPolicy"] = json!("Adopt");
        crew.declare::<VaultPolicy>("app", spec).await?;
        denied(&crew, "app").await?;
        let path = format!("sys/policies/acl/{name}");
        let reads = crew.calls(Method::GET, &path);
        annotate::<VaultPolicy>(&crew, "app", names::ADOPT, Some("true")).await?;
        eventually("the annotation is seen", async || {
            Ok((crew.calls(Method::GET, &path) > reads).then_some(()))
        })
        .await?;
        denied(&crew, "app").await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(theirs));
        assert_eq!(crew.calls(Method::PUT, "sys/policies/*"), 0);
        Ok(())
    })
}

#[test]
fn subjects_of_ones_own_choice_can_be_denied() -> Result<()> {
    tell(WORLD, async |site| {
        let mut change = tenancy(json!({"jwtOverrides": "Deny"}));
        change["defaults"] = json!({"authPath": "jwt"});
        let crew = site.crew_with(change).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let mut spec = admits(&["sa1"]);
        spec["jwt"] = json!({"boundSubject": "system:serviceaccount:kube-system:admin"});
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "TenancyDenied"))
            .await?;
        let path = format!("auth/jwt/role/{}", crew.vault_name("r"));
        assert_eq!(site.read(&path).await?, None);
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        Ok(())
    })
}
