//! Policies: what is written for them, by which name, and what they say when it is not.

use std::collections::BTreeMap;

use crate::stories::{
    Plan, Site, admits, annotate, change_object, event, events, note, reader, rule, said, tell,
};
use api::vault::{
    Phase, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultPolicy, VaultRole, names,
};
use kube::ResourceExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Result, holds, is};

/// A minute passes in a second, and every object is looked at once a minute.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m", "--vault-deletion-deadline=never"],
};

#[test]
fn a_policy_has_its_derived_name_and_its_text_byte_for_byte() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let team = crew.name();
        let rules = json!([rule("secret/data/{{namespace}}/*", &["read", "list"])]);
        crew.declare::<VaultPolicy>("app", json!({"rules": rules}))
            .await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        let name = format!("vao.kubernetes.{team}.app");
        let text = format!(
            r#"# managed-by: vault-access-operator
# auth-mount: kubernetes
# k8s-resource: {team}/app
# k8s-kind: VaultPolicy

path "secret/data/{team}/*" {{
  capabilities = ["read", "list"]
}}
"#
        );
        assert_eq!(site.policy(&name).await?, Some(text.clone()));
        let status = app.status.unwrap();
        assert_eq!(status.vault_name.as_deref(), Some(&*name));
        assert_eq!(status.rules_count, Some(1));
        assert_eq!(status.sync.phase, Some(Phase::Active));
        let hash = format!("{:x}", Sha256::digest(&text));
        assert_eq!(status.sync.last_applied_hash, Some(hash));
        let binding = status.sync.binding.unwrap();
        assert_eq!(
            binding.vault_path.unwrap(),
            format!("sys/policies/acl/{name}")
        );
        assert_eq!(
            binding.owner.unwrap(),
            format!("VaultPolicy {team}/app (auth-mount kubernetes)")
        );
        Ok(())
    })
}

#[test]
fn cluster_policies_stand_beside_the_policy_of_a_namespace() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        // Joined with a hyphen, namespace and name would be those of the second.
        let (shared, namesake) = (crew.own("shared"), crew.own("app"));
        let of = |who: &str| json!({"rules": [rule(&format!("secret/data/{who}"), &["read"])]});
        crew.declare::<VaultPolicy>("app", of("team")).await?;
        for name in [&shared, &namesake] {
            crew.declare::<VaultClusterPolicy>(name, of(name)).await?;
            let cluster = crew.cluster();
            cluster
                .until::<VaultClusterPolicy>(name, is("Ready", "Succeeded"))
                .await?;
        }
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        for name in [&shared, &namesake] {
            let text = site.policy(&format!("vao.kubernetes._.{name}")).await?;
            let head = format!("# k8s-resource: {name}\n# k8s-kind: VaultClusterPolicy\n");
            assert!(text.as_ref().is_some_and(|text| text.contains(&head)));
            assert!(text.unwrap().contains(&format!("secret/data/{name}")));
        }
        let text = site.policy(&crew.vault_name("app")).await?.unwrap();
        assert!(text.contains("secret/data/team"), "{text}");
        Ok(())
    })
}

#[test]
fn a_cluster_without_a_name_that_logs_in_by_token_is_marked_by_its_uid() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let token = site.token_with("pontoon").await?;
        let (name, home) = (crew.own("token"), site.world.operator_namespace());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": home}, "stringData": {"token": token},
        });
        crew.apply(&secret.to_string()).await?;
        let key = json!({"name": name, "namespace": home, "key": "token"});
        let auth = json!({"kubernetes": null, "token": {"secretRef": key}});
        crew.connect(&name, json!({"auth": auth})).await?;
        let mut spec = reader();
        spec["connectionRef"] = json!(name);
        crew.declare::<VaultPolicy>("app", spec).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(crew.client());
        let uid = namespaces.get("kube-system").await?.uid().unwrap();
        let text = site.policy(&format!("vao._.{}.app", crew.name())).await?;
        let head = format!(
            "# managed-by: vault-access-operator\n# cluster: uid:{uid}\n# k8s-resource: {}/app\n",
            crew.name()
        );
        assert!(text.as_ref().unwrap().starts_with(&head), "{text:?}");
        Ok(())
    })
}

