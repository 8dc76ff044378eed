//! CloudFront tenants with their DNS and certificates: the five kinds of
//! `cloudfront-tenant-operator.io/v1alpha1`.
//!
//! ```text
//! TenantSource -> DistributionTenant -> ConnectionGroup
//!                 Invalidation -> DistributionTenant
//! TenantPolicy: what the others may name, by namespace
//! ```
//! Objects that cloudfront-tenant-operator stored are valid here and read without loss. Hence in
//! this module: rules it did not have sit on the narrowest field (the API server forgives an
//! unchanged field, so a stored offender still takes status and loses its finalizer); its fields
//! carry no list type and no new `required`, which are not forgiven; and no field of a spec or
//! status accepts null, so that unset and null stay the same.

mod body;
mod certificate;
mod choices;
pub mod conditions;
mod dns;
pub mod events;
mod group;
mod interval;
mod invalidation;
pub mod names;
mod policy;
pub mod reasons;
mod records;
mod schema;
mod settings;
mod source;
mod status;
mod template;
mod tenant;
#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub use body::{BodyCertificateRequest, BodyGeoRestrictions, BodyWebAcl, GroupBody, TenantBody};
pub use certificate::{
    CertificateTransparency, ManagedCertificateRequest, TemplateCertificateRequest,
    ValidationTokenHost,
};
pub use choices::{AdoptBy, Adoption, DeletionPolicy, DriftPolicy, ObjectName};
pub use dns::{AliasPolicy, Dns, DnsProvider, RecordAdoption, zone_id};
pub use group::{
    ConnectionGroup, ConnectionGroupSpec, ConnectionGroupStatus, GroupAdoptBy, GroupAdoption,
};
pub use interval::Interval;
pub use invalidation::{Invalidation, InvalidationPhase, InvalidationSpec, InvalidationStatus};
pub use policy::{RoleGrant, TenantPolicy, TenantPolicySpec, TenantPolicyStatus};
pub use records::{
    DnsRecord, DriftedField, RecordState, RecordType, RequiredRecord, RequiredRecordType,
    ValidationToken,
};
pub use settings::{
    Certificate, Customizations, GeoRestrictions, Parameter, RestrictionType, Tag, TenantSettings,
    WebAcl, WebAclAction,
};
pub use source::{
    ChangeAction, ConfigMapSource, DynamoDbSource, PendingChange, PostgresSource, Prune,
    SecretName, SourceProvider, TenantSource, TenantSourceSpec, TenantSourceStatus,
};
pub use status::{DistributionTenantStatus, DomainResult};
pub use template::TenantTemplate;
pub use tenant::{DistributionTenant, DistributionTenantSpec, Domain};

/// The definitions of all five kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        DistributionTenant::crd(),
        TenantSource::crd(),
        ConnectionGroup::crd(),
        Invalidation::crd(),
        TenantPolicy::crd(),
    ]
}
