//! Settings: endpoint, region and credentials.

use std::time::Duration;

use kernel::Redacted;

/// A secret text: a key or a token.
pub type Secret = Redacted<String>;

/// How long a call may take, from connecting to the last byte of the answer.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long connecting may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to access AWS. By default everything comes from the environment, as with AWS's own tools.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The region of STS; without it that of the environment or the profile, else us-east-1. Global
    /// services have a region of their own; DynamoDB and EC2 are given one.
    /// [`Aws::region`](crate::Aws::region) returns the effective one.
    pub region: Option<String>,
    /// Our own keys; without them the default chain: environment, profile, web identity (IRSA),
    /// container, instance.
    pub keys: Option<Keys>,
    /// Endpoint of every service; without it `AWS_ENDPOINT_URL_<SERVICE>`, `AWS_ENDPOINT_URL`, the
    /// profile, else AWS itself.
    pub endpoint: Option<String>,
    /// Session name of assumed roles, and of a web identity without `AWS_ROLE_SESSION_NAME`.
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
    /// Session token, for keys that expire.
    pub session_token: Option<Secret>,
}
