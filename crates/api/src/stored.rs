//! Reading what another release, or the operator before us, left in a status.
//!
//! What is not understood reads as absent: it must never keep an object from being read.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a value, and one that is not understood as none.
pub(crate) fn lenient<'de, D, T>(source: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(source)?;
    Ok(serde_json::from_value(value).ok())
}

/// Reads a list without the entries that are not understood.
pub(crate) fn understood<'de, D, T>(source: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let stored = Vec::<Value>::deserialize(source)?;
    let read = |one| serde_json::from_value(one).ok();
    Ok(stored.into_iter().filter_map(read).collect())
}
