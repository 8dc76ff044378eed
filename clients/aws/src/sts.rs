//! STS: our identity, and temporary credentials of roles.

use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;
use jiff::Timestamp;

use crate::call::Call;
use crate::timestamp::timestamp;
use crate::{Account, Caller, Error, Keys, Operation, Role, Secret};

/// STS, used by one caller; see [`Account::sts`].
#[derive(Debug, Clone)]
pub struct Sts {
    account: Account,
    caller: Caller,
}

/// The identity that makes the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Account, twelve digits.
    pub account: String,
    /// ARN of the user, or of the role's session.
    pub arn: String,
}

/// A role's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its keys.
    pub keys: Keys,
    /// When they expire.
    pub expires: Timestamp,
}

impl Sts {
    pub(crate) fn new(account: Account, caller: Caller) -> Self {
        Self { account, caller }
    }

    /// Our identity.
    pub async fn caller_identity(&self) -> Result<Identity, Error> {
        let call = Call::new(Operation::GetCallerIdentity, "");
        let client = self.account.sts_client();
        let send = || client.get_caller_identity().send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        identity(&call, answer)
    }

    /// Opens a session of `role`, for as long as STS gives by default.
    ///
    /// # When not to use it
    /// To make calls as the role: [`Aws::role`](crate::Aws::role) does that and caches the session.
    pub async fn assume_role(&self, role: &Role) -> Result<Session, Error> {
        let call = Call::new(Operation::AssumeRole, role.arn());
        let client = self.account.sts_client();
        let send = || {
            client
                .assume_role()
                .role_arn(role.arn())
                .role_session_name(self.account.session_name())
                .set_external_id(role.external_id().map(str::to_owned))
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let given = answer
            .credentials
            .ok_or_else(|| call.lacks("Credentials"))?;
        Ok(Session {
            keys: Keys {
                access_key_id: given.access_key_id,
                secret_access_key: Secret::new(given.secret_access_key),
                session_token: Some(Secret::new(given.session_token)),
            },
            expires: timestamp(&given.expiration).ok_or_else(|| call.lacks("Expiration"))?,
        })
    }
}

pub(crate) fn identity(
    call: &Call<'_>,
    answer: GetCallerIdentityOutput,
) -> Result<Identity, Error> {
    Ok(Identity {
        account: answer.account.ok_or_else(|| call.lacks("Account"))?,
        arn: answer.arn.ok_or_else(|| call.lacks("Arn"))?,
    })
}