#[test]
fn vault_enforces_parameters_wrapping_and_patch() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let team = crew.name();
        site.put(&format!("plain/{team}/wrapped"), json!({"colour": "red"}))
            .await?;
        site.secret(&format!("{team}/doc")).await?;
        let rules = json!([
            {
                "path": "plain/{{namespace}}/limited", "capabilities": ["create", "update"],
                "allowedParameters": {"colour": ["red", "blue"], "size": []},
                "deniedParameters": {"size": ["huge"]},
            },
            {
                "path": "plain/{{namespace}}/wrapped", "capabilities": ["read"],
                "minWrappingTTL": "10s", "maxWrappingTTL": "90s",
            },
            {"path": "secret/data/{{namespace}}/doc", "capabilities": ["patch"]},
        ]);
        crew.declare::<VaultPolicy>("app", json!({"rules": rules}))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let token = site.token_with(&crew.vault_name("app")).await?;
        let ask = async |method: Method, path: &str, headers: &[(&str, &str)], body: Value| {
            asked(site, &token, method, path, headers, &body).await
        };

        let limited = format!("plain/{team}/limited");
        for (body, status) in [
            (json!({"colour": "red", "size": "small"}), 204),
            (json!({"colour": "green"}), 403),
            (json!({"weight": "1"}), 403),
            (json!({"size": "huge"}), 403),
        ] {
            let answer = ask(Method::POST, &limited, &[], body.clone()).await?;
            assert_eq!(answer, status, "{body}");
        }
        let wrapped = format!("plain/{team}/wrapped");
        for (ttl, status) in [("30s", 200), ("5s", 403), ("5m", 403)] {
            let wrap = [("X-Vault-Wrap-TTL", ttl)];
            let answer = ask(Method::GET, &wrapped, &wrap, Value::Null).await?;
            assert_eq!(answer, status, "wrapped for {ttl}");
        }
        assert_eq!(ask(Method::GET, &wrapped, &[], Value::Null).await?, 403);
        let doc = format!("secret/data/{team}/doc");
        let body = json!({"data": {"colour": "blue"}});
        let merge = [("Content-Type", "application/merge-patch+json")];
        assert_eq!(ask(Method::PATCH, &doc, &merge, body.clone()).await?, 200);
        assert_eq!(ask(Method::POST, &doc, &[], body).await?, 403);
        Ok(())
    })
}

/// The status of Vault's answer to a holder of `token`.
async fn asked(
    site: &Site,
    token: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Result<u16> {
    let url = format!("{}/v1/{path}", site.world.vault().address());
    let mut request = reqwest::Client::new()
        .request(method, url)
        .header("X-Vault-Token", token);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if !body.is_null() {
        request = request.body(body.to_string());
    }
    Ok(request.send().await?.status().as_u16())
}

#[test]
fn an_edit_is_written_in_every_drift_mode_and_is_no_drift() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        for mode in ["ignore", "detect", "correct"] {
            let spec = |path: &str| json!({"driftMode": mode, "rules": [rule(path, &["read"])]});
            crew.declare::<VaultPolicy>(mode, spec("secret/data/old"))
                .await?;
            let before = crew
                .until::<VaultPolicy>(mode, is("Ready", "Succeeded"))
                .await?;
            crew.declare::<VaultPolicy>(mode, spec("secret/data/new"))
                .await?;
            let after = crew
                .until::<VaultPolicy>(mode, is("Ready", "Succeeded"))
                .await?;

            let text = site.policy(&crew.vault_name(mode)).await?.unwrap();
            assert!(text.contains("secret/data/new"), "{mode}: {text}");
            let hashes = |policy: VaultPolicy| {
                let sync = policy.status.unwrap().sync;
                let sent = sync.last_applied_hash.unwrap();
                (sent, sync.last_applied_canonical_hash.unwrap())
            };
            let (before, after) = (hashes(before), hashes(after));
            assert!(before.0 != after.0 && before.1 != after.1, "{mode}");
            let path = format!("sys/policies/acl/{}", crew.vault_name(mode));
            assert_eq!(crew.calls(Method::PUT, &path), 2, "{mode}");

            event(&crew, mode, "Synced").await?;
            let told = events(&crew, mode).await?;
            let drift = |reason: &Option<String>| {
                reason.as_ref().is_some_and(|text| text.contains("Drift"))
            };
            assert!(!told.iter().any(|one| drift(&one.reason)), "{told:?}");
            let labels = [("namespace", crew.name()), ("name", mode)];
            let drifting = site.metric("vault_drift_detected", &labels).await?;
            assert!(drifting.abs() < f64::EPSILON, "{mode}");
        }
        Ok(())
    })
}

