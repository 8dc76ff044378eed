//! Roles: who gets in, with which policies, and by what kind of token.

use crate::stories::vault::token;
use crate::stories::{Crew, Plan, admits, annotate, event, is_annotated, reader, rule, said, tell};
use api::vault::{Phase, VaultPolicy, VaultRole, names};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, is};

/// Real time: what is true within a minute was neither a resync nor a retry.
const WORLD: Plan = Plan {
    pace: 1,
    args: &["--vault-error-interval=5m"],
};

/// The policy `app`, in Vault.
async fn with_app(crew: &Crew) -> Result<()> {
    crew.declare::<VaultPolicy>("app", reader()).await?;
    crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await
        .map(drop)
}

/// A role beside `change`, in Vault; its fields there.
async fn written(crew: &Crew, name: &str, change: Value) -> Result<Value> {
    let mut spec = admits(&["sa1"]);
    for (field, value) in change.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    crew.declare::<VaultRole>(name, spec).await?;
    crew.until::<VaultRole>(name, is("Ready", "Succeeded"))
        .await?;
    let role = crew.site.role(&crew.vault_name(name)).await?;
    Ok(role.expect("it is ready"))
}

/// Waits until the role `r` in Vault has exactly these policies.
async fn has_policies(crew: &Crew, policies: &[String]) -> Result<()> {
    let name = crew.vault_name("r");
    eventually(&format!("{name} has {policies:?}"), async || {
        let role = crew.site.role(&name).await?;
        Ok(role.and_then(|role| (role["token_policies"] == json!(policies)).then_some(())))
    })
    .await
}

/// One more pass over a role finds nothing that differs, and writes nothing.
async fn looked_at_again(crew: &Crew, name: &str) -> Result<()> {
    let writes = crew.writes();
    annotate::<VaultRole>(crew, name, names::RECONCILE_NOW, Some("1")).await?;
    let done = |role: &VaultRole| !is_annotated(role, names::RECONCILE_NOW);
    let role = crew.until::<VaultRole>(name, done).await?;
    assert_ne!(role.status.unwrap().sync.drift_detected, Some(true));
    assert_eq!(crew.writes(), writes);
    Ok(())
}

#[test]
fn a_service_account_logs_in_with_the_policy_and_others_do_not() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, elsewhere) = (site.crew().await?, site.world.namespace("team-b").await?);
        site.secret(&format!("{}/db", crew.name())).await?;
        site.secret(&format!("{}/db", elsewhere.name())).await?;
        with_app(&crew).await?;
        let role = written(&crew, "r", json!({})).await?;
        assert_eq!(role["token_policies"], json!([crew.vault_name("app")]));

        let name = crew.vault_name("r");
        let (status, token) = site.login_of(&name, crew.name(), "sa1").await?;
        assert_eq!(status, 200);
        let own = format!("secret/data/{}/db", crew.name());
        assert_eq!(site.status_as(&token, &own).await?, 200);
        let other = format!("secret/data/{}/db", elsewhere.name());
        assert_eq!(site.status_as(&token, &other).await?, 403);

        let (status, _) = site.login_of(&name, crew.name(), "sa2").await?;
        assert_eq!(status, 403, "another service account");
        let (status, _) = site.login_of(&name, elsewhere.name(), "sa1").await?;
        assert_eq!(status, 403, "its namesake in another namespace");

        let r = crew
            .until::<VaultRole>("r", is("PoliciesResolved", "AllPoliciesExist"))
            .await?;
        let status = r.status.unwrap();
        assert_eq!(status.vault_role_name.as_deref(), Some(&*name));
        let bound = [format!("{}/sa1", crew.name())];
        assert_eq!(status.bound_service_accounts, bound);
        assert_eq!(status.resolved_policies, [crew.vault_name("app")]);
        Ok(())
    })
}

#[test]
fn a_role_follows_the_coming_and_going_of_its_policy() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "PolicyNotInVault"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "PoliciesResolved");
        assert!(message.contains("app"), "{message}");
        event(&crew, "r", "PolicyNotInVault").await?;
        // It is written all the same, without the policy.
        has_policies(&crew, &[]).await?;

        crew.declare::<VaultPolicy>("app", reader()).await?;
        has_policies(&crew, &[crew.vault_name("app")]).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        event(&crew, "r", "PolicyResolved").await?;
        let used = |policy: &VaultPolicy| {
            let roles = policy.status.as_ref().map(|status| &status.used_by_roles);
            roles.is_some_and(|roles| *roles == [format!("VaultRole/{}/r", crew.name())])
        };
        crew.until::<VaultPolicy>("app", used).await?;

        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        has_policies(&crew, &[]).await?;
        crew.until::<VaultRole>("r", is("Ready", "PolicyNotInVault"))
            .await?;
        Ok(())
    })
}

