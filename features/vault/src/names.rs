//! What things are called in Vault: identities, derived names, role mounts.

use api::vault::names::{NAME_PREFIX, SENTINEL, SYSTEM_POLICIES};
use api::vault::{Auth, Defaults, NameFormat, RoleFamily, VaultConnection};
use vault_client::AuthMount;

use crate::place::Place;

/// Stands for the namespace of what is cluster-wide, and for an identity nobody gave.
const NOBODY: &str = "_";

/// How this cluster is called in derived names.
///
/// The cluster's name if it has one; else the login mount, made fit; else `_`.
pub fn identity(cluster_name: Option<&str>, login: Option<&AuthMount>) -> String {
    let given = cluster_name.map(str::to_owned);
    let identity = given
        .or_else(|| login.map(fit))
        .unwrap_or_else(|| NOBODY.to_owned());
    identity.to_lowercase()
}

/// A mount as a segment of a name. A bare `_` would read as nobody.
fn fit(mount: &AuthMount) -> String {
    let keeps = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let fit: String = mount
        .as_str()
        .chars()
        .map(|c| if keeps(c) { c } else { '-' })
        .collect();
    if fit == NOBODY { "-".to_owned() } else { fit }
}

/// How a connection derives names in Vault from objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Naming {
    pub(crate) format: NameFormat,
    pub(crate) identity: String,
}

impl Naming {
    pub(crate) fn new(connection: &VaultConnection, identity: String) -> Self {
        let defaults = connection.spec.defaults.as_ref();
        Self {
            format: defaults
                .map(|defaults| defaults.name_format)
                .unwrap_or_default(),
            identity,
        }
    }

    /// The name of an object in Vault, in lower case.
    pub(crate) fn derived(&self, namespace: Option<&str>, name: &str) -> String {
        let derived = match (self.format, namespace) {
            (NameFormat::Qualified, namespace) => {
                let namespace = namespace.unwrap_or(NOBODY);
                format!("{NAME_PREFIX}{}.{namespace}.{name}", self.identity)
            }
            (NameFormat::NamespaceName, Some(namespace)) => format!("{namespace}-{name}"),
            (NameFormat::NamespaceName, None) => name.to_owned(),
        };
        derived.to_lowercase()
    }

    /// Whether no object may have this name, which was derived. Qualified names cannot collide
    /// with anything.
    pub(crate) fn refuses(&self, place: &Place, auth: &Auth) -> bool {
        match self.format {
            NameFormat::Qualified => false,
            NameFormat::NamespaceName => is_reserved(place, auth),
        }
    }
}

/// The objects, as namespace and name, from which [`NameFormat::NamespaceName`] derives `name`.
pub(crate) fn sources(name: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let cluster_wide = std::iter::once((None, name));
    let namespaced = name.match_indices('-').map(|(at, dash)| {
        let (namespace, rest) = (&name[..at], &name[at + dash.len()..]);
        (Some(namespace), rest)
    });
    cluster_wide.chain(namespaced)
}

/// Whether a derived name is not an object's to have: Vault's own policies, what the operator itself
/// logs in by, and names in the other format.
fn is_reserved(place: &Place, auth: &Auth) -> bool {
    let name = place.name();
    let prefix = name.get(..NAME_PREFIX.len()).unwrap_or_default();
    if same(prefix, NAME_PREFIX) {
        return true;
    }
    match place {
        Place::Policy { .. } => {
            let mut own = SYSTEM_POLICIES.iter().chain([&SENTINEL]);
            own.any(|own| same(own, name))
        }
        Place::Role { mount, .. } => {
            let login = login_role(auth).is_some_and(|role| same(role, name));
            login && login_mount(auth).as_ref() == Some(mount)
        }
    }
}

