//! The operator dies, or Vault's answer is lost, at the worst moment: policies and roles are
//! written once, and nothing of them is left at the end.

use crate::crashes::front::{
    self,
    When::{self, After, Before},
};
use crate::stories::{Crew, Plan, Site, admits, reader, rule, tell};
use api::vault::{SyncStatus, VaultConnection, VaultPolicy, VaultRole, names};
use kube::ResourceExt;
use kube::api::Api;
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, is};

use At::{Object, Point, Status};
use Stage::{Announced, Held, Recorded, Untouched, Written};
use What::{Policy, Role};

/// Ten seconds pass in one, so that back-off is short.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

/// What a story is about: a policy, or a role whose policy is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Policy,
    Role,
}

/// How far the operator has come with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Untouched,
    /// It has the finalizer.
    Held,
    /// Its intent is saved.
    Announced,
    /// It is in Vault.
    Written,
    /// Its status says so.
    Recorded,
}

/// Where the operator dies.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At a kill point.
    Point(&'static str),
    /// At a write of the object itself, that is of its finalizer.
    Object(When),
    /// At this write of its status, from 1.
    Status(When, u64),
}

/// A crew with one such object.
struct Tale {
    crew: Crew,
    what: What,
}

impl Tale {
    async fn begin(site: &'static Site, what: What) -> Result<Self> {
        let crew = site.crew().await?;
        if what == Role {
            crew.declare::<VaultPolicy>("app", reader()).await?;
            crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
                .await?;
        }
        Ok(Self { crew, what })
    }

    async fn declare(&self) -> Result<()> {
        match self.what {
            Policy => self.crew.declare::<VaultPolicy>("app", reader()).await,
            Role => self.crew.declare::<VaultRole>("r", admits(&["sa1"])).await,
        }
    }

    /// Edits it.
    async fn edit(&self) -> Result<()> {
        let rules = json!([rule("secret/data/more", &["list"])]);
        match self.what {
            Policy => {
                let edited = json!({"rules": rules});
                self.crew.declare::<VaultPolicy>("app", edited).await
            }
            Role => {
                let edited = admits(&["sa1", "more"]);
                self.crew.declare::<VaultRole>("r", edited).await
            }
        }
    }

    /// Waits until it is ready, and looks whether all is recorded.
    async fn ready(&self) -> Result<()> {
        let ready = is("Ready", "Succeeded");
        let sync = match self.what {
            Policy => {
                let policy = self.crew.until::<VaultPolicy>("app", ready).await?;
                policy.status.unwrap().sync
            }
            Role => {
                let role = self.crew.until::<VaultRole>("r", ready).await?;
                role.status.unwrap().sync
            }
        };
        let recorded = sync.binding.and_then(|binding| binding.vault_path);
        assert_eq!(recorded, Some(self.path()));
        assert!(sync.last_applied_canonical_hash.is_some());
        assert!(sync.intent.is_none());
        assert_ne!(sync.drift_detected, Some(true));
        Ok(())
    }

    /// Has an operator instead that dies there, and has logged in already.
    async fn doom(&self, at: At) -> Result<()> {
        let (site, name) = (self.crew.site, &self.crew.connection);
        let accessor = |connection: &VaultConnection| {
            let status = connection.status.clone().unwrap_or_default();
            status.auth_status.and_then(|auth| auth.token_accessor)
        };
        let cluster = self.crew.cluster();
        let connections = Api::<VaultConnection>::all(cluster.client());
        let before = accessor(&connections.get(name).await?);
        let namespace = self.crew.name();
        let path = match self.what {
            Policy => front::path::<VaultPolicy>(namespace, "app"),
            Role => front::path::<VaultRole>(namespace, "r"),
        };
        match at {
            Point(point) => site.doom(point).await?,
            Object(when) => site.doom_at(when, &path, 1).await?,
            Status(when, nth) => site.doom_at(when, &format!("{path}/status"), nth).await?,
        }
        let another = |connection: &VaultConnection| accessor(connection) != before;
        cluster
            .until::<VaultConnection>(name, another)
            .await
            .map(drop)
    }

    /// Where the dead operator left it.
    async fn stage(&self) -> Result<Stage> {
        let (finalizers, sync) = self.as_stored().await?;
        let stage = if sync.last_applied_canonical_hash.is_some() {
            Recorded
        } else if !self.in_vault().await?.is_empty() {
            Written
        } else if sync.intent.is_some() {
            Announced
        } else if finalizers.iter().any(|one| one == names::FINALIZER) {
            Held
        } else {
            Untouched
        };
        Ok(stage)
    }

