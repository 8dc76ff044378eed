//! CloudFront distribution tenants, with their DNS records and certificates.
//!
//! ```text
//! TenantSource ──▶ DistributionTenant ──▶ ConnectionGroup
//!                  Invalidation ──▶ DistributionTenant
//! TenantPolicy: what the others may name, by namespace
//! ```
//! # Watches
//! Its five kinds; labels and annotations of namespaces. Secrets and ConfigMaps never: a source
//! reads the ones it names.
//! # Owns
//! In CloudFront: tenants and groups that carry the object's marker or are on its record. In
//! Route 53: records whose names carry the object's ownership TXT or are on its record. Here:
//! DistributionTenants that a source made.
//! # Promises
//! - What is not ours is neither written nor deleted; taking over is explicit.
//! - A lost answer or a crash makes no second tenant and leaks none, nor a record.
//! - While nothing changes, nothing is written, and a hundred tenants cost one call a sweep.
//! - A finalizer goes when AWS has confirmed, or when the policy is `Retain`.

mod allowed;
mod body;
mod certificate;
mod check;
mod cli;
mod ctx;
mod diff;
mod dns;
mod failure;
mod feature;
mod follow;
mod group;
mod holders;
mod invalidation;
mod live;
mod memory;
mod metrics;
mod outside;
mod policy;
mod settings;
pub mod source;
mod sweep;
mod tags;
mod tenant;
mod told;
mod trouble;
mod words;

pub use feature::TenantsFeature;
