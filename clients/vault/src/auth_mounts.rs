//! Auth methods: `sys/auth`, and the configuration of each.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::call::{Call, Written, gone, present};
use crate::{AuthMount, Client, Error};

/// An enabled auth method.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuthMountEntry {
    /// `kubernetes`, `jwt`, `token`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Its description in Vault.
    #[serde(default)]
    pub description: String,
    /// Identifies this mount; a later mount at the same path has another one.
    #[serde(default)]
    pub accessor: String,
}

impl Client {
    /// All auth methods, by mount path.
    pub async fn auth_mounts(&self) -> Result<BTreeMap<AuthMount, AuthMountEntry>, Error> {
        let call = Call::get("auth_list", &["sys/auth"])?;
        let answer = self.call(&call).await?;
        let mounts: BTreeMap<String, AuthMountEntry> = answer.payload(&call.name())?;
        let mounts = mounts.into_iter();
        Ok(mounts
            // Not `new`, which strips `auth/`: a method mounted at `auth/x` has the path `auth/auth/x`.
            .map(|(path, entry)| (AuthMount::listed(&path), entry))
            .collect())
    }

    /// Enables a method of this kind; [`Error::AlreadyExists`] if the path is in use.
    pub async fn enable_auth(
        &self,
        mount: &AuthMount,
        kind: &str,
        description: &str,
    ) -> Result<(), Error> {
        let call = Call::post("auth_enable", &["sys/auth", mount.as_str()])?
            .body(json!({ "type": kind, "description": description }));
        self.call(&call).await.map(drop)
    }

    /// Disables a method. Vault deletes its roles and revokes its tokens.
    pub async fn disable_auth(&self, mount: &AuthMount) -> Result<(), Error> {
        let call = Call::delete("auth_disable", &["sys/auth", mount.as_str()])?;
        gone(self.call(&call).await)
    }

    /// The configuration of a method, or `None` if it has none yet. Vault does not return secrets.
    pub async fn read_auth_config(
        &self,
        mount: &AuthMount,
    ) -> Result<Option<Map<String, Value>>, Error> {
        let call = Call::get("auth_config_read", &["auth", mount.as_str(), "config"])?;
        match present(self.call(&call).await)? {
            Some(answer) => answer.payload(&call.name()).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the configuration of a method: Vault merges nothing, so give every field.
    pub async fn write_auth_config(
        &self,
        mount: &AuthMount,
        config: Map<String, Value>,
    ) -> Result<Written, Error> {
        let secrets: Vec<String> = config
            .iter()
            .filter(|(field, _)| field.contains("jwt") || field.contains("secret"))
            .filter_map(|(_, value)| value.as_str().map(str::to_owned))
            .collect();
        let call = Call::post("auth_config_write", &["auth", mount.as_str(), "config"])?
            .body(Value::Object(config))
            .hiding(secrets);
        Ok(self.call(&call).await?.written())
    }
}