#[test]
fn a_role_that_comes_costs_its_policy_no_look_at_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.searched().await?;
        with_app(&crew).await?;
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        let reads = crew.calls(Method::GET, &path);
        written(&crew, "r", json!({})).await?;
        let used = |policy: &VaultPolicy| {
            let status = policy.status.as_ref();
            status.is_some_and(|status| !status.used_by_roles.is_empty())
        };
        crew.until::<VaultPolicy>("app", used).await?;
        assert_eq!(crew.calls(Method::GET, &path), reads);

        // Who asks for a look gets one.
        annotate::<VaultPolicy>(&crew, "app", names::RECONCILE_NOW, Some("true")).await?;
        let calm = |policy: &VaultPolicy| !is_annotated(policy, names::RECONCILE_NOW);
        crew.until::<VaultPolicy>("app", calm).await?;
        assert_eq!(crew.calls(Method::GET, &path), reads + 1);
        Ok(())
    })
}

#[test]
fn a_role_keeps_a_policy_that_fails_after_its_first_write() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        written(&crew, "r", json!({})).await?;
        let unknown = json!({"rules": [rule("secret/data/x", &["scan"])]});
        crew.declare::<VaultPolicy>("app", unknown).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "ValidationFailed"))
            .await?;
        assert_eq!(app.status.unwrap().sync.phase, Some(Phase::Error));

        // An edit makes the role look at its policies again.
        let role = written(&crew, "r", json!({"tokenTTL": "10m"})).await?;
        assert_eq!(role["token_ttl"], 600);
        assert_eq!(role["token_policies"], json!([crew.vault_name("app")]));
        Ok(())
    })
}

#[test]
fn a_policy_counts_if_it_is_in_the_same_vault_by_whatever_connection() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (same, other) = (crew.own("same"), crew.own("other"));
        crew.connect(&same, json!({})).await?;
        // To the operator another address is another Vault.
        let address = site.proxy().await?.url();
        crew.connect(&other, json!({"address": address})).await?;
        for (name, connection) in [("app", &same), ("away", &other)] {
            let mut spec = reader();
            spec["connectionRef"] = json!(connection);
            crew.declare::<VaultPolicy>(name, spec).await?;
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
        }
        let mut spec = admits(&["sa1"]);
        let both = ["app", "away"].map(|name| json!({"kind": "VaultPolicy", "name": name}));
        spec["policies"] = json!(both);
        crew.declare::<VaultRole>("r", spec).await?;
        let r = crew
            .until::<VaultRole>("r", is("PoliciesResolved", "PolicyOnOtherConnection"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "PoliciesResolved");
        assert!(message.contains("away"), "{message}");
        assert!(!message.contains("app"), "{message}");
        has_policies(&crew, &[crew.vault_name("app")]).await?;

        written(&crew, "r", json!({})).await?;
        Ok(())
    })
}

#[test]
fn a_role_needs_a_mount_and_goes_where_the_connection_says() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (name, home) = (crew.own("token"), site.world.operator_namespace());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": home},
            "stringData": {"token": site.token_with("pontoon").await?},
        });
        crew.apply(&secret.to_string()).await?;
        let key = json!({"name": name, "namespace": home, "key": "token"});
        let auth = json!({"kubernetes": null, "token": {"secretRef": key}});
        crew.connect(&name, json!({"auth": auth})).await?;
        for (kind, mut spec) in [("policy", reader()), ("role", admits(&["sa1"]))] {
            spec["connectionRef"] = json!(name);
            match kind {
                "policy" => crew.declare::<VaultPolicy>("app", spec).await?,
                _ => crew.declare::<VaultRole>("r", spec).await?,
            }
        }
        let r = crew
            .until::<VaultRole>("r", is("Ready", "ValidationFailed"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains("authPath"), "{message}");

        // The connection is told where; nobody touches the role.
        let defaults = json!({"authPath": "kubernetes-x"});
        crew.connect(&name, json!({"auth": auth, "defaults": defaults}))
            .await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(r.metadata.generation, Some(1));
        let role = format!("auth/kubernetes-x/role/vao._.{}.r", crew.name());
        assert!(site.read(&role).await?.is_some());
        let binding = r.status.unwrap().sync.binding.unwrap();
        assert_eq!(binding.vault_path, Some(role));
        assert_eq!(binding.auth_mount.as_deref(), Some("kubernetes-x"));
        Ok(())
    })
}