#[test]
fn a_deleted_policy_goes_in_vault_first_and_then_itself() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;

        // As long as Vault does not delete it, the object stays and says why.
        let fails = Rule::on(Method::DELETE, "/v1/sys/policies/*")
            .status(StatusCode::INTERNAL_SERVER_ERROR, r#"{"errors":["no"]}"#);
        let fails = crew.proxy.rule(fails);
        crew.delete::<VaultPolicy>("app").await?;
        let app = crew.until::<VaultPolicy>("app", holds("Deleting")).await?;
        assert!(app.finalizers().iter().any(|one| one == names::FINALIZER));
        assert_eq!(app.status.unwrap().sync.phase, Some(Phase::Deleting));
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());

        crew.proxy.remove(fails);
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        Ok(())
    })
}

#[test]
fn a_retained_policy_stays_in_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let mut spec = reader();
        spec["deletionPolicy"] = json!("Retain");
        crew.declare::<VaultPolicy>("app", spec).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        assert_eq!(crew.calls(Method::DELETE, "sys/policies/*"), 0);
        Ok(())
    })
}

#[test]
fn a_policy_waits_for_its_connection_and_goes_on_when_it_is_made() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let late = crew.own("late");
        let mut spec = reader();
        spec["connectionRef"] = json!(late);
        crew.declare::<VaultPolicy>("app", spec).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("DependencyReady", "DependencyNotReady"))
            .await?;
        let status = app.status.unwrap();
        assert_eq!(status.sync.phase, Some(Phase::Error));
        let mut conditions = status.sync.conditions.iter();
        let dependency = conditions.find(|one| one.type_ == "DependencyReady");
        assert_eq!(dependency.unwrap().status, "False");
        let message = said(&status.sync.conditions, "Ready");
        assert!(message.contains(&late), "{message}");
        event(&crew, "app", "WaitingForDependency").await?;

        crew.connect(&late, json!({})).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(app.status.unwrap().sync.phase, Some(Phase::Active));
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

#[test]
fn dry_run_of_a_new_policy_writes_nothing_and_shows_the_plan() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let mut object: Value = serde_json::from_str(
            crew.manifest::<VaultPolicy>("app", reader())
                .trim_start_matches("---"),
        )?;
        object["metadata"]["annotations"] = json!({names::DRY_RUN: "true"});
        crew.apply(&object.to_string()).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "DryRunSkipped"))
            .await?;
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Pending));
        assert!(sync.binding.is_none() && sync.last_applied_hash.is_none());
        let plan = said(&sync.conditions, "DryRun");
        assert!(plan.contains(&crew.vault_name("app")), "{plan}");
        assert_eq!(crew.writes(), 0);
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);

        change_object::<VaultPolicy>(
            &crew,
            "app",
            &json!({"metadata": {"annotations": {names::DRY_RUN: null}}}),
        )
        .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        assert_eq!(crew.writes(), 1);
        Ok(())
    })
}

#[test]
fn dry_run_leaves_what_is_in_vault_and_its_record_alone_even_at_the_end() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let before = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&crew.vault_name("app")).await?;
        annotate::<VaultPolicy>(&crew, "app", names::DRY_RUN, Some("true")).await?;
        let edited = json!({"rules": [rule("secret/data/edited", &["read"])]});
        crew.declare::<VaultPolicy>("app", edited).await?;
        let plans = |policy: &VaultPolicy| {
            let status = policy.status.as_ref();
            status.is_some_and(|status| {
                said(&status.sync.conditions, "DryRun").contains("secret/data/edited")
            })
        };
        let after = crew.until::<VaultPolicy>("app", plans).await?;
        let (before, after) = (before.status.unwrap().sync, after.status.unwrap().sync);
        assert_eq!(after.phase, Some(Phase::Active));
        assert_eq!(after.binding, before.binding);
        assert_eq!(after.last_applied_hash, before.last_applied_hash);
        assert_eq!(site.policy(&crew.vault_name("app")).await?, text);

        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, text);
        assert_eq!(crew.writes(), 1);
        Ok(())
    })
}

