//! Seeds: sown where nothing is, once; and only what still is as it was sown goes with its object.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::seed_fixtures::HUSH;
use crate::stories::{Crew, Plan, annotate, change_object, event, events, note, said, tell};
use api::vault::{Phase, VaultConnection, VaultKVSecret, names};
use kube::api::{Api, ListParams, PostParams};
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::json;
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Result, eventually, is};

/// A minute passes in a second, and every object is looked at once a minute; a minute, too, is how
/// long one waits for Vault at its end.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-resync=1m", "--vault-deletion-deadline=1m"],
};

/// Who may create but neither read nor update.
const BLIND: &str = r#"
path "secret/data/*" { capabilities = ["create"] }
path "secret/metadata/*" { capabilities = ["read", "patch", "delete"] }
"#;

#[test]
fn where_nothing_is_a_seed_becomes_version_one_marked_and_recorded() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        let status = crew.grown("a").await?;
        assert_eq!(
            (status.seeded, status.seeded_version),
            (Some(true), Some(1))
        );
        assert_eq!(status.sync.phase, Some(Phase::Active));
        assert!(status.sync.intent.is_none());
        assert_eq!(crew.values("a").await?, Some(json!({"password": HUSH})));

        let metadata = crew.metadata("a").await?.unwrap();
        assert_eq!(metadata["current_version"], 1);
        let marker = &metadata["custom_metadata"];
        assert_eq!(marker["managed-by"], "vault-access-operator");
        assert_eq!(marker["k8s-resource"], format!("{}/a", crew.name()));
        assert_eq!(marker["auth-mount"], "kubernetes");
        for time in ["managed-at", "last-updated"] {
            assert!(marker[time].is_string(), "{marker}");
        }
        Ok(())
    })
}

#[test]
fn what_is_there_already_is_neither_touched_nor_deleted() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        site.secret(&crew.plot("a")).await?;
        let before = crew.metadata("a").await?;
        crew.sow("a", json!({})).await?;
        let status = crew.grown("a").await?;
        assert_eq!((status.seeded, status.seeded_version), (Some(false), None));

        crew.uproot("a").await?;
        event(&crew, "a", "ForeignSecretNotDeleted").await?;
        assert_eq!(crew.metadata("a").await?, before);
        assert_eq!(crew.values("a").await?, Some(json!({"colour": "red"})));
        assert_eq!(crew.changes("secret", &crew.plot("a")), 0);
        Ok(())
    })
}

#[test]
fn a_mount_without_versions_gets_nothing() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let path = format!("plain/data/{}", crew.name());
        crew.sow("a", json!({"path": path})).await?;
        let status = crew.seed_is("a", "Ready", "ValidationFailed").await?;
        assert_eq!(status.sync.phase, Some(Phase::Error));
        let message = said(&status.sync.conditions, "Ready");
        assert!(message.contains("plain"), "{message}");
        assert_eq!(crew.changes("plain", crew.name()), 0);
        assert_eq!(site.read(&path).await?, None);
        crew.uproot("a").await
    })
}

#[test]
fn a_seed_goes_with_its_object() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        Ok(())
    })
}

#[test]
fn a_retained_seed_outlives_its_object() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({"deletionPolicy": "Retain"})).await?;
        crew.grown("a").await?;
        crew.uproot("a").await?;
        assert_eq!(crew.values("a").await?, Some(json!({"password": HUSH})));
        Ok(())
    })
}

#[test]
fn a_seed_that_somebody_wrote_over_outlives_its_object() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        site.secret(&crew.plot("a")).await?;
        crew.uproot("a").await?;
        let left = event(&crew, "a", "ForeignSecretNotDeleted").await?;
        assert!(note(&left).contains(&crew.plot("a")), "{}", note(&left));
        assert_eq!(crew.values("a").await?, Some(json!({"colour": "red"})));
        Ok(())
    })
}

