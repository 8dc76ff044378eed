//! Secrets and ConfigMaps of the source's own namespace: read by name at each reading, and never
//! watched, or our rights would grow to all there are.

use std::collections::BTreeMap;

use engine::{ApiError, InNamespace, Kind};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::read::Unread;
use super::valid;

/// What of a Secret is used. It has no `Debug`: it holds values.
pub(super) struct SecretKeys(BTreeMap<String, Vec<u8>>);

impl SecretKeys {
    pub(super) async fn read(kube: &Client, namespace: &str, name: &str) -> Result<Self, Unread> {
        let secret: Secret = get(kube, namespace, name).await?;
        let keys = secret.data.unwrap_or_default().into_iter();
        Ok(Self(keys.map(|(key, value)| (key, value.0)).collect()))
    }

    /// The text of a key; none if there is no such key. An error says what is wrong with it.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, String> {
        let Some(bytes) = self.0.get(key) else {
            return Ok(None);
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if text.trim().is_empty() => {
                Err(format!("the key {key} is empty; put the value there"))
            }
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(format!(
                "the key {key} holds no UTF-8; store the value as plain text"
            )),
        }
    }
}

/// The text under `key` of a ConfigMap.
pub(super) async fn config_text(
    kube: &Client,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<String, Unread> {
    let map: ConfigMap = get(kube, namespace, name).await?;
    text_of(map, key).map_err(|why| Unread::Table(format!("ConfigMap {namespace}/{name}: {why}")))
}

fn text_of(map: ConfigMap, key: &str) -> Result<String, String> {
    let mut texts = map.data.unwrap_or_default();
    let binary = map.binary_data.unwrap_or_default().contains_key(key);
    match texts.remove(key) {
        Some(text) => Ok(text),
        None if binary => Err(format!(
            "what is under the key {key} is binary; store the table as UTF-8 text"
        )),
        None => Err(format!("it has no key {key}; store the table there")),
    }
}

async fn get<K>(kube: &Client, namespace: &str, name: &str) -> Result<K, Unread>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    K::Scope: InNamespace,
{
    let what = format!("{} {namespace}/{name}", K::kind(&()));
    // The name becomes part of a URL, where other characters would lead elsewhere.
    if !valid::is_subdomain(name) {
        return Err(Unread::Table(format!(
            "{what} cannot be: no object has such a name; correct the spec"
        )));
    }
    let request = Request::new(K::url_path(&(), Some(namespace)));
    let answer = match request.get(name, &GetParams::default()) {
        Ok(request) => kube.request_text(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    let text = answer.map_err(|error| refused(&what, namespace, &Kind::of::<K>().plural, error))?;
    // Not by kube: it would log an answer that it does not understand, and this may hold secrets.
    serde_json::from_str(&text).map_err(|_| {
        Unread::Api(ApiError::Unreadable {
            what: format!("get {what}"),
            message: "it is not what was asked for".to_owned(),
        })
    })
}

/// What somebody has to do about it; everything else is the API server's doing.
fn refused(what: &str, namespace: &str, plural: &str, error: kube::Error) -> Unread {
    match error {
        kube::Error::Api(status) if status.code == 403 => Unread::Table(format!(
            "{what} cannot be read: the operator may not get {plural} in the namespace \
             {namespace}; add it to the chart's tenants.sourceNamespaces"
        )),
        kube::Error::Api(status) if status.code == 404 => {
            Unread::Table(format!("there is no {what}; create it"))
        }
        error => Unread::Api(ApiError::classify(format!("get {what}"), error)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn keys(value: &[u8]) -> SecretKeys {
        SecretKeys(BTreeMap::from([("k".to_owned(), value.to_vec())]))
    }

    #[test]
    fn a_value_comes_as_it_is_stored() {
        assert_eq!(keys(b"v\n").text("k"), Ok(Some("v\n")));
        assert_eq!(keys(b"v").text("other"), Ok(None));
    }

    #[rstest]
    #[case::empty(b" \n", "the key k is empty")]
    #[case::binary(b"hush\xff", "the key k holds no UTF-8")]
    fn a_value_that_is_none_is_told_without_it(#[case] value: &[u8], #[case] said: &str) {
        let keys = keys(value);
        let why = keys.text("k").unwrap_err();
        assert!(why.starts_with(said) && !why.contains("hush"), "{why}");
    }

    #[test]
    fn a_config_map_has_its_table_as_text() {
        let map = || ConfigMap {
            data: Some([("tenants.csv".to_owned(), "name,domain".to_owned())].into()),
            binary_data: Some([("raw".to_owned(), ByteString(vec![255]))].into()),
            ..ConfigMap::default()
        };
        assert_eq!(text_of(map(), "tenants.csv").unwrap(), "name,domain");
        assert!(text_of(map(), "raw").unwrap_err().contains("is binary"));
        assert!(text_of(map(), "x").unwrap_err().contains("it has no key x"));
    }

    fn answered(code: u16) -> Unread {
        let status = Status {
            code,
            ..Status::default()
        };
        let error = kube::Error::Api(status.boxed());
        refused("Secret team/db", "team", "secrets", error)
    }

    #[test]
    fn a_refusal_names_the_right_and_where_to_grant_it() {
        assert_eq!(
            answered(403).to_string(),
            "Secret team/db cannot be read: the operator may not get secrets in the namespace \
             team; add it to the chart's tenants.sourceNamespaces"
        );
        assert_eq!(
            answered(404).to_string(),
            "there is no Secret team/db; create it"
        );
        assert!(matches!(answered(500), Unread::Api(_)));
    }
}
