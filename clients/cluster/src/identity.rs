//! Which cluster an API server belongs to.

use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use kernel::{CallError, Class, ClusterId, InvalidClusterId};
use kube::core::Status;
use kube::{Api, Client, Error};

/// Every cluster has this namespace, and nobody can create it anew.
const NAMESPACE: &str = "kube-system";
const READ: &str = "get Namespace kube-system";

/// A cluster, by the UID of its namespace `kube-system`. It stays when addresses, certificates and
/// logins change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterIdentity(ClusterId);

impl ClusterIdentity {
    /// The cluster with this UID, as read from a server or from where it was recorded.
    pub fn new(uid: impl Into<String>) -> Result<Self, InvalidClusterId> {
        ClusterId::new(uid).map(Self)
    }

    /// The UID.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The same for markers.
    pub fn cluster_id(&self) -> &ClusterId {
        &self.0
    }
}

impl fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What reading the identity of a cluster means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No cluster was pinned; this one is from now on. Record it before the first effect.
    First(ClusterIdentity),
    /// It is the cluster that was pinned.
    Same,
    /// It is another cluster. Only a person can decide that it is the right one.
    Another {
        /// The cluster that was pinned.
        pinned: ClusterIdentity,
        /// The cluster that answered.
        seen: ClusterIdentity,
    },
    /// Which cluster it is could not be read. Nothing is known to be wrong.
    Unverified(CallError),
}

impl Verdict {
    /// Why nothing may be written, if so.
    pub fn error(&self) -> Option<CallError> {
        match self {
            Self::First(_) | Self::Same => None,
            Self::Another { pinned, seen } => {
                let message = format!(
                    "the server belongs to another cluster than before: the UID of its namespace \
                     {NAMESPACE} is {seen}, and {pinned} is expected; nothing is written; restore the \
                     kubeconfig of the expected cluster, or accept the new one"
                );
                Some(CallError::new(Class::Conflict, message))
            }
            Self::Unverified(error) => Some(error.clone()),
        }
    }
}

/// What it means that `seen` was read while `pinned` was pinned.
///
/// | pinned | seen           | verdict         |
/// |--------|----------------|-----------------|
/// | none   | a              | First: a        |
/// | a      | a              | Same            |
/// | a      | b              | Another: a, b   |
/// | any    | cannot be read | Unverified      |
pub fn observed(
    pinned: Option<&ClusterIdentity>,
    seen: Result<ClusterIdentity, CallError>,
) -> Verdict {
    match (pinned, seen) {
        (_, Err(error)) => Verdict::Unverified(error),
        (None, Ok(seen)) => Verdict::First(seen),
        (Some(pinned), Ok(seen)) if *pinned == seen => Verdict::Same,
        (Some(pinned), Ok(seen)) => Verdict::Another {
            pinned: pinned.clone(),
            seen,
        },
    }
}

/// Reads which cluster `client` is connected to: one GET of metadata. It takes as long as a call of
/// `client` may take.
///
/// # Errors
/// Classified, with what to do. Nothing was written.
pub async fn read_identity(client: &Client) -> Result<ClusterIdentity, CallError> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let found = namespaces.get_metadata(NAMESPACE).await;
    let found = found.map_err(|error| classified(&error))?;
    let uid = found.metadata.uid.unwrap_or_default();
    ClusterIdentity::new(uid).map_err(|_| {
        let message = format!("{READ}: the answer has no UID; {SERVER}");
        CallError::new(Class::Invalid, message)
    })
}

const SERVER: &str = "check that the address is that of a Kubernetes API server";
const LOGIN: &str = "put a login into the kubeconfig that is still valid";
const PERMISSION: &str = "allow the login to get the namespace kube-system";

/// | answer        | class       | what to do            |
/// |---------------|-------------|-----------------------|
/// | 401           | Denied      | renew the login       |
/// | 403           | Denied      | grant the permission  |
/// | 404           | NotFound    | check the address     |
/// | 429           | Throttled   | it is tried again     |
/// | other 4xx     | Invalid     | check the address     |
/// | other status  | Transient   | it is tried again     |
/// | not an object | Transient   | check the address     |
/// | none          | Unreachable | check address and CA  |
fn classified(error: &Error) -> CallError {
    match error {
        Error::Api(status) => answered(status),
        Error::SerdeError(_) => {
            let message = format!("{READ}: the answer is not an object of Kubernetes; {SERVER}");
            CallError::new(Class::Transient, message)
        }
        other => {
            let message = format!(
                "{READ}: no answer: {}; check the address and the authority in the kubeconfig, and the \
                 network",
                chain(other)
            );
            CallError::new(Class::Unreachable, message)
        }
    }
}

