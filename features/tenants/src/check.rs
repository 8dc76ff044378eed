//! What is wrong with a tenant before CloudFront is asked: its name, its distribution, its
//! certificate. Pure.

#[cfg(test)]
mod tests;

use api::tenants::{TenantBody, reasons};
use kernel::Reason;

use crate::body::{Body, domain};
use crate::words::few;

/// A distribution, as far as tenants need it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Distribution {
    pub(crate) id: String,
    /// Whether it takes tenants: its connection mode is tenant-only.
    pub(crate) tenant_only: bool,
    /// Its own certificate of ACM.
    pub(crate) certificate_arn: Option<String>,
    pub(crate) parameters: Vec<Definition>,
}

/// A parameter that a distribution defines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) default: Option<String>,
}

/// What is known of the distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Told<'a> {
    Known(&'a Distribution),
    /// CloudFront has none of that id.
    Missing,
    /// It could not be read; what needs it is not checked.
    Unread,
}

/// What is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The object's name, if it is the tenant's: without `spec.tenantName`.
    pub(crate) object_name: Option<&'a str>,
    pub(crate) declared: &'a TenantBody,
    /// The certificate the tenant is to have: the spec's, or one that stays attached.
    pub(crate) certificate: Option<&'a str>,
}

/// Why a spec is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failures(Vec<String>);

impl Failures {
    /// Ready and Synced are False for this.
    pub(crate) fn reason(&self) -> Reason {
        Reason::new(reasons::VALIDATION_FAILED, self.0.join("; "))
    }
}

/// Everything that is wrong with a spec, on creation and when it changed.
///
/// What is told of the distribution from a while ago is read afresh before this is said.
pub(crate) fn failures(subject: &Subject<'_>, parent: Told<'_>) -> Option<Failures> {
    let name = subject.object_name.and_then(name_failure);
    let remote = match parent {
        Told::Known(distribution) => distribution_failures(subject, distribution),
        Told::Missing => vec![format!(
            "distribution {} does not exist in this account; correct spec.distributionId",
            subject.declared.distribution_id
        )],
        Told::Unread => vec![],
    };
    let failures: Vec<String> = name.into_iter().chain(remote).collect();
    (!failures.is_empty()).then_some(Failures(failures))
}

fn name_failure(name: &str) -> Option<String> {
    let outer = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
    let fits = (3..=128).contains(&name.len())
        && name.starts_with(outer)
        && name.ends_with(outer)
        && name.chars().all(|one| outer(one) || ".-".contains(one));
    (!fits).then(|| {
        format!(
            "the object's name {name:.140} cannot be a tenant's name, which has 3 to 128 lower-case \
             letters, digits, dots and dashes between letters or digits; set spec.tenantName"
        )
    })
}

fn distribution_failures(subject: &Subject<'_>, distribution: &Distribution) -> Vec<String> {
    let id = &distribution.id;
    let declared = subject.declared;
    let mode = (!distribution.tenant_only).then(|| {
        format!("distribution {id} takes no tenants: its connection mode is not tenant-only")
    });
    let covered = distribution.certificate_arn.is_some()
        || subject.certificate.is_some()
        || declared.managed_certificate_request.is_some();
    let certificate = (!covered).then(|| {
        format!(
            "distribution {id} has no ACM certificate and the tenant names none; set \
             spec.customizations.certificate or spec.managedCertificateRequest"
        )
    });
    let defined = distribution.parameters.iter();
    let missing = defined.filter(|one| {
        one.required && one.default.is_none() && !declared.parameters.contains_key(&one.name)
    });
    let missing: Vec<&str> = missing.map(|one| one.name.as_str()).collect();
    let parameters = (!missing.is_empty()).then(|| {
        format!(
            "distribution {id} requires parameters without a default: {}; set them in \
             spec.parameters",
            missing.join(", ")
        )
    });
    [mode, certificate, parameters]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether the certificate has to be checked against the domains: at creation, and when either
/// changed. Never for a managed request, whose certificate follows the domains.
pub(crate) fn names_are_due(last: Option<&Body>, desired: &Body, asked: bool) -> bool {
    let changed = last.is_none_or(|last| {
        let moved = last.distribution_id != desired.distribution_id;
        last.domains != desired.domains
            || last.certificate_arn != desired.certificate_arn
            || (moved && desired.certificate_arn.is_none())
    });
    changed && !asked
}

/// Why no DNS record and no tenant is written: domains that the certificate does not cover.
pub(crate) fn uncovered<'a>(
    arn: &str,
    names: &[String],
    domains: impl IntoIterator<Item = &'a String>,
) -> Option<Reason> {
    let bare = |domain: &&String| !names.iter().any(|name| covers(name, domain));
    let bare: Vec<&String> = domains.into_iter().filter(bare).collect();
    if bare.is_empty() {
        return None;
    }
    let message = format!(
        "certificate {arn} covers {} and not {}; use one that covers every domain, or set \
         spec.managedCertificateRequest",
        few(names),
        few(&bare)
    );
    Some(Reason::new(reasons::CERTIFICATE_SAN_MISMATCH, message))
}

const UNCHECKED: &str = "covers the domains was not checked";

/// What CertificateReady says when `certificate` could not be looked at.
pub(crate) fn unchecked(certificate: &str, why: &str) -> String {
    format!("whether {certificate} {UNCHECKED}: {why}")
}

/// Whether a message says so.
pub(crate) fn is_unchecked(message: &str) -> bool {
    message.contains(UNCHECKED)
}

/// Equal, or `*.x` for exactly one more label. Case does not count.
fn covers(name: &str, wanted: &str) -> bool {
    let (name, wanted) = (domain(name), domain(wanted));
    match (name.strip_prefix("*."), wanted.split_once('.')) {
        _ if name == wanted => true,
        (Some(base), Some((label, rest))) => !label.is_empty() && base == rest,
        (Some(_), None) | (None, _) => false,
    }
}
