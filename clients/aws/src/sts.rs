//! STS: our identity, and temporary credentials of roles.

use jiff::Timestamp;

use crate::call::Call;
use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::{Answer, Form, Hosts, Request};
use crate::{Account, Caller, Error, Fault, Keys, Operation, Role, Secret, Service};

impl Service {
    /// Security Token Service.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const Sts: Self = Self(&ServiceRow {
        name: "sts",
        id: "STS",
        signing: "sts",
        hosts: Hosts::Regional("sts"),
        region: None,
        fault: |code, _| (code == "InvalidIdentityToken").then_some(Fault::Credentials),
    });
}

const ALL: Limit = Limit {
    label: "sts",
    rates: RateRange::new(10.0, 0.2, 50.0),
};

operations! { Sts "STS":
    Read GetCallerIdentity ALL;
    Read AssumeRole ALL;
    Read AssumeRoleWithWebIdentity ALL;
}

/// Of the API.
const VERSION: &str = "2011-06-15";

/// Whether the operation gives credentials for other calls.
pub(crate) fn opens_session(operation: Operation) -> bool {
    operation == Operation::AssumeRole || operation == Operation::AssumeRoleWithWebIdentity
}

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
        identity(&self.account, Some(&self.caller)).await
    }

    /// Opens a session of `role`, for as long as STS gives by default.
    ///
    /// # When not to use it
    /// To make calls as the role: [`Aws::role`](crate::Aws::role) does that and caches the session.
    pub async fn assume_role(&self, role: &Role) -> Result<Session, Error> {
        let call = Call::new(Operation::AssumeRole, role.arn());
        let mut form = Form::new("AssumeRole", VERSION)
            .text("RoleArn", role.arn())
            .text("RoleSessionName", self.account.session_name());
        if let Some(id) = role.external_id() {
            form = form.text("ExternalId", id);
        }
        let request = Request::form(&form);
        let answer = self.account.plain(&call, Some(&self.caller), &request);
        let answer = answer.await?;
        session(&answer)
    }
}

fn session(answer: &Answer) -> Result<Session, Error> {
    let document = answer.xml()?;
    let result = document.root().child("AssumeRoleResult");
    let given = result.and_then(|result| result.child("Credentials"));
    let given = given.ok_or_else(|| answer.lacks("Credentials"))?;
    let text = |name| given.text(name).filter(|text| !text.is_empty());
    let required = |name| text(name).ok_or_else(|| answer.lacks(name));
    let expires = required("Expiration")?.parse();
    Ok(Session {
        keys: Keys {
            access_key_id: required("AccessKeyId")?.to_owned(),
            secret_access_key: Secret::new(required("SecretAccessKey")?.to_owned()),
            session_token: Some(Secret::new(required("SessionToken")?.to_owned())),
        },
        expires: expires.map_err(|_| answer.lacks("valid Expiration"))?,
    })
}

/// The identity of an account; without a caller it needs no permit.
pub(crate) async fn identity(
    account: &Account,
    caller: Option<&Caller>,
) -> Result<Identity, Error> {
    let call = Call::new(Operation::GetCallerIdentity, "");
    let request = Request::form(&Form::new("GetCallerIdentity", VERSION));
    let answer = account.plain(&call, caller, &request).await?;
    let document = answer.xml()?;
    let result = document.root().child("GetCallerIdentityResult");
    let result = result.ok_or_else(|| answer.lacks("GetCallerIdentityResult"))?;
    let text = |name| result.text(name).filter(|text| !text.is_empty());
    let required = |name| text(name).ok_or_else(|| answer.lacks(name));
    Ok(Identity {
        account: required("Account")?.to_owned(),
        arn: required("Arn")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_types::body::SdkBody;
    use rstest::rstest;

    use super::*;

    /// An answer to `AssumeRole` with this element empty.
    fn answer(empty: &str) -> Answer {
        let names = ["AccessKeyId", "SecretAccessKey", "SessionToken"];
        let field = |name| {
            let value = if name == empty { "" } else { "value" };
            format!("<{name}>{value}</{name}>")
        };
        let fields: String = names.into_iter().map(field).collect();
        let body = format!(
            "<AssumeRoleResponse><AssumeRoleResult><Credentials>{fields}\
             <Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>\
             </AssumeRoleResponse>"
        );
        let status = 200_u16.try_into().expect("a status");
        let call = Call::new(Operation::AssumeRole, "role");
        Answer::new(&call, HttpResponse::new(status, SdkBody::from(body)))
    }

    #[rstest]
    #[case::key("AccessKeyId")]
    #[case::secret("SecretAccessKey")]
    #[case::token("SessionToken")]
    fn an_empty_field_is_missing(#[case] name: &str) {
        let error = session(&answer(name)).unwrap_err();
        assert_eq!(error, answer(name).lacks(name));
    }

    #[test]
    fn a_complete_answer_is_a_session() {
        let session = session(&answer("")).unwrap();
        assert_eq!(session.keys.access_key_id, "value");
        assert_eq!(session.expires, "2030-01-01T00:00:00Z".parse().unwrap());
    }
}
