//! From a VaultConnection to what the client needs.
//!
//! ```text
//! spec ──▶ Secrets it names, read anew ──▶ settings, login ──▶ Config
//!                          └─ all of it ──▶ fingerprint
//! ```
//! Nothing else goes in: no variable of the environment but those of AWS, for its login.

use std::collections::BTreeMap;

use api::vault::{
    AppRoleAuth, Auth, AwsAuth, AwsAuthType, GcpAuth, GcpAuthType, JwtAuth, KubernetesAuth,
    OidcAuth, RateLimit, RenewalStrategy, TokenAuth, VaultConnection, VaultConnectionSpec, reasons,
};
use engine::{ApiError, Classified};
use kernel::Class;
use kube::Client;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use vault_client::{
    AuthMount, CALL_TIMEOUT, Config, GCE_METADATA, Limits, Login, Renewal, Secret, Settings,
    Source, Tls,
};

use super::aws_keys::{self, KeysProblem, ProcessAws};
use super::jwt::{self, Expected, JwtProblem, OwnToken, ServiceAccountRef};
use super::secrets::{Place, SecretProblem, Secrets};

/// The audience of our token where none is given.
const AUDIENCE: &str = "vault";

/// Why there is nothing to call Vault with. Holds no secret.
///
/// A [`Source`] fails with it, too: it is what
/// [`Error::Credentials`](vault_client::Error::Credentials) then has inside.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// A Secret must be created, filled or granted.
    #[error(transparent)]
    SecretNotReadable(#[from] SecretProblem),
    /// The spec asks for what cannot be.
    #[error("{0}")]
    Invalid(String),
    /// There is no JWT that would do.
    #[error(transparent)]
    Jwt(#[from] JwtProblem),
    /// There are no keys of AWS.
    #[error(transparent)]
    AwsKeys(#[from] KeysProblem),
    /// The API server failed us.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl Problem {
    /// What the Ready condition says.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::SecretNotReadable(_) => reasons::SECRET_NOT_READABLE,
            Self::Invalid(_) => reasons::VALIDATION_FAILED,
            Self::Jwt(_) => reasons::AUTH_FAILED,
            Self::AwsKeys(problem) if problem.class().heals_by_itself() => reasons::FAILED,
            Self::AwsKeys(_) => reasons::AUTH_FAILED,
            Self::Api(_) => reasons::FAILED,
        }
    }

    fn invalid(wrong: &str) -> Self {
        Self::Invalid(wrong.to_owned())
    }
}

impl Classified for Problem {
    fn class(&self) -> Class {
        match self {
            Self::SecretNotReadable(problem) => problem.class(),
            Self::Invalid(_) => Class::Invalid,
            Self::Jwt(problem) => problem.class(),
            Self::AwsKeys(problem) => problem.class(),
            Self::Api(error) => error.class(),
        }
    }
}

/// Reads the Secrets that `connection` names and makes of all a configuration. `own` is the
/// ServiceAccount we run as, for logins that show its token, and `aws` has the keys for those at `aws`.
///
/// Another content of any Secret is another fingerprint. The token of `bootstrap` is not read: it
/// prepares a login and takes no part in it.
pub(crate) async fn prepare(
    connection: &VaultConnection,
    kube: &Client,
    own: &ServiceAccountRef,
    aws: &ProcessAws,
) -> Result<Config, Problem> {
    let spec = &connection.spec;
    let mut secrets = Secrets::new(kube.clone());
    let settings = Settings {
        address: spec.address.clone(),
        vault_namespace: spec.vault_namespace.clone(),
        auth_namespace: spec.auth.vault_namespace.clone(),
        tls: tls(spec.tls.as_ref(), &mut secrets).await?,
        limits: limits(spec.rate_limit.unwrap_or_default()),
        timeout: CALL_TIMEOUT,
    };
    let login = Us { kube, own, aws }
        .login(&spec.auth, &mut secrets)
        .await?;
    Ok(Config {
        fingerprint: fingerprint(spec, secrets.taken()),
        settings,
        login,
        renewal: renewal(&spec.auth),
    })
}

