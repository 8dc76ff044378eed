//! Seeds as stories tell of them: a crew that may sow, and what then stands in Vault.
#![allow(dead_code)] // each file uses its part

use api::vault::{VaultKVSecret, VaultKVSecretStatus};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Result, is};

use crate::stories::{Crew, Site};

/// What the operator needs for seeds: to create, to see whose it is, to mark and to delete it.
const SOWS: &str = r#"
path "secret/data/*" { capabilities = ["create", "read", "update"] }
path "secret/metadata/*" { capabilities = ["read", "patch", "delete"] }
path "plain/*" { capabilities = ["create", "read", "update", "delete"] }
"#;

/// A value that must be seen nowhere but in Vault.
pub(crate) const HUSH: &str = "hush-hush";

/// A crew whose connection lets the operator sow; it is changed by the merge patch `change`.
pub(crate) async fn crew(site: &'static Site, change: Value) -> Result<Crew> {
    crew_that_may(site, "sower", SOWS, change).await
}

/// The same with another policy of the operator's, which stands in Vault by the name of `role`.
pub(crate) async fn crew_that_may(
    site: &'static Site,
    role: &str,
    policy: &str,
    change: Value,
) -> Result<Crew> {
    site.write_policy(role, policy).await?;
    site.let_operator_in("kubernetes", role, role).await?;
    let mut spec = json!({"auth": {"kubernetes": {"role": role}}});
    for (key, value) in change.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    site.crew_with(spec).await
}

impl Crew {
    /// Where in the mount `secret` the seed `name` is.
    pub(crate) fn plot(&self, name: &str) -> String {
        format!("{}/{name}", self.name())
    }

    /// Declares a seed there, with what `spec` says beyond or instead.
    pub(crate) async fn sow(&self, name: &str, spec: Value) -> Result<()> {
        let path = format!("secret/data/{}", self.plot(name));
        let mut whole = json!({"path": path, "data": {"password": HUSH}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        self.declare::<VaultKVSecret>(name, whole).await
    }

    /// Waits until the seed's condition `type_` has this reason.
    pub(crate) async fn seed_is(
        &self,
        name: &str,
        type_: &str,
        reason: &str,
    ) -> Result<VaultKVSecretStatus> {
        let seed = self.until::<VaultKVSecret>(name, is(type_, reason)).await?;
        Ok(seed.status.expect("a condition is in a status"))
    }

    /// Waits until the seed is ready.
    pub(crate) async fn grown(&self, name: &str) -> Result<VaultKVSecretStatus> {
        self.seed_is(name, "Ready", "Succeeded").await
    }

    /// Deletes the seed, and waits until it is gone.
    pub(crate) async fn uproot(&self, name: &str) -> Result<()> {
        self.delete::<VaultKVSecret>(name).await?;
        self.gone::<VaultKVSecret>(name).await
    }

    /// What Vault knows about the seed but its values.
    pub(crate) async fn metadata(&self, name: &str) -> Result<Option<Value>> {
        let path = format!("secret/metadata/{}", self.plot(name));
        self.site.read(&path).await
    }

    /// The values there; none if the newest version is deleted.
    pub(crate) async fn values(&self, name: &str) -> Result<Option<Value>> {
        let path = format!("secret/data/{}", self.plot(name));
        let found = self.site.read(&path).await?;
        Ok(found.map(|found| found["data"].clone()))
    }

    /// How often the operator tried to write the seed's values.
    pub(crate) fn sowings(&self, name: &str) -> usize {
        let path = format!("secret/data/{}", self.plot(name));
        self.calls(Method::POST, &path)
    }

    /// How often it tried to change anything below the mount `mount`.
    pub(crate) fn changes(&self, mount: &str, name: &str) -> usize {
        let methods = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let path = format!("{mount}/*{name}");
        methods.into_iter().map(|one| self.calls(one, &path)).sum()
    }
}
