//! Drift: what others change in Vault is told, undone on consent, or left, as the mode says.

use crate::stories::{
    Crew, Plan, admits, annotate, event, events, is_annotated, note, reader, rule, said, tell,
};
use api::vault::{Phase, VaultPolicy, VaultRole, names};
use kube::api::{Api, Patch, PatchParams};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, holds, is};

/// A minute passes in a second, and every object is looked at once a minute.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m"],
};

/// What an administrator writes over a policy by hand.
const WIDER: &str = r#"path "secret/*" { capabilities = ["read", "sudo"] }"#;

/// The spec of a policy in this mode.
fn in_mode(mode: &str) -> Value {
    let mut spec = reader();
    spec["driftMode"] = json!(mode);
    spec
}

fn path(crew: &Crew, name: &str) -> String {
    format!("sys/policies/acl/{}", crew.vault_name(name))
}

async fn drifting(crew: &Crew, name: &str) -> Result<bool> {
    let labels = [("namespace", crew.name()), ("name", name)];
    let gauge = crew.site.metric("vault_drift_detected", &labels).await?;
    Ok((gauge - 1.0).abs() < f64::EPSILON)
}

#[test]
fn ignored_drift_is_neither_looked_for_nor_told() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        for name in ["ignore", "detect"] {
            crew.declare::<VaultPolicy>(name, in_mode(name)).await?;
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
        }
        let read = crew.calls(Method::GET, &path(&crew, "ignore"));
        let writes = crew.writes();
        for name in ["ignore", "detect"] {
            site.write_policy(&crew.vault_name(name), WIDER).await?;
        }

        // The neighbour is looked at again and again; it shows that there was time to see.
        crew.until::<VaultPolicy>("detect", holds("Drifted"))
            .await?;
        crew.rereads(&path(&crew, "detect"), 3).await?;
        let ignore = crew
            .until::<VaultPolicy>("ignore", is("Ready", "Succeeded"))
            .await?;
        let sync = ignore.status.unwrap().sync;
        assert_ne!(sync.drift_detected, Some(true));
        assert_eq!(sync.drift_summary, None);
        assert!(!drifting(&crew, "ignore").await?);
        assert_eq!(crew.calls(Method::GET, &path(&crew, "ignore")), read);
        assert_eq!(crew.writes(), writes);
        Ok(())
    })
}

#[test]
fn detected_drift_is_told_and_left_alone_until_it_is_undone() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        crew.declare::<VaultPolicy>("app", in_mode("detect"))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        let (writes, edited) = (crew.writes(), format!("{text}\n{WIDER}"));
        site.write_policy(&name, &edited).await?;

        let app = crew
            .until::<VaultPolicy>("app", is("Drifted", "DriftDetected"))
            .await?;
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Active));
        assert_eq!(sync.drift_detected, Some(true));
        let summary = sync.drift_summary.unwrap();
        assert!(summary.contains("secret/*"), "{summary}");
        assert!(summary.lines().count() <= 6, "{summary}");
        let ready = sync.conditions.iter().find(|one| one.type_ == "Ready");
        assert_eq!(ready.unwrap().status, "True");
        event(&crew, "app", "DriftDetected").await?;
        assert!(drifting(&crew, "app").await?);
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert_eq!(site.policy(&name).await?, Some(edited));
        assert_eq!(crew.writes(), writes);

        site.write_policy(&name, &text).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Drifted", "NoDrift"))
            .await?;
        assert_ne!(app.status.unwrap().sync.drift_detected, Some(true));
        assert!(!drifting(&crew, "app").await?);
        Ok(())
    })
}

