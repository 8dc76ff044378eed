//! JWTs to log in with: made for our own ServiceAccount, or found in a Secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::{ApiError, Classified as _};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kernel::{Class, cap};
use kube::api::PostParams;
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::Deserialize;
use vault_client::{Secret, Source, SourceError};

use super::config::Problem;
use super::secrets::parsed;

/// The API server gives no token a shorter life.
const SHORTEST: u64 = 600;
/// Nor a longer one.
const LONGEST: u64 = 1 << 32;
/// More of a foreign text helps nobody.
const TOLD: usize = 256;

/// The ServiceAccount the operator runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAccountRef {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

/// A token of a ServiceAccount.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    /// The token.
    pub(crate) token: Secret,
    /// When it ends; the API server may have given it another life than was asked for.
    pub(crate) expires: Timestamp,
}

/// Why there is no JWT that would do. Never quotes it beyond issuer and audiences.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JwtProblem {
    /// The API server does not make one for us.
    #[error(
        "there is no token for ServiceAccount {account}: {refusal}; let us create \
         serviceaccounts/token for it, and set OPERATOR_NAMESPACE and OPERATOR_SERVICE_ACCOUNT if \
         it is not ours"
    )]
    Refused { account: String, refusal: ApiError },
    /// It has not the form of one.
    #[error(
        "what we would log in with is no JWT (three parts in base64, the second one JSON with \
         claims), so its issuer and audience cannot be checked"
    )]
    NoJwt,
    /// Somebody else issued it.
    #[error(
        "the JWT was issued by {found:?} and expectedIssuer is {expected:?}; use a JWT of that \
         issuer, or correct expectedIssuer"
    )]
    Issuer { expected: String, found: String },
    /// It is meant for others.
    #[error(
        "the JWT is for the audiences {found:?} and expectedAudience is {expected:?}; use a JWT \
         for that audience, or correct expectedAudience"
    )]
    Audience {
        expected: String,
        found: Vec<String>,
    },
}

impl JwtProblem {
    /// What it means to the caller.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Refused { refusal, .. } => refusal.class(),
            Self::NoJwt | Self::Issuer { .. } | Self::Audience { .. } => Class::Denied,
        }
    }
}

/// What a JWT must say of itself before it is sent to anyone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Who issued it.
    pub(crate) issuer: Option<String>,
    /// One of the audiences it is for.
    pub(crate) audience: Option<String>,
}

impl Expected {
    /// Looks at the claims. The signature is Vault's to check.
    pub(crate) fn check(&self, jwt: &Secret) -> Result<(), JwtProblem> {
        if *self == Self::default() {
            return Ok(());
        }
        let claims = claims(jwt.expose()).ok_or(JwtProblem::NoJwt)?;
        if let Some(expected) = &self.issuer
            && *expected != claims.iss
        {
            return Err(JwtProblem::Issuer {
                expected: expected.clone(),
                found: cap(&claims.iss, TOLD),
            });
        }
        let audiences = claims.aud.list();
        if let Some(expected) = &self.audience
            && !audiences.contains(expected)
        {
            return Err(JwtProblem::Audience {
                expected: expected.clone(),
                found: told(&audiences),
            });
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    iss: String,
    #[serde(default)]
    aud: Audiences,
}

/// One audience may stand without a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Default for Audiences {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Audiences {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(audience) => vec![audience],
            Self::Several(audiences) => audiences,
        }
    }
}

/// The claims of a text that has the form of a JWT.
fn claims(jwt: &str) -> Option<Claims> {
    let parts: Vec<_> = jwt.trim().split('.').collect();
    let [_header, claims, _signature] = parts.as_slice() else {
        return None;
    };
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

fn told(audiences: &[String]) -> Vec<String> {
    let few = audiences.iter().take(5);
    few.map(|audience| cap(audience, TOLD)).collect()
}

/// A JWT that was found, checked at each login.
pub(crate) fn given(jwt: Secret, expected: Expected) -> Source<Secret> {
    Source::new(move || {
        let checked = expected.check(&jwt).map(|()| jwt.clone());
        std::future::ready(checked.map_err(|problem| SourceError::new(Problem::from(problem))))
    })
}

/// A token of our own ServiceAccount, made anew for each login.
#[derive(Clone)]
pub(crate) struct OwnToken {
    pub(crate) kube: Client,
    pub(crate) account: ServiceAccountRef,
    /// Whom it is for; nobody named means the API server itself.
    pub(crate) audiences: Vec<String>,
    /// How long it should live.
    pub(crate) life: Duration,
}

impl OwnToken {
    /// Makes one.
    ///
    /// # Errors
    /// [`Problem::Jwt`] when somebody has to grant it, [`Problem::Api`] when the API server failed
    /// us or somebody else leads.
    pub(crate) async fn issue(&self) -> Result<Issued, Problem> {
        let ServiceAccountRef { namespace, name } = &self.account;
        let url = ServiceAccount::url_path(&(), Some(namespace));
        let asked = asked(&self.audiences, self.life);
        let asked = serde_json::to_vec(&asked).expect("texts and numbers are JSON");
        let request =
            Request::new(url).create_subresource("token", name, &PostParams::default(), asked);
        let answer = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => self.kube.request_text(request).await,
            Err(error) => Err(error),
        };
        let answer = answer.map_err(|error| self.refused(error))?;
        let answer: TokenRequest = parsed(self.what(), &answer)?;
        let status = answer.status.ok_or_else(|| ApiError::Unreadable {
            what: self.what(),
            message: "there is no token in it".to_owned(),
        })?;
        Ok(Issued {
            token: Secret::new(status.token),
            expires: status.expiration_timestamp.0,
        })
    }

    /// The same as a [`Source`]; each one is checked before it is handed out.
    pub(crate) fn source(self, expected: Expected) -> Source<Secret> {
        Source::new(move || {
            let (own, expected) = (self.clone(), expected.clone());
            async move {
                let checked = async {
                    let Issued { token, .. } = own.issue().await?;
                    expected.check(&token)?;
                    Ok::<_, Problem>(token)
                };
                checked.await.map_err(SourceError::new)
            }
        })
    }

    fn what(&self) -> String {
        let ServiceAccountRef { namespace, name } = &self.account;
        format!("create a token for ServiceAccount {namespace}/{name}")
    }

    fn refused(&self, error: kube::Error) -> Problem {
        let error = ApiError::classify(self.what(), error);
        if error.class().heals_by_itself() {
            return error.into();
        }
        let ServiceAccountRef { namespace, name } = &self.account;
        let refused = JwtProblem::Refused {
            account: format!("{namespace}/{name}"),
            refusal: error,
        };
        refused.into()
    }
}

