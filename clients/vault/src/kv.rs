//! Secrets in a KV engine of version 2.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kernel::Redacted;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::call::{Call, gone, present};
use crate::{Client, Error};

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretEngine {
    /// `kv`, `pki`, …
    pub kind: String,
    /// The version of a KV engine.
    pub version: Option<u32>,
}

impl SecretEngine {
    /// Whether secrets in it have versions and metadata.
    pub fn is_kv2(&self) -> bool {
        self.kind == "kv" && self.version == Some(2)
    }
}

/// The metadata of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KvMetadata {
    /// The newest version; 0 when only metadata was written.
    pub current_version: u64,
    /// Its custom metadata.
    #[serde(default, deserialize_with = "or_empty")]
    pub custom_metadata: BTreeMap<String, String>,
    /// All versions that Vault keeps.
    #[serde(default)]
    pub versions: BTreeMap<u64, KvVersion>,
}

/// One version of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KvVersion {
    /// When it was deleted, or will be.
    #[serde(default, deserialize_with = "or_never")]
    pub deletion_time: Option<Timestamp>,
    /// Whether its values are permanently deleted.
    #[serde(default)]
    pub destroyed: bool,
}

impl KvMetadata {
    /// Whether the newest version can be read at `now`: it exists and is neither deleted nor
    /// destroyed.
    pub fn has_current(&self, now: Timestamp) -> bool {
        let current = self.versions.get(&self.current_version);
        current.is_some_and(|version| {
            !version.destroyed && version.deletion_time.is_none_or(|deleted| deleted > now)
        })
    }
}

/// The values of a secret, and their version.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretValues {
    /// The version read.
    pub version: u64,
    /// The values.
    pub values: Redacted<Map<String, Value>>,
}

impl Client {
    /// What is mounted at `mount`.
    ///
    /// # Errors
    /// [`Error::Denied`] also if nothing is mounted there: Vault does not distinguish the two.
    pub async fn secret_engine(&self, mount: &str) -> Result<SecretEngine, Error> {
        #[derive(Deserialize)]
        struct MountBody {
            #[serde(rename = "type")]
            kind: String,
            options: Option<BTreeMap<String, String>>,
        }
        let call = Call::get("mount_read", &["sys/internal/ui/mounts", mount])?;
        let body: MountBody = self.call(&call).await?.payload(&call.name())?;
        let version = body.options.unwrap_or_default().remove("version");
        Ok(SecretEngine {
            kind: body.kind,
            version: version.and_then(|version| version.parse().ok()),
        })
    }

    /// The metadata of the secret at `path`, or `None` if there never was one.
    pub async fn read_metadata(
        &self,
        mount: &str,
        path: &str,
    ) -> Result<Option<KvMetadata>, Error> {
        let call = Call::get("kv_metadata_read", &[mount, "metadata", path])?;
        match present(self.call(&call).await)? {
            Some(answer) => answer.payload(&call.name()).map(Some),
            None => Ok(None),
        }
    }

    /// Sets these keys in the custom metadata of a secret; other keys stay.
    pub async fn patch_metadata(
        &self,
        mount: &str,
        path: &str,
        custom: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let call = Call::patch("kv_metadata_patch", &[mount, "metadata", path])?
            .body(json!({ "custom_metadata": custom }));
        self.call(&call).await.map(drop)
    }

    /// Deletes a secret with all its versions; succeeds if it is already gone.
    pub async fn delete_metadata(&self, mount: &str, path: &str) -> Result<(), Error> {
        let call = Call::delete("kv_metadata_delete", &[mount, "metadata", path])?;
        gone(self.call(&call).await)
    }

    /// The newest values, or `None` if there are none: never written, deleted or destroyed.
    pub async fn read_secret(
        &self,
        mount: &str,
        path: &str,
    ) -> Result<Option<SecretValues>, Error> {
        #[derive(Deserialize)]
        struct SecretBody {
            data: Redacted<Map<String, Value>>,
            metadata: Versioned,
        }
        let call = Call::get("kv_read", &[mount, "data", path])?;
        let Some(answer) = present(self.call(&call).await)? else {
            return Ok(None);
        };
        let body: SecretBody = answer.payload(&call.name())?;
        Ok(Some(SecretValues {
            version: body.metadata.version,
            values: body.data,
        }))
    }

    /// Writes values as the version after `cas`; returns the new version. 0: only if there never was
    /// a version.
    ///
    /// # Errors
    /// [`Error::CheckAndSet`] if another version is the newest; nothing was written.
    pub async fn write_secret(
        &self,
        mount: &str,
        path: &str,
        values: &Redacted<Map<String, Value>>,
        cas: u64,
    ) -> Result<u64, Error> {
        let values = values.expose();
        let call = Call::post("kv_write", &[mount, "data", path])?
            .body(json!({ "data": values, "options": { "cas": cas } }))
            .hiding(texts(values));
        let answer = self.call(&call).await?;
        Ok(answer.payload::<Versioned>(&call.name())?.version)
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// The texts in `values`, at any depth.
fn texts(values: &Map<String, Value>) -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(several) => several.iter().for_each(|one| collect(one, found)),
            Value::Object(map) => map.values().for_each(|one| collect(one, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    values.values().for_each(|value| collect(value, &mut found));
    found
}

/// Vault sends null for an empty map.
fn or_empty<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Vault sends an empty text for never.
fn or_never<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(deletion_time: &str, destroyed: bool) -> KvMetadata {
        serde_json::from_value(json!({
            "current_version": 1,
            "custom_metadata": null,
            "versions": { "1": { "deletion_time": deletion_time, "destroyed": destroyed } },
        }))
        .unwrap()
    }

    #[test]
    fn a_version_is_current_until_it_is_deleted_or_destroyed() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        assert!(metadata("", false).has_current(now));
        assert!(metadata("2026-01-03T00:00:00Z", false).has_current(now));
        assert!(!metadata("2026-01-01T00:00:00.5Z", false).has_current(now));
        assert!(!metadata("", true).has_current(now));
    }

    #[test]
    fn texts_are_found_at_any_depth() {
        let values = json!({ "a": "one", "b": [{ "c": "two" }, 3], "d": null });
        assert_eq!(texts(values.as_object().unwrap()), ["one", "two"]);
    }
}