#[test]
fn whatever_phase_an_object_is_in_drift_is_judged_alike() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (name, path) = (crew.vault_name("app"), path(&crew, "app"));
        crew.declare::<VaultPolicy>("app", in_mode("detect"))
            .await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let hash = app.status.unwrap().sync.last_applied_hash;
        let policies = Api::<VaultPolicy>::namespaced(crew.client(), crew.name());
        for (n, phase) in ["Pending", "Syncing", "Conflict", "Error"]
            .iter()
            .enumerate()
        {
            // Vault cannot be read while both change, so a pass sees them together.
            let blind = Rule::on(Method::GET, &format!("/v1/{path}"))
                .status(StatusCode::SERVICE_UNAVAILABLE, r#"{"errors":["no"]}"#);
            let blind = crew.proxy.rule(blind);
            let drift = format!("path \"secret/data/{n}\" {{ capabilities = [\"sudo\"] }}");
            site.write_policy(&name, &drift).await?;
            let status = Patch::Merge(json!({"status": {"phase": phase}}));
            let how = PatchParams::default();
            policies.patch_status("app", &how, &status).await?;
            crew.proxy.remove(blind);

            let seen = |app: &VaultPolicy| {
                let sync = app.status.as_ref().map(|status| &status.sync);
                sync.is_some_and(|sync| {
                    let summary = sync.drift_summary.as_deref().unwrap_or_default();
                    sync.phase == Some(Phase::Active)
                        && summary.contains(&format!("secret/data/{n}"))
                })
            };
            let app = crew.until::<VaultPolicy>("app", seen).await?;
            assert_eq!(app.status.unwrap().sync.last_applied_hash, hash);
            assert_eq!(site.policy(&name).await?, Some(drift), "{phase}");
        }
        assert_eq!(crew.calls(Method::PUT, &path), 1, "the first write");
        Ok(())
    })
}

#[test]
fn another_layout_of_the_same_rules_is_no_drift() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (name, team) = (crew.vault_name("app"), crew.name());
        let rules = json!([
            rule("secret/data/{{namespace}}/*", &["read", "list"]),
            rule("secret/metadata/{{namespace}}/*", &["list"]),
        ]);
        crew.declare::<VaultPolicy>("app", json!({"rules": rules}))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let writes = crew.writes();
        let same = format!(
            "path \"secret/metadata/{team}/*\" {{ capabilities = [\"list\"] }} // moved up\n\
             path \"secret/data/{team}/*\" {{ capabilities = [\"list\", \"read\"] }}"
        );
        site.write_policy(&name, &same).await?;
        crew.rereads(&path(&crew, "app"), 3).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Drifted", "NoDrift"))
            .await?;
        assert_ne!(app.status.unwrap().sync.drift_detected, Some(true));
        assert_eq!(site.policy(&name).await?, Some(same));
        assert_eq!(crew.writes(), writes);
        Ok(())
    })
}

#[test]
fn what_looks_like_a_comment_within_quotes_is_compared() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        let mut limited = rule("secret/data/{{namespace}}/*", &["create"]);
        limited["allowedParameters"] = json!({"colour": ["#1 // red"]});
        crew.declare::<VaultPolicy>("app", json!({"rules": [limited]}))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        let edited = text.replace("#1 // red", "#1 // any");
        assert_ne!(edited, text);
        site.write_policy(&name, &edited).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Drifted", "DriftDetected"))
            .await?;
        let summary = app.status.unwrap().sync.drift_summary.unwrap();
        assert!(summary.contains("#1 // any"), "{summary}");
        Ok(())
    })
}

#[test]
fn a_consent_corrects_drift_once() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        crew.declare::<VaultPolicy>("app", in_mode("correct"))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?;
        let of_kind = [("kind", "VaultPolicy"), ("namespace", crew.name())];
        let blocked = async || {
            site.metric("safety_destructive_blocked_total", &of_kind)
                .await
        };

        // Without consent the drift blocks, and however often it is seen it is counted once.
        site.write_policy(&name, WIDER).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "DriftBlocked"))
            .await?;
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Conflict));
        let message = said(&sync.conditions, "Ready");
        assert!(message.contains(names::ALLOW_DESTRUCTIVE), "{message}");
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(WIDER));
        assert!((blocked().await? - 1.0).abs() < f64::EPSILON);

        annotate::<VaultPolicy>(&crew, "app", names::ALLOW_DESTRUCTIVE, Some("true")).await?;
        let corrected = |app: &VaultPolicy| {
            let sync = app.status.as_ref().map(|status| &status.sync);
            sync.is_some_and(|sync| {
                sync.drift_corrected_at.is_some() && sync.phase == Some(Phase::Active)
            })
        };
        let app = crew.until::<VaultPolicy>("app", corrected).await?;
        assert!(!is_annotated(&app, names::ALLOW_DESTRUCTIVE));
        assert!(app.status.unwrap().sync.intent.is_none());
        assert_eq!(site.policy(&name).await?, text);
        event(&crew, "app", "DriftCorrected").await?;
        let count = site.metric("vault_drift_corrected_total", &of_kind).await?;
        assert!((count - 1.0).abs() < f64::EPSILON);
        assert!(!drifting(&crew, "app").await?);

        site.write_policy(&name, WIDER).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "DriftBlocked"))
            .await?;
        crew.rereads(&path(&crew, "app"), 2).await?;
        assert_eq!(site.policy(&name).await?.as_deref(), Some(WIDER));
        assert!((blocked().await? - 2.0).abs() < f64::EPSILON);
        Ok(())
    })
}