    async fn as_stored(&self) -> Result<(Vec<String>, SyncStatus)> {
        let (client, namespace) = (self.crew.client(), self.crew.name());
        Ok(match self.what {
            Policy => {
                let policies = Api::<VaultPolicy>::namespaced(client, namespace);
                let policy = policies.get("app").await?;
                let finalizers = policy.finalizers().to_vec();
                (finalizers, policy.status.unwrap_or_default().sync)
            }
            Role => {
                let roles = Api::<VaultRole>::namespaced(client, namespace);
                let role = roles.get("r").await?;
                let finalizers = role.finalizers().to_vec();
                (finalizers, role.status.unwrap_or_default().sync)
            }
        })
    }

    async fn delete(&self) -> Result<()> {
        match self.what {
            Policy => self.crew.delete::<VaultPolicy>("app").await,
            Role => self.crew.delete::<VaultRole>("r").await,
        }
    }

    /// Waits until it is gone, and looks whether anything is left.
    async fn gone(&self) -> Result<()> {
        match self.what {
            Policy => self.crew.gone::<VaultPolicy>("app").await?,
            Role => self.crew.gone::<VaultRole>("r").await?,
        }
        assert_eq!(self.in_vault().await?, [""; 0]);
        Ok(())
    }

    /// Ends a story in which all is well: with nothing of it left, the next one counts alone.
    async fn end(self) -> Result<()> {
        if self.what == Role {
            self.crew.delete::<VaultPolicy>("app").await?;
            self.crew.gone::<VaultPolicy>("app").await?;
        }
        self.crew.leave().await
    }

    fn name(&self) -> String {
        self.crew.vault_name(match self.what {
            Policy => "app",
            Role => "r",
        })
    }

    /// Where it is in Vault.
    fn path(&self) -> String {
        format!("{}/{}", self.place(), self.name())
    }

    fn place(&self) -> &str {
        match self.what {
            Policy => "sys/policies/acl",
            Role => "auth/kubernetes/role",
        }
    }

    /// How often the operator wrote it, or tried to.
    fn writes(&self) -> usize {
        let methods = [Method::PUT, Method::POST].into_iter();
        methods.map(|one| self.crew.calls(one, &self.path())).sum()
    }

    /// How often it deleted it, or tried to.
    fn deletes(&self) -> usize {
        self.crew.calls(Method::DELETE, &self.path())
    }

    /// The names of all that Vault has there of this namespace.
    async fn in_vault(&self) -> Result<Vec<String>> {
        let listed = format!("{}?list=true", self.place());
        let listed = self.crew.site.read(&listed).await?;
        let keys = listed.as_ref().and_then(|one| one["keys"].as_array());
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        let own = format!(".{}.", self.crew.name());
        let own = keys.filter(|key| key.contains(&own));
        Ok(own.map(str::to_owned).collect())
    }

    /// Lets the answer to the next call of `method` for it be lost, after its effect.
    fn lose(&self, method: Method) {
        let lost = Rule::on(method, &format!("/v1/{}", self.path()));
        self.crew.proxy.rule(lost.times(1).cut_after());
    }
}

// A policy gets its finalizer, then its record; a role its finalizer, its intent, then its record.
#[rstest]
#[case::before_a_policy_is_held(Policy, Object(Before), Untouched)]
#[case::after_a_policy_is_held(Policy, Object(After), Held)]
#[case::before_a_policy_is_written(Policy, Point("vault-before-write"), Held)]
#[case::after_a_policy_is_written(Policy, Point("vault-after-write"), Written)]
#[case::before_a_policy_is_recorded(Policy, Status(Before, 1), Written)]
#[case::after_a_policy_is_recorded(Policy, Status(After, 1), Recorded)]
#[case::before_a_role_is_held(Role, Object(Before), Untouched)]
#[case::after_a_role_is_held(Role, Object(After), Held)]
#[case::before_a_role_is_announced(Role, Status(Before, 1), Held)]
#[case::after_a_role_is_announced(Role, Status(After, 1), Announced)]
#[case::before_a_role_is_written(Role, Point("vault-before-write"), Announced)]
#[case::after_a_role_is_written(Role, Point("vault-after-write"), Written)]
#[case::before_a_role_is_recorded(Role, Status(Before, 2), Written)]
#[case::after_a_role_is_recorded(Role, Status(After, 2), Recorded)]
fn a_crash_on_the_way_writes_once(
    #[case] what: What,
    #[case] at: At,
    #[case] stage: Stage,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.doom(at).await?;
        tale.declare().await?;
        site.died().await?;
        assert_eq!(tale.stage().await?, stage);
        site.revive().await?;

        tale.ready().await?;
        assert_eq!(tale.in_vault().await?, [tale.name()]);
        assert_eq!(tale.writes(), 1);
        tale.delete().await?;
        tale.gone().await?;
        assert_eq!((tale.writes(), tale.deletes()), (1, 1));
        tale.end().await
    })
}

