//! The token with which Vault reviews logins at a mount: when it is replaced, and how.

use std::future::Future;
use std::time::Duration;

use api::vault::{AuthStatus, conditions, reasons};
use engine::kill_point;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Conditions, Reason};
use serde_json::{Map, Value};
use vault_client::{AuthMount, Client, Error, Secret, SourceError};

/// How long a reviewer token shall live. The API server may grant less, and says how long.
pub(crate) const ASKED: Duration = Duration::from_hours(24);

/// What Vault tells of a configuration and does not take back: whether there is a token.
const TOLD_ONLY: &str = "token_reviewer_jwt_set";
const JWT: &str = "token_reviewer_jwt";

/// A token that may review others.
#[derive(Debug, Clone)]
pub(crate) struct Jwt {
    pub(crate) secret: Secret,
    /// As the API server granted it.
    pub(crate) expires: Timestamp,
}

/// Who makes reviewer tokens: the API server, for our own ServiceAccount.
pub(crate) trait Issuer: Sync {
    /// A fresh token of [`ASKED`] life, for the API server itself.
    fn reviewer(&self) -> impl Future<Output = Result<Jwt, SourceError>> + Send;
}

/// Whether the mount's reviewer token is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// People see to it.
    Never,
    /// Others enabled the mount, and nobody told us to see to it.
    NotOurMount,
    /// Not before this time.
    No { next: Timestamp },
    /// Now. `short`: less than a quarter of its life is left, so a failure needs attention.
    Yes { short: bool },
}

/// | `tokenReviewerRotation` | mount | on record                | so            |
/// |-------------------------|-------|--------------------------|---------------|
/// | false                   | any   | any                      | never         |
/// | unset                   | other | any                      | not our mount |
/// | unset                   | ours  | below half of its life   | no            |
/// | true                    | any   | below half of its life   | no            |
/// | true, or unset and ours | –     | no token, or beyond half | yes           |
pub(crate) fn due(rotation: Option<bool>, ours: bool, status: &AuthStatus, now: Timestamp) -> Due {
    match (rotation, ours) {
        (Some(false), _) => return Due::Never,
        (None, false) => return Due::NotOurMount,
        (Some(true), _) | (None, true) => {}
    }
    let times = (
        &status.token_reviewer_last_refresh,
        &status.token_reviewer_expiration,
    );
    let (Some(Time(since)), Some(Time(end))) = times else {
        return Due::Yes { short: true }; // how long the one in place lives, nobody knows
    };
    let life = end.duration_since(*since);
    let next = end.checked_sub(life / 2).unwrap_or(*since);
    if now < next && life > SignedDuration::ZERO {
        return Due::No { next };
    }
    let short = end.duration_since(now) < life / 4 || life <= SignedDuration::ZERO;
    Due::Yes { short }
}

/// Gives the mount another reviewer token and leaves the rest of its configuration as it is.
///
/// A lost answer does no harm: the next try gives it yet another. Until Vault has taken the new
/// one, it goes on with the old.
///
/// # Errors
/// [`Error::NotFound`] also when the mount was never configured: it has no API server to ask.
pub(crate) async fn rotate(vault: &Client, mount: &AuthMount, jwt: &Jwt) -> Result<(), Error> {
    let Some(config) = vault.read_auth_config(mount).await? else {
        return Err(Error::NotFound {
            call: format!("GET auth/{mount}/config"),
            message: "the mount was never configured; configure it, or use bootstrap".to_owned(),
        });
    };
    kill_point("vault-before-rotation");
    vault
        .write_auth_config(mount, with_reviewer(config, &jwt.secret))
        .await?;
    kill_point("vault-after-rotation");
    Ok(())
}

/// `config` as Vault takes it, with this reviewer token. Vault merges nothing: what is left out is
/// lost.
pub(crate) fn with_reviewer(mut config: Map<String, Value>, jwt: &Secret) -> Map<String, Value> {
    config.retain(|field, value| field != TOLD_ONLY && !value.is_null());
    config.insert(JWT.to_owned(), Value::from(jwt.expose().trim()));
    config
}

/// Notes a token that the mount has taken.
pub(crate) fn record(status: &mut AuthStatus, expires: Timestamp, now: Timestamp) {
    status.token_reviewer_expiration = Some(seconds(expires));
    status.token_reviewer_last_refresh = Some(seconds(now));
}

/// Times in a status have no fraction; with one, what we hold would differ from what is read back.
pub(crate) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).expect("the second of a valid time is valid"))
}