#[test]
fn a_refused_write_names_its_path_and_heals_when_it_is_granted() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let narrow = crew.own("narrow");
        let grant = |capabilities: &str| {
            format!("path \"sys/policies/acl/*\" {{ capabilities = [{capabilities}] }}")
        };
        site.write_policy(&narrow, &grant(r#""read""#)).await?;
        site.let_operator_in("kubernetes", &narrow, &narrow).await?;
        let auth = json!({"kubernetes": {"role": narrow}});
        crew.connect(&narrow, json!({"auth": auth})).await?;
        let mut spec = reader();
        spec["connectionRef"] = json!(narrow);
        crew.declare::<VaultPolicy>("app", spec).await?;

        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "VaultPermissionDenied"))
            .await?;
        let sync = app.status.unwrap().sync;
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        let message = said(&sync.conditions, "Ready");
        assert!(message.contains(&path), "{message}");
        assert_eq!(sync.phase, Some(Phase::Error));
        assert!(sync.next_retry_at.is_some() && sync.retry_count >= Some(1));
        event(&crew, "app", "SyncFailed").await?;

        let more = grant(r#""create", "read", "update", "delete""#);
        site.write_policy(&narrow, &more).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(app.metadata.generation, Some(1), "nobody edited it");
        let sync = app.status.unwrap().sync;
        assert!(sync.next_retry_at.is_none() && sync.retry_count.is_none());
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

#[test]
fn what_fails_is_tried_again_at_twice_the_distance_each_time_up_to_five_minutes() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        let fails = Rule::on(Method::PUT, &format!("/v1/{path}"))
            .status(StatusCode::INTERNAL_SERVER_ERROR, r#"{"errors":["no"]}"#);
        let fails = crew.proxy.rule(fails);
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let mut waits = BTreeMap::new();
        while !waits.contains_key(&6) {
            let more = |app: &VaultPolicy| {
                let sync = app.status.as_ref().map(|status| &status.sync);
                let tries = sync.and_then(|sync| sync.retry_count);
                tries.is_some_and(|tries| !waits.contains_key(&tries))
            };
            let app = crew.until::<VaultPolicy>("app", more).await?;
            let sync = app.status.unwrap().sync;
            assert_eq!(sync.phase, Some(Phase::Error));
            let wait = sync.next_retry_at.unwrap().0 - sync.last_attempt_at.unwrap().0;
            waits.insert(sync.retry_count.unwrap(), wait.total(jiff::Unit::Second)?);
        }
        for (tries, wait) in &waits {
            let due = (30 << (tries - 1)).min(300);
            // A tenth, and what a second loses in a time without fractions.
            let most = f64::from(due) * 0.1 + 1.0;
            assert!((wait - f64::from(due)).abs() <= most, "{waits:?}");
        }
        // And not in between: a minute passes in a second.
        let tries = crew.proxy.arrivals(Method::PUT, &format!("/v1/{path}"));
        for (n, pair) in tries.windows(2).enumerate() {
            let apart = 60.0 * pair[1].duration_since(pair[0]).as_secs_f64();
            let due = f64::from((30_i32 << n).min(300));
            assert!(apart >= 0.9 * due, "{tries:?}");
        }
        // Each call is a try on record.
        let recorded = |app: &VaultPolicy| {
            let sync = app.status.as_ref().map(|status| &status.sync);
            let count = sync.and_then(|sync| sync.retry_count).unwrap_or_default();
            usize::try_from(count).is_ok_and(|count| count >= tries.len())
        };
        crew.until::<VaultPolicy>("app", recorded).await?;

        crew.proxy.remove(fails);
        annotate::<VaultPolicy>(&crew, "app", names::RECONCILE_NOW, Some("1")).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert_eq!(app.status.unwrap().sync.next_retry_at, None);
        Ok(())
    })
}

