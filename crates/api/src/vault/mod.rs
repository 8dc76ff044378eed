//! Vault access, declared per namespace: the six kinds of `vault.platform.io/v1alpha1`.
//!
//! ```text
//! VaultConnection <- VaultPolicy, VaultClusterPolicy <- VaultRole, VaultClusterRole
//!                 <- VaultKVSecret
//! ```
//! Objects that vault-access-operator stored are valid here and read without loss. Hence in this
//! module: its fields carry no list type and nothing it left optional is required (neither is
//! ratcheted, so a stored offender could not even lose its finalizer); every field of a status may
//! be absent; and no field of a spec or status accepts null, so that unset and null stay the same.

mod auth;
mod choices;
pub mod conditions;
mod connection;
mod duration;
mod kv;
pub mod names;
mod policy;
pub mod reasons;
mod role;
mod schema;
mod status;
mod tenancy;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use auth::{
    AppRoleAuth, Auth, AwsAuth, AwsAuthType, Bootstrap, GcpAuth, GcpAuthType, JwtAuth,
    KubernetesAuth, OidcAuth, RenewalStrategy, TokenAuth,
};
pub use choices::{
    Capability, ConflictPolicy, DeletionPolicy, DriftMode, NamespaceChoice, SecretKey, SecretName,
};
pub use connection::{
    AuthStatus, Defaults, DiscoveredResource, Discovery, DiscoveryStatus, NameFormat, RateLimit,
    RoleFamily, Tls, VaultConnection, VaultConnectionSpec, VaultConnectionStatus,
};
pub use duration::{Duration, InvalidDuration};
pub use kv::{Seed, VaultKVSecret, VaultKVSecretSpec, VaultKVSecretStatus};
pub use policy::{
    Parameters, PolicyRule, PolicySpec, PolicyStatus, VaultClusterPolicy, VaultClusterPolicySpec,
    VaultPolicy, VaultPolicySpec,
};
pub use role::{
    AliasNameSource, BoundClaimsType, JwtRole, PolicyKind, PolicyReference, ResolveBy, RoleSpec,
    RoleType, SelectedServiceAccounts, ServiceAccount, ServiceAccountBinding, TokenType,
    VaultClusterRole, VaultClusterRoleSpec, VaultRole, VaultRoleSpec,
};
pub use status::{
    Binding, Intent, IntentKind, Phase, PolicyBinding, PreviousName, RoleStatus, SplitRole,
    SyncStatus,
};
pub use tenancy::{Ceiling, CrossNamespaceRefs, Permission, Template, Tenancy};

/// The definitions of all six kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        VaultConnection::crd(),
        VaultPolicy::crd(),
        VaultClusterPolicy::crd(),
        VaultRole::crd(),
        VaultClusterRole::crd(),
        VaultKVSecret::crd(),
    ]
}