async fn tls(tls: Option<&api::vault::Tls>, secrets: &mut Secrets) -> Result<Tls, Problem> {
    let Some(tls) = tls else {
        return Ok(Tls::default());
    };
    let api::vault::Tls {
        skip_verify,
        ca_secret_ref,
        client_cert_secret_ref,
        server_name,
    } = tls;
    let mut ready = Tls {
        skip_verify: skip_verify.unwrap_or_default(),
        server_name: given(server_name.as_ref()),
        ..Tls::default()
    };
    if let Some(ca) = ca_secret_ref {
        ready.ca_pem = Some(secrets.value(ca).await?.expose().clone());
    }
    if let Some(client) = client_cert_secret_ref {
        let (certificate, key) = secrets.tls(client).await?;
        ready.client_cert_pem = Some(certificate);
        ready.client_key_pem = Some(key);
    }
    Ok(ready)
}

fn limits(limit: RateLimit) -> Limits {
    let RateLimit {
        requests_per_second,
        burst,
        max_in_flight,
    } = limit;
    Limits {
        requests_per_second,
        burst,
        max_in_flight,
    }
}

fn renewal(auth: &Auth) -> Renewal {
    let strategy = auth.kubernetes.as_ref().map(|auth| auth.renewal_strategy);
    match strategy {
        Some(RenewalStrategy::Reauth) => Renewal::Reauth,
        Some(RenewalStrategy::Renew) | None => Renewal::Renew,
    }
}

/// An empty text is none.
fn given(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

/// Who logs in.
struct Us<'a> {
    kube: &'a Client,
    own: &'a ServiceAccountRef,
    aws: &'a ProcessAws,
}

impl Us<'_> {
    async fn login(&self, auth: &Auth, secrets: &mut Secrets) -> Result<Login, Problem> {
        let Auth {
            bootstrap,
            kubernetes,
            token,
            app_role,
            jwt,
            oidc,
            aws,
            gcp,
            vault_namespace: _,
        } = auth;
        if bootstrap.is_some() && kubernetes.is_none() {
            return Err(one_method());
        }
        match (kubernetes, token, app_role, jwt, oidc, aws, gcp) {
            (Some(auth), None, None, None, None, None, None) => Ok(self.kubernetes(auth)),
            (None, Some(auth), None, None, None, None, None) => by_token(auth, secrets).await,
            (None, None, Some(auth), None, None, None, None) => by_app_role(auth, secrets).await,
            (None, None, None, Some(auth), None, None, None) => self.jwt(auth, secrets).await,
            (None, None, None, None, Some(auth), None, None) => self.oidc(auth, secrets).await,
            (None, None, None, None, None, Some(auth), None) => by_aws(auth, self.aws),
            (None, None, None, None, None, None, Some(auth)) => by_gcp(auth, secrets).await,
            _ => Err(one_method()),
        }
    }

    fn kubernetes(&self, auth: &KubernetesAuth) -> Login {
        let audiences = vec![auth.audience().to_owned()];
        let token = self.token(audiences, &auth.token_duration);
        Login::Kubernetes {
            mount: AuthMount::new(&auth.auth_path),
            role: auth.role.clone(),
            jwt: token.source(Expected::default()),
        }
    }

    async fn jwt(&self, auth: &JwtAuth, secrets: &mut Secrets) -> Result<Login, Problem> {
        let expected = Expected {
            issuer: given(auth.expected_issuer.as_ref()),
            audience: given(auth.expected_audience.as_ref()),
        };
        let jwt = if let Some(key) = &auth.jwt_secret_ref {
            jwt::given(secrets.value(key).await?, expected)
        } else {
            // No audience would mean the API server's own: such a token is not shown to others.
            let audiences = match auth.audiences.as_slice() {
                [] => vec![AUDIENCE.to_owned()],
                audiences => audiences.to_vec(),
            };
            let token = self.token(audiences, &auth.token_duration);
            token.source(expected)
        };
        Ok(Login::Jwt {
            mount: AuthMount::new(&auth.auth_path),
            role: auth.role.clone(),
            jwt,
        })
    }

    async fn oidc(&self, auth: &OidcAuth, secrets: &mut Secrets) -> Result<Login, Problem> {
        let jwt = match (auth.use_service_account_token, &auth.jwt_secret_ref) {
            (true, _) => {
                let token = self.token(auth.audiences(), &auth.token_duration);
                token.source(Expected::default())
            }
            (false, Some(key)) => Source::given(secrets.value(key).await?),
            (false, None) => {
                let wrong = "auth.oidc: useServiceAccountToken: false needs jwtSecretRef";
                return Err(Problem::invalid(wrong));
            }
        };
        Ok(Login::Jwt {
            mount: AuthMount::new(&auth.auth_path),
            role: auth.role.clone(),
            jwt,
        })
    }

    fn token(&self, audiences: Vec<String>, life: &api::vault::Duration) -> OwnToken {
        OwnToken {
            kube: self.kube.clone(),
            account: self.own.clone(),
            audiences,
            life: life.as_std(),
        }
    }
}

