//! The operator dies over what Vault did not delete in time: no record is lost, nothing of ours is
//! left, and nothing of others goes.

use std::time::Duration;

use crate::crashes::front::{
    self,
    When::{After, Before},
};
use crate::stories::{Crew, Plan, Site, admits, annotate, change_object, reader, tell};
use api::vault::{VaultConnection, VaultKVSecret, VaultPolicy, VaultRole, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::{Rule, RuleId};
use testkit::{Result, eventually, is};

use What::{Policy, Role, Seed};

/// Objects do not wait for Vault; records are tried again after ten seconds, which is half of one.
const WORLD: Plan = Plan {
    pace: 20,
    args: &["--vault-deletion-deadline=0", "--vault-cleanup-retry=10s"],
};

/// All that the operator needs for policies, roles and seeds.
const GRANTS: &str = r#"
path "sys/policies/acl/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "auth/kubernetes/role/*" { capabilities = ["create", "read", "update", "delete", "list"] }
path "secret/data/*" { capabilities = ["create", "read", "update"] }
path "secret/metadata/*" { capabilities = ["read", "patch", "delete"] }
"#;

/// What is left in Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Policy,
    Role,
    Seed,
}

/// A crew with one such thing, which Vault does not delete.
struct Tale {
    crew: Crew,
    what: What,
    refusal: RuleId,
}

impl Tale {
    /// The thing is there, and its deletion would be refused.
    async fn begin(site: &'static Site, what: What) -> Result<Self> {
        let crew = crate::seed_fixtures::crew_that_may(site, "keeper", GRANTS, json!({})).await?;
        let ready = || is("Ready", "Succeeded");
        match what {
            Policy => {
                crew.declare::<VaultPolicy>("app", reader()).await?;
                crew.until::<VaultPolicy>("app", ready()).await?;
            }
            Role => {
                crew.declare::<VaultRole>("app", admits(&["sa1"])).await?;
                let missing = is("Ready", "PolicyNotInVault");
                crew.until::<VaultRole>("app", missing).await?;
            }
            Seed => {
                crew.sow("app", json!({})).await?;
                crew.grown("app").await?;
            }
        }
        let refusal = refuse(&crew);
        Ok(Self {
            crew,
            what,
            refusal,
        })
    }

    /// The same, and its object is gone already: a record stands for it. The operator is dead.
    async fn left(site: &'static Site, what: What) -> Result<Self> {
        let tale = Self::begin(site, what).await?;
        tale.delete().await?;
        tale.gone().await?;
        site.world.operator().kill();
        let left = records(&tale.crew).await?;
        assert_eq!(left.len(), 1);
        // The dead one's clock ran ahead: the next one would wait until its own has caught up.
        let due = json!({"data": {"nextAttemptAt": null}});
        change_object::<ConfigMap>(&site.home(), &left[0].name_any(), &due).await?;
        Ok(tale)
    }

    async fn delete(&self) -> Result<()> {
        match self.what {
            Policy => self.crew.delete::<VaultPolicy>("app").await,
            Role => self.crew.delete::<VaultRole>("app").await,
            Seed => self.crew.delete::<VaultKVSecret>("app").await,
        }
    }

    /// Waits until its object is gone.
    async fn gone(&self) -> Result<()> {
        match self.what {
            Policy => self.crew.gone::<VaultPolicy>("app").await,
            Role => self.crew.gone::<VaultRole>("app").await,
            Seed => self.crew.gone::<VaultKVSecret>("app").await,
        }
    }

    /// Its object at the API server.
    fn object(&self) -> String {
        let namespace = self.crew.name();
        match self.what {
            Policy => front::path::<VaultPolicy>(namespace, "app"),
            Role => front::path::<VaultRole>(namespace, "app"),
            Seed => front::path::<VaultKVSecret>(namespace, "app"),
        }
    }

    /// Vault deletes again.
    fn relent(&self) {
        self.crew.proxy.remove(self.refusal);
    }

    fn path(&self) -> String {
        let name = self.crew.vault_name("app");
        match self.what {
            Policy => format!("sys/policies/acl/{name}"),
            Role => format!("auth/kubernetes/role/{name}"),
            Seed => format!("secret/metadata/{}", self.crew.plot("app")),
        }
    }

    /// Others put something of theirs in its place.
    async fn usurp(&self) -> Result<()> {
        let site = self.crew.site;
        match self.what {
            Policy => {
                let theirs = "# managed-by: vault-access-operator\n# auth-mount: elsewhere\n\
                              # k8s-resource: theirs/app\n# k8s-kind: VaultPolicy\n";
                site.write_policy(&self.crew.vault_name("app"), theirs)
                    .await
            }
            Role => {
                let theirs = json!({
                    "bound_service_account_names": ["theirs"],
                    "bound_service_account_namespaces": ["theirs"],
                });
                site.put(&self.path(), theirs).await
            }
            Seed => site.secret(&self.crew.plot("app")).await,
        }
    }

    /// How often Vault did delete it.
    fn deletions(&self) -> usize {
        deletions(&self.crew, &self.path())
    }

    /// Waits until all is done: no object, no record.
    async fn done(&self) -> Result<()> {
        self.gone().await?;
        no_record(&self.crew).await
    }

    /// All is done, and nothing is left in Vault.
    async fn end(self) -> Result<()> {
        self.done().await?;
        assert_eq!(self.crew.site.read(&self.path()).await?, None);
        assert_eq!(self.deletions(), 1);
        self.crew.leave().await
    }
}

/// How often Vault deleted what is at `path`, and told so.
fn deletions(crew: &Crew, path: &str) -> usize {
    let path = format!("/v1/{path}");
    let asked = crew.proxy.requests().into_iter();
    let asked = asked.filter(|one| one.method == Method::DELETE && one.path == path);
    let done = asked.filter(|one| one.status.is_some_and(|status| status.is_success()));
    done.count()
}

fn refuse(crew: &Crew) -> RuleId {
    let refused = Rule::on(Method::DELETE, "/v1/*");
    let said = r#"{"errors":["no such luck"]}"#;
    crew.proxy
        .rule(refused.status(StatusCode::INTERNAL_SERVER_ERROR, said))
}

/// The records of the crew's connection.
async fn records(crew: &Crew) -> Result<Vec<ConfigMap>> {
    let home = crew.site.world.operator_namespace();
    let maps = Api::<ConfigMap>::namespaced(crew.client(), home);
    let labels = format!("{}=true", names::CLEANUP_RECORD_LABEL);
    let mut all = maps.list(&ListParams::default().labels(&labels)).await?;
    all.items.retain(|record| {
        let data = record.data.as_ref();
        data.and_then(|data| data.get("connection")) == Some(&crew.connection)
    });
    Ok(all.items)
}

async fn no_record(crew: &Crew) -> Result<()> {
    eventually("no record is left", async || {
        Ok(records(crew).await?.is_empty().then_some(()))
    })
    .await
}

#[rstest]
fn a_crash_around_the_making_of_a_record_loses_nothing(
    #[values(Policy, Seed)] what: What,
    #[values("vault-before-record", "vault-after-record")] point: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        site.doom(point).await?;
        tale.delete().await?;
        site.died().await?;
        let recorded = usize::from(point == "vault-after-record");
        assert_eq!(records(&tale.crew).await?.len(), recorded);
        tale.relent();
        site.revive().await?;
        tale.end().await
    })
}

#[rstest]
#[case::before(Before)]
#[case::after(After)]
fn a_crash_around_the_end_of_the_object_loses_nothing(#[case] when: front::When) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, Policy).await?;
        site.doom_at(when, &tale.object(), 1).await?;
        tale.delete().await?;
        site.died().await?;
        assert_eq!(records(&tale.crew).await?.len(), 1);
        tale.relent();
        site.revive().await?;
        tale.end().await
    })
}

#[rstest]
#[case::before("vault-before-note", "0")]
#[case::after("vault-after-note", "1")]
fn a_crash_around_a_failed_try_keeps_the_record(
    #[case] point: &str,
    #[case] attempts: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, Policy).await?;
        site.doom(point).await?;
        tale.delete().await?;
        site.died().await?;
        let kept = records(&tale.crew).await?;
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].data.as_ref().unwrap()["attempts"], attempts);
        tale.relent();
        site.revive().await?;
        tale.end().await
    })
}

#[rstest]
#[case::before_a_policy_is_deleted(Policy, "vault-before-delete")]
#[case::after_a_policy_is_deleted(Policy, "vault-after-delete")]
#[case::before_a_role_is_deleted(Role, "vault-before-delete")]
#[case::after_a_role_is_deleted(Role, "vault-after-delete")]
#[case::before_a_seed_is_deleted(Seed, "vault-before-delete")]
#[case::after_a_seed_is_deleted(Seed, "vault-after-delete")]
#[case::before_the_record_is_closed(Policy, "vault-before-close")]
#[case::after_the_record_is_closed(Policy, "vault-after-close")]
fn a_crash_around_the_late_deletion_deletes_once(
    #[case] what: What,
    #[case] point: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, what).await?;
        tale.relent();
        site.doom(point).await?;
        site.died().await?;
        let open = usize::from(point != "vault-after-close");
        assert_eq!(records(&tale.crew).await?.len(), open);
        site.revive().await?;
        tale.end().await
    })
}

#[rstest]
fn what_others_made_in_its_place_after_a_crash_is_theirs(
    #[values(Policy, Role, Seed)] what: What,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, what).await?;
        tale.relent();
        site.doom("vault-after-delete").await?;
        site.died().await?;
        tale.usurp().await?;
        let theirs = site.read(&tale.path()).await?;
        assert!(theirs.is_some());
        site.revive().await?;

        tale.done().await?;
        assert_eq!(site.read(&tale.path()).await?, theirs);
        assert_eq!(tale.deletions(), 1);
        site.remove(&tale.path()).await?;
        tale.crew.leave().await
    })
}

#[test]
fn what_is_declared_again_after_a_crash_stays() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, Policy).await?;
        tale.relent();
        site.doom("vault-before-delete").await?;
        site.died().await?;
        let crew = &tale.crew;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        site.revive().await?;

        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        no_record(crew).await?;
        assert!(site.read(&tale.path()).await?.is_some());
        assert_eq!(tale.deletions(), 0);
        tale.delete().await?;
        tale.end().await
    })
}

#[test]
fn a_404_for_policies_does_not_free_what_one_of_them_declares() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, Policy).await?;
        let crew = &tale.crew;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        tale.relent();
        let front = site.front().await?;
        let policies = format!("{}?*", VaultPolicy::url_path(&(), None));
        let unserved = Rule::on(Method::GET, &policies);
        let unserved = front.rule(unserved.status(StatusCode::NOT_FOUND, "404 page not found"));
        site.start_behind(front).await?;

        // Meanwhile the record is tried several times: twice a second, a health check each 1.5 s.
        crew.rereads("sys/health", 3).await?;
        assert_eq!(tale.deletions(), 0);
        assert_eq!(records(crew).await?.len(), 1);

        front.remove(unserved);
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        no_record(crew).await?;
        assert!(site.read(&tale.path()).await?.is_some());
        assert_eq!(tale.deletions(), 0);
        tale.delete().await?;
        tale.end().await
    })
}

#[rstest]
fn a_late_deletion_whose_answer_is_lost_is_not_repeated(
    #[values(Policy, Role, Seed)] what: What,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, what).await?;
        let path = format!("/v1/{}", tale.path());
        let refused = tale.crew.proxy.count(Method::DELETE, &path);
        tale.relent();
        let lost = Rule::on(Method::DELETE, &path).times(1).cut_after();
        tale.crew.proxy.rule(lost);
        site.doom("nowhere").await?;

        tale.done().await?;
        assert_eq!(site.read(&tale.path()).await?, None);
        assert_eq!(tale.crew.proxy.count(Method::DELETE, &path), refused + 1);
        tale.crew.leave().await
    })
}

#[rstest]
#[case::before_the_first("vault-before-abandon", 2)]
#[case::after_the_first("vault-after-abandon", 1)]
#[case::before_the_second("vault-before-abandon#2", 1)]
#[case::after_the_second("vault-after-abandon#2", 0)]
fn a_crash_while_records_are_abandoned_abandons_all(
    #[case] point: &str,
    #[case] left: usize,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        refuse(&crew);
        for name in ["one", "two"] {
            crew.declare::<VaultPolicy>(name, reader()).await?;
            crew.until::<VaultPolicy>(name, is("Ready", "Succeeded"))
                .await?;
            crew.delete::<VaultPolicy>(name).await?;
            crew.gone::<VaultPolicy>(name).await?;
        }
        let (cluster, connection) = (crew.cluster(), crew.connection.clone());
        cluster.delete::<VaultConnection>(&connection).await?;
        let waits = is("Deleting", "CleanupRecordsExist");
        cluster.until::<VaultConnection>(&connection, waits).await?;
        site.doom(point).await?;
        let abandon = names::ABANDON_CLEANUP;
        annotate::<VaultConnection>(&cluster, &connection, abandon, Some("true")).await?;
        site.died().await?;
        assert_eq!(records(&crew).await?.len(), left);
        site.revive().await?;

        cluster.gone::<VaultConnection>(&connection).await?;
        assert_eq!(records(&crew).await?.len(), 0);
        for name in ["one", "two"] {
            assert!(site.policy(&crew.vault_name(name)).await?.is_some());
        }
        Ok(())
    })
}

#[rstest]
#[case::after_the_first_record("vault-after-record")]
#[case::before_the_queue_goes("vault-before-queue")]
#[case::after_the_queue_is_gone("vault-after-queue")]
fn a_crash_while_the_predecessors_queue_is_taken_over_loses_no_entry(
    #[case] point: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let crew = site.crew().await?;
        let (ours, theirs) = (["one", "two"], crew.own("theirs"));
        let ours = ours.map(|name| crew.vault_name(name));
        for name in ours.iter().chain([&theirs]) {
            let text = r#"path "secret/x" { capabilities = ["deny"] }"#;
            site.write_policy(name, text).await?;
        }
        let entry = |name: &String| {
            json!({
                "resourceType": "policy", "vaultName": name, "connectionName": crew.connection,
                "k8sNamespace": crew.name(), "k8sName": "app", "attempts": 3,
            })
        };
        let entries: Vec<Value> = ours.iter().chain([&theirs]).map(entry).collect();
        let queue = json!({
            "metadata": {"name": names::LEGACY_CLEANUP_QUEUE},
            "data": {"queue": serde_json::to_string(&entries)?},
        });
        let home = site.home();
        let maps = Api::<ConfigMap>::namespaced(home.client(), home.name());
        let queue = serde_json::from_value(queue)?;
        maps.create(&PostParams::default(), &queue).await?;
        site.doom(point).await?;
        site.revive().await?;

        home.gone::<ConfigMap>(names::LEGACY_CLEANUP_QUEUE).await?;
        for name in &ours {
            eventually(&format!("{name} is gone in Vault"), async || {
                Ok(site.policy(name).await?.is_none().then_some(()))
            })
            .await?;
        }
        no_record(&crew).await?;
        assert!(site.policy(&theirs).await?.is_some());
        for name in &ours {
            // The crash may have come while Vault was asked.
            let path = format!("sys/policies/acl/{name}");
            assert!(deletions(&crew, &path) <= 1, "{name}");
        }
        crew.leave().await
    })
}

#[test]
fn a_connection_does_not_go_before_records_that_are_read_late() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::left(site, Policy).await?;
        let (cluster, connection) = (tale.crew.cluster(), tale.crew.connection.clone());
        cluster.delete::<VaultConnection>(&connection).await?;
        let front = site.front().await?;
        let late = Rule::on(Method::GET, "/api/v1/namespaces/*/configmaps");
        front.rule(late.delay(Duration::from_secs(2)));
        site.start_behind(front).await?;

        let waits = is("Deleting", "CleanupRecordsExist");
        cluster.until::<VaultConnection>(&connection, waits).await?;
        tale.relent();
        cluster.gone::<VaultConnection>(&connection).await?;
        assert_eq!(site.read(&tale.path()).await?, None);
        assert_eq!(records(&tale.crew).await?.len(), 0);
        Ok(())
    })
}

#[test]
fn a_connection_does_not_go_before_a_record_that_nobody_has_told_it_of() -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, Policy).await?;
        let (cluster, connection) = (tale.crew.cluster(), tale.crew.connection.clone());
        let front = site.front().await?;
        site.start_behind(front).await?;
        tale.crew.rereads("sys/health", 1).await?;
        // News of records do not come through any more.
        let deaf = Rule::on(Method::GET, "/api/v1/namespaces/*/configmaps?*watch=true*").reset();
        let deaf = front.rule(deaf);
        front.cut_all();
        cluster.delete::<VaultConnection>(&connection).await?;
        let waits = is("Deleting", "ChildrenExist");
        cluster.until::<VaultConnection>(&connection, waits).await?;
        tale.delete().await?;
        tale.gone().await?;
        let waits = is("Deleting", "CleanupRecordsExist");
        cluster.until::<VaultConnection>(&connection, waits).await?;

        front.remove(deaf);
        tale.relent();
        cluster.gone::<VaultConnection>(&connection).await?;
        assert_eq!(site.read(&tale.path()).await?, None);
        assert_eq!(records(&tale.crew).await?.len(), 0);
        Ok(())
    })
}
