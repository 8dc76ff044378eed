//! The operator dies, or Vault's answer is lost, while an empty Vault is prepared, kept and left:
//! each thing is made once, the token lives until a login is proven, and other mounts are theirs.

use crate::connection_fixtures::{Minted, empty_vault, keep, key, lives, login, looks, mint};
use crate::crashes::front::{
    self,
    When::{self, After, Before},
};
use crate::stories::{Plan, Site, tell};
use api::vault::VaultConnection;
use jiff::SignedDuration;
use kernel::{Clock, RealClock};
use kube::api::{Api, Patch, PatchParams};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Rule};
use testkit::{Result, Story, Vault, eventually, holds};

use At::{Object, Point, Status};

/// Ten seconds pass in one.
const WORLD: Plan = Plan {
    pace: 10,
    args: &[],
};

const MOUNT: &str = "k8s";
const POLICY: &str = "vault-access-operator";
/// A mount that serves another cluster.
const THEIRS: &str = "theirs";

/// Where the operator dies.
#[derive(Debug, Clone, Copy)]
enum At {
    /// At a kill point.
    Point(&'static str),
    /// At a write of the connection itself, that is of its finalizer.
    Object(When),
    /// At this write of its status, from 1.
    Status(When, u64),
}

/// An empty Vault but for a mount of others, and a connection to it that has all to do.
struct Beginning {
    site: &'static Site,
    vault: &'static Vault,
    proxy: &'static FaultProxy,
    token: Minted,
    connection: String,
}

impl Beginning {
    async fn new(site: &'static Site) -> Result<Self> {
        let (vault, proxy) = empty_vault().await?;
        let token = mint(vault, json!({"policies": ["root"], "no_parent": true})).await?;
        let team = site.world.namespace("team-a").await?;
        let first = Self {
            site,
            vault,
            proxy,
            token,
            connection: format!("{}-first", team.name()),
        };
        let other = json!({"kubernetes_host": "https://other", "disable_local_ca_jwt": true});
        first
            .put(&format!("sys/auth/{THEIRS}"), json!({"type": "kubernetes"}))
            .await?;
        first.put(&format!("auth/{THEIRS}/config"), other).await?;
        let name = &first.connection;
        keep(site, name, &[("token", &first.token.token)]).await?;
        Ok(first)
    }

    async fn put(&self, path: &str, body: Value) -> Result<()> {
        let put = self.vault.expect(Method::POST, path, Some(body));
        put.await.map(drop)
    }

    /// Declares the connection; its mount goes with it.
    async fn declare(&self) -> Result<()> {
        let secret = key(self.site, &self.connection, "token");
        let host = self.site.world.control_plane().url();
        let object = json!({
            "apiVersion": "vault.platform.io/v1alpha1", "kind": "VaultConnection",
            "metadata": {"name": self.connection},
            "spec": {
                "address": self.proxy.url(), "healthCheckInterval": "5s",
                "auth": {
                    "bootstrap": {"secretRef": secret, "cleanupAuthMount": true},
                    "kubernetes": {"role": "operator", "authPath": MOUNT, "kubernetesHost": host},
                },
            },
        });
        self.cluster().apply(&object.to_string()).await.map(drop)
    }

    fn cluster(&self) -> Story {
        self.site.world.cluster()
    }

    async fn doom(&self, at: At) -> Result<()> {
        let path = front::path::<VaultConnection>("", &self.connection);
        match at {
            Point(point) => self.site.doom(point).await,
            Object(when) => self.site.doom_at(when, &path, 1).await,
            Status(when, nth) => {
                let path = format!("{path}/status");
                self.site.doom_at(when, &path, nth).await
            }
        }
    }

    /// What Vault holds there.
    async fn held(&self, path: &str) -> Result<Value> {
        let mut answer = self.vault.request(Method::GET, path, None).await?;
        Ok(answer.body["data"].take())
    }

    async fn config(&self, mount: &str) -> Result<Value> {
        self.held(&format!("auth/{mount}/config")).await
    }

