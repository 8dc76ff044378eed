//! Vault as its administrators and the crew's workloads see it: past the proxy.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Answer, Result, eventually};

use super::{OPERATOR, Site};

/// Mounts at which the cluster's ServiceAccounts can log in.
const KUBERNETES: [&str; 2] = ["kubernetes", "kubernetes-x"];
const JWT: &str = "jwt";

impl Site {
    /// Makes Vault know the cluster and its operator, and have something to guard: `secret/`, of
    /// which there are versions, and `plain/`, of which there are none.
    pub(super) async fn furnish(&self) -> Result<()> {
        let plane = self.world.control_plane();
        let reviewer = self.reviewer().await?;
        for mount in KUBERNETES {
            let config = json!({
                "kubernetes_host": plane.url(),
                "kubernetes_ca_cert": plane.ca_pem(),
                "token_reviewer_jwt": reviewer,
                "disable_local_ca_jwt": true,
            });
            let kind = json!({"type": "kubernetes"});
            self.put(&format!("sys/auth/{mount}"), kind).await?;
            self.put(&format!("auth/{mount}/config"), config).await?;
            self.let_operator_in(mount, OPERATOR, OPERATOR).await?;
        }
        let public = std::fs::read_to_string(plane.scratch().path().join("tokens.pub"))?;
        self.put(&format!("sys/auth/{JWT}"), json!({"type": "jwt"}))
            .await?;
        let config = json!({"jwt_validation_pubkeys": [public]});
        self.put(&format!("auth/{JWT}/config"), config).await?;
        self.write_policy(OPERATOR, &grants()).await?;

        let (plain, versions) = (json!({"type": "kv"}), json!({"version": "2"}));
        self.put("sys/mounts/plain", plain).await?;
        let secret = json!({"type": "kv", "options": versions});
        self.put("sys/mounts/secret", secret).await?;
        let first = json!({"data": {"colour": "red"}});
        eventually("the mount secret/ is there", async || {
            let path = "secret/data/first";
            let vault = self.world.vault();
            let written = vault.request(Method::POST, path, Some(first.clone()));
            Ok((written.await?.status == 200).then_some(()))
        })
        .await
    }

    /// The token by which Vault asks the API server whose a token is.
    async fn reviewer(&self) -> Result<String> {
        let namespace = self.world.operator_namespace();
        let jwt = self.jwt(namespace, "reviewer", None).await?;
        // It asks for a namespace's labels, too, where a role picks namespaces by them.
        for role in ["system:auth-delegator", "system:aggregate-to-view"] {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("reviewer:{role}")},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
                },
                "subjects": [
                    {"kind": "ServiceAccount", "namespace": namespace, "name": "reviewer"},
                ],
            });
            let cluster = self.world.cluster();
            cluster.apply(&binding.to_string()).await?;
        }
        Ok(jwt)
    }

    /// Lets the operator log in at `mount` as `role` and have `policy`.
    pub(crate) async fn let_operator_in(
        &self,
        mount: &str,
        role: &str,
        policy: &str,
    ) -> Result<()> {
        let fields = json!({
            "bound_service_account_names": [OPERATOR],
            "bound_service_account_namespaces": [self.world.operator_namespace()],
            "audience": "vault",
            "token_policies": [policy],
            "token_ttl": "1h",
        });
        self.put(&format!("auth/{mount}/role/{role}"), fields).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Result<()> {
        let written = self.world.vault().expect(Method::POST, path, Some(body));
        written.await.map(drop)
    }

    /// What is at `path`, if anything.
    pub(crate) async fn read(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.world.vault().request(Method::GET, path, None).await?;
        Ok((answer.status == 200).then(|| answer.body["data"].clone()))
    }

    pub(crate) async fn remove(&self, path: &str) -> Result<()> {
        let removed = self.world.vault().expect(Method::DELETE, path, None);
        removed.await.map(drop)
    }

    /// The text of a policy.
    pub(crate) async fn policy(&self, name: &str) -> Result<Option<String>> {
        let found = self.read(&format!("sys/policies/acl/{name}")).await?;
        Ok(found.and_then(|found| found["policy"].as_str().map(str::to_owned)))
    }

    pub(crate) async fn write_policy(&self, name: &str, text: &str) -> Result<()> {
        let path = format!("sys/policies/acl/{name}");
        self.put(&path, json!({"policy": text})).await
    }

    /// The fields of a role at the mount `kubernetes`.
    pub(crate) async fn role(&self, name: &str) -> Result<Option<Value>> {
        self.read(&format!("auth/kubernetes/role/{name}")).await
    }

    /// Puts a secret of one entry under `secret/`.
    pub(crate) async fn secret(&self, path: &str) -> Result<()> {
        let body = json!({"data": {"colour": "red"}});
        self.put(&format!("secret/data/{path}"), body).await
    }

    /// A workload's login.
    pub(crate) async fn login(&self, mount: &str, role: &str, jwt: &str) -> Result<Answer> {
        let body = json!({"role": role, "jwt": jwt});
        let path = format!("auth/{mount}/login");
        let vault = self.world.vault();
        vault.request_as("", Method::POST, &path, Some(body)).await
    }

    /// A ServiceAccount's login at `kubernetes`: the status, and the token if it got in.
    pub(crate) async fn login_of(
        &self,
        role: &str,
        namespace: &str,
        account: &str,
    ) -> Result<(u16, String)> {
        let jwt = self.jwt(namespace, account, None).await?;
        let answer = self.login("kubernetes", role, &jwt).await?;
        Ok((answer.status, token(&answer)))
    }

    /// A token that has just this policy.
    pub(crate) async fn token_with(&self, policy: &str) -> Result<String> {
        let body = json!({"policies": [policy], "no_default_policy": true});
        let vault = self.world.vault();
        let path = "auth/token/create";
        let made = vault.request(Method::POST, path, Some(body)).await?;
        Ok(token(&made))
    }

    /// What comes of asking for `path` with a token, by its status.
    pub(crate) async fn status_as(&self, token: &str, path: &str) -> Result<u16> {
        let vault = self.world.vault();
        let answer = vault.request_as(token, Method::GET, path, None).await?;
        Ok(answer.status)
    }
}

/// The token in Vault's answer to a login; empty if there is none.
pub(crate) fn token(answer: &Answer) -> String {
    let token = answer.body["auth"]["client_token"].as_str();
    token.unwrap_or_default().to_owned()
}

/// What the operator needs in Vault.
fn grants() -> String {
    let block = |path: &str| {
        let all = r#"["create", "read", "update", "delete", "list"]"#;
        format!("path \"{path}\" {{\n  capabilities = {all}\n}}\n")
    };
    let roles = KUBERNETES.into_iter().chain([JWT]);
    let roles = roles.map(|mount| block(&format!("auth/{mount}/role/*")));
    let policies = block("sys/policies/acl/*");
    roles.chain([policies]).collect()
}
