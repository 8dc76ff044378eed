//! Access keys and their accounts, roles that may be assumed, and their sessions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::protocol::Refusal;
use crate::sigv4::Signed;

/// The account of the key `test`.
pub const DEFAULT_ACCOUNT: &str = "000000000000";
/// AWS's own default for the longest session of a role.
const HOUR: u64 = 3600;

/// The identity that makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Access key id.
    pub key: String,
    /// Account, twelve digits.
    pub account: String,
    /// ARN of the user or of the role's session.
    pub arn: String,
    /// Unique id, as GetCallerIdentity returns it.
    pub user_id: String,
    /// ARN of the role behind a session.
    pub role: Option<String>,
    /// Whether AssumeRole opened the session. A session of a web identity is the caller's own.
    pub borrowed: bool,
}

impl Caller {
    /// The name of its role; the access key of a user.
    pub fn name(&self) -> &str {
        let role = self.role.as_deref();
        role.and_then(|role| role.rsplit('/').next())
            .unwrap_or(&self.key)
    }

    /// Whether a fault rule's `caller` matches: key, account, ARN, role ARN or role name.
    pub fn is(&self, named: &str) -> bool {
        let role_name = self
            .role
            .as_deref()
            .and_then(|role| role.rsplit('/').next());
        [
            Some(self.key.as_str()),
            Some(&self.account),
            Some(&self.arn),
            self.role.as_deref(),
            role_name,
        ]
        .contains(&Some(named))
    }
}

/// A role that may be assumed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Role {
    /// `arn:aws:iam::<account>:role/<path and name>`.
    pub arn: String,
    /// The external ID that callers must send; none is required if absent.
    #[serde(default)]
    pub external_id: Option<String>,
    /// Longest session in seconds.
    #[serde(default = "hour")]
    pub max_seconds: u64,
}

fn hour() -> u64 {
    HOUR
}

/// Temporary credentials, as AssumeRole returns them.
#[derive(Debug, Clone)]
pub struct Session {
    /// The identity they belong to.
    pub caller: Caller,
    /// The secret key. It is not verified.
    pub secret: String,
    /// The session token; a request with the key must contain it.
    pub token: String,
    /// When they expire, on the emulator's clock.
    pub expires: Timestamp,
}

/// A session to open.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a> {
    /// ARN of the role.
    pub role: &'a str,
    /// Name of the session.
    pub name: &'a str,
    /// How long it lasts.
    pub lasts: Duration,
    /// Whether AssumeRole opens it.
    pub borrowed: bool,
}

/// Keys, roles and sessions over all accounts.
///
/// The key `test` is of account 000000000000, `AKIA<12 digits>…` of the account with these digits.
/// Control requests add others. All other keys are unknown.
#[derive(Debug, Default)]
pub struct Accounts {
    keys: BTreeMap<String, String>,
    roles: BTreeMap<String, Role>,
    sessions: BTreeMap<String, Session>,
    issued: u64,
}

impl Accounts {
    /// The caller, if the key is known and its session has not expired.
    pub fn caller(&self, signed: &Signed, now: Timestamp) -> Result<Caller, Refusal> {
        if let Some(session) = self.sessions.get(&signed.key) {
            return match &signed.token {
                Some(token) if *token == session.token && now >= session.expires => {
                    Err(Refusal::Expired)
                }
                Some(token) if *token == session.token => Ok(session.caller.clone()),
                Some(_) | None => Err(Refusal::UnknownKey),
            };
        }
        let account = self.account(&signed.key).ok_or(Refusal::UnknownKey)?;
        Ok(Caller {
            key: signed.key.clone(),
            arn: format!("arn:aws:iam::{account}:user/{}", signed.key),
            user_id: format!("AIDA{account}"),
            account,
            role: None,
            borrowed: false,
        })
    }

    fn account(&self, key: &str) -> Option<String> {
        if let Some(account) = self.keys.get(key) {
            return Some(account.clone());
        }
        if key == "test" {
            return Some(DEFAULT_ACCOUNT.to_owned());
        }
        let digits = key.strip_prefix("AKIA")?.get(..12)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.to_owned())
    }

    /// Adds `key` to `account`.
    pub fn give_key(&mut self, key: &str, account: &str) -> Result<(), String> {
        if account.len() != 12 || !account.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!(
                "account {account:?} of key {key:?} must be twelve digits"
            ));
        }
        self.keys.insert(key.to_owned(), account.to_owned());
        Ok(())
    }

    /// Allows `role` to be assumed under its conditions.
    pub fn allow(&mut self, role: Role) -> Result<(), String> {
        role_account(&role.arn).ok_or_else(|| {
            format!(
                "{:?} is no role ARN; write arn:aws:iam::<12 digits>:role/<name>",
                role.arn
            )
        })?;
        self.roles.insert(role.arn.clone(), role);
        Ok(())
    }

    /// No longer allows the role to be assumed; open sessions stay valid. `false` if it was not
    /// allowed.
    pub fn forbid(&mut self, arn: &str) -> bool {
        self.roles.remove(arn).is_some()
    }

    /// The role, if it may be assumed.
    pub fn role(&self, arn: &str) -> Option<&Role> {
        self.roles.get(arn)
    }

    /// All roles that may be assumed.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// All sessions that were opened.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values()
    }

    /// Opens a session; the caller has checked that this is allowed.
    pub fn open(&mut self, opening: &Opening<'_>, now: Timestamp) -> Session {
        let Opening {
            role,
            name,
            lasts,
            borrowed,
        } = *opening;
        self.issued += 1;
        let account = role_account(role).expect("only well-formed roles are allowed");
        let role_name = role.rsplit('/').next().unwrap_or_default();
        let key = format!("ASIA{:016X}", self.issued);
        let session = Session {
            caller: Caller {
                key: key.clone(),
                account: account.to_owned(),
                arn: format!("arn:aws:sts::{account}:assumed-role/{role_name}/{name}"),
                user_id: format!("AROA{account}:{name}"),
                role: Some(role.to_owned()),
                borrowed,
            },
            secret: format!("emulated{:032x}", self.issued),
            token: format!("EmulatedSessionToken{:020}", self.issued),
            expires: now.saturating_add(lasts).unwrap_or(Timestamp::MAX),
        };
        self.sessions.insert(key, session.clone());
        session
    }

    /// Removes added keys, roles and sessions. Key ids are not used twice.
    pub fn reset(&mut self) {
        self.keys.clear();
        self.roles.clear();
        self.sessions.clear();
    }
}

/// The account in a role's ARN.
fn role_account(arn: &str) -> Option<&str> {
    let (account, name) = arn.strip_prefix("arn:aws:iam::")?.split_once(":role/")?;
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    (is_account && !name.is_empty() && !name.ends_with('/')).then_some(account)
}