    /// The names of all mounts.
    async fn mounts(&self) -> Result<Vec<String>> {
        let all = self.held("sys/auth").await?;
        let all = all.as_object().cloned().unwrap_or_default();
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    fn count(&self, method: Method, path: &str) -> usize {
        self.proxy.count(method, &format!("/v1/{path}"))
    }

    /// How often each of these was asked for: mount, policy, role, revocation.
    fn effects(&self) -> [usize; 4] {
        [
            self.count(Method::POST, &format!("sys/auth/{MOUNT}")),
            self.count(Method::PUT, &format!("sys/policies/acl/{POLICY}")),
            self.count(Method::POST, &format!("auth/{MOUNT}/role/operator")),
            self.count(Method::POST, "auth/token/revoke-self"),
        ]
    }

    /// How often the mount was configured.
    fn configured(&self) -> usize {
        self.count(Method::POST, &format!("auth/{MOUNT}/config"))
    }

    async fn is_complete(&self) -> Result<bool> {
        let connections = Api::<VaultConnection>::all(self.cluster().client());
        let status = connections.get(&self.connection).await?.status;
        let auth = status.unwrap_or_default().auth_status.unwrap_or_default();
        Ok(auth.bootstrap_complete == Some(true))
    }

    /// Waits until all is done, and looks whether it is.
    async fn done(&self) -> Result<()> {
        let cluster = self.cluster();
        let revoked = |connection: &VaultConnection| {
            let status = connection.status.clone().unwrap_or_default();
            let steps = login(&status).bootstrap_steps;
            steps.contains_key("BootstrapTokenRevoked")
        };
        let name = &self.connection;
        cluster.until::<VaultConnection>(name, revoked).await?;
        cluster
            .until::<VaultConnection>(name, holds("Bootstrapped"))
            .await?;
        cluster
            .until::<VaultConnection>(name, holds("Ready"))
            .await?;
        assert!(self.is_complete().await?);
        assert!(!lives(self.vault, &self.token.token).await?);
        assert_eq!(self.mounts().await?, ["k8s/", "theirs/", "token/"]);
        let mount = self.held(&format!("sys/auth/{MOUNT}")).await?;
        let marker = format!("managed-by={POLICY} identity={MOUNT} connection={name}");
        assert_eq!(mount["description"], marker);
        let role = self.held(&format!("auth/{MOUNT}/role/operator")).await?;
        assert_eq!(role["token_policies"], json!([POLICY]));
        self.others_are_untouched().await
    }

    async fn others_are_untouched(&self) -> Result<()> {
        let config = self.config(THEIRS).await?;
        assert_eq!(config["kubernetes_host"], "https://other");
        let asked = self.proxy.requests().into_iter();
        let asked: Vec<_> = asked.filter(|one| one.path.contains(THEIRS)).collect();
        assert!(asked.is_empty(), "{asked:?}");
        Ok(())
    }

    async fn delete(&self) -> Result<()> {
        let cluster = self.cluster();
        cluster.delete::<VaultConnection>(&self.connection).await
    }

    /// Waits until the connection is gone, and looks whether its mount is.
    async fn gone(&self) -> Result<()> {
        let cluster = self.cluster();
        cluster.gone::<VaultConnection>(&self.connection).await?;
        assert_eq!(self.mounts().await?, ["theirs/", "token/"]);
        self.others_are_untouched().await
    }
}

// Mount, config, policy, role, revocation; what was done is on record before the next, and between
// role and revocation that the login works.
#[rstest]
#[case::before_the_mount(Point("vault-before-bootstrap"))]
#[case::after_the_mount(Point("vault-after-bootstrap"))]
#[case::before_the_mount_is_recorded(Status(Before, 1))]
#[case::after_the_mount_is_recorded(Status(After, 1))]
#[case::after_the_config(Point("vault-after-bootstrap#2"))]
#[case::before_the_config_is_recorded(Status(Before, 2))]
#[case::before_the_policy(Point("vault-before-bootstrap#3"))]
#[case::after_the_policy(Point("vault-after-bootstrap#3"))]
#[case::before_the_role(Point("vault-before-bootstrap#4"))]
#[case::after_the_role(Point("vault-after-bootstrap#4"))]
#[case::before_completion_is_recorded(Status(Before, 5))]
#[case::after_completion_is_recorded(Status(After, 5))]
#[case::before_the_revocation(Point("vault-before-bootstrap#5"))]
#[case::after_the_revocation(Point("vault-after-bootstrap#5"))]
#[case::before_the_revocation_is_recorded(Status(Before, 6))]
#[case::after_the_revocation_is_recorded(Status(After, 6))]
fn a_crash_in_bootstrap_makes_each_thing_once(#[case] at: At) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let first = Beginning::new(site).await?;
        first.doom(at).await?;
        first.declare().await?;
        site.died().await?;
        let (complete, lives) = (
            first.is_complete().await?,
            lives(first.vault, &first.token.token).await?,
        );
        assert!(complete || lives, "revoked before the login is on record");
        site.revive().await?;

        first.done().await?;
        assert_eq!(first.effects(), [1, 1, 1, 1]);
        // Once more if nobody knows when the token in it ends.
        assert!((1..=2).contains(&first.configured()));
        first.delete().await?;
        first.gone().await
    })
}