/// Says in the conditions who sees to the token, and how well.
pub(crate) fn tell(due: Due, failed: Option<&Error>, set: &mut Conditions) {
    use conditions::{TOKEN_REVIEWER, TOKEN_REVIEWER_ROTATION_DISABLED};
    match due {
        Due::Never => {
            let message = "tokenReviewerRotation is false: people see to the reviewer token";
            let reason = Reason::new(reasons::MANUAL_MANAGEMENT, message);
            set.yes(TOKEN_REVIEWER_ROTATION_DISABLED, &reason);
            set.drop(TOKEN_REVIEWER);
            return;
        }
        Due::NotOurMount => {
            let message = "others enabled the login mount; set tokenReviewerRotation to true to \
                 have its reviewer token kept fresh, or to false if people do that";
            set.no(
                TOKEN_REVIEWER,
                &Reason::new(reasons::NOT_OUR_MOUNT, message),
            );
        }
        Due::No { .. } | Due::Yes { .. } => match failed {
            None => {
                let message = "the reviewer token is replaced at half of its life";
                set.yes(TOKEN_REVIEWER, &Reason::new(reasons::SUCCEEDED, message));
            }
            Some(error) => {
                let message = format!("the reviewer token was not replaced: {error}");
                set.no(TOKEN_REVIEWER, &Reason::new(reasons::FAILED, message));
            }
        },
    }
    set.drop(TOKEN_REVIEWER_ROTATION_DISABLED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A token given at second 1000 with this much life.
    fn given(life: Option<i64>) -> AuthStatus {
        let mut status = AuthStatus::default();
        if let Some(life) = life {
            record(&mut status, at(1000 + life), at(1000));
        }
        status
    }

    #[rstest] //                          rotation     ours   life        now    due
    #[case::left_to_people(Some(false), true, None, 9999, Due::Never)]
    #[case::a_mount_of_others(None, false, None, 9999, Due::NotOurMount)]
    #[case::a_named_mount_of_others(      Some(true),  false, None,       1000,  Due::Yes { short: true })]
    #[case::our_mount_and_no_record(      None,        true,  None,       1000,  Due::Yes { short: true })]
    #[case::fresh(                        None,        true,  Some(1000), 1000,  Due::No { next: at(1500) })]
    #[case::a_restart_before_half(        None,        true,  Some(1000), 1499,  Due::No { next: at(1500) })]
    #[case::at_half(                      None,        true,  Some(1000), 1500,  Due::Yes { short: false })]
    #[case::at_a_quarter(                 None,        true,  Some(1000), 1750,  Due::Yes { short: false })]
    #[case::below_a_quarter(              None,        true,  Some(1000), 1751,  Due::Yes { short: true })]
    #[case::long_over(                    Some(true),  true,  Some(1000), 99999, Due::Yes { short: true })]
    #[case::less_granted_than_asked(      None,        true,  Some(600),  1299,  Due::No { next: at(1300) })]
    #[case::a_record_that_cannot_be(      None,        true,  Some(-5),   10,    Due::Yes { short: true })]
    fn rule(
        #[case] rotation: Option<bool>,
        #[case] ours: bool,
        #[case] life: Option<i64>,
        #[case] now: i64,
        #[case] expected: Due,
    ) {
        assert_eq!(due(rotation, ours, &given(life), at(now)), expected);
    }

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_rotation_changes_the_token_and_nothing_else() {
        let told = map(json!({
            "kubernetes_host": "https://api", "kubernetes_ca_cert": "PEM", "issuer": "us",
            "pem_keys": ["k"], "disable_iss_validation": true, "disable_local_ca_jwt": false,
            "use_annotations_as_alias_metadata": true, "field_of_a_newer_release": 7,
            "token_reviewer_jwt_set": true, "nothing": null,
        }));
        let sent = with_reviewer(told, &Secret::new("a.b.c\n".to_owned()));
        let expected = map(json!({
            "kubernetes_host": "https://api", "kubernetes_ca_cert": "PEM", "issuer": "us",
            "pem_keys": ["k"], "disable_iss_validation": true, "disable_local_ca_jwt": false,
            "use_annotations_as_alias_metadata": true, "field_of_a_newer_release": 7,
            "token_reviewer_jwt": "a.b.c",
        }));
        assert_eq!(sent, expected);
    }

    fn told(due: Due, failed: Option<&Error>) -> Vec<(String, String, String)> {
        let mut before = Conditions::new(&[], Some(1), at(1));
        tell(Due::Never, None, &mut before);
        tell(Due::NotOurMount, None, &mut before);
        let mut set = Conditions::new(&before.into_parts().0, Some(1), at(2));
        tell(due, failed, &mut set);
        let all = set.into_parts().0.into_iter();
        all.map(|one| (one.type_, one.status, one.reason)).collect()
    }

    #[test]
    fn exactly_one_condition_says_who_sees_to_the_token() {
        let error = Error::Denied {
            call: "POST auth/k8s/config".into(),
            message: String::new(),
        };
        let fresh = Due::No { next: at(5) };
        let owed = Due::Yes { short: true };
        for (due, failed, expected) in [
            (
                Due::Never,
                None,
                ("TokenReviewerRotationDisabled", "True", "ManualManagement"),
            ),
            (
                Due::NotOurMount,
                None,
                ("TokenReviewer", "False", "NotOurMount"),
            ),
            (fresh, None, ("TokenReviewer", "True", "Succeeded")),
            (owed, Some(&error), ("TokenReviewer", "False", "Failed")),
        ] {
            let (kind, status, reason) = expected;
            assert_eq!(
                told(due, failed),
                [(kind.into(), status.into(), reason.into())]
            );
        }
    }
}