#[test]
fn a_mount_may_be_written_with_its_prefix_and_a_slash() -> Result<()> {
    tell(WORLD, async |site| {
        let auth = json!({"kubernetes": {"authPath": "auth/kubernetes/"}});
        let crew = site.crew_with(json!({"auth": auth})).await?;
        assert_eq!(crew.calls(Method::POST, "auth/kubernetes/login"), 1);
        with_app(&crew).await?;
        let text = site.policy(&crew.vault_name("app")).await?.unwrap();
        assert!(text.contains("\n# auth-mount: kubernetes\n"), "{text}");
        written(&crew, "r", json!({})).await?;
        Ok(())
    })
}

#[test]
fn claims_with_lists_and_globs_let_matching_tokens_in() -> Result<()> {
    tell(WORLD, async |site| {
        let defaults = json!({"defaults": {"authPath": "jwt"}});
        let crew = site.crew_with(defaults).await?;
        let team = crew.name();
        with_app(&crew).await?;
        let jwt = json!({
            "boundAudiences": ["vault"], "boundClaimsType": "glob",
            "boundClaims": {"iss": "https://kubernetes.*"},
            "boundClaimsList": {"sub": [
                format!("system:serviceaccount:{team}:app-*"),
                format!("system:serviceaccount:{team}:cron"),
            ]},
        });
        let spec = json!({"jwt": jwt, "policies": [{"kind": "VaultPolicy", "name": "app"}]});
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;

        let name = crew.vault_name("r");
        for (account, audience, gets_in) in [
            ("app-1", "vault", true),
            ("cron", "vault", true),
            ("cron-2", "vault", false),
            ("app-1", "elsewhere", false),
        ] {
            let jwt = site.jwt(team, account, Some(audience)).await?;
            let answer = site.login("jwt", &name, &jwt).await?;
            let case = format!("{account} for {audience}: {}", answer.body);
            assert_eq!(answer.status == 200, gets_in, "{case}");
        }

        // What Vault answers reads as what was sent.
        looked_at_again(&crew, "r").await
    })
}

#[test]
fn service_accounts_of_a_jwt_role_are_its_subjects() -> Result<()> {
    tell(WORLD, async |site| {
        let defaults = json!({"defaults": {"authPath": "jwt"}});
        let crew = site.crew_with(defaults).await?;
        let team = crew.name();
        with_app(&crew).await?;
        let name = crew.vault_name("r");
        for accounts in [&["sa1"][..], &["sa1", "sa2"]] {
            let mut spec = admits(accounts);
            spec["jwt"] = json!({"boundAudiences": ["vault"]});
            crew.declare::<VaultRole>("r", spec).await?;
            crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
                .await?;
            for account in ["sa1", "sa2", "sa3"] {
                let jwt = site.jwt(team, account, Some("vault")).await?;
                let answer = site.login("jwt", &name, &jwt).await?;
                let case = format!("{account} beside {accounts:?}: {}", answer.body);
                assert_eq!(answer.status == 200, accounts.contains(&account), "{case}");
            }
        }
        Ok(())
    })
}

#[test]
fn durations_reach_vault_in_seconds() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let times = json!({"tokenTTL": "1h30m", "tokenMaxTTL": "1d"});
        let role = written(&crew, "r", times).await?;
        assert_eq!(role["token_ttl"], 5400);
        assert_eq!(role["token_max_ttl"], 86400);
        // What Vault answers reads as what was sent.
        looked_at_again(&crew, "r").await?;
        // Taken out of the spec, they are cleared in Vault.
        let role = written(&crew, "r", json!({"tokenTTL": "90"})).await?;
        assert_eq!(role["token_ttl"], 90);
        assert_eq!(role["token_max_ttl"], 0);
        Ok(())
    })
}

#[test]
fn a_ttl_beyond_its_maximum_is_invalid() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let mut spec = admits(&["sa1"]);
        spec["tokenTTL"] = json!("2h");
        spec["tokenMaxTTL"] = json!("1h");
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "ValidationFailed"))
            .await?;
        assert_eq!(site.role(&crew.vault_name("r")).await?, None);
        Ok(())
    })
}