#[rstest]
#[case::before_a_policy_is_deleted(Policy, Point("vault-before-delete"), 1)]
#[case::after_a_policy_is_deleted(Policy, Point("vault-after-delete"), 0)]
#[case::before_a_policy_is_let_go(Policy, Object(Before), 0)]
#[case::after_a_policy_is_let_go(Policy, Object(After), 0)]
#[case::before_a_role_is_deleted(Role, Point("vault-before-delete"), 1)]
#[case::after_a_role_is_deleted(Role, Point("vault-after-delete"), 0)]
#[case::before_a_role_is_let_go(Role, Object(Before), 0)]
#[case::after_a_role_is_let_go(Role, Object(After), 0)]
fn a_crash_at_the_end_leaves_nothing(
    #[case] what: What,
    #[case] at: At,
    #[case] left: usize,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.declare().await?;
        tale.ready().await?;
        tale.doom(at).await?;
        tale.delete().await?;
        site.died().await?;
        assert_eq!(tale.in_vault().await?.len(), left);
        site.revive().await?;

        tale.gone().await?;
        assert_eq!(tale.deletes(), 1);
        tale.end().await
    })
}

#[rstest]
#[case::before_the_login("vault-before-login")]
#[case::after_the_login("vault-after-login")]
#[case::before_the_login_is_recorded("before-write")]
#[case::after_the_login_is_recorded("after-write")]
fn a_crash_around_the_login_changes_nothing_for_others(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, Role).await?;
        tale.declare().await?;
        tale.ready().await?;
        let used = |policy: &VaultPolicy| {
            let status = policy.status.as_ref();
            status.is_some_and(|status| !status.used_by_roles.is_empty())
        };
        tale.crew.until::<VaultPolicy>("app", used).await?;
        let (mark, writes) = (site.world.mark(), tale.crew.writes());
        let reads = tale.crew.calls(Method::GET, &tale.path());
        site.doom(point).await?;
        site.revive().await?;

        eventually("the role is looked at again", async || {
            let now = tale.crew.calls(Method::GET, &tale.path());
            Ok((now > reads).then_some(()))
        })
        .await?;
        tale.crew.rereads("sys/health", 1).await?;
        assert_eq!(tale.crew.writes(), writes);
        // Only the connection has something to tell: its login.
        let mut written = tale.crew.kubernetes_writes(mark).await?;
        written.retain(|one| one.resource != "vaultconnections" || one.subresource != "status");
        assert_eq!(written, vec![]);
        tale.delete().await?;
        tale.gone().await?;
        tale.end().await
    })
}

#[rstest]
#[case::policy(Policy)]
#[case::role(Role)]
fn what_a_crash_left_unrecorded_goes_with_its_object(#[case] what: What) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.doom(Point("vault-after-write")).await?;
        tale.declare().await?;
        site.died().await?;
        assert_eq!(tale.in_vault().await?, [tale.name()]);
        // The next operator never sees it alive.
        tale.delete().await?;
        site.revive().await?;

        tale.gone().await?;
        assert_eq!((tale.writes(), tale.deletes()), (1, 1));
        tale.end().await
    })
}

#[rstest]
#[case::policy(Policy)]
#[case::role(Role)]
fn an_edit_that_a_crash_left_unrecorded_is_recorded_as_found(#[case] what: What) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.declare().await?;
        tale.ready().await?;
        tale.doom(Point("vault-after-write")).await?;
        tale.edit().await?;
        site.revive().await?;

        tale.ready().await?;
        let found = site.read(&tale.path()).await?.unwrap().to_string();
        assert!(found.contains("more"), "{found}");
        assert_eq!(tale.writes(), 2);
        tale.delete().await?;
        tale.gone().await?;
        tale.end().await
    })
}

#[rstest]
#[case::policy(Policy, Method::PUT)]
#[case::role(Role, Method::POST)]
fn a_write_whose_answer_is_lost_is_recorded_without_a_second(
    #[case] what: What,
    #[case] method: Method,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.lose(method);
        tale.declare().await?;
        tale.ready().await?;
        assert_eq!(tale.in_vault().await?, [tale.name()]);
        assert_eq!(tale.writes(), 1);
        tale.delete().await?;
        tale.gone().await?;
        tale.end().await
    })
}

#[rstest]
#[case::policy(Policy)]
#[case::role(Role)]
fn a_delete_whose_answer_is_lost_is_not_repeated(#[case] what: What) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let tale = Tale::begin(site, what).await?;
        tale.declare().await?;
        tale.ready().await?;
        tale.lose(Method::DELETE);
        tale.delete().await?;
        tale.gone().await?;
        assert_eq!(tale.deletes(), 1);
        tale.end().await
    })
}