/// The role that a connection logs in as, at its login mount.
fn login_role(auth: &Auth) -> Option<&str> {
    let roles = [
        auth.kubernetes.as_ref().map(|auth| &auth.role),
        auth.jwt.as_ref().map(|auth| &auth.role),
        auth.oidc.as_ref().map(|auth| &auth.role),
    ];
    roles.into_iter().flatten().next().map(String::as_str)
}

/// Vault compares names of policies and roles without regard to case.
pub fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The mount a connection logs in at; none for a static token.
pub fn login_mount(auth: &Auth) -> Option<AuthMount> {
    let Auth {
        kubernetes,
        app_role,
        jwt,
        oidc,
        aws,
        gcp,
        token: _,
        bootstrap: _,
        vault_namespace: _,
    } = auth;
    let path = kubernetes.as_ref().map(|auth| &auth.auth_path);
    let path = path.or_else(|| app_role.as_ref().map(|auth| &auth.mount_path));
    let path = path.or_else(|| jwt.as_ref().map(|auth| &auth.auth_path));
    let path = path.or_else(|| oidc.as_ref().map(|auth| &auth.auth_path));
    let path = path.or_else(|| aws.as_ref().map(|auth| &auth.auth_path));
    let path = path.or_else(|| gcp.as_ref().map(|auth| &auth.auth_path));
    path.map(|path| AuthMount::new(path))
}

/// Where the roles of a connection are written, and of which family they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleMount {
    /// The mount.
    pub mount: AuthMount,
    /// What its roles look like.
    pub family: RoleFamily,
}

/// A connection on which no role can be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the connection logs in where no roles for service accounts are; set its defaults.authPath to a kubernetes or jwt mount"
)]
pub struct NoRoleMount;

/// `defaults.authPath`, else the mount of a kubernetes, jwt or oidc login.
pub fn role_mount(defaults: Option<&Defaults>, auth: &Auth) -> Result<RoleMount, NoRoleMount> {
    let given = defaults
        .and_then(|defaults| defaults.auth_path.as_deref())
        .filter(|path| !path.is_empty());
    if let Some(path) = given {
        let mount = AuthMount::new(path);
        let told = defaults.and_then(|defaults| defaults.auth_type);
        let family = told
            .or_else(|| family_of(mount.as_str()))
            .ok_or(NoRoleMount)?;
        return Ok(RoleMount { mount, family });
    }
    let family = if auth.kubernetes.is_some() {
        RoleFamily::Kubernetes
    } else if auth.jwt.is_some() || auth.oidc.is_some() {
        RoleFamily::Jwt
    } else {
        return Err(NoRoleMount);
    };
    let mount = login_mount(auth).ok_or(NoRoleMount)?;
    Ok(RoleMount { mount, family })
}

