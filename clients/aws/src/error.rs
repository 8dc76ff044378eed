//! Errors of calls, with the resource and the classification.

use std::fmt;

use kernel::{CallError, Class, Deposed};

use crate::{Fault, InvalidRole, Operation, sts};

/// Why a call failed. Messages are redacted before they get here.
///
/// It can be cloned: all callers that wait for credentials get the error of fetching them. The
/// message is the same for the same cause, so that a condition does not change with every try.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// AWS refused the call and gave a reason.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// No answer came in time, or the connection broke. The call may have had its effect: read
    /// before repeating it.
    #[error("{operation}{}: no answer from AWS: {reason}", on(.resource))]
    NoAnswer {
        /// The operation.
        operation: Operation,
        /// The resource it is about.
        resource: String,
        /// The error of the connection, or the time-out.
        reason: String,
    },
    /// The answer cannot be read: it is not from AWS, or of an unknown form. The call may have had
    /// its effect.
    #[error("{operation}{}: the answer cannot be read: {reason}", on(.resource))]
    Unreadable {
        /// The operation.
        operation: Operation,
        /// The resource it is about.
        resource: String,
        /// Why the answer cannot be read.
        reason: String,
    },
    /// The request cannot be built from its arguments. Nothing was sent.
    #[error("{operation}{}: the request is not valid: {wrong}", on(.resource))]
    Request {
        /// The operation.
        operation: Operation,
        /// The resource it is about.
        resource: String,
        /// Why the request is not valid.
        wrong: String,
    },
    /// There are no credentials of our own. A role that its owner refuses is
    /// [`Refused`](Self::Refused).
    #[error("no AWS credentials: {reason}")]
    Credentials {
        /// The messages of the sources.
        reason: String,
        /// Whether a source failed with a transient error.
        passing: bool,
    },
    /// The ARN is not that of a role.
    #[error(transparent)]
    Role(#[from] InvalidRole),
    /// We may not write any more.
    #[error(transparent)]
    Deposed(#[from] Deposed),
}

/// AWS's error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The operation.
    pub operation: Operation,
    /// The resource it is about; empty if there is none.
    pub resource: String,
    /// AWS's code; empty if the answer had none.
    pub code: String,
    /// AWS's message.
    pub message: String,
    /// HTTP status.
    pub status: u16,
    /// The id that AWS's support asks for. Not part of the message, because it differs each time.
    pub request_id: Option<String>,
}

impl Refusal {
    /// The fault it stands for.
    pub fn fault(&self) -> Fault {
        let service = self.operation.service();
        Fault::of(service, self.status, &self.code, &self.message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operation,
            resource,
            code,
            message,
            status,
            request_id: _,
        } = self;
        let on = on(resource);
        let reason = match (code.is_empty(), message.is_empty()) {
            (true, true) => format!("status {status}"),
            (true, false) => format!("status {status}: {message}"),
            (false, true) => code.clone(),
            (false, false) => format!("{code}: {message}"),
        };
        match self.fault() {
            Fault::Denied => write!(
                f,
                "{operation}{on} is denied: {reason}; our policy in AWS must allow {operation}"
            ),
            Fault::Credentials => write!(
                f,
                "{operation}{on}: AWS does not accept our credentials: {reason}"
            ),
            Fault::DomainTaken
            | Fault::NameTaken
            | Fault::OwnershipUnverified
            | Fault::InvalidSpec
            | Fault::DistributionMissing
            | Fault::EntityMissing
            | Fault::ZoneMissing
            | Fault::ChangeMissing
            | Fault::OtherMissing
            | Fault::LimitExceeded
            | Fault::Stale
            | Fault::NotDisabled
            | Fault::InUse
            | Fault::Throttled
            | Fault::ZoneBusy
            | Fault::InvalidRecords
            | Fault::Refused
            | Fault::Passing
            | Fault::Deposed => write!(f, "{operation}{on}: {reason}"),
        }
    }
}

impl std::error::Error for Refusal {}

fn on(resource: &str) -> String {
    if resource.is_empty() {
        return String::new();
    }
    format!(" {resource}")
}

