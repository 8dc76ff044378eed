//! CloudFront's errors, in its codes and as close to its words as is known.

use crate::protocol::ApiError;

pub(crate) fn invalid(told: &str) -> ApiError {
    ApiError::new(400, "InvalidArgument", told)
}

/// `what` names the kind: a distribution tenant, a connection group, a distribution.
pub(crate) fn not_found(what: &str, id: &str) -> ApiError {
    let told = format!("The specified {what} does not exist: {id}");
    ApiError::new(404, "EntityNotFound", &told)
}

pub(crate) fn exists(what: &str, name: &str) -> ApiError {
    let told = format!("A {what} with the name {name} already exists.");
    ApiError::new(409, "EntityAlreadyExists", &told)
}

pub(crate) fn domain_taken() -> ApiError {
    let told =
        "One or more of the CNAMEs you provided are already associated with a different resource.";
    ApiError::new(409, "CNAMEAlreadyExists", told)
}

pub(crate) fn unverified(domain: &str) -> ApiError {
    invalid(&format!(
        "Could not verify Domain Name ownership for {domain}. Make sure that its DNS record points to the routing endpoint, or that the certificate covers it."
    ))
}

pub(crate) fn no_version() -> ApiError {
    let told = "The If-Match version is missing or not valid for the resource.";
    ApiError::new(400, "InvalidIfMatchVersion", told)
}

pub(crate) fn stale() -> ApiError {
    let told = "The precondition in one or more of the request-header fields evaluated to false.";
    ApiError::new(412, "PreconditionFailed", told)
}

pub(crate) fn not_disabled(what: &str) -> ApiError {
    let told = format!("The {what} you are trying to delete has not been disabled.");
    ApiError::new(409, "ResourceNotDisabled", &told)
}

/// Compares the version a write must name with the one there is.
pub(crate) fn matched(sent: Option<&str>, etag: &str) -> Result<(), ApiError> {
    match sent.map(|sent| sent.trim_matches('"')) {
        None | Some("") => Err(no_version()),
        Some(sent) if sent == etag => Ok(()),
        Some(_) => Err(stale()),
    }
}
