//! The end of an object while Vault is away: it waits, says for what, and leaves a record at last.

use crate::stories::{Crew, Plan, admits, event, note, reader, said, tell};
use api::vault::{Phase, VaultConnection, VaultPolicy, VaultRole, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Result, eventually, is};

/// Real time: the deadline counts from the API server's `deletionTimestamp`, and a faster clock would
/// be past it after some seconds.
const WORLD: Plan = Plan {
    pace: 1,
    args: &["--vault-deletion-deadline=15s", "--vault-cleanup-retry=5s"],
};

/// A connection whose state is known within seconds.
fn watched_closely() -> Value {
    json!({"healthCheckInterval": "5s"})
}

/// What the records of the crew's connection are about.
async fn records(crew: &Crew) -> Result<Vec<String>> {
    let site = crew.site;
    let home = Api::<ConfigMap>::namespaced(crew.client(), site.world.operator_namespace());
    let labelled = format!("{}=true", names::CLEANUP_RECORD_LABEL);
    let all = home.list(&ListParams::default().labels(&labelled)).await?;
    let data = all.into_iter().filter_map(|record| record.data);
    let ours = data.filter(|data| data.get("connection") == Some(&crew.connection));
    Ok(ours
        .filter_map(|mut data| data.remove("vaultPath"))
        .collect())
}

#[test]
fn an_object_waits_for_a_vault_that_is_away_and_past_the_deadline_a_record_waits() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(watched_closely()).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        let ready = || is("Ready", "Succeeded");
        crew.until::<VaultPolicy>("app", ready()).await?;
        crew.until::<VaultRole>("r", ready()).await?;
        let away = crew.proxy.rule(Rule::on(AnyMethod::any(), "/v1/*").reset());
        crew.proxy.cut_all();
        let cluster = crew.cluster();
        cluster
            .until::<VaultConnection>(&crew.connection, is("Ready", "NetworkError"))
            .await?;

        // It waits, and says for what.
        crew.delete::<VaultPolicy>("app").await?;
        let app = crew
            .until::<VaultPolicy>("app", is("Deleting", "DeletionInProgress"))
            .await?;
        assert!(app.finalizers().iter().any(|one| one == names::FINALIZER));
        let sync = app.status.unwrap().sync;
        assert_eq!(sync.phase, Some(Phase::Deleting));
        assert!(sync.deletion_started_at.is_some());
        let message = said(&sync.conditions, "Deleting");
        assert!(message.contains(&crew.connection), "{message}");
        assert_eq!(records(&crew).await?, Vec::<String>::new());

        // Past the deadline its place is on record, and it goes.
        crew.gone::<VaultPolicy>("app").await?;
        let path = format!("sys/policies/acl/{}", crew.vault_name("app"));
        assert_eq!(records(&crew).await?, std::slice::from_ref(&path));
        let told = event(&crew, "app", "DeleteRetryEnqueued").await?;
        assert!(note(&told).contains(&path), "{}", note(&told));
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());

        // Vault is back: the policy goes, and then the record.
        crew.proxy.remove(away);
        eventually("the record is gone", async || {
            Ok(records(&crew).await?.is_empty().then_some(()))
        })
        .await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        Ok(())
    })
}

#[test]
fn a_vault_that_is_back_in_time_needs_no_record() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew_with(watched_closely()).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let away = crew.proxy.rule(Rule::on(AnyMethod::any(), "/v1/*").reset());
        crew.proxy.cut_all();
        crew.delete::<VaultPolicy>("app").await?;
        crew.until::<VaultPolicy>("app", is("Deleting", "DeletionInProgress"))
            .await?;
        crew.proxy.remove(away);
        crew.gone::<VaultPolicy>("app").await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        assert_eq!(records(&crew).await?, Vec::<String>::new());
        Ok(())
    })
}