/// The family a mount's first segment tells: the word alone, or followed by `-` or `_`.
fn family_of(mount: &str) -> Option<RoleFamily> {
    let first = mount.split('/').next().unwrap_or_default();
    let word = first.split(['-', '_']).next().unwrap_or_default();
    match word {
        "kubernetes" => Some(RoleFamily::Kubernetes),
        "jwt" => Some(RoleFamily::Jwt),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case::the_name_given(Some("Prod-1"), Some("kubernetes"), "prod-1")]
    #[case::the_login_mount(None, Some("auth/kubernetes/"), "kubernetes")]
    #[case::a_mount_made_fit(None, Some("team a/k8s.eu"), "team-a-k8s-eu")]
    #[case::a_mount_that_reads_as_nobody(None, Some("_"), "-")]
    #[case::nobody(None, None, "_")]
    fn identities(
        #[case] cluster: Option<&str>,
        #[case] mount: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(
            identity(cluster, mount.map(AuthMount::new).as_ref()),
            expected
        );
    }

    fn naming(format: NameFormat, identity: &str) -> Naming {
        let identity = identity.to_owned();
        Naming { format, identity }
    }

    #[test]
    fn derived_names_are_lower_case_and_keep_cluster_wide_apart() {
        let qualified = naming(NameFormat::Qualified, "kubernetes");
        assert_eq!(
            qualified.derived(Some("team-a"), "App"),
            "vao.kubernetes.team-a.app"
        );
        assert_eq!(qualified.derived(None, "shared"), "vao.kubernetes._.shared");
        assert_ne!(
            qualified.derived(None, "team-a-app"),
            qualified.derived(Some("team-a"), "app")
        );
        assert!(same("vao.K.a.b", "vao.k.a.B"));
    }

    #[rstest]
    #[case::of_a_namespace(Some("team-a"), "App", "team-a-app")]
    #[case::cluster_wide(None, "shared", "shared")]
    fn names_of_namespace_and_name(
        #[case] namespace: Option<&str>,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        let short = naming(NameFormat::NamespaceName, "kubernetes");
        let derived = short.derived(namespace, name);
        assert_eq!(derived, expected);
        let name = name.to_lowercase();
        assert!(sources(&derived).any(|source| source == (namespace, &*name)));
    }

    #[test]
    fn every_object_that_derives_a_name_is_found() {
        let found: Vec<_> = sources("team-a-app").collect();
        let expected = [
            (None, "team-a-app"),
            (Some("team"), "a-app"),
            (Some("team-a"), "app"),
        ];
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::root("sys/policies/acl/root", true)]
    #[case::default("sys/policies/acl/Default", true)]
    #[case::of_namespace_default("sys/policies/acl/default-ceiling", true)]
    #[case::the_operators_policy("sys/policies/acl/vault-access-operator", true)]
    #[case::a_qualified_name("sys/policies/acl/vao.kubernetes.team-a.app", true)]
    #[case::any_other("sys/policies/acl/default-app", false)]
    #[case::the_operators_role("auth/kubernetes/role/pontoon", true)]
    #[case::the_same_name_elsewhere("auth/kubernetes-x/role/pontoon", false)]
    #[case::a_role_called_default("auth/kubernetes/role/default", false)]
    fn reserved_names(#[case] path: &str, #[case] expected: bool) {
        let place = Place::parse(path).unwrap();
        let auth = auth(json!({"kubernetes": {"role": "pontoon"}}));
        assert_eq!(is_reserved(&place, &auth), expected);
    }

    fn auth(value: Value) -> Auth {
        serde_json::from_value(value).unwrap()
    }

    fn defaults(value: Value) -> Defaults {
        serde_json::from_value(value).unwrap()
    }

    #[rstest]
    #[case::of_the_login(json!({"kubernetes": {"role": "r"}}), None, Ok(("kubernetes", RoleFamily::Kubernetes)))]
    #[case::of_a_jwt_login(json!({"oidc": {"role": "r"}}), None, Ok(("oidc", RoleFamily::Jwt)))]
    #[case::as_told(json!({"kubernetes": {"role": "r"}}), Some(defaults(json!({"authPath": "auth/kubernetes-x/"}))), Ok(("kubernetes-x", RoleFamily::Kubernetes)))]
    #[case::with_its_family(json!({"token": {"secretRef": {"name": "n", "namespace": "m", "key": "k"}}}), Some(defaults(json!({"authPath": "my-mount", "authType": "jwt"}))), Ok(("my-mount", RoleFamily::Jwt)))]
    #[case::of_a_token(json!({"token": {"secretRef": {"name": "n", "namespace": "m", "key": "k"}}}), None, Err(NoRoleMount))]
    #[case::of_unknown_family(json!({"kubernetes": {"role": "r"}}), Some(defaults(json!({"authPath": "kubernetesx"}))), Err(NoRoleMount))]
    fn role_mounts(
        #[case] login: Value,
        #[case] defaults: Option<Defaults>,
        #[case] expected: Result<(&str, RoleFamily), NoRoleMount>,
    ) {
        let found = role_mount(defaults.as_ref(), &auth(login));
        let found = found.as_ref().map(|at| (at.mount.as_str(), at.family));
        assert_eq!(found, expected.as_ref().map(|e| *e));
    }
}