#[test]
fn token_fields_are_kept_and_enforced_by_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        site.secret(&format!("{}/db", crew.name())).await?;
        let fields = json!({
            "audience": "shop", "aliasNameSource": "serviceaccount_name",
            "tokenBoundCIDRs": ["127.0.0.0/8"], "tokenPeriod": "1h", "tokenNumUses": 2,
            "tokenExplicitMaxTTL": "2h", "tokenNoDefaultPolicy": true, "tokenType": "service",
        });
        let role = written(&crew, "r", fields).await?;
        for (field, value) in [
            ("audience", json!("shop")),
            ("alias_name_source", json!("serviceaccount_name")),
            ("token_bound_cidrs", json!(["127.0.0.0/8"])),
            ("token_period", json!(3600)),
            ("token_num_uses", json!(2)),
            ("token_explicit_max_ttl", json!(7200)),
            ("token_no_default_policy", json!(true)),
            ("token_type", json!("service")),
        ] {
            assert_eq!(role[field], value, "{field}");
        }

        let name = crew.vault_name("r");
        let (status, _) = site.login_of(&name, crew.name(), "sa1").await?;
        assert_ne!(status, 200, "a token for the API server, not for the shop");
        let jwt = site.jwt(crew.name(), "sa1", Some("shop")).await?;
        let answer = site.login("kubernetes", &name, &jwt).await?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let (token, path) = (token(&answer), format!("secret/data/{}/db", crew.name()));
        let mut uses = Vec::new();
        for _ in 0..3 {
            uses.push(site.status_as(&token, &path).await?);
        }
        assert_eq!(uses, [200, 200, 403]);
        Ok(())
    })
}

#[test]
fn what_leaves_the_spec_is_cleared_in_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let bare = written(&crew, "bare", json!({})).await?;
        let fields = json!({
            "audience": "shop", "aliasNameSource": "serviceaccount_name",
            "tokenTTL": "10m", "tokenMaxTTL": "1h", "tokenExplicitMaxTTL": "2h",
            "tokenBoundCIDRs": ["127.0.0.0/8"], "tokenPeriod": "1h", "tokenNumUses": 2,
            "tokenNoDefaultPolicy": true, "tokenType": "service",
        });
        let full = written(&crew, "r", fields).await?;
        assert_ne!(full, bare);
        let cleared = written(&crew, "r", json!({})).await?;
        assert_eq!(cleared, bare, "as if nothing had ever been set");

        // A jwt role has fields of its own.
        let name = crew.own("jwt");
        crew.connect(&name, json!({"defaults": {"authPath": "jwt"}}))
            .await?;
        let path = |role: &str| format!("auth/jwt/role/{}", crew.vault_name(role));
        let jwt = async |role: &str, jwt: Value| -> Result<Value> {
            let mut spec = admits(&["sa1"]);
            spec["connectionRef"] = json!(name);
            spec["jwt"] = jwt;
            crew.declare::<VaultRole>(role, spec).await?;
            crew.until::<VaultRole>(role, is("Ready", "Succeeded"))
                .await?;
            Ok(site.read(&path(role)).await?.expect("it is ready"))
        };
        // Not an empty one: the API server would make `null` of it when fields leave it.
        let usual = json!({"userClaim": "sub"});
        let bare = jwt("bare-jwt", usual.clone()).await?;
        let fields = json!({
            "userClaim": "iss", "groupsClaim": "groups", "boundAudiences": ["shop"],
            "boundClaims": {"iss": "x*"}, "boundClaimsType": "glob",
        });
        assert_ne!(jwt("r-jwt", fields).await?, bare);
        assert_eq!(jwt("r-jwt", usual).await?, bare);
        Ok(())
    })
}

#[test]
fn a_batch_role_gives_out_batch_tokens() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let role = written(&crew, "r", json!({"tokenType": "batch"})).await?;
        assert_eq!(role["token_type"], "batch");
        let jwt = site.jwt(crew.name(), "sa1", None).await?;
        let name = crew.vault_name("r");
        let answer = site.login("kubernetes", &name, &jwt).await?;
        assert_eq!(answer.body["auth"]["token_type"], "batch");
        Ok(())
    })
}

#[test]
fn a_field_that_the_server_does_not_know_is_named() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let path = format!("/v1/auth/kubernetes/role/{}", crew.vault_name("r"));
        let forgets = Rule::on(Method::GET, &path).rewrite_body(|body| {
            let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(fields) = answer["data"].as_object_mut() {
                fields.remove("token_num_uses");
            }
            answer.to_string().into()
        });
        crew.proxy.rule(forgets);
        let mut spec = admits(&["sa1"]);
        spec["tokenNumUses"] = json!(5);
        crew.declare::<VaultRole>("r", spec).await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "UnsupportedByServer"))
            .await?;
        let message = said(&r.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains("token_num_uses"), "{message}");

        // Not asked for, it is not missed.
        written(&crew, "r", json!({})).await?;
        Ok(())
    })
}

