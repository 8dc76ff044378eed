//! The errors of EC2.

use crate::protocol::{ApiError, Protocol};

pub(super) fn bad(code: &str, message: &str) -> ApiError {
    ApiError::new(400, code, message)
}

pub(super) fn missing(parameter: &str) -> ApiError {
    let message = format!("The request must contain the parameter {parameter}");
    bad("MissingParameter", &message)
}

pub(super) fn invalid(message: &str) -> ApiError {
    bad("InvalidParameterValue", message)
}

pub(super) fn no_volume(id: &str) -> ApiError {
    Protocol::Ec2.not_found(id)
}

/// Several ids of a list that do not exist.
pub(super) fn no_volumes(ids: &[&str]) -> ApiError {
    match ids {
        [id] => no_volume(id),
        several => {
            let message = format!("The volumes '{}' do not exist.", several.join(", "));
            bad("InvalidVolume.NotFound", &message)
        }
    }
}

pub(super) fn no_snapshot(id: &str) -> ApiError {
    let message = format!("The snapshot '{id}' does not exist.");
    bad("InvalidSnapshot.NotFound", &message)
}

pub(super) fn no_instance(id: &str) -> ApiError {
    let message = format!("The instance ID '{id}' does not exist");
    bad("InvalidInstanceID.NotFound", &message)
}

pub(super) fn incorrect_state(message: &str) -> ApiError {
    bad("IncorrectState", message)
}

/// The answer to a dry run that would have been allowed.
pub(super) fn dry_run() -> ApiError {
    let message = "Request would have succeeded, but DryRun flag is set.";
    ApiError::new(412, "DryRunOperation", message)
}
