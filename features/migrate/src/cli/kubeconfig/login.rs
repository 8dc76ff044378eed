//! The ServiceAccount of a login, its rights and its token. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::cli::clusters::calls::resource;
use crate::migration::observation::Side;
use crate::preflight::access::{Access, needed};

/// The name of the ServiceAccount, its roles and its bindings.
const NAME: &str = "pontoon-migrate-login";
/// The Secret of the token.
pub(super) const TOKEN_SECRET: &str = "pontoon-migrate-token";
/// Stands for every namespace.
const ANY_NAMESPACE: &str = "*";

/// An object of a login.
#[derive(Debug, Clone)]
pub(super) struct LoginObject {
    pub(super) resource: ApiResource,
    pub(super) body: Value,
}

impl fmt::Display for LoginObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = &self.body["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        match metadata["namespace"].as_str() {
            Some(namespace) => write!(f, "{} {namespace}/{name}", self.resource.kind),
            None => write!(f, "{} {name}", self.resource.kind),
        }
    }
}

/// The objects of the login in `namespace`, in the order in which they are applied. With `only` it may use
/// objects that are in a namespace in this one alone; pods may be listed in all.
pub(super) fn login_objects(namespace: &str, only: Option<&str>) -> Vec<LoginObject> {
    let object = |resource: ApiResource, metadata: Value, fields: Value| {
        let mut body = fields;
        body["apiVersion"] = json!(resource.api_version);
        body["kind"] = json!(resource.kind);
        body["metadata"] = metadata;
        LoginObject { resource, body }
    };
    let own = |name: &str| json!({"name": name, "namespace": namespace});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
    let binding = |kind: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
        json!({"roleRef": role, "subjects": subjects})
    };
    let token = json!({
        "name": TOKEN_SECRET, "namespace": namespace,
        "annotations": {"kubernetes.io/service-account.name": NAME},
    });
    let rights = Rights::of(only);
    let mut objects = vec![
        object(
            resource::<Namespace>(),
            json!({"name": namespace}),
            json!({}),
        ),
        object(resource::<ServiceAccount>(), own(NAME), json!({})),
        object(
            resource::<ClusterRole>(),
            json!({"name": NAME}),
            json!({"rules": rights.everywhere}),
        ),
        object(
            resource::<ClusterRoleBinding>(),
            json!({"name": NAME}),
            binding("ClusterRole"),
        ),
    ];
    if let Some(only) = only {
        let there = json!({"name": NAME, "namespace": only});
        objects.push(object(
            resource::<Role>(),
            there.clone(),
            json!({"rules": rights.there}),
        ));
        objects.push(object(resource::<RoleBinding>(), there, binding("Role")));
    }
    let kind = json!({"type": "kubernetes.io/service-account-token"});
    objects.push(object(resource::<Secret>(), token, kind));
    objects
}

/// The rules of the roles.
struct Rights {
    everywhere: Vec<Value>,
    there: Vec<Value>,
}

impl Rights {
    /// What a run needs on either side: a cluster may be the source of one run and the destination of another.
    fn of(only: Option<&str>) -> Self {
        let namespace = only.unwrap_or(ANY_NAMESPACE);
        let all: Vec<Access> = Side::BOTH
            .into_iter()
            .flat_map(|side| needed(side, namespace))
            .collect();
        let is_there = |access: &&Access| only.is_some() && access.namespace.is_some();
        Self {
            everywhere: rules(all.iter().filter(|access| !is_there(access))),
            there: rules(all.iter().filter(is_there)),
        }
    }
}

/// One rule for each group and set of verbs.
fn rules<'a>(needed: impl Iterator<Item = &'a Access>) -> Vec<Value> {
    let mut verbs: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for access in needed {
        let of_resource = verbs.entry((access.group, access.resource)).or_default();
        of_resource.insert(access.verb);
    }
    let mut resources: BTreeMap<(&str, BTreeSet<&str>), Vec<&str>> = BTreeMap::new();
    for ((group, resource), verbs) in verbs {
        resources.entry((group, verbs)).or_default().push(resource);
    }
    let rules = resources.into_iter().map(|((group, verbs), resources)| {
        json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn allows(rules: &Value, access: &Access) -> bool {
        let has = |list: &Value, text: &str| list.as_array().unwrap().contains(&json!(text));
        rules.as_array().unwrap().iter().any(|rule| {
            has(&rule["apiGroups"], access.group)
                && has(&rule["resources"], access.resource)
                && has(&rule["verbs"], access.verb)
        })
    }

    fn rules_of(objects: &[LoginObject], kind: &str) -> Value {
        let found = objects.iter().find(|object| object.resource.kind == kind);
        found.map_or(json!([]), |object| object.body["rules"].clone())
    }

    #[rstest]
    #[case::every_namespace(None)]
    #[case::one_namespace(Some("shop"))]
    fn a_login_may_do_what_a_run_needs(#[case] only: Option<&str>) {
        let objects = login_objects("pontoon-system", only);
        let (everywhere, there) = (
            rules_of(&objects, "ClusterRole"),
            rules_of(&objects, "Role"),
        );
        for side in Side::BOTH {
            for access in needed(side, "shop") {
                let is_allowed = allows(&everywhere, &access)
                    || (access.namespace.is_some() && allows(&there, &access));
                assert!(is_allowed, "{access}");
            }
        }
    }

    #[test]
    fn a_login_for_one_namespace_writes_in_no_other() {
        let objects = login_objects("pontoon-system", Some("shop"));
        let everywhere = rules_of(&objects, "ClusterRole");
        let write = Access {
            group: "apps",
            resource: "statefulsets",
            verb: "delete",
            namespace: None,
        };
        assert!(!allows(&everywhere, &write));
        assert!(allows(&rules_of(&objects, "Role"), &write));
    }

    #[test]
    fn the_objects_are_applied_in_order() {
        let objects = login_objects("pontoon-system", Some("shop"));
        let titles: Vec<_> = objects.iter().map(ToString::to_string).collect();
        let expected = [
            "Namespace pontoon-system",
            "ServiceAccount pontoon-system/pontoon-migrate-login",
            "ClusterRole pontoon-migrate-login",
            "ClusterRoleBinding pontoon-migrate-login",
            "Role shop/pontoon-migrate-login",
            "RoleBinding shop/pontoon-migrate-login",
            "Secret pontoon-system/pontoon-migrate-token",
        ];
        assert_eq!(titles, expected);
        assert_eq!(
            objects[2].body["apiVersion"],
            "rbac.authorization.k8s.io/v1"
        );
        assert_eq!(
            objects[3].body["subjects"][0]["namespace"],
            "pontoon-system"
        );
    }
}
