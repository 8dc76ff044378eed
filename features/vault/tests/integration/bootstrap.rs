//! Bootstrap: from an empty Vault and a token to a login, and to its end.

use crate::connection_fixtures::{
    Minted, current, empty_vault, keep, key, lives, login, looks, mint, ready,
};
use crate::stories::{Crew, Plan, Site, event, note, reader, said, tell};
use api::vault::{VaultConnection, VaultPolicy};
use kernel::{Clock, RealClock};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::FaultProxy;
use testkit::{Result, Vault, holds, is};

/// Ten seconds pass in one.
const WORLD: Plan = Plan {
    pace: 10,
    args: &[],
};

const MOUNT: &str = "k8s";
const POLICY: &str = "vault-access-operator";

/// A crew with an empty Vault, and a connection to it that has all to do.
struct Beginning {
    crew: Crew,
    vault: &'static Vault,
    proxy: &'static FaultProxy,
    token: Minted,
    connection: String,
}

impl Beginning {
    async fn new(site: &'static Site) -> Result<Self> {
        let crew = site.crew().await?;
        let (vault, proxy) = empty_vault().await?;
        let token = mint(vault, json!({"policies": ["root"], "no_parent": true})).await?;
        let connection = crew.own("first");
        keep(site, &connection, &[("token", &token.token)]).await?;
        Ok(Self {
            crew,
            vault,
            proxy,
            token,
            connection,
        })
    }

    /// Declares the connection; `host` is our API server as Vault is told.
    async fn declare(&self, host: &str, bootstrap: Value) -> Result<()> {
        let mut bootstrap = bootstrap;
        bootstrap["secretRef"] = key(self.crew.site, &self.connection, "token");
        let kubernetes = json!({"role": "operator", "authPath": MOUNT, "kubernetesHost": host});
        let spec = json!({
            "address": self.proxy.url(), "healthCheckInterval": "5s",
            "auth": {"bootstrap": bootstrap, "kubernetes": kubernetes},
        });
        self.crew.connect(&self.connection, spec).await
    }

    /// The API server as it really is.
    fn host(&self) -> String {
        self.crew.site.world.control_plane().url()
    }

    /// What Vault holds there.
    async fn held(&self, path: &str) -> Result<Value> {
        let mut answer = self.vault.request(Method::GET, path, None).await?;
        Ok(answer.body["data"].take())
    }

    /// How often each effect of bootstrap was asked for: mount, config, policy, role, revocation.
    fn effects(&self) -> [usize; 5] {
        let count = |method, path: &str| self.proxy.count(method, &format!("/v1/{path}"));
        [
            count(Method::POST, &format!("sys/auth/{MOUNT}")),
            count(Method::POST, &format!("auth/{MOUNT}/config")),
            count(Method::PUT, &format!("sys/policies/acl/{POLICY}")),
            count(Method::POST, &format!("auth/{MOUNT}/role/operator")),
            count(Method::POST, "auth/token/revoke-self"),
        ]
    }

    async fn steps(&self) -> Result<Vec<String>> {
        let status = current(&self.crew, &self.connection).await?;
        Ok(login(&status).bootstrap_steps.into_keys().collect())
    }

    /// Waits until all is done; the steps on record.
    async fn done(&self) -> Result<Vec<String>> {
        let status = ready(&self.crew, &self.connection).await?;
        assert_eq!(login(&status).bootstrap_complete, Some(true));
        assert!(login(&status).bootstrap_completed_at.is_some());
        let cluster = self.crew.cluster();
        cluster
            .until::<VaultConnection>(&self.connection, holds("Bootstrapped"))
            .await?;
        self.steps().await
    }
}