fn answered(status: &Status) -> CallError {
    let (class, advice) = match status.code {
        401 => (Class::Denied, LOGIN),
        403 => (Class::Denied, PERMISSION),
        404 => (Class::NotFound, SERVER),
        429 => (Class::Throttled, "it is tried again"),
        400..=499 => (Class::Invalid, SERVER),
        _ => (Class::Transient, "it is tried again"),
    };
    let message = format!("{READ}: {} ({}); {advice}", status.message, status.code);
    let error = CallError::new(class, message).with_code(status.reason.clone());
    let seconds = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds);
    match seconds.filter(|seconds| *seconds > 0) {
        Some(seconds) => error.retry_after(std::time::Duration::from_secs(u64::from(seconds))),
        None => error,
    }
}

/// The messages of an error and its causes, without repetition: the outer ones name no reason.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn cluster(uid: &str) -> ClusterIdentity {
        ClusterIdentity::new(uid).unwrap()
    }

    fn another(pinned: &str, seen: &str) -> Verdict {
        Verdict::Another {
            pinned: cluster(pinned),
            seen: cluster(seen),
        }
    }

    #[rstest]
    #[case::the_first_is_pinned(None, Some("a"), Some(Verdict::First(cluster("a"))))]
    #[case::the_pinned_one_is_the_same(Some("a"), Some("a"), Some(Verdict::Same))]
    #[case::another_uid_is_another_cluster(Some("a"), Some("b"), Some(another("a", "b")))]
    #[case::unread_while_pinned(Some("a"), None, None)]
    #[case::unread_and_not_pinned(None, None, None)]
    fn an_identity_is_compared_with_the_pinned_one(
        #[case] pinned: Option<&str>,
        #[case] seen: Option<&str>,
        #[case] verdict: Option<Verdict>,
    ) {
        let unread = CallError::new(Class::Unreachable, "no answer");
        let seen = seen.map(cluster).ok_or(unread.clone());
        let verdict = verdict.unwrap_or(Verdict::Unverified(unread));
        assert_eq!(observed(pinned.map(cluster).as_ref(), seen), verdict);
    }

    #[test]
    fn another_cluster_is_a_conflict_that_names_both() {
        let error = another("uid-a", "uid-b").error().unwrap();
        assert_eq!(error.class, Class::Conflict);
        assert!(error.message.contains("is uid-b, and uid-a is expected"));
        assert!(error.message.contains("accept the new one"));
        assert_eq!(Verdict::Same.error(), None);
    }

    #[rstest]
    #[case::expired_login(401, Class::Denied, "still valid")]
    #[case::no_permission(403, Class::Denied, "allow the login")]
    #[case::not_a_cluster(404, Class::NotFound, "check that the address")]
    #[case::too_many_calls(429, Class::Throttled, "tried again")]
    #[case::wrong_request(400, Class::Invalid, "check that the address")]
    #[case::server_failed(503, Class::Transient, "tried again")]
    #[case::odd_answer(302, Class::Transient, "tried again")]
    fn an_answer_has_a_class_and_says_what_to_do(
        #[case] code: u16,
        #[case] class: Class,
        #[case] advice: &str,
    ) {
        let status = Status::failure("refused", "Reason").with_code(code).boxed();
        let error = classified(&Error::Api(status));
        assert_eq!((error.class, error.may_have_happened), (class, false));
        assert_eq!(error.code.as_deref(), Some("Reason"));
        assert!(error.message.contains("refused"), "{error}");
        assert!(error.message.contains(advice), "{error}");
    }

    #[test]
    fn the_servers_pause_is_passed_on() {
        let status = json!({ "code": 429, "details": { "retryAfterSeconds": 7 } });
        let status: Status = serde_json::from_value(status).unwrap();
        let error = classified(&Error::Api(status.boxed()));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn no_answer_names_the_innermost_cause() {
        let cause = std::io::Error::other("invalid peer certificate");
        let error = classified(&Error::Service(Box::new(Error::ReadEvents(cause))));
        assert_eq!(error.class, Class::Unreachable);
        assert!(
            error.message.contains("invalid peer certificate"),
            "{error}"
        );
    }
}