impl Error {
    /// The fault: as fine as any caller needs it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused(refusal) => refusal.fault(),
            Self::NoAnswer { .. } | Self::Unreadable { .. } => Fault::Passing,
            Self::Credentials { passing: true, .. } => Fault::Passing,
            Self::Credentials { passing: false, .. } => Fault::Credentials,
            Self::Request { .. } | Self::Role(_) => Fault::InvalidSpec,
            Self::Deposed(_) => Fault::Deposed,
        }
    }

    /// The class of the fault.
    pub fn class(&self) -> Class {
        self.fault().class()
    }

    /// AWS's error response, if there was one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::NoAnswer { .. }
            | Self::Unreadable { .. }
            | Self::Request { .. }
            | Self::Credentials { .. }
            | Self::Role(_)
            | Self::Deposed(_) => None,
        }
    }

    /// AWS's code, if it gave one.
    pub fn code(&self) -> Option<&str> {
        let refusal = self.refusal()?;
        Some(refusal.code.as_str()).filter(|code| !code.is_empty())
    }

    /// The operation that failed. If fetching a role's credentials failed, this is
    /// [`Operation::AssumeRole`] whatever they were needed for.
    pub fn operation(&self) -> Option<Operation> {
        match self {
            Self::Refused(refusal) => Some(refusal.operation),
            Self::NoAnswer { operation, .. }
            | Self::Unreadable { operation, .. }
            | Self::Request { operation, .. } => Some(*operation),
            Self::Credentials { .. } | Self::Role(_) | Self::Deposed(_) => None,
        }
    }

    /// Whether the call was not sent because STS gave no credentials for it.
    pub fn lacks_credentials(&self) -> bool {
        self.operation().is_some_and(sts::opens_session)
    }

    /// Whether nothing was sent to AWS because the request is not valid.
    pub fn is_our_refusal(&self) -> bool {
        match self {
            Self::Request { .. } | Self::Role(_) => true,
            Self::Refused(_)
            | Self::NoAnswer { .. }
            | Self::Unreadable { .. }
            | Self::Credentials { .. }
            | Self::Deposed(_) => false,
        }
    }

    /// Whether the call may have had its effect although it failed: read before repeating it.
    pub fn may_have_happened(&self) -> bool {
        if self.lacks_credentials() {
            return false;
        }
        match self {
            Self::NoAnswer { .. } | Self::Unreadable { .. } => true,
            // An internal error of AWS does not show how far the call got.
            Self::Refused(refusal) => refusal.fault() == Fault::Passing,
            Self::Request { .. } | Self::Credentials { .. } | Self::Role(_) | Self::Deposed(_) => {
                false
            }
        }
    }

    /// Whether CloudFront could not verify yet that a domain is ours; see
    /// [`Fault::OwnershipUnverified`].
    pub fn is_ownership_unverified(&self) -> bool {
        self.fault() == Fault::OwnershipUnverified
    }
}