#[test]
fn an_empty_vault_is_prepared_once_and_the_token_revoked() -> Result<()> {
    tell(WORLD, async |site| {
        let first = Beginning::new(site).await?;
        first.declare(&first.host(), json!({})).await?;
        let steps = first.done().await?;
        assert_eq!(
            steps,
            [
                "AuthMountConfigured",
                "AuthMountEnabled",
                "BootstrapTokenRevoked",
                "OperatorPolicyCreated",
                "OperatorRoleCreated",
            ]
        );

        let mount = first.held(&format!("sys/auth/{MOUNT}")).await?;
        assert_eq!(mount["type"], "kubernetes");
        let marker = format!(
            "managed-by=vault-access-operator identity={MOUNT} connection={}",
            first.connection
        );
        assert_eq!(mount["description"], marker);
        let config = first.held(&format!("auth/{MOUNT}/config")).await?;
        assert_eq!(config["kubernetes_host"], first.host());
        assert_eq!(config["token_reviewer_jwt_set"], true);
        let role = first.held(&format!("auth/{MOUNT}/role/operator")).await?;
        assert_eq!(role["token_policies"], json!([POLICY]));
        let home = site.world.operator_namespace();
        assert_eq!(role["bound_service_account_names"], json!(["pontoon"]));
        assert_eq!(role["bound_service_account_namespaces"], json!([home]));
        assert!(!lives(first.vault, &first.token.token).await?);

        // It is good for what the operator does, and later passes do none of it again.
        let mut policy = reader();
        policy["connectionRef"] = json!(first.connection);
        let crew = &first.crew;
        crew.declare::<VaultPolicy>("app", policy).await?;
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        looks(&[first.proxy], 3).await?;
        assert_eq!(first.effects(), [1, 1, 1, 1, 1]);
        Ok(())
    })
}

#[test]
fn while_the_test_login_fails_the_token_lives_and_a_right_host_completes() -> Result<()> {
    tell(WORLD, async |site| {
        let first = Beginning::new(site).await?;
        let (cluster, name) = (first.crew.cluster(), &first.connection);
        first.declare("https://127.0.0.1:1", json!({})).await?;
        let failed = cluster
            .until::<VaultConnection>(name, is("Bootstrapped", "K8sAuthTestFailed"))
            .await?;
        let status = failed.status.unwrap();
        assert_ne!(login(&status).bootstrap_complete, Some(true));
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
        let ready = ready.unwrap();
        assert_eq!((&*ready.status, &*ready.reason), ("False", "AuthFailed"));
        assert!(
            first
                .steps()
                .await?
                .contains(&"K8sAuthTestFailed".to_owned())
        );
        looks(&[first.proxy], 2).await?;
        assert!(lives(first.vault, &first.token.token).await?);
        assert_eq!(first.effects()[4], 0);

        first.declare(&first.host(), json!({})).await?;
        let steps = first.done().await?;
        assert!(
            !steps.contains(&"K8sAuthTestFailed".to_owned()),
            "{steps:?}"
        );
        assert!(
            steps.contains(&"BootstrapTokenRevoked".to_owned()),
            "{steps:?}"
        );
        assert!(!lives(first.vault, &first.token.token).await?);
        Ok(())
    })
}

#[test]
fn a_mount_that_serves_others_is_left_to_them() -> Result<()> {
    tell(WORLD, async |site| {
        let first = Beginning::new(site).await?;
        let theirs = json!({"kubernetes_host": "https://other", "disable_local_ca_jwt": true});
        for (path, body) in [
            (format!("sys/auth/{MOUNT}"), json!({"type": "kubernetes"})),
            (format!("auth/{MOUNT}/config"), theirs),
        ] {
            first.vault.expect(Method::POST, &path, Some(body)).await?;
        }
        first.declare(&first.host(), json!({})).await?;
        let (cluster, name) = (first.crew.cluster(), &first.connection);
        let refused = cluster
            .until::<VaultConnection>(name, is("Bootstrapped", "MountNotOurs"))
            .await?;
        let message = said(&refused.status.unwrap().conditions, "Bootstrapped");
        assert!(message.contains("adoptMount"), "{message}");
        assert_eq!(first.effects(), [0; 5]);
        Ok(())
    })
}

