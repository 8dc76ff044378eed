//! Condition types: what each is a statement about.

/// What the object declares holds. Of a tenant or group: its current generation is deployed.
pub const READY: &str = "Ready";
/// AWS was given what the object declares and still holds it.
pub const SYNCED: &str = "Synced";
/// The managed certificate is attached, or none is asked for.
pub const CERTIFICATE_READY: &str = "CertificateReady";
/// The domains' DNS records are in place, or are nobody's business here.
pub const DNS_READY: &str = "DNSReady";
/// Every object of a source has its row.
pub const PRUNED: &str = "Pruned";
