//! A control plane that all tests share, and kubeconfigs for it.

use std::fs;
use std::sync::Arc;

use cluster_client::{VettedKubeconfig, VettingRules, read_identity, vet};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, from_value, json};
use testkit::{ControlPlane, Result, eventually};

const NAMESPACE: &str = "logins";

pub(crate) struct World {
    pub(crate) plane: Arc<ControlPlane>,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        let plane = ControlPlane::shared().await?;
        Ok(Self { plane })
    }

    /// The kubeconfig of a new service account, which may do nothing but what every login may.
    pub(crate) async fn kubeconfig(&self, account: &str) -> Result<Value> {
        let path = self.plane.as_service_account(NAMESPACE, account).await?;
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// The same for one that may read the namespace kube-system.
    pub(crate) async fn reader(&self, account: &str) -> Result<Value> {
        let kubeconfig = self.kubeconfig(account).await?;
        let rule = json!({
            "apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"],
        });
        let role = json!({ "metadata": { "name": account }, "rules": [rule] });
        let binding = json!({
            "metadata": { "name": account },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account },
            "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": account }],
        });
        let (admin, create) = (self.plane.admin(), PostParams::default());
        Api::<ClusterRole>::all(admin.clone())
            .create(&create, &from_value(role)?)
            .await?;
        Api::<ClusterRoleBinding>::all(admin)
            .create(&create, &from_value(binding)?)
            .await?;
        let reader = client(&kubeconfig);
        let applied = async || Ok(read_identity(&reader).await.ok());
        eventually("the role applies", applied).await?;
        Ok(kubeconfig)
    }
}

pub(crate) fn vetted(kubeconfig: &Value) -> VettedKubeconfig {
    vet(kubeconfig.to_string().as_bytes(), VettingRules::default()).unwrap()
}

/// A client as the vetted kubeconfig configures it.
pub(crate) fn client(kubeconfig: &Value) -> Client {
    testkit::install_crypto();
    Client::try_from(vetted(kubeconfig).config()).unwrap()
}
