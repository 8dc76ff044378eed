//! A kind of object, typed or known only at run time, and its API paths.

use kernel::ObjectKey;
use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};

/// A kind as the API server serves it. [`Kind::of`] makes one from a Rust type. For a kind that is known
/// only at run time, set the fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Kind in CamelCase.
    pub kind: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

/// Whether objects of a scope are namespaced.
pub trait InNamespace {
    /// True for namespaced objects.
    const NAMESPACED: bool;
}

impl InNamespace for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl InNamespace for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl Kind {
    /// The kind of a Rust type.
    pub fn of<K>() -> Self
    where
        K: Resource<DynamicType = ()>,
        K::Scope: InNamespace,
    {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: K::Scope::NAMESPACED,
        }
    }

    /// `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `plural.group`, the name of its CRD.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The path of its collection, in one namespace or in all.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let base = format!("{root}/{}", self.api_version());
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{base}/namespaces/{namespace}/{}", self.plural),
            None => format!("{base}/{}", self.plural),
        }
    }

    /// The path of one object.
    pub fn path(&self, key: &ObjectKey) -> String {
        format!("{}/{}", self.collection(key.namespace.as_deref()), key.name)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.kind, self.api_version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};

    #[test]
    fn paths_follow_group_and_scope() {
        let deployment = Kind::of::<Deployment>();
        assert_eq!(deployment.collection(None), "/apis/apps/v1/deployments");
        assert_eq!(
            deployment.path(&ObjectKey::namespaced("a", "b")),
            "/apis/apps/v1/namespaces/a/deployments/b"
        );
        assert_eq!(
            Kind::of::<Namespace>().path(&ObjectKey::cluster("a")),
            "/api/v1/namespaces/a"
        );
    }
}
