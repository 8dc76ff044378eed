//! Calls about our own token.

use std::time::Duration;

use serde::Deserialize;

use crate::call::Call;
use crate::transport::Answer;
use crate::{Client, Error, Secret};

/// Vault's description of our token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TokenLookup {
    /// The token's accessor, which is no secret.
    #[serde(default)]
    pub accessor: String,
    /// Seconds it has left; 0 is unlimited.
    pub ttl: u64,
    /// Whether it can be renewed.
    #[serde(default)]
    pub renewable: bool,
    /// Its policies, without those of its identity.
    #[serde(default)]
    pub policies: Vec<String>,
}

/// A token that Vault issued or renewed.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) secret: Secret,
    pub(crate) accessor: String,
    /// 0 is unlimited.
    pub(crate) seconds: u64,
    pub(crate) renewable: bool,
}

impl Granted {
    /// Its TTL; `None` is unlimited.
    pub(crate) fn life(&self) -> Option<Duration> {
        (self.seconds > 0).then(|| Duration::from_secs(self.seconds))
    }

    /// From the answer to a login or a renewal.
    pub(crate) fn from_auth(call: &str, answer: &Answer) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Answered {
            auth: Auth,
        }
        #[derive(Deserialize)]
        struct Auth {
            client_token: Secret,
            #[serde(default)]
            accessor: String,
            lease_duration: u64,
            #[serde(default)]
            renewable: bool,
        }
        let Answered { auth } = answer.parsed(call)?;
        Ok(Self {
            secret: auth.client_token,
            accessor: auth.accessor,
            seconds: auth.lease_duration,
            renewable: auth.renewable,
        })
    }
}

/// Whether an error says that the token itself is not valid. A valid token without permission is
/// refused with `permission denied` alone.
pub(crate) fn says_dead(error: &Error) -> bool {
    match error {
        Error::Denied { message, .. } => {
            message.contains("invalid token") || message.contains("bad token")
        }
        _ => false,
    }
}

pub(crate) fn lookup_self() -> Result<Call, Error> {
    Call::get("token_lookup", &["auth/token/lookup-self"])
}

pub(crate) fn renew_self() -> Result<Call, Error> {
    let call = Call::post("token_renew", &["auth/token/renew-self"])?;
    Ok(call.body(serde_json::json!({})))
}

pub(crate) fn revoke_self() -> Result<Call, Error> {
    let call = Call::post("token_revoke", &["auth/token/revoke-self"])?;
    Ok(call.body(serde_json::json!({})))
}

impl Client {
    /// Vault's description of the token in use; logs in first if there is none.
    pub async fn lookup_self(&self) -> Result<TokenLookup, Error> {
        let call = lookup_self()?;
        let answer = self.own_call(&call).await?;
        answer.payload(&call.name())
    }

    /// Renews the token in use, due or not.
    ///
    /// # When not to use it
    /// To prevent expiry: every call renews the token by itself if that is due.
    pub async fn renew_self(&self) -> Result<(), Error> {
        self.renew_now().await
    }

    /// Revokes the token in use, also a static one.
    ///
    /// The next call logs in again; with a static token it fails.
    pub async fn revoke_self(&self) -> Result<(), Error> {
        self.revoke_now().await
    }
}