#[test]
fn later_edits_of_the_values_change_nothing_and_are_told_so() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        crew.sow("a", json!({"data": {"password": "another"}}))
            .await?;
        let status = crew.seed_is("a", "Seeded", "Succeeded").await?;
        assert_eq!(status.seeded_version, Some(1));
        let message = said(&status.sync.conditions, "Seeded");
        assert!(message.contains("change nothing"), "{message}");
        assert_eq!(crew.values("a").await?, Some(json!({"password": HUSH})));
        assert_eq!(crew.sowings("a"), 1);
        Ok(())
    })
}

#[test]
fn a_seed_at_rest_is_looked_at_and_never_written() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        let path = format!("secret/metadata/{}", crew.plot("a"));
        crew.rereads(&path, 2).await?;
        let (mark, writes) = (site.world.mark(), crew.changes("secret", &crew.plot("a")));
        crew.rereads(&path, 3).await?;
        // It still knows that it was it who sowed.
        let status = crew.grown("a").await?;
        assert_eq!(
            (status.seeded, status.seeded_version),
            (Some(true), Some(1))
        );
        assert_eq!(crew.changes("secret", &crew.plot("a")), writes);
        assert_eq!(crew.kubernetes_writes(mark).await?, []);
        Ok(())
    })
}

#[test]
fn a_deleted_version_is_told_and_sown_again_only_on_request() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        site.remove(&format!("secret/data/{}", crew.plot("a")))
            .await?;
        let status = crew.seed_is("a", "Ready", "SeedTargetDeleted").await?;
        assert_eq!(status.seeded_version, Some(1));
        assert_eq!(crew.values("a").await?, None);
        assert_eq!(crew.sowings("a"), 1);

        crew.sow("a", json!({"reseedDeleted": true})).await?;
        let status = crew.grown("a").await?;
        assert_eq!(
            (status.seeded, status.seeded_version),
            (Some(true), Some(2))
        );
        assert_eq!(crew.metadata("a").await?.unwrap()["current_version"], 2);
        assert_eq!(crew.values("a").await?, Some(json!({"password": HUSH})));
        crew.uproot("a").await?;
        assert_eq!(crew.metadata("a").await?, None);
        Ok(())
    })
}

#[test]
fn a_connection_waits_for_its_seeds() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        let (cluster, name) = (crew.cluster(), &crew.connection);
        cluster.delete::<VaultConnection>(name).await?;
        let waiting = cluster
            .until::<VaultConnection>(name, is("Deleting", "ChildrenExist"))
            .await?;
        let message = said(&waiting.status.unwrap().conditions, "Deleting");
        assert!(message.contains(&crew.plot("a")), "{message}");

        crew.uproot("a").await?;
        cluster.gone::<VaultConnection>(name).await?;
        assert_eq!(crew.metadata("a").await?, None);
        Ok(())
    })
}

#[test]
fn a_dry_run_sows_nothing_until_it_is_over() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let seed: VaultKVSecret = serde_json::from_value(json!({
            "apiVersion": "vault.platform.io/v1alpha1", "kind": "VaultKVSecret",
            "metadata": {"name": "a", "annotations": {names::DRY_RUN: "true"}},
            "spec": {
                "connectionRef": crew.connection,
                "path": format!("secret/data/{}", crew.plot("a")),
            },
        }))?;
        let seeds = Api::<VaultKVSecret>::namespaced(crew.client(), crew.name());
        seeds.create(&PostParams::default(), &seed).await?;
        let status = crew.seed_is("a", "Ready", "DryRunSkipped").await?;
        assert_eq!(status.sync.phase, Some(Phase::Pending));
        assert_eq!(crew.changes("secret", &crew.plot("a")), 0);

        annotate::<VaultKVSecret>(&crew, "a", names::DRY_RUN, None).await?;
        assert_eq!(crew.grown("a").await?.seeded, Some(true));
        Ok(())
    })
}