/// An error of AWS as the core of a kind sees it. [`Fault::of_call`] gives the fault back.
impl From<&Error> for CallError {
    fn from(error: &Error) -> Self {
        let mut converted = Self::new(error.class(), error.to_string());
        converted.code = error.refusal().map(|refusal| refusal.code.clone());
        converted.may_have_happened = error.may_have_happened();
        converted
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Service;

    fn refused(operation: Operation, code: &str, message: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            operation,
            resource: "acme".to_owned(),
            code: code.to_owned(),
            message: message.to_owned(),
            status: 403,
            request_id: Some("1-2-3".to_owned()),
        }))
    }

    #[test]
    fn a_denial_names_the_action_to_allow() {
        let error = refused(
            Operation::CreateDistributionTenant,
            "AccessDenied",
            "User: x is not authorized",
        );
        assert_eq!(
            error.to_string(),
            "cloudfront:CreateDistributionTenant acme is denied: AccessDenied: User: x is not \
             authorized; our policy in AWS must allow cloudfront:CreateDistributionTenant"
        );
        assert_eq!(error.class(), Class::Denied);
    }

    #[test]
    fn the_text_has_awss_message_but_no_request_id() {
        let error = refused(Operation::GetChange, "NoSuchChange", "Could not find it");
        assert_eq!(
            error.to_string(),
            "route53:GetChange acme: NoSuchChange: Could not find it"
        );
        assert!(format!("{error:?}").contains("1-2-3"));
    }

    #[test]
    fn an_existing_record_is_recognised_among_faults_of_a_batch() {
        let there = "[Tried to create resource record set [name='a.', type='CNAME'] but it \
                     already exists]";
        let change = Operation::ChangeResourceRecordSets;
        assert!(refused(change, "InvalidChangeBatch", there).is_record_there());
        assert!(!refused(change, "InvalidChangeBatch", "not found").is_record_there());
    }

    #[test]
    fn only_what_was_sent_may_have_happened() {
        let lost = Error::NoAnswer {
            operation: Operation::CreateDistributionTenant,
            resource: "acme".to_owned(),
            reason: "time-out".to_owned(),
        };
        assert!(lost.may_have_happened());
        assert_eq!(lost.class(), Class::Transient);
        assert!(!Error::from(Deposed).may_have_happened());
        let denied = refused(Operation::CreateDistributionTenant, "AccessDenied", "");
        assert!(!denied.may_have_happened());
    }

    #[rstest]
    #[case::the_call_itself(Operation::ChangeResourceRecordSets, true)]
    #[case::a_roles_credentials(Operation::AssumeRole, false)]
    #[case::our_own_credentials(Operation::AssumeRoleWithWebIdentity, false)]
    fn a_call_may_have_happened_if_there_were_credentials_for_it(
        #[case] operation: Operation,
        #[case] may: bool,
    ) {
        let resource = "acme".to_owned();
        let lost = Error::NoAnswer {
            operation,
            resource: resource.clone(),
            reason: "time-out".to_owned(),
        };
        let odd = Error::Unreadable {
            operation,
            resource: resource.clone(),
            reason: "no XML".to_owned(),
        };
        let broken = Error::Refused(Box::new(Refusal {
            operation,
            resource,
            code: "InternalError".to_owned(),
            message: String::new(),
            status: 500,
            request_id: None,
        }));
        for error in [lost, odd, broken] {
            assert_eq!(error.may_have_happened(), may, "{error}");
            assert_eq!(error.class(), Class::Transient);
        }
    }

    #[rstest]
    #[case::name_taken("EntityAlreadyExists", 409)]
    #[case::missing("EntityNotFound", 404)]
    #[case::nothing_to_tag("NoSuchResource", 404)]
    #[case::not_disabled("ResourceNotDisabled", 409)]
    #[case::in_use("ResourceInUse", 409)]
    #[case::expired("ExpiredToken", 403)]
    #[case::unknown_refusal("SomethingNew", 400)]
    #[case::internal("InternalError", 500)]
    #[case::a_page_of_a_proxy("", 503)]
    fn a_call_error_gives_the_fault_back(#[case] code: &str, #[case] status: u16) {
        let error = Error::Refused(Box::new(Refusal {
            operation: Operation::UpdateConnectionGroup,
            resource: "edge".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            status,
            request_id: None,
        }));
        let call_error = CallError::from(&error);
        assert_eq!(call_error.class, error.class());
        let fault = Fault::of_call(Service::CloudFront, &call_error);
        assert_eq!(fault, error.fault());
    }

    #[test]
    fn an_error_without_a_code_gives_the_fault_of_its_class() {
        let lost = Error::NoAnswer {
            operation: Operation::CreateConnectionGroup,
            resource: "edge".to_owned(),
            reason: "time-out".to_owned(),
        };
        let keys = Error::Credentials {
            reason: "none".to_owned(),
            passing: false,
        };
        for error in [lost, keys, Deposed.into()] {
            let call_error = CallError::from(&error);
            assert_eq!(call_error.may_have_happened, error.may_have_happened());
            let fault = Fault::of_call(Service::CloudFront, &call_error);
            assert_eq!(fault, error.fault());
        }
    }
}