#[test]
fn a_role_deleted_in_vault_is_drift() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        for mode in ["detect", "correct"] {
            let mut spec = admits(&["sa1"]);
            spec["driftMode"] = json!(mode);
            crew.declare::<VaultRole>(mode, spec).await?;
            crew.until::<VaultRole>(mode, is("Ready", "Succeeded"))
                .await?;
        }
        let fields = site.role(&crew.vault_name("correct")).await?;
        let role = |mode: &str| format!("auth/kubernetes/role/{}", crew.vault_name(mode));
        for mode in ["detect", "correct"] {
            site.remove(&role(mode)).await?;
        }

        let detect = crew
            .until::<VaultRole>("detect", is("Drifted", "DriftDetected"))
            .await?;
        assert_eq!(detect.status.unwrap().sync.phase, Some(Phase::Active));
        crew.rereads(&role("detect"), 2).await?;
        assert_eq!(site.role(&crew.vault_name("detect")).await?, None);

        crew.until::<VaultRole>("correct", is("Ready", "DriftBlocked"))
            .await?;
        assert_eq!(site.role(&crew.vault_name("correct")).await?, None);
        annotate::<VaultRole>(&crew, "correct", names::ALLOW_DESTRUCTIVE, Some("true")).await?;
        crew.until::<VaultRole>("correct", is("Ready", "Succeeded"))
            .await?;
        let again = eventually("the role is there again", async || {
            site.role(&crew.vault_name("correct")).await
        })
        .await?;
        assert_eq!(Some(again), fields);
        Ok(())
    })
}

#[test]
fn fields_that_others_set_on_a_role_are_drift() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("r");
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        let writes = crew.writes();
        let more = json!({
            "bound_service_account_names": ["sa1", "intruder"],
            "bound_service_account_namespaces": [crew.name()],
        });
        site.put(&format!("auth/kubernetes/role/{name}"), more)
            .await?;
        let r = crew
            .until::<VaultRole>("r", is("Drifted", "DriftDetected"))
            .await?;
        let summary = r.status.unwrap().sync.drift_summary.unwrap();
        assert!(summary.contains("intruder"), "{summary}");
        assert_eq!(crew.writes(), writes);
        Ok(())
    })
}

#[test]
fn an_edit_over_drift_tells_what_was_lost() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let name = crew.vault_name("app");
        crew.declare::<VaultPolicy>("app", in_mode("detect"))
            .await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let text = site.policy(&name).await?.unwrap();
        let lost = r#"path "secret/data/lost" { capabilities = ["delete"] }"#;
        site.write_policy(&name, &format!("{text}\n{lost}")).await?;
        crew.until::<VaultPolicy>("app", holds("Drifted")).await?;

        let edited = json!({"driftMode": "detect", "rules": [rule("secret/data/new", &["read"])]});
        crew.declare::<VaultPolicy>("app", edited).await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert_ne!(app.status.unwrap().sync.drift_detected, Some(true));
        let text = site.policy(&name).await?.unwrap();
        assert!(text.contains("secret/data/new"), "{text}");
        assert!(!text.contains("secret/data/lost"), "{text}");
        let told = event(&crew, "app", "DriftOverwritten").await?;
        assert!(note(&told).contains("secret/data/lost"), "{told:?}");
        Ok(())
    })
}

#[test]
fn the_mode_of_a_connection_counts_where_the_object_has_none() -> Result<()> {
    tell(WORLD, async |site| {
        let defaults = json!({"defaults": {"driftMode": "correct"}});
        let crew = site.crew_with(defaults).await?;
        crew.declare::<VaultPolicy>("plain", reader()).await?;
        crew.declare::<VaultPolicy>("own", in_mode("detect"))
            .await?;
        for name in ["plain", "own"] {
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
            site.write_policy(&crew.vault_name(name), WIDER).await?;
        }
        crew.until::<VaultPolicy>("plain", is("Ready", "DriftBlocked"))
            .await?;
        let own = crew.until::<VaultPolicy>("own", holds("Drifted")).await?;
        assert_eq!(own.status.unwrap().sync.phase, Some(Phase::Active));
        let told = events(&crew, "own").await?;
        let blocked = told
            .iter()
            .any(|one| note(one).contains("allow-destructive"));
        assert!(!blocked, "{told:?}");
        Ok(())
    })
}
