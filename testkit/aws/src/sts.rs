//! STS, version 2011-06-15: GetCallerIdentity, AssumeRole, AssumeRoleWithWebIdentity.
//!
//! Only roles in an allow-list can be assumed. `mutate` sets it:
//! `{"service": "sts", "roles": [{"arn", "externalId"?, "maxSeconds"?}], "forbid": ["<arn>"],
//! "keys": {"<access key>": "<account>"}}`, each part optional. Only the form of web identity tokens
//! is checked: no issuer is called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::accounts::{Accounts, Opening, Role, Session};
use crate::control::read;
use crate::protocol::{ApiError, Protocol};
use crate::service::{Call, ControlError, Moment, Operation, Service, Violation};
use crate::wire::{Request, Response};
use crate::xml::Element;

const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
const VERSION: &str = "2011-06-15";
const SHORTEST: u64 = 900;
const LONGEST: u64 = 43_200;
const USUAL: u64 = 3600;

/// The emulated STS. The router always adds it and shares the accounts with it.
#[derive(Debug)]
pub(crate) struct Sts {
    accounts: Arc<Mutex<Accounts>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StsChange {
    #[serde(default)]
    roles: Vec<Role>,
    #[serde(default)]
    forbid: Vec<String>,
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

/// The claims that an answer repeats.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    iss: String,
    #[serde(default)]
    aud: Value,
}

impl Sts {
    pub(crate) fn new(accounts: Arc<Mutex<Accounts>>) -> Self {
        Self { accounts }
    }

    fn caller_identity(call: &Call<'_>) -> Result<Element, ApiError> {
        let caller = call.caller.ok_or_else(denied_anonymous)?;
        let identity = Element::new("GetCallerIdentityResult");
        Ok(identity
            .leaf("Arn", &caller.arn)
            .leaf("UserId", &caller.user_id)
            .leaf("Account", &caller.account))
    }

    fn assume_role(&self, call: &Call<'_>, request: &Request) -> Result<Element, ApiError> {
        let caller = call.caller.ok_or_else(denied_anonymous)?;
        let arn = needed(request, "RoleArn")?;
        let (name, seconds) = (session_name(request)?, seconds(request)?);
        let mut accounts = self.accounts.lock();
        let allowed = accounts.role(arn).filter(|role| {
            role.external_id.is_none() || role.external_id.as_deref() == request.param("ExternalId")
        });
        let role = allowed.ok_or_else(|| {
            let message = format!(
                "User: {} is not authorized to perform: sts:AssumeRole on resource: {arn}",
                caller.arn
            );
            ApiError::new(403, "AccessDenied", &message)
        })?;
        // A session of a role may open others for at most an hour.
        let longest = if caller.role.is_some() {
            USUAL.min(role.max_seconds)
        } else {
            role.max_seconds
        };
        within(seconds, longest)?;
        let opening = Opening {
            role: arn,
            name,
            lasts: Duration::from_secs(seconds),
            borrowed: true,
        };
        let session = accounts.open(&opening, call.moment.now);
        Ok(opened(Element::new("AssumeRoleResult"), &session))
    }

    fn assume_role_with_web_identity(
        &self,
        call: &Call<'_>,
        request: &Request,
    ) -> Result<Element, ApiError> {
        let arn = needed(request, "RoleArn")?;
        let (name, seconds) = (session_name(request)?, seconds(request)?);
        let claims = claims(needed(request, "WebIdentityToken")?).ok_or_else(|| {
            let message = "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)";
            ApiError::new(400, "InvalidIdentityToken", message)
        })?;
        let mut accounts = self.accounts.lock();
        let role = accounts.role(arn).ok_or_else(|| {
            ApiError::new(
                403,
                "AccessDenied",
                "Not authorized to perform sts:AssumeRoleWithWebIdentity",
            )
        })?;
        within(seconds, role.max_seconds)?;
        let opening = Opening {
            role: arn,
            name,
            lasts: Duration::from_secs(seconds),
            borrowed: false,
        };
        let session = accounts.open(&opening, call.moment.now);
        let audience = match &claims.aud {
            Value::Array(several) => several.first().and_then(Value::as_str).unwrap_or_default(),
            other => other.as_str().unwrap_or_default(),
        };
        Ok(
            opened(Element::new("AssumeRoleWithWebIdentityResult"), &session)
                .leaf("SubjectFromWebIdentityToken", &claims.sub)
                .leaf("Provider", &claims.iss)
                .leaf("Audience", audience),
        )
    }
}

impl Service for Sts {
    fn name(&self) -> &'static str {
        "sts"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Query {
            namespace: NAMESPACE,
        }
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        if request.param("Version") != Some(VERSION) {
            return None;
        }
        let name = request.param("Action")?;
        let is_known = [
            "GetCallerIdentity",
            "AssumeRole",
            "AssumeRoleWithWebIdentity",
        ]
        .contains(&name);
        let resource = request.param("RoleArn").map(str::to_owned);
        is_known.then(|| Operation {
            name: name.to_owned(),
            resource,
        })
    }

