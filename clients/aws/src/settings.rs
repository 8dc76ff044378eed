//! Where AWS is and who we are there.

use std::time::Duration;

use kernel::Redacted;

/// A secret text: a key or a token.
pub type Secret = Redacted<String>;

/// How long a call may take, from connecting to the last byte of the answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long connecting may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything that makes our access to AWS what it is. By default it is all left to the
/// environment, as AWS's own tools do.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The region of STS; without it the environment's or the profile's, else us-east-1. Services
    /// that have one home are asked there, and DynamoDB in the region it is asked for. What came of
    /// it is [`Aws::region`](crate::Aws::region).
    pub region: Option<String>,
    /// Our own keys; without them the default chain: environment, profile, web identity (IRSA),
    /// container, instance.
    pub keys: Option<Keys>,
    /// Where every service is; without it `AWS_ENDPOINT_URL_<SERVICE>`, `AWS_ENDPOINT_URL`, the
    /// profile, else AWS itself.
    pub endpoint: Option<String>,
    /// How roles know our sessions.
    pub session_name: String,
    /// How long one call may take; [`CALL_TIMEOUT`] outside tests.
    pub timeout: Duration,
    /// How long connecting may take; [`CONNECT_TIMEOUT`] outside tests.
    pub connect_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            region: None,
            keys: None,
            endpoint: None,
            session_name: "pontoon".to_owned(),
            timeout: CALL_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }
}

/// Keys of a principal in AWS. Only the key's id is ever printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Access key ID.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: Secret,
    /// Session token, for keys that end.
    pub session_token: Option<Secret>,
}
