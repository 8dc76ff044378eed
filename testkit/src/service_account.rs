//! Kubeconfigs and tokens of ServiceAccounts, as the operator has them in a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, Resource,
    api::{ObjectMeta, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    control_plane::ControlPlane,
    kubeconfig::{Proof, kubeconfig},
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

    /// A token of the ServiceAccount `name`, which is created with its namespace if missing. Without
    /// an audience the token is for the API server itself.
    pub async fn service_account_token(
        &self,
        namespace: &str,
        name: &str,
        audience: Option<&str>,
    ) -> Result<String> {
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