#[test]
fn what_the_server_finds_invalid_is_not_asked_again_until_an_edit() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        // OpenBao's word, which Vault does not know.
        let rules = json!([rule("secret/data/{{namespace}}/*", &["scan"])]);
        crew.declare::<VaultPolicy>("app", json!({"rules": rules}))
            .await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "ValidationFailed"))
            .await?;
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Error));
        let message = said(&sync.conditions, "Ready");
        assert!(message.contains("scan"), "{message}");
        crew.declare::<VaultPolicy>("neighbour", reader()).await?;
        crew.until::<VaultPolicy>("neighbour", is("Ready", "Succeeded"))
            .await?;

        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        let before = crew.proxy.count(AnyMethod::any(), &format!("/v1/{path}"));
        let neighbour = format!("sys/policies/acl/{}", crew.vault_name("neighbour"));
        crew.rereads(&neighbour, 3).await?;
        let after = crew.proxy.count(AnyMethod::any(), &format!("/v1/{path}"));
        assert_eq!(after, before, "calls for what cannot succeed");

        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

#[test]
fn one_reconcile_id_stands_in_log_status_and_event() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let id = app.status.unwrap().sync.last_reconcile_id.unwrap();
        assert!(
            id.len() == 8 && id.chars().all(|digit| digit.is_ascii_hexdigit()),
            "{id}"
        );
        let told = event(&crew, "app", "Synced").await?;
        assert_eq!(told.annotations()["pontoon.io/reconcile-id"], id);
        let with_id = format!("\"reconcileID\":\"{id}\"");
        let line = site.world.operator().logs(&with_id).await?;
        let line: Value = serde_json::from_str(&line)?;
        assert_eq!(line["namespace"], crew.name(), "{line}");
        assert_eq!(line["name"], "app", "{line}");
        assert_eq!(line["logger"], "vaultpolicy", "{line}");
        assert_eq!(line["vaultConnection"], crew.connection, "{line}");
        assert_eq!(line["authPath"], "kubernetes", "{line}");
        let cluster = line["cluster"].as_str().unwrap_or_default();
        assert!(cluster.starts_with("uid:"), "{line}");
        Ok(())
    })
}

#[test]
fn a_vault_namespace_is_refused_where_the_server_has_none() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (cluster, name) = (crew.cluster(), crew.own("child"));
        let mut policy = reader();
        policy["vaultNamespace"] = json!("child");
        crew.declare::<VaultClusterPolicy>(&name, policy).await?;
        let mut role = admits(&[]);
        role["vaultNamespace"] = json!("child");
        role["serviceAccounts"] = json!([{"name": "sa1", "namespace": crew.name()}]);
        role["policies"][0]["namespace"] = json!(crew.name());
        crew.declare::<VaultClusterRole>(&name, role).await?;
        let refused = || is("Ready", "UnsupportedByServer");
        cluster
            .until::<VaultClusterPolicy>(&name, refused())
            .await?;
        cluster.until::<VaultClusterRole>(&name, refused()).await?;
        let of_ours = format!("/v1/*{name}*");
        assert_eq!(crew.proxy.count(AnyMethod::any(), &of_ours), 0);

        // A connection that is there itself does not even log in.
        let proxy = site.proxy().await?;
        let there = json!({"address": proxy.url(), "vaultNamespace": "child"});
        crew.connect(&name, there).await?;
        cluster.until::<VaultConnection>(&name, refused()).await?;
        let mut spec = reader();
        spec["connectionRef"] = json!(name);
        crew.declare::<VaultPolicy>("app", spec).await?;
        let mut spec = admits(&["sa1"]);
        spec["connectionRef"] = json!(name);
        crew.declare::<VaultRole>("r", spec).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "ConnectionNotReady"))
            .await?;
        crew.until::<VaultRole>("r", is("Ready", "ConnectionNotReady"))
            .await?;
        let message = said(&app.status.unwrap().sync.conditions, "Ready");
        assert!(message.contains("its status says why"), "{message}");
        let told = event(&crew, "app", "WaitingForDependency").await?;
        assert_eq!(note(&told), message);
        let mut asked: Vec<_> = proxy.requests().into_iter().map(|one| one.path).collect();
        asked.dedup();
        assert_eq!(asked, ["/v1/sys/health"]);
        Ok(())
    })
}