#[test]
fn a_write_whose_answer_is_lost_is_recognised_and_not_repeated() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let lost = format!("/v1/secret/data/{}", crew.plot("values"));
        crew.proxy
            .rule(Rule::on(Method::POST, &lost).times(1).cut_after());
        let lost = format!("/v1/secret/metadata/{}", crew.plot("marker"));
        crew.proxy
            .rule(Rule::on(Method::PATCH, &lost).times(1).cut_after());
        for name in ["values", "marker"] {
            crew.sow(name, json!({})).await?;
            let status = crew.grown(name).await?;
            assert_eq!(
                (status.seeded, status.seeded_version),
                (Some(true), Some(1))
            );
            assert_eq!(crew.sowings(name), 1);
            let metadata = crew.metadata(name).await?.unwrap();
            assert_eq!(metadata["current_version"], 1);
            assert!(metadata["custom_metadata"]["managed-by"].is_string());
        }
        Ok(())
    })
}

#[test]
fn a_refusal_names_the_path_and_ends_with_its_cause() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let path = format!("secret/data/{}", crew.plot("a"));
        let refused = Rule::on(Method::POST, &format!("/v1/{path}"));
        let body = r#"{"errors":["permission denied"]}"#;
        let refused = crew.proxy.rule(refused.status(StatusCode::FORBIDDEN, body));
        crew.sow("a", json!({})).await?;
        let status = crew.seed_is("a", "Ready", "VaultPermissionDenied").await?;
        assert_eq!(status.sync.intent, None, "a refusal is an answer");
        let message = status.sync.message.unwrap_or_default();
        assert!(message.contains(&path), "{message}");
        crew.proxy.remove(refused);
        assert_eq!(crew.grown("a").await?.seeded, Some(true));
        Ok(())
    })
}

/// Sows the seed `a` and waits until the operator's write is on its way. It reaches Vault when the
/// sender is used or dropped.
async fn sow_slowly(crew: &Crew) -> Result<mpsc::Sender<()>> {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let path = format!("/v1/secret/data/{}", crew.plot("a"));
    let write = Rule::on(Method::POST, &path).times(1);
    crew.proxy.rule(write.rewrite_request(move |body| {
        let released = released.lock().expect("nobody else has it");
        released.recv_timeout(Duration::from_secs(60)).ok();
        body
    }));
    crew.sow("a", json!({})).await?;
    eventually("our write is on its way", async || {
        Ok((crew.sowings("a") > 0).then_some(()))
    })
    .await?;
    Ok(release)
}

#[test]
fn whoever_is_faster_keeps_what_he_wrote() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        let release = sow_slowly(&crew).await?;
        site.secret(&crew.plot("a")).await?;
        release.send(())?;
        let status = crew.grown("a").await?;
        assert_eq!(status.seeded, Some(false), "{:?}", status.sync.message);
        assert!(status.sync.intent.is_none());
        assert_eq!(crew.values("a").await?, Some(json!({"colour": "red"})));
        assert_eq!(crew.metadata("a").await?.unwrap()["current_version"], 1);
        Ok(())
    })
}

