//! Google Cloud: a JWT for the audience `vault/<role>`, signed with a service account's key or
//! issued by the metadata server of a machine.

use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kernel::tcp;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;

use super::SourceError;
use crate::Secret;

/// The metadata server of machines in Google Cloud.
pub const GCE_METADATA: &str = "http://metadata.google.internal";
/// The server is local: either it answers at once, or this machine is not in Google Cloud.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
/// Vault accepts JWTs that expire within this time.
const LIFE_SECONDS: i64 = 15 * 60;

/// The fields of Google's key file that we use.
#[derive(Deserialize)]
struct KeyFile {
    client_email: String,
    private_key_id: String,
    private_key: String,
}

/// A JWT that proves the possession of `credentials`.
pub(super) fn signed(
    role: &str,
    service_account: Option<&str>,
    credentials: &Secret,
    now: Timestamp,
) -> Result<Secret, String> {
    // serde's message may quote the file, so it is not passed on.
    let file: KeyFile = serde_json::from_str(credentials.expose()).map_err(|_| {
        "the credentials are not the JSON key file of a service account \
         (client_email, private_key_id, private_key)"
            .to_owned()
    })?;
    let der = PrivatePkcs8KeyDer::from_pem_slice(file.private_key.as_bytes())
        .map_err(|_| "private_key of the credentials is no PKCS #8 PEM".to_owned())?;
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der())
        .map_err(|_| "private_key of the credentials is no RSA key".to_owned())?;

    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": file.private_key_id });
    let issued = now.as_second();
    let claims = json!({
        "sub": service_account.unwrap_or(&file.client_email),
        "aud": format!("vault/{role}"),
        "iat": issued,
        "exp": issued + LIFE_SECONDS,
    });
    let text = [header, claims]
        .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()))
        .join(".");
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    )
    .map_err(|_| "the key of the credentials does not sign".to_owned())?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Ok(Secret::new(format!("{text}.{signature}")))
}

/// The machine's identity token.
pub(super) async fn identity(metadata: &str, role: &str) -> Result<Secret, SourceError> {
    let answer = async {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(METADATA_TIMEOUT)
            .tcp_keepalive(tcp::KEEPALIVE)
            .tcp_keepalive_interval(tcp::KEEPALIVE_INTERVAL)
            .tcp_keepalive_retries(tcp::KEEPALIVE_RETRIES);
        #[cfg(target_os = "linux")]
        let http = http.tcp_user_timeout(tcp::user_timeout(&[])); // it only reads
        let http = http.build()?;
        let mut url = format!("{metadata}/computeMetadata/v1/instance/service-accounts/default");
        url.push_str("/identity?format=full&audience=");
        // The role's name may contain any character, so it is encoded for the URL.
        let audience = format!("http://vault/{role}");
        let audience = audience.bytes().map(|byte| format!("%{byte:02X}"));
        url.extend(audience);
        let request = http.get(url).header("Metadata-Flavor", "Google");
        request.send().await?.error_for_status()?.text().await
    };
    answer.await.map(Secret::new).map_err(SourceError::new)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;

    use super::*;

    fn moment() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_jwt_names_account_and_role_and_is_signed_by_the_key() {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'_> = key.as_der().unwrap();
        let pem = STANDARD.encode(der.as_ref());
        let file = json!({
            "client_email": "app@project.iam.gserviceaccount.com",
            "private_key_id": "key-1",
            "private_key":
                format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n"),
        });
        let jwt = signed("reader", None, &file.to_string().into(), moment()).unwrap();

        let parts: Vec<&str> = jwt.expose().split('.').collect();
        let part = |n: usize| URL_SAFE_NO_PAD.decode(parts[n]).unwrap();
        let json = |n| serde_json::from_slice::<Value>(&part(n)).unwrap();
        assert_eq!(json(0)["kid"], "key-1");
        let issued = moment().as_second();
        assert_eq!(
            json(1),
            json!({
                "sub": "app@project.iam.gserviceaccount.com",
                "aud": "vault/reader",
                "iat": issued,
                "exp": issued + 900,
            })
        );
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
        let text = format!("{}.{}", parts[0], parts[1]);
        public.verify(text.as_bytes(), &part(2)).unwrap();
    }

    #[test]
    fn invalid_credentials_are_refused_without_being_quoted() {
        for text in ["hush-hush", r#"{"client_email":"hush-hush"}"#] {
            let wrong = signed("reader", None, &text.to_owned().into(), moment()).unwrap_err();
            assert!(!wrong.contains("hush"), "{wrong}");
        }
    }
}