/// What the CRD says; an object stored before it did may still break the rule.
fn one_method() -> Problem {
    Problem::invalid("auth: set exactly one auth method (bootstrap only beside kubernetes)")
}

async fn by_token(auth: &TokenAuth, secrets: &mut Secrets) -> Result<Login, Problem> {
    Ok(Login::Token {
        token: Source::given(secrets.value(&auth.secret_ref).await?),
    })
}

async fn by_app_role(auth: &AppRoleAuth, secrets: &mut Secrets) -> Result<Login, Problem> {
    Ok(Login::AppRole {
        mount: AuthMount::new(&auth.mount_path),
        role_id: auth.role_id.clone(),
        secret_id: Source::given(secrets.value(&auth.secret_id_ref).await?),
    })
}

fn by_aws(auth: &AwsAuth, aws: &ProcessAws) -> Result<Login, Problem> {
    match auth.auth_type {
        AwsAuthType::Iam => {}
        AwsAuthType::Ec2 => {
            let wrong = "auth.aws: ec2 login is not supported; use authType: iam";
            return Err(Problem::invalid(wrong));
        }
    }
    let region = given(auth.region.as_ref());
    if let Some(region) = &region
        && !aws_keys::is_region(region)
    {
        let wrong = format!("auth.aws.region: {region:?} is no region of AWS, such as eu-west-1");
        return Err(Problem::Invalid(wrong));
    }
    Ok(Login::Aws {
        mount: AuthMount::new(&auth.auth_path),
        role: auth.role.clone(),
        sts_endpoint: given(auth.sts_endpoint.as_ref()),
        server_id: given(auth.iam_server_id_header_value.as_ref()),
        keys: aws.keys(),
        region,
    })
}

async fn by_gcp(auth: &GcpAuth, secrets: &mut Secrets) -> Result<Login, Problem> {
    let mount = AuthMount::new(&auth.auth_path);
    let role = auth.role.clone();
    match (auth.auth_type, &auth.credentials_secret_ref) {
        (GcpAuthType::Gce, _) => Ok(Login::Gce {
            mount,
            role,
            metadata: GCE_METADATA.to_owned(),
        }),
        (GcpAuthType::Iam, Some(key)) => Ok(Login::GcpIam {
            mount,
            role,
            service_account: given(auth.service_account_email.as_ref()),
            credentials: Source::given(secrets.value(key).await?),
        }),
        (GcpAuthType::Iam, None) => Err(Problem::invalid(
            "auth.gcp: iam login signs with a service account's key; set credentialsSecretRef to \
             the Secret with its JSON key file, or authType: gce to log in as the machine we run \
             on",
        )),
    }
}

/// A hash of everything a login or a call depends on, but for tokens that are made for each login.
fn fingerprint(spec: &VaultConnectionSpec, secrets: &BTreeMap<Place, Secret>) -> String {
    let secrets: BTreeMap<String, &String> = secrets
        .iter()
        .map(|(place, value)| (place.to_string(), value.expose()))
        .collect();
    let whole = json!({
        "address": spec.address,
        "vaultNamespace": spec.vault_namespace,
        "tls": spec.tls,
        "auth": spec.auth,
        "rateLimit": spec.rate_limit.unwrap_or_default(),
        "secrets": secrets,
    });
    format!("{:x}", Sha256::digest(whole.to_string()))
}

#[cfg(test)]
mod tests;