    fn is_anonymous(&self, operation: &str) -> bool {
        operation == "AssumeRoleWithWebIdentity"
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let result = match call.operation {
            "AssumeRole" => self.assume_role(call, request)?,
            "AssumeRoleWithWebIdentity" => self.assume_role_with_web_identity(call, request)?,
            _ => Self::caller_identity(call)?,
        };
        let meta = Element::new("ResponseMetadata").leaf("RequestId", call.request_id);
        let root = Element::new(&format!("{}Response", call.operation)).xmlns(NAMESPACE);
        Ok(Response::xml(
            200,
            root.child(result).child(meta).document(),
        ))
    }

    fn mutate(&mut self, _moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        let StsChange {
            roles,
            forbid,
            keys,
        } = read("mutate sts", change)?;
        let mut accounts = self.accounts.lock();
        for role in roles {
            accounts.allow(role).map_err(ControlError::invalid)?;
        }
        for arn in forbid {
            if !accounts.forbid(&arn) {
                return Err(ControlError::unknown(format!(
                    "role {arn} was not allowed, so it cannot be forbidden"
                )));
            }
        }
        for (key, account) in keys {
            accounts
                .give_key(&key, &account)
                .map_err(ControlError::invalid)?;
        }
        Ok(json!({}))
    }

    fn state(&self, moment: &Moment<'_>) -> Value {
        let accounts = self.accounts.lock();
        let roles: Vec<_> = accounts.roles().map(|role| json!({ "arn": role.arn, "externalId": role.external_id, "maxSeconds": role.max_seconds })).collect();
        let sessions: Vec<_> = accounts
            .sessions()
            .map(|session| shown(session, moment.now))
            .collect();
        json!({ "roles": roles, "sessions": sessions })
    }

    fn violations(&self) -> Vec<Violation> {
        Vec::new()
    }

    fn reset(&mut self) {
        self.accounts.lock().reset();
    }
}

fn shown(session: &Session, now: Timestamp) -> Value {
    let ended = now >= session.expires;
    json!({ "key": session.caller.key, "arn": session.caller.arn, "expires": session.expires, "ended": ended })
}

fn opened(result: Element, session: &Session) -> Element {
    let user = Element::new("AssumedRoleUser")
        .leaf("AssumedRoleId", &session.caller.user_id)
        .leaf("Arn", &session.caller.arn);
    let credentials = Element::new("Credentials")
        .leaf("AccessKeyId", &session.caller.key)
        .leaf("SecretAccessKey", &session.secret)
        .leaf("SessionToken", &session.token)
        .leaf(
            "Expiration",
            &session.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        );
    result.child(user).child(credentials)
}

fn needed<'a>(request: &'a Request, name: &str) -> Result<&'a str, ApiError> {
    request
        .param(name)
        .filter(|value| !value.is_empty())
        .ok_or_else(|| {
            let mut field = name.to_owned();
            field[..1].make_ascii_lowercase();
            invalid(&format!(
                "Value null at '{field}' failed to satisfy constraint: Member must not be null"
            ))
        })
}

fn session_name(request: &Request) -> Result<&str, ApiError> {
    let name = needed(request, "RoleSessionName")?;
    let fits = |character: char| character.is_ascii_alphanumeric() || "_+=,.@-".contains(character);
    if (2..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    let rule =
        "Member must satisfy regular expression pattern: [\\w+=,.@-]* and have length from 2 to 64";
    Err(invalid(&format!(
        "Value '{name}' at 'roleSessionName' failed to satisfy constraint: {rule}"
    )))
}

fn seconds(request: &Request) -> Result<u64, ApiError> {
    let Some(requested) = request.param("DurationSeconds") else {
        return Ok(USUAL);
    };
    let wrong = |rule: &str| {
        invalid(&format!(
            "Value '{requested}' at 'durationSeconds' failed to satisfy constraint: {rule}"
        ))
    };
    match requested.parse() {
        Ok(seconds) if seconds < SHORTEST => {
            Err(wrong("Member must have value greater than or equal to 900"))
        }
        Ok(seconds) if seconds > LONGEST => {
            Err(wrong("Member must have value less than or equal to 43200"))
        }
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(wrong("Member must be a whole number")),
    }
}

fn within(seconds: u64, longest: u64) -> Result<(), ApiError> {
    if seconds <= longest {
        return Ok(());
    }
    let message = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.";
    Err(ApiError::new(400, "ValidationError", message))
}

fn invalid(what: &str) -> ApiError {
    ApiError::new(
        400,
        "ValidationError",
        &format!("1 validation error detected: {what}"),
    )
}

fn denied_anonymous() -> ApiError {
    ApiError::new(
        403,
        "MissingAuthenticationToken",
        "Request is missing Authentication Token",
    )
}

/// The claims of a token that has the form of a JWT: three parts, two of them JSON objects.
fn claims(token: &str) -> Option<Claims> {
    let parts: Vec<_> = token.split('.').collect();
    let [head, body, _signature] = parts.as_slice() else {
        return None;
    };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok();
    serde_json::from_slice::<serde_json::Map<String, Value>>(&decoded(head)?).ok()?;
    serde_json::from_slice(&decoded(body)?).ok()
}
