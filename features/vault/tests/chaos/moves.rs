//! The operator dies while something has several places in Vault, because it moves or because its
//! pairs need more than one role: each place is written once, and none is left behind.

use crate::crashes::front::{
    self,
    When::{self, After, Before},
};
use crate::stories::{Crew, Plan, Site, admits, reader, rule, tell};
use api::vault::{RoleStatus, VaultClusterRole, VaultConnection, VaultPolicy, VaultRole};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, eventually, is};

use At::{Point, Status};

/// Ten seconds pass in one, so that back-off is short.
const WORLD: Plan = Plan {
    pace: 10,
    args: &["--vault-deletion-deadline=never"],
};

/// Where the operator dies.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At a kill point.
    Point(&'static str),
    /// At this write of the object's status, from 1.
    Status(When, u64),
}

async fn doom(site: &'static Site, at: At, object: &str) -> Result<()> {
    match at {
        Point(point) => site.doom(point).await,
        Status(when, nth) => site.doom_at(when, &format!("{object}/status"), nth).await,
    }
}

/// How often the operator wrote something, and deleted it.
fn effects(crew: &Crew, path: &str) -> (usize, usize) {
    let count = |method| crew.calls(method, path);
    let writes = count(Method::PUT) + count(Method::POST);
    (writes, count(Method::DELETE))
}

/// A crew with a second connection to the same Vault, which logs in at `kubernetes-x`, so that
/// names through it differ. Both keep earlier names for `grace`.
async fn two_ways(site: &'static Site, grace: &str) -> Result<(Crew, String)> {
    let defaults = json!({"renameGrace": grace});
    let crew = site.crew_with(json!({"defaults": defaults})).await?;
    let second = crew.own("x");
    let auth = json!({"kubernetes": {"authPath": "kubernetes-x"}});
    let change = json!({"auth": auth, "defaults": defaults});
    crew.connect(&second, change).await?;
    crew.cluster()
        .until::<VaultConnection>(&second, is("Ready", "Succeeded"))
        .await?;
    Ok((crew, second))
}

async fn leave_both(crew: Crew, second: &str) -> Result<()> {
    let cluster = crew.cluster();
    cluster.delete::<VaultConnection>(second).await?;
    cluster.gone::<VaultConnection>(second).await?;
    crew.leave().await
}

/// The policy `app` through a connection, with this path.
async fn declare(crew: &Crew, connection: &str, path: &str) -> Result<()> {
    let rules = json!([rule(path, &["read"])]);
    let spec = json!({"connectionRef": connection, "rules": rules});
    crew.declare::<VaultPolicy>("app", spec).await
}

// The new name is written, then recorded; the role is bound to it; the old name goes.
#[rstest]
#[case::before_the_new_name_is_written(Point("vault-before-write"))]
#[case::after_the_new_name_is_written(Point("vault-after-write"))]
#[case::before_the_new_name_is_recorded(Status(Before, 1))]
#[case::after_the_new_name_is_recorded(Status(After, 1))]
#[case::before_the_role_is_rebound(Point("vault-before-write#2"))]
#[case::after_the_role_is_rebound(Point("vault-after-write#2"))]
#[case::before_the_old_name_is_deleted(Point("vault-before-delete"))]
#[case::after_the_old_name_is_deleted(Point("vault-after-delete"))]
fn a_crash_on_the_move_leaves_one_name(#[case] at: At) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let (crew, second) = two_ways(site, "0s").await?;
        let old = crew.vault_name("app");
        let new = old.replace("vao.kubernetes.", "vao.kubernetes-x.");
        declare(&crew, &crew.connection, "secret/data/a").await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        crew.declare::<VaultRole>("r", admits(&["sa1"])).await?;
        crew.until::<VaultRole>("r", is("Ready", "Succeeded"))
            .await?;
        doom(site, at, &front::path::<VaultPolicy>(crew.name(), "app")).await?;
        declare(&crew, &second, "secret/data/a").await?;
        site.revive().await?;

        let settled = |app: &VaultPolicy| {
            let status = app.status.as_ref();
            status.is_some_and(|status| {
                status.vault_name.as_ref() == Some(&new) && status.sync.previous_names.is_empty()
            })
        };
        crew.until::<VaultPolicy>("app", settled).await?;
        let bound = |role: &VaultRole| {
            let status = role.status.as_ref();
            status.is_some_and(|status| status.resolved_policies == [new.clone()])
        };
        crew.until::<VaultRole>("r", bound).await?;
        assert_eq!(site.policy(&old).await?, None);
        assert!(site.policy(&new).await?.is_some());
        let role = site.role(&crew.vault_name("r")).await?.unwrap();
        assert_eq!(role["token_policies"], json!([new]));
        let policy = |name: &str| format!("sys/policies/acl/{name}");
        assert_eq!(effects(&crew, &policy(&old)), (1, 1));
        assert_eq!(effects(&crew, &policy(&new)), (1, 0));
        let role = format!("auth/kubernetes/role/{}", crew.vault_name("r"));
        assert_eq!(effects(&crew, &role), (2, 0));

        crew.delete::<VaultRole>("r").await?;
        crew.gone::<VaultRole>("r").await?;
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        leave_both(crew, &second).await
    })
}