/// A mount that people made and look after, at which the operator can log in.
async fn of_others(site: &Site) -> Result<&'static str> {
    const OTHERS: &str = "theirs";
    let config = format!("auth/{OTHERS}/config");
    let (plane, home) = (site.world.control_plane(), site.world.operator_namespace());
    let public = std::fs::read_to_string(plane.scratch().path().join("tokens.pub"))?;
    let fields = json!({
        "kubernetes_host": plane.url(), "kubernetes_ca_cert": plane.ca_pem(),
        "token_reviewer_jwt": site.jwt(home, "reviewer", None).await?,
        "disable_local_ca_jwt": true, "pem_keys": [public], "issuer": "somebody",
    });
    let grants = format!(
        r#"path "{config}" {{ capabilities = ["read", "update"] }}
           path "sys/policies/acl/*" {{ capabilities = ["list"] }}
           path "auth/{OTHERS}/role/*" {{ capabilities = ["list"] }}"#
    );
    let kind = json!({"type": "kubernetes"});
    site.put(&format!("sys/auth/{OTHERS}"), kind).await?;
    site.put(&config, fields).await?;
    site.write_policy("rotator", &grants).await?;
    site.let_operator_in(OTHERS, "pontoon", "rotator").await?;
    Ok(OTHERS)
}

#[test]
fn the_reviewer_token_of_others_is_replaced_where_we_are_told_and_nothing_else() -> Result<()> {
    tell(WORLD, async |site| {
        let (crew, mount) = (site.crew().await?, of_others(site).await?);
        let (cluster, name) = (crew.cluster(), crew.own("theirs"));
        let path = format!("auth/{mount}/config");
        let before = site.read(&path).await?;
        let rotation = async |wish: Value| {
            let kubernetes = json!({"authPath": mount, "tokenReviewerRotation": wish});
            let auth = json!({"kubernetes": kubernetes});
            let spec = json!({"auth": auth, "healthCheckInterval": "5s"});
            crew.connect(&name, spec).await
        };

        // Nobody told us to, and then somebody told us not to.
        rotation(Value::Null).await?;
        cluster
            .until::<VaultConnection>(&name, is("TokenReviewer", "NotOurMount"))
            .await?;
        rotation(json!(false)).await?;
        let manual = is("TokenReviewerRotationDisabled", "ManualManagement");
        cluster.until::<VaultConnection>(&name, manual).await?;
        looks(&[crew.proxy], 2).await?;
        assert_eq!(crew.calls(Method::POST, &path), 0);

        // Told to, we replace it once, and it is as long as the API server says it is.
        let jwt = site
            .jwt(site.world.operator_namespace(), "pontoon", Some("vault"))
            .await?;
        rotation(json!(true)).await?;
        let told = cluster
            .until::<VaultConnection>(&name, holds("TokenReviewer"))
            .await?;
        let auth = login(&told.status.unwrap());
        let ends = auth.token_reviewer_expiration.unwrap().0;
        let left = (ends - RealClock::new().now()).total(jiff::Unit::Hour)?;
        assert!((23.0..=24.1).contains(&left), "{left}");
        assert!(auth.token_reviewer_last_refresh.is_some());
        looks(&[crew.proxy], 3).await?;
        assert_eq!(crew.calls(Method::POST, &path), 1);
        assert_eq!(site.read(&path).await?, before, "every other field");
        let answer = site.login(mount, "pontoon", &jwt).await?;
        assert_eq!(answer.status, 200, "{}", answer.body);
        Ok(())
    })
}

#[test]
fn the_mount_goes_with_its_connection_unless_others_log_in_by_it() -> Result<()> {
    tell(WORLD, async |site| {
        for shared in [false, true] {
            let first = Beginning::new(site).await?;
            let cleanup = json!({"cleanupAuthMount": true});
            first.declare(&first.host(), cleanup).await?;
            first.done().await?;
            if shared {
                let role = json!({
                    "bound_service_account_names": ["a"], "bound_service_account_namespaces": ["b"],
                });
                let path = format!("auth/{MOUNT}/role/theirs");
                first.vault.expect(Method::POST, &path, Some(role)).await?;
            }
            let (cluster, name) = (first.crew.cluster(), &first.connection);
            cluster.delete::<VaultConnection>(name).await?;
            cluster.gone::<VaultConnection>(name).await?;
            let mount = first.held(&format!("sys/auth/{MOUNT}")).await?;
            assert_eq!(mount["type"] == "kubernetes", shared, "{mount}");
            if shared {
                let told = event(&cluster, name, "DisableAuthFailed").await?;
                assert!(note(&told).contains("theirs"), "{}", note(&told));
            }
        }
        Ok(())
    })
}