// Vault answers a lost check-and-set to who may update, and 403 to who may only create.
#[rstest]
#[case::to_who_may_update("update")]
#[case::to_who_may_only_create("create")]
fn what_another_wrote_first_is_theirs_even_if_equal(#[case] grant: &str) -> Result<()> {
    tell(WORLD, async |site| {
        let role = format!("may-{grant}");
        let policy = BLIND.replace(
            r#"["create"]"#,
            &format!(r#"["create", "read", "{grant}"]"#),
        );
        let crew = crate::seed_fixtures::crew_that_may(site, &role, &policy, json!({})).await?;
        let path = format!("secret/data/{}", crew.plot("a"));
        let release = sow_slowly(&crew).await?;
        site.put(&path, json!({"data": {"password": HUSH}})).await?;
        let theirs = crew.metadata("a").await?;
        release.send(())?;
        let status = crew.grown("a").await?;
        assert_eq!(status.seeded, Some(false), "{:?}", status.sync.message);
        assert_eq!(status.sync.intent, None);

        // It stays theirs at later looks, and when the object goes.
        let metadata = format!("secret/metadata/{}", crew.plot("a"));
        crew.rereads(&metadata, 2).await?;
        crew.uproot("a").await?;
        event(&crew, "a", "ForeignSecretNotDeleted").await?;
        assert_eq!(crew.metadata("a").await?, theirs);
        assert_eq!(crew.sowings("a"), 1);
        Ok(())
    })
}

#[test]
fn who_may_not_read_cannot_confirm_a_lost_write_until_he_may() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew_that_may(site, "blind", BLIND, json!({})).await?;
        let path = format!("/v1/secret/data/{}", crew.plot("a"));
        crew.proxy
            .rule(Rule::on(Method::POST, &path).times(1).cut_after());
        crew.sow("a", json!({})).await?;
        let status = crew.seed_is("a", "Seeded", "SeedUnconfirmed").await?;
        let seeded = status.sync.conditions.iter();
        let mut seeded = seeded.filter(|one| one.type_ == "Seeded");
        assert!(seeded.all(|one| one.status == "Unknown"));
        assert!(status.sync.intent.is_some());

        let sighted = BLIND.replace(r#"["create"]"#, r#"["create", "read"]"#);
        site.write_policy("blind", &sighted).await?;
        let status = crew.seed_is("a", "Seeded", "Succeeded").await?;
        assert_eq!(
            (status.seeded, status.seeded_version),
            (Some(true), Some(1))
        );
        assert_eq!(crew.sowings("a"), 1);
        Ok(())
    })
}

#[test]
fn a_path_beyond_those_of_the_tenancy_is_denied_until_it_is_opened() -> Result<()> {
    tell(WORLD, async |site| {
        let paths = json!({"kvPaths": ["secret/data/{{namespace}}/*"]});
        let crew = crate::seed_fixtures::crew(site, json!({"tenancy": paths})).await?;
        let path = format!("secret/data/shared-{}", crew.name());
        crew.sow("beyond", json!({"path": path})).await?;
        crew.sow("within", json!({})).await?;
        assert_eq!(crew.grown("within").await?.seeded, Some(true));
        let status = crew.seed_is("beyond", "Ready", "TenancyDenied").await?;
        let message = said(&status.sync.conditions, "Ready");
        assert!(message.contains(&path), "{message}");
        assert_eq!(
            crew.changes("secret", &format!("shared-{}", crew.name())),
            0
        );

        let open = json!({"spec": {"tenancy": null}});
        change_object::<VaultConnection>(&crew.cluster(), &crew.connection, &open).await?;
        assert_eq!(crew.grown("beyond").await?.seeded, Some(true));
        Ok(())
    })
}

#[test]
fn a_seed_whose_vault_is_away_at_its_end_goes_when_that_is_back() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.grown("a").await?;
        let away = crew.proxy.rule(Rule::on(AnyMethod::any(), "/v1/*").reset());
        crew.proxy.cut_all();
        crew.uproot("a").await?;
        event(&crew, "a", "DeleteRetryEnqueued").await?;
        assert!(crew.metadata("a").await?.is_some());
        crew.proxy.remove(away);
        eventually("the leftover is gone", async || {
            Ok(crew.metadata("a").await?.is_none().then_some(()))
        })
        .await
    })
}

#[test]
fn the_values_are_seen_nowhere_but_in_vault() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = crate::seed_fixtures::crew(site, json!({})).await?;
        crew.sow("a", json!({})).await?;
        crew.sow("b", json!({"path": format!("plain/data/{}", crew.name())}))
            .await?;
        let status = crew.grown("a").await?;
        let refused = crew.seed_is("b", "Ready", "ValidationFailed").await?;
        for status in [status, refused] {
            assert!(!serde_json::to_string(&status)?.contains(HUSH));
        }
        for name in ["a", "b"] {
            for event in events(&crew, name).await? {
                assert!(!note(&event).contains(HUSH));
            }
        }
        assert!(!site.world.operator().log().contains(HUSH));
        let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::all(crew.client());
        let maps = maps.list(&ListParams::default()).await?.items;
        assert!(!serde_json::to_string(&maps)?.contains(HUSH));
        Ok(())
    })
}