#[rstest]
#[case::before_the_new_name_has_them("vault-before-write")]
#[case::after_the_new_name_has_them("vault-after-write")]
#[case::before_the_old_name_has_them("vault-before-write#2")]
#[case::after_the_old_name_has_them("vault-after-write#2")]
fn a_crash_while_rules_are_tightened_keeps_neither_name_from_them(
    #[case] point: &'static str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let (crew, second) = two_ways(site, "24h").await?;
        let old = crew.vault_name("app");
        let new = old.replace("vao.kubernetes.", "vao.kubernetes-x.");
        let ready = || is("Ready", "Succeeded");
        declare(&crew, &crew.connection, "secret/data/wide").await?;
        crew.until::<VaultPolicy>("app", ready()).await?;
        declare(&crew, &second, "secret/data/wide").await?;
        crew.until::<VaultPolicy>("app", is("RenamePending", "InGrace"))
            .await?;
        site.doom(point).await?;
        declare(&crew, &second, "secret/data/narrow").await?;
        site.revive().await?;

        crew.until::<VaultPolicy>("app", ready()).await?;
        for name in [&old, &new] {
            // The old name is reached by the other connection, which may come up later.
            eventually(&format!("{name} is tightened"), async || {
                let text = site.policy(name).await?.unwrap_or_default();
                Ok(text.contains("secret/data/narrow").then_some(()))
            })
            .await?;
        }
        for name in [&old, &new] {
            let path = format!("sys/policies/acl/{name}");
            assert_eq!(effects(&crew, &path), (2, 0), "{name}");
        }
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        for name in [&old, &new] {
            assert_eq!(site.policy(name).await?, None, "{name}");
        }
        leave_both(crew, &second).await
    })
}

/// A cluster role whose pairs need two roles in Vault: `a` lets two in and `b` one.
struct Split {
    crew: Crew,
    name: String,
    /// Where its roles are.
    paths: [String; 2],
}

impl Split {
    async fn begin(site: &'static Site) -> Result<Self> {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        let name = crew.own("r");
        let base = format!("auth/kubernetes/role/vao.kubernetes._.{name}");
        let paths = ["a", "b"].map(|namespace| format!("{base}__{namespace}"));
        Ok(Self { crew, name, paths })
    }

    async fn declare(&self) -> Result<()> {
        let policy = json!({"kind": "VaultPolicy", "name": "app", "namespace": self.crew.name()});
        let pair = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
        let pairs: Value = [pair("a", "x"), pair("a", "y"), pair("b", "x")].into();
        let spec = json!({"policies": [policy], "serviceAccounts": pairs});
        self.crew
            .declare::<VaultClusterRole>(&self.name, spec)
            .await
    }

    async fn ready(&self) -> Result<RoleStatus> {
        let cluster = self.crew.cluster();
        let role = cluster
            .until::<VaultClusterRole>(&self.name, is("Ready", "Succeeded"))
            .await?;
        Ok(role.status.expect("a condition is in a status"))
    }

    async fn end(self) -> Result<()> {
        let (cluster, crew) = (self.crew.cluster(), self.crew);
        cluster.gone::<VaultClusterRole>(&self.name).await?;
        for path in &self.paths {
            assert_eq!(crew.site.read(path).await?, None, "{path}");
            assert_eq!(effects(&crew, path), (1, 1), "{path}");
        }
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultPolicy>("app").await?;
        crew.leave().await
    }
}

// Each role is announced, then written; one status write records it and announces the next.
#[rstest]
#[case::before_the_first_is_announced(Status(Before, 1))]
#[case::after_the_first_is_written(Point("vault-after-write"))]
#[case::before_the_first_is_recorded(Status(Before, 2))]
#[case::after_the_first_is_recorded(Status(After, 2))]
#[case::before_the_second_is_written(Point("vault-before-write#2"))]
#[case::after_the_second_is_written(Point("vault-after-write#2"))]
#[case::before_the_second_is_recorded(Status(Before, 3))]
fn a_crash_between_split_roles_writes_each_once(#[case] at: At) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let split = Split::begin(site).await?;
        let path = front::path::<VaultClusterRole>("", &split.name);
        doom(site, at, &path).await?;
        split.declare().await?;
        site.revive().await?;

        let status = split.ready().await?;
        assert!(status.sync.intent.is_none());
        let recorded = status.vault_role_names;
        assert_eq!(recorded.len(), 2, "{recorded:?}");
        for (path, accounts) in split.paths.iter().zip([json!(["x", "y"]), json!(["x"])]) {
            let role = site.read(path).await?.unwrap();
            assert_eq!(role["bound_service_account_names"], accounts);
            assert_eq!(effects(&split.crew, path), (1, 0), "{path}");
        }
        let cluster = split.crew.cluster();
        cluster.delete::<VaultClusterRole>(&split.name).await?;
        split.end().await
    })
}

#[rstest]
#[case::before_the_first_is_deleted("vault-before-delete")]
#[case::after_the_first_is_deleted("vault-after-delete")]
#[case::before_the_second_is_deleted("vault-before-delete#2")]
#[case::after_the_second_is_deleted("vault-after-delete#2")]
fn a_crash_between_their_ends_leaves_none(#[case] point: &str) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let split = Split::begin(site).await?;
        split.declare().await?;
        split.ready().await?;
        site.doom(point).await?;
        let cluster = split.crew.cluster();
        cluster.delete::<VaultClusterRole>(&split.name).await?;
        site.revive().await?;
        split.end().await
    })
}
