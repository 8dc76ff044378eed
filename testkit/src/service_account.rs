//! Kubeconfigs and tokens of ServiceAccounts, as the operator has them in a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Resource,
    api::{ObjectMeta, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    control_plane::ControlPlane,
    eventually::eventually,
    fault_proxy::FaultProxy,
    kubeconfig::{Proof, kubeconfig, kubeconfig_in},
    manifests,
};

/// No test runs longer than a day.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

impl ControlPlane {
    /// Writes a kubeconfig for the ServiceAccount `name`; creates it and its namespace if missing. It
    /// has no permissions until RBAC grants some.
    pub async fn as_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name, None).await?;
        let config = kubeconfig(&self.url(), self.ca_pem(), &Proof::Token(&token));
        self.scratch()
            .write(&format!("{namespace}-{name}.kubeconfig"), config)
    }

    /// The text of such a kubeconfig, with the account's namespace as the default one. `via` is a
    /// proxy with a certificate of this cluster's authority ([`Self::proxy`]).
    pub async fn kubeconfig_for(
        &self,
        namespace: &str,
        name: &str,
        via: Option<&FaultProxy>,
    ) -> Result<String> {
        let token = self.service_account_token(namespace, name, None).await?;
        let url = via.map_or_else(|| self.url(), |proxy| proxy.url().to_owned());
        let proof = Proof::Token(&token);
        Ok(kubeconfig_in(Some(namespace), &url, self.ca_pem(), &proof))
    }

    /// Grants the ServiceAccount `name` the `rules` of a ClusterRole in all namespaces; creates it and
    /// its namespace if missing. Returns when the API server knows the first rule. A second call
    /// replaces the rules.
    pub async fn grant(&self, namespace: &str, name: &str, rules: &Value) -> Result<()> {
        self.ensure_service_account(namespace, name).await?;
        let (group, own) = ("rbac.authorization.k8s.io", format!("{namespace}-{name}"));
        let role = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRole",
            "metadata": { "name": own },
            "rules": rules,
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": { "name": own },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": own },
            "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": name }],
        });
        let both = format!("{role}\n---\n{binding}\n");
        manifests::apply(&self.admin(), None, &both).await?;
        self.until_allowed(namespace, name, &rules[0]).await
    }

    /// Waits until the API server has seen the first permission of `rule`, because it reads RBAC from a
    /// cache.
    async fn until_allowed(&self, namespace: &str, name: &str, rule: &Value) -> Result<()> {
        let first = |field: &str| rule[field][0].as_str().map(str::to_owned);
        let (Some(verb), Some(resource)) = (first("verbs"), first("resources")) else {
            return Ok(());
        };
        let reviews = Api::<SubjectAccessReview>::all(self.admin());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb),
                    group: first("apiGroups"),
                    resource: Some(resource),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        eventually(&format!("permissions of {namespace}/{name}"), async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok(answer.status.filter(|status| status.allowed).map(drop))
        })
        .await
    }

    /// Creates the ServiceAccount `name` with the identity that it has in `from`, so that its tokens
    /// from there are valid here too. Its permissions are not copied.
    ///
    /// # Errors
    /// If the clusters do not have the same [`crate::Authority`], or the account exists here.
    pub async fn copy_service_account(
        &self,
        from: &Self,
        namespace: &str,
        name: &str,
    ) -> Result<()> {
        ensure!(
            self.ca_pem() == from.ca_pem(),
            "tokens of another authority are not valid: start this cluster with the same one"
        );
        let theirs = Api::<ServiceAccount>::namespaced(from.admin(), namespace);
        let uid = theirs.get(name).await?.metadata.uid;
        let ours = Api::<ServiceAccount>::namespaced(self.admin(), namespace);
        ensure!(
            ours.get_opt(name).await?.is_none(),
            "ServiceAccount {namespace}/{name} exists here, with another UID"
        );
        self.ensure_namespace(namespace).await?;
        // A token names the UID of its account, and the API server chooses that of a new object.
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": uid,
                "creationTimestamp": Timestamp::now(),
            },
        });
        let key = format!("/registry/serviceaccounts/{namespace}/{name}");
        self.store(&key, &account).await
    }

    /// A token of the ServiceAccount `name`, which is created with its namespace if missing. Without
    /// an audience the token is for the API server itself.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        audience: Option<&str>,
    ) -> Result<String> {
        let accounts = self.ensure_service_account(namespace, name).await?;
        let spec = TokenRequestSpec {
            audiences: audience.map(str::to_owned).into_iter().collect(),
            expiration_seconds: Some(TOKEN_SECONDS),
            ..Default::default()
        };
        let request = TokenRequest {
            spec,
            ..Default::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("cannot get a token for ServiceAccount {namespace}/{name}"))?;
        let status = answer
            .status
            .context("the API server answered without a token")?;
        Ok(status.token)
    }

    async fn ensure_service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Api<ServiceAccount>> {
        self.ensure_namespace(namespace).await?;
        let accounts = Api::<ServiceAccount>::namespaced(self.admin(), namespace);
        create_if_missing(
            &accounts,
            &ServiceAccount {
                metadata: named(name),
                ..Default::default()
            },
        )
        .await
        .with_context(|| format!("cannot create ServiceAccount {namespace}/{name}"))?;
        Ok(accounts)
    }

    /// Creates the namespace `name` unless it exists.
    pub async fn ensure_namespace(&self, name: &str) -> Result<()> {
        let namespaces = Api::<Namespace>::all(self.admin());
        create_if_missing(
            &namespaces,
            &Namespace {
                metadata: named(name),
                ..Default::default()
            },
        )
        .await
        .with_context(|| format!("cannot create namespace {name}"))
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

async fn create_if_missing<K>(api: &Api<K>, object: &K) -> Result<(), kube::Error>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        answer => answer.map(drop),
    }
}
