//! One entry of the predecessor's queue. Pure.
//!
//! Its releases do not agree on the words, so several are taken: in any case, with or without `_`
//! and `-`. What is not certain is not guessed.

use std::collections::BTreeMap;

use api::vault::names as words;
use kernel::ObjectKey;
use serde_json::Value;
use vault_client::AuthMount;

use crate::cleanup::leftover::{VaultLeftover, VaultPath};
use crate::place::Place;

const TYPE: &[&str] = &["resourcetype", "resourcekind", "kind", "type"];
const PATH: &[&str] = &["vaultpath", "path"];
const NAME: &[&str] = &[
    "vaultname",
    "vaultresourcename",
    "vaultpolicyname",
    "vaultrolename",
    "policyname",
    "rolename",
    "resourcename",
    "name",
];
const MOUNT: &[&str] = &["authpath", "authmount", "mountpath", "mount"];
const CONNECTION: &[&str] = &[
    "connectionname",
    "connectionref",
    "connection",
    "vaultconnectionname",
    "vaultconnection",
];
const OBJECT: &[&str] = &["k8sresource", "resource"];
const OBJECT_NAMESPACE: &[&str] = &["k8snamespace", "resourcenamespace", "namespace"];
const OBJECT_NAME: &[&str] = &["k8sname", "objectname", "crname"];

/// The entries of a queue.
pub(super) fn items(queue: &str) -> Result<Vec<Value>, String> {
    if queue.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(queue) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(Value::Null) => Ok(Vec::new()), // how Go writes an empty list
        Ok(_) | Err(_) => Err("the queue is no JSON array".to_owned()),
    }
}

/// What an entry asks to delete, or why that cannot be told. `role_mount` is where a connection has
/// its roles, if it exists.
pub(super) fn leftover(
    item: &Value,
    role_mount: impl Fn(&str) -> Option<AuthMount>,
) -> Result<VaultLeftover, String> {
    let fields = Fields::of(item);
    let unclear = |what: &str| format!("{what} in {item}");
    let connection = fields.text(CONNECTION);
    let connection = connection.ok_or_else(|| unclear("no connection"))?;
    let told = fields.text(TYPE).as_deref().and_then(is_of);
    let (of_role, of_cluster) = told.ok_or_else(|| unclear("neither a policy nor a role"))?;
    let recorded = fields.text(PATH).as_deref().and_then(Place::parse);
    let place = if let Some(place) = recorded {
        place
    } else {
        let name = fields.text(NAME).ok_or_else(|| unclear("no name"))?;
        if of_role {
            let told = fields.text(MOUNT).map(|path| AuthMount::new(&path));
            let mount = told.or_else(|| role_mount(&connection));
            let mount = mount.ok_or_else(|| unclear("no mount"))?;
            Place::Role { mount, name }
        } else {
            Place::Policy { name }
        }
    };
    if of_role != place.mount().is_some() {
        return Err(unclear("a path that is not of its type"));
    }
    let object = fields.object().or_else(|| named_by(place.name()));
    let in_cluster = of_cluster || object.as_ref().is_some_and(|key| key.namespace.is_none());
    let kind = match (of_role, in_cluster) {
        (false, false) => "VaultPolicy",
        (false, true) => "VaultClusterPolicy",
        (true, false) => "VaultRole",
        (true, true) => "VaultClusterRole",
    };
    Ok(VaultLeftover {
        kind: kind.to_owned(),
        resource: object.map(|key| key.to_string()).unwrap_or_default(),
        path: VaultPath::Place(place),
        vault_namespace: None,
        connection,
        address: None,
        owner: None,
        canonical_hash: None,
        seeded_version: None,
        recorded: true,
    })
}

/// Whether a type is that of a role, and whether that of something cluster-wide.
fn is_of(word: &str) -> Option<(bool, bool)> {
    let word = word.to_lowercase();
    let of_cluster = word.contains("cluster");
    match (word.contains("policy"), word.contains("role")) {
        (true, false) => Some((false, of_cluster)),
        (false, true) => Some((true, of_cluster)),
        (true, true) | (false, false) => None,
    }
}

/// The object that a derived name belongs to: `vao.<identity>.<namespace>.<name>`.
fn named_by(name: &str) -> Option<ObjectKey> {
    let rest = name.strip_prefix(words::NAME_PREFIX)?;
    let mut parts = rest.splitn(3, '.');
    let (_, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ObjectKey::of(
        Some(namespace).filter(|one| *one != "_"),
        name,
    ))
}

/// The fields of an entry by their words, however these are written.
struct Fields<'a>(BTreeMap<String, &'a Value>);

impl<'a> Fields<'a> {
    fn of(item: &'a Value) -> Self {
        let fields = item.as_object().into_iter().flatten();
        let plain = |key: &str| key.replace(['_', '-'], "").to_lowercase();
        Self(fields.map(|(key, value)| (plain(key), value)).collect())
    }

