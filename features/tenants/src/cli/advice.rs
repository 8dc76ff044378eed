//! What to do about AWS's errors, for whoever asks at a terminal.

use aws::{Error, Fault};

/// Where advice begins that needs more looks than one verb takes.
pub(super) const DOCTOR: &str = "pontoon doctor --feature tenants says whether AWS can be asked";

/// An error of AWS, and what to do next.
pub(super) fn told(error: &Error) -> String {
    match next(error.fault()) {
        Some(next) => format!("{error}; {next}"),
        None => error.to_string(),
    }
}

/// What to do next, where the error itself does not say.
fn next(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Credentials => Some(
            "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ask in the \
             operator's Pod, which has its own",
        ),
        Fault::Passing => Some(
            "check the network, proxies and AWS_ENDPOINT_URL, and try again; perhaps AWS can only \
             be reached from the operator's Pod",
        ),
        Fault::DistributionMissing | Fault::EntityMissing | Fault::OtherMissing => {
            Some("check the id, and by AWS_PROFILE whose account is asked")
        }
        Fault::Throttled | Fault::ZoneBusy => Some("try again in a minute"),
        // The text names the right that is missing.
        Fault::Denied => None,
        Fault::DomainTaken
        | Fault::NameTaken
        | Fault::OwnershipUnverified
        | Fault::InvalidSpec
        | Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::LimitExceeded
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::InvalidRecords
        | Fault::Refused
        | Fault::Deposed => Some("correct what was asked, and try again"),
    }
}

#[cfg(test)]
mod tests {
    use aws::{Operation, Refusal};
    use rstest::rstest;

    use super::*;

    fn refused(status: u16, code: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            operation: Operation::ListDistributionTenants,
            resource: "E9".to_owned(),
            code: code.to_owned(),
            message: "some text".to_owned(),
            status,
            request_id: None,
        }))
    }

    fn none(passing: bool) -> Error {
        Error::Credentials {
            reason: "no source has any".to_owned(),
            passing,
        }
    }

    #[rstest]
    #[case::no_credentials(none(false), "no source has any; set AWS_PROFILE")]
    #[case::refused_ones(refused(403, "ExpiredToken"), "some text; set AWS_PROFILE")]
    #[case::unreachable(none(true), "check the network")]
    #[case::a_wrong_id(refused(404, "EntityNotFound"), "some text; check the id")]
    #[case::denied(
        refused(403, "AccessDenied"),
        "our policy in AWS must allow cloudfront:ListDistributionTenants"
    )]
    #[case::throttled(refused(400, "Throttling"), "try again in a minute")]
    fn an_error_says_what_to_do(#[case] error: Error, #[case] said: &str) {
        let told = told(&error);
        assert!(told.contains(said), "{told}");
    }
}