fn asked(audiences: &[String], life: Duration) -> TokenRequest {
    let seconds = life.as_secs().clamp(SHORTEST, LONGEST);
    TokenRequest {
        spec: TokenRequestSpec {
            audiences: audiences.to_vec(),
            expiration_seconds: Some(i64::try_from(seconds).expect("LONGEST fits")),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn jwt(claims: &Value) -> Secret {
        let part = |part: &str| URL_SAFE_NO_PAD.encode(part);
        let claims = part(&claims.to_string());
        Secret::new(format!("{}.{claims}.{}\n", part("{}"), part("hush-hush")))
    }

    fn expected(issuer: &str, audience: &str) -> Expected {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Expected {
            issuer: given(issuer),
            audience: given(audience),
        }
    }

    #[rstest]
    #[case::both("me", "vault")]
    #[case::issuer_only("me", "")]
    #[case::one_of_several_audiences("", "other")]
    fn a_jwt_that_says_what_is_expected_passes(#[case] issuer: &str, #[case] audience: &str) {
        let jwt = jwt(&json!({"iss": "me", "aud": ["vault", "other"]}));
        assert!(expected(issuer, audience).check(&jwt).is_ok());
    }

    #[test]
    fn one_audience_may_stand_without_a_list() {
        let jwt = jwt(&json!({"aud": "vault"}));
        assert!(expected("", "vault").check(&jwt).is_ok());
    }

    #[rstest]
    #[case::another_issuer(
        json!({"iss": "you"}),
        expected("me", ""),
        r#"the JWT was issued by "you" and expectedIssuer is "me""#
    )]
    #[case::no_issuer(
        json!({}),
        expected("me", ""),
        r#"the JWT was issued by "" and expectedIssuer is "me""#
    )]
    #[case::another_audience(
        json!({"aud": ["a", "b"]}),
        expected("", "vault"),
        r#"the JWT is for the audiences ["a", "b"] and expectedAudience is "vault""#
    )]
    #[case::no_audience(
        json!({}),
        expected("", "vault"),
        r#"the JWT is for the audiences [] and expectedAudience is "vault""#
    )]
    fn a_jwt_that_says_otherwise_is_not_sent(
        #[case] claims: Value,
        #[case] expected: Expected,
        #[case] told: &str,
    ) {
        let problem = expected.check(&jwt(&claims)).unwrap_err();
        assert!(problem.to_string().starts_with(told), "{problem}");
        assert_eq!(problem.class(), Class::Denied);
    }

    #[rstest]
    #[case::no_parts("hush-hush")]
    #[case::no_base64("hush.!hush!.hush")]
    #[case::no_json("aHVzaA.aHVzaA.aHVzaA")]
    #[case::too_many_parts("aHVzaA.e30.aHVzaA.aHVzaA")]
    fn what_is_no_jwt_is_not_quoted(#[case] text: &str) {
        let secret = Secret::new(text.to_owned());
        let problem = expected("me", "").check(&secret).unwrap_err();
        assert!(matches!(problem, JwtProblem::NoJwt));
        assert!(!problem.to_string().contains("hush"));
    }

    #[test]
    fn without_expectations_nothing_is_looked_at() {
        let secret = Secret::new("hush-hush".to_owned());
        assert!(Expected::default().check(&secret).is_ok());
    }

    #[test]
    fn what_a_message_tells_of_claims_is_bounded() {
        let long = "x".repeat(5000);
        let audiences: Vec<_> = (0..50).map(|n| format!("{long}{n}")).collect();
        let jwt = jwt(&json!({"iss": long, "aud": audiences}));
        for expected in [expected("me", ""), expected("", "vault")] {
            let told = expected.check(&jwt).unwrap_err().to_string();
            assert!(told.len() < 4096, "{}", told.len());
        }
    }

    #[rstest]
    #[case::shorter_than_the_api_server_gives(60, 600)]
    #[case::as_asked(3600, 3600)]
    #[case::longer_than_it_gives(u64::MAX, 1 << 32)]
    fn a_life_is_one_that_the_api_server_gives(#[case] asked_for: u64, #[case] seconds: i64) {
        let audiences = ["vault".to_owned()];
        let spec = asked(&audiences, Duration::from_secs(asked_for)).spec;
        assert_eq!(spec.expiration_seconds, Some(seconds));
        assert_eq!(spec.audiences, audiences);
    }
}