    /// The first of `words` that has a text.
    fn text(&self, words: &[&str]) -> Option<String> {
        let told = words.iter().filter_map(|word| self.0.get(*word));
        let texts = told.filter_map(|value| value.as_str().or_else(|| value["name"].as_str()));
        let mut texts = texts.map(str::trim).filter(|text| !text.is_empty());
        texts.next().map(str::to_owned)
    }

    /// The object it was made for.
    fn object(&self) -> Option<ObjectKey> {
        if let Some(name) = self.text(OBJECT_NAME) {
            let namespace = self.text(OBJECT_NAMESPACE);
            return Some(ObjectKey::of(namespace.as_deref(), &name));
        }
        self.text(OBJECT)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn read(item: &Value) -> Result<VaultLeftover, String> {
        leftover(item, |connection| {
            (connection == "c").then(|| AuthMount::new("kubernetes"))
        })
    }

    #[rstest]
    #[case::policy(
        json!({"resourceType": "policy", "vaultName": "vao.k.team-a.app", "connectionName": "c",
               "k8sNamespace": "team-a", "k8sName": "app", "attempts": 3}),
        "VaultPolicy", "team-a/app", "sys/policies/acl/vao.k.team-a.app")]
    #[case::as_go_names_it(
        json!({"ResourceType": "VaultPolicy", "VaultResourceName": "team-a-app", "Connection": "c",
               "K8sNamespace": "team-a", "K8sName": "app"}),
        "VaultPolicy", "team-a/app", "sys/policies/acl/team-a-app")]
    #[case::in_snake_case(
        json!({"resource_type": "role", "vault_name": "r", "auth_path": "auth/x/", "connection_name": "c",
               "k8s_namespace": "team-a", "k8s_name": "r"}),
        "VaultRole", "team-a/r", "auth/x/role/r")]
    #[case::cluster_wide_by_its_kind(
        json!({"kind": "VaultClusterRole", "name": "r", "mount": "x", "connection": "c"}),
        "VaultClusterRole", "", "auth/x/role/r")]
    #[case::cluster_wide_by_its_object(
        json!({"type": "policy", "name": "shared", "connection": {"name": "c"}, "k8sName": "shared"}),
        "VaultClusterPolicy", "shared", "sys/policies/acl/shared")]
    #[case::object_told_by_the_name(
        json!({"type": "policy", "name": "vao.k._.shared.v2", "connection": "c"}),
        "VaultClusterPolicy", "shared.v2", "sys/policies/acl/vao.k._.shared.v2")]
    #[case::at_the_mount_of_its_connection(
        json!({"type": "role", "name": "vao.k.team-a.r", "connection": "c", "authPath": ""}),
        "VaultRole", "team-a/r", "auth/kubernetes/role/vao.k.team-a.r")]
    #[case::by_its_path(
        json!({"type": "role", "vaultPath": "auth/y/role/r", "connection": "gone", "resource": "a/r"}),
        "VaultRole", "a/r", "auth/y/role/r")]
    fn an_entry_is_understood_in_several_words(
        #[case] item: Value,
        #[case] kind: &str,
        #[case] resource: &str,
        #[case] path: &str,
    ) {
        let left = read(&item).unwrap();
        assert_eq!((&*left.kind, &*left.resource), (kind, resource));
        assert_eq!(left.path.to_string(), path);
        assert_eq!((left.canonical_hash, left.recorded), (None, true));
    }

    #[rstest]
    #[case::nothing(json!({}), "no connection")]
    #[case::no_object(json!("policy"), "no connection")]
    #[case::no_name(json!({"type": "policy", "connection": "c"}), "no name")]
    #[case::no_mount(json!({"type": "role", "name": "r", "connection": "gone"}), "no mount")]
    #[case::no_type(json!({"name": "r", "connection": "c"}), "neither a policy nor a role")]
    #[case::another_type(json!({"type": "secret", "name": "r", "connection": "c"}), "neither a policy nor a role")]
    #[case::at_odds(
        json!({"type": "policy", "vaultPath": "auth/x/role/r", "connection": "c"}),
        "a path that is not of its type")]
    fn an_entry_that_leaves_a_doubt_is_not_guessed(#[case] item: Value, #[case] why: &str) {
        let refused = read(&item).unwrap_err();
        assert!(
            refused.starts_with(why) && refused.contains(&item.to_string()),
            "{refused}"
        );
    }

    #[rstest]
    #[case::no_text("", Some(0))]
    #[case::null("null", Some(0))]
    #[case::empty("[]", Some(0))]
    #[case::two("[{}, 1]", Some(2))]
    #[case::a_map("{}", None)]
    #[case::broken("[", None)]
    fn a_queue_is_a_list(#[case] text: &str, #[case] count: Option<usize>) {
        assert_eq!(items(text).ok().map(|items| items.len()), count);
    }
}