#[test]
fn jwt_fields_do_not_fit_a_kubernetes_mount() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let mut spec = admits(&["sa1"]);
        spec["jwt"] = json!({"boundAudiences": ["vault"]});
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "ValidationFailed"))
            .await?;
        assert_eq!(crew.calls(Method::POST, "auth/*/role/*"), 0);
        Ok(())
    })
}

#[test]
fn reconcile_now_is_one_pass_past_the_back_off_and_goes_when_it_succeeds() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        with_app(&crew).await?;
        let path = format!("auth/kubernetes/role/{}", crew.vault_name("r"));
        let fails = Rule::on(Method::POST, &format!("/v1/{path}"))
            .status(StatusCode::INTERNAL_SERVER_ERROR, r#"{"errors":["no"]}"#);
        let fails = crew.proxy.rule(fails);
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        let r = crew.until::<VaultRole>("r", is("Ready", "Failed")).await?;
        let sync = r.status.unwrap().sync;
        let wait = sync.next_retry_at.unwrap().0 - sync.last_attempt_at.unwrap().0;
        assert!(wait.total(jiff::Unit::Minute)? > 4.0, "{wait}");
        assert_eq!(crew.calls(Method::POST, &path), 1);

        // A pass that fails leaves the annotation and does not repeat itself.
        annotate::<VaultRole>(&crew, "r", names::RECONCILE_NOW, Some("1")).await?;
        let again = |role: &VaultRole| {
            let sync = role.status.as_ref().map(|status| &status.sync);
            sync.is_some_and(|sync| sync.retry_count == Some(2))
        };
        let r = crew.until::<VaultRole>("r", again).await?;
        assert!(is_annotated(&r, names::RECONCILE_NOW));
        assert_eq!(crew.calls(Method::POST, &path), 2);

        crew.proxy.remove(fails);
        annotate::<VaultRole>(&crew, "r", names::RECONCILE_NOW, Some("2")).await?;
        let r = crew
            .until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(crew.calls(Method::POST, &path), 3);
        let version = r.metadata.generation;
        let done = |role: &VaultRole| !is_annotated(role, names::RECONCILE_NOW);
        let r = crew.until::<VaultRole>("r", done).await?;
        assert_eq!(r.metadata.generation, version);
        Ok(())
    })
}

#[test]
fn a_subject_beside_service_accounts_overrides_them_and_says_so() -> Result<()> {
    tell(WORLD, async |site| {
        let defaults = json!({"defaults": {"authPath": "jwt"}});
        let crew = site.crew_with(defaults).await?;
        let team = crew.name();
        with_app(&crew).await?;
        let mut spec = admits(&["sa1"]);
        let subject = format!("system:serviceaccount:{team}:sa2");
        spec["jwt"] = json!({"boundAudiences": ["vault"], "boundSubject": subject});
        crew.declare::<VaultRole>("r", spec).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        event(&crew, "r", "ServiceAccountsOverridden").await?;
        for (account, gets_in) in [("sa1", false), ("sa2", true)] {
            let jwt = site.jwt(team, account, Some("vault")).await?;
            let answer = site.login("jwt", &crew.vault_name("r"), &jwt).await?;
            assert_eq!(answer.status == 200, gets_in, "{account}");
        }
        Ok(())
    })
}

#[test]
fn an_external_policy_is_bound_by_its_name_where_the_connection_grants_it() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.own("theirs");
        let external = json!([{"kind": "External", "name": name}]);
        let spec = json!({"serviceAccounts": ["sa1"], "policies": external});
        crew.declare::<VaultRole>("r", spec.clone()).await?;
        let refused = |role: &VaultRole| {
            let sync = role.status.as_ref().map(|status| &status.sync);
            sync.is_some_and(|sync| {
                sync.phase == Some(Phase::Error) && said(&sync.conditions, "Ready").contains(&name)
            })
        };
        crew.until::<VaultRole>("r", refused).await?;
        let role = site.role(&crew.vault_name("r")).await?;
        assert!(!role.is_some_and(|role| role.to_string().contains(&name)));

        let grant = json!({"tenancy": {"externalPolicies": ["{{namespace}}-*"]}});
        crew.connect(&crew.connection, grant).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        has_policies(&crew, &[name]).await?;
        Ok(())
    })
}
