//! Which fields a kubeconfig may have.

use serde_json::Value;

use crate::RefusedKubeconfig;

/// What is done with a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Treatment {
    /// It is used.
    Used,
    /// It has no effect on a connection and is not read.
    Unread,
    /// It is refused: why, and what to write instead.
    Refused(&'static str, &'static str),
    /// It is refused unless it says `false`: why, and what to write instead.
    OnlyFalse(&'static str, &'static str),
}

use Treatment::{OnlyFalse, Refused, Unread, Used};

/// The fields of one kind of mapping.
pub(super) type Fields = &'static [(&'static str, Treatment)];

const INLINE_LOGIN: &str = "write an inline token, or client-certificate-data with client-key-data";
const INLINE_CA: &str = "write the certificates themselves to certificate-authority-data, \
    as `kubectl config view --raw --flatten` does";
const RUNS: &str = "would run a program here";
const READS: &str = "would open a file here";
const ACTS: &str = "would act as another user";
const PASSWORD: &str = "is a login by password";

pub(super) const DOCUMENT: Fields = &[
    ("apiVersion", Used),
    ("kind", Used),
    ("current-context", Used),
    ("clusters", Used),
    ("contexts", Used),
    ("users", Used),
    ("preferences", Unread),
    ("extensions", Unread),
];

pub(super) const NAMED_CLUSTER: Fields = &[("name", Used), ("cluster", Used)];
pub(super) const NAMED_CONTEXT: Fields = &[("name", Used), ("context", Used)];
pub(super) const NAMED_USER: Fields = &[("name", Used), ("user", Used)];

pub(super) const CLUSTER: Fields = &[
    ("server", Used),
    ("certificate-authority-data", Used),
    ("tls-server-name", Used),
    // Our client does not ask for compression.
    ("disable-compression", Unread),
    ("extensions", Unread),
    ("certificate-authority", Refused(READS, INLINE_CA)),
    (
        "insecure-skip-tls-verify",
        OnlyFalse("would accept any server", INLINE_CA),
    ),
    (
        "proxy-url",
        Refused(
            "would send the login through a proxy",
            "write the address of the API server to server",
        ),
    ),
];

pub(super) const CONTEXT: Fields = &[
    ("cluster", Used),
    ("user", Used),
    ("namespace", Used),
    ("extensions", Unread),
];

pub(super) const USER: Fields = &[
    ("token", Used),
    ("client-certificate-data", Used),
    ("client-key-data", Used),
    ("extensions", Unread),
    ("exec", Refused(RUNS, INLINE_LOGIN)),
    ("auth-provider", Refused(RUNS, INLINE_LOGIN)),
    ("tokenFile", Refused(READS, INLINE_LOGIN)),
    ("client-certificate", Refused(READS, INLINE_LOGIN)),
    ("client-key", Refused(READS, INLINE_LOGIN)),
    ("username", Refused(PASSWORD, INLINE_LOGIN)),
    ("password", Refused(PASSWORD, INLINE_LOGIN)),
    ("as", Refused(ACTS, INLINE_LOGIN)),
    ("as-uid", Refused(ACTS, INLINE_LOGIN)),
    ("as-groups", Refused(ACTS, INLINE_LOGIN)),
    ("as-user-extra", Refused(ACTS, INLINE_LOGIN)),
];

/// Whether the field `name` with `value`, which has the path `path`, may be there.
///
/// | the field   | null   | false   | other   |
/// |-------------|--------|---------|---------|
/// | used        | absent | read    | read    |
/// | unread      | unread | unread  | unread  |
/// | refused     | absent | refused | refused |
/// | only false  | absent | absent  | refused |
/// | of no table | refused | refused | refused |
///
/// A field of no table is refused because a newer client could act on it.
pub(super) fn allowed(
    fields: Fields,
    path: impl FnOnce(&str) -> String,
    name: &str,
    value: &Value,
) -> Result<(), RefusedKubeconfig> {
    let treatment = fields.iter().find(|(field, _)| *field == name);
    match treatment.map(|(_, treatment)| *treatment) {
        Some(Used | Unread) => Ok(()),
        Some(Refused(..) | OnlyFalse(..)) if value.is_null() => Ok(()),
        Some(OnlyFalse(..)) if *value == Value::Bool(false) => Ok(()),
        Some(Refused(why, instead) | OnlyFalse(why, instead)) => {
            Err(RefusedKubeconfig::new(path(name), why, instead))
        }
        None => Err(RefusedKubeconfig::new(
            path(printable(name)),
            "is not a field whose effect is clear",
            "remove it, or correct its name",
        )),
    }
}

/// `name`, unless it could be a secret in the wrong column.
fn printable(name: &str) -> &str {
    let plain = |byte: u8| byte.is_ascii_alphabetic() || byte == b'-';
    if name.len() <= 32 && name.bytes().all(plain) {
        name
    } else {
        "***"
    }
}