#[rstest]
#[case::mount(Method::POST, "sys/auth/k8s")]
#[case::config(Method::POST, "auth/k8s/config")]
#[case::policy(Method::PUT, "sys/policies/acl/vault-access-operator")]
#[case::role(Method::POST, "auth/k8s/role/operator")]
#[case::login(Method::POST, "auth/k8s/login")]
#[case::revocation(Method::POST, "auth/token/revoke-self")]
fn a_step_of_bootstrap_whose_answer_is_lost_is_not_repeated(
    #[case] method: Method,
    #[case] path: &str,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let first = Beginning::new(site).await?;
        let lost = Rule::on(method, &format!("/v1/{path}"));
        first.proxy.rule(lost.times(1).cut_after());
        first.declare().await?;
        first.done().await?;
        assert_eq!(first.effects(), [1, 1, 1, 1]);
        assert!((1..=2).contains(&first.configured()));
        first.delete().await?;
        first.gone().await
    })
}

#[rstest]
#[case::before_vault_has_it(Point("vault-before-rotation"), 1)]
#[case::after_vault_has_it(Point("vault-after-rotation"), 2)]
#[case::before_it_is_recorded(Status(Before, 1), 2)]
#[case::after_it_is_recorded(Status(After, 1), 1)]
fn a_crash_in_a_rotation_leaves_a_mount_that_works(
    #[case] at: At,
    #[case] tokens: usize,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let first = Beginning::new(site).await?;
        first.declare().await?;
        first.done().await?;
        // What people have set beside it stays.
        let mut config = first.config(MOUNT).await?;
        config["issuer"] = json!("people");
        let home = site.world.operator_namespace();
        config["token_reviewer_jwt"] = json!(site.jwt(home, "reviewer", None).await?);
        first.put(&format!("auth/{MOUNT}/config"), config).await?;
        let before = first.config(MOUNT).await?;
        site.world.operator().kill();
        let now = RealClock::new().now();
        let was = now - SignedDuration::from_hours(20);
        let ends = now + SignedDuration::from_hours(4);
        let auth = json!({
            "tokenReviewerLastRefresh": was.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "tokenReviewerExpiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let connections = Api::<VaultConnection>::all(first.cluster().client());
        let change = Patch::Merge(json!({"status": {"authStatus": auth}}));
        let how = PatchParams::default();
        connections
            .patch_status(&first.connection, &how, &change)
            .await?;
        let configured = first.configured();
        first.doom(at).await?;
        site.died().await?;
        assert_eq!(first.config(MOUNT).await?, before);
        site.revive().await?;

        let fresh = |connection: &VaultConnection| {
            let status = connection.status.clone().unwrap_or_default();
            let refreshed = login(&status).token_reviewer_last_refresh;
            refreshed.is_some_and(|at| at.0 > was + SignedDuration::from_hours(1))
        };
        let cluster = first.cluster();
        cluster
            .until::<VaultConnection>(&first.connection, fresh)
            .await?;
        looks(&[first.proxy], 2).await?;
        assert_eq!(first.configured(), configured + tokens);
        assert_eq!(first.config(MOUNT).await?, before);
        // Vault can still review a login.
        let jwt = site.jwt(home, "pontoon", Some("vault")).await?;
        let body = json!({"role": "operator", "jwt": jwt});
        first.put(&format!("auth/{MOUNT}/login"), body).await?;
        first.others_are_untouched().await?;
        first.delete().await?;
        first.gone().await
    })
}

#[rstest]
#[case::before_the_mount_is_disabled(Point("vault-before-disable"), true)]
#[case::after_the_mount_is_disabled(Point("vault-after-disable"), false)]
#[case::before_the_connection_is_let_go(Object(Before), false)]
#[case::after_the_connection_is_let_go(Object(After), false)]
fn a_crash_at_the_end_of_a_connection_leaves_no_mount_of_ours(
    #[case] at: At,
    #[case] stands: bool,
) -> Result<()> {
    tell(WORLD, async |site| {
        crate::crashes::ensure_living_operator(site).await?;
        let first = Beginning::new(site).await?;
        first.declare().await?;
        first.done().await?;
        let logins = first.count(Method::POST, "auth/*/login");
        first.doom(at).await?;
        // It has a login before it is asked to end it.
        eventually("it has logged in", async || {
            let now = first.count(Method::POST, "auth/*/login");
            Ok((now > logins).then_some(()))
        })
        .await?;
        first.delete().await?;
        site.died().await?;
        let mounts = first.mounts().await?;
        assert_eq!(mounts.contains(&"k8s/".to_owned()), stands, "{mounts:?}");
        site.revive().await?;

        first.gone().await?;
        let disabled = first.count(Method::DELETE, &format!("sys/auth/{MOUNT}"));
        assert_eq!(disabled, 1);
        Ok(())
    })
}
