//! AWS: a request to STS, signed by us (Signature Version 4) and sent by Vault.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use reqwest::Url;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::Proof;
use crate::Secret;

const QUESTION: &str = "Action=GetCallerIdentity&Version=2011-06-15";
const GLOBAL_ENDPOINT: &str = "https://sts.amazonaws.com/";
/// The region that the global endpoint is signed for.
const GLOBAL_REGION: &str = "us-east-1";
const SERVER_ID: &str = "x-vault-aws-iam-server-id";

/// Keys of an IAM principal.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    /// Access key ID.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: Secret,
    /// Session token, for keys that expire.
    pub session_token: Option<Secret>,
}

/// The endpoint of STS, and the Vault server it is for.
pub(super) struct Question<'a> {
    pub(super) region: Option<&'a str>,
    pub(super) endpoint: Option<&'a str>,
    pub(super) server_id: Option<&'a str>,
}

/// The body of a login with the signed request.
pub(super) fn proof(
    role: &str,
    question: &Question<'_>,
    keys: &AwsKeys,
    now: Timestamp,
) -> Result<Proof, String> {
    let endpoint = match (question.endpoint, question.region) {
        (Some(endpoint), _) => endpoint.to_owned(),
        (None, Some(region)) if region.starts_with("cn-") => {
            format!("https://sts.{region}.amazonaws.com.cn/")
        }
        (None, Some(region)) => format!("https://sts.{region}.amazonaws.com/"),
        (None, None) => GLOBAL_ENDPOINT.to_owned(),
    };
    let url = Url::parse(&endpoint)
        .ok()
        .filter(Url::has_host)
        .ok_or_else(|| format!("{endpoint:?} is no address of STS"))?;
    let mut headers = BTreeMap::from([(
        "content-type".to_owned(),
        "application/x-www-form-urlencoded; charset=utf-8".to_owned(),
    )]);
    if let Some(id) = question.server_id {
        headers.insert(SERVER_ID.to_owned(), id.to_owned());
    }
    let signing = Signing {
        region: question.region.unwrap_or(GLOBAL_REGION),
        service: "sts",
        now,
    };
    let headers = signing.signed(keys, &url, headers, QUESTION);
    let listed: BTreeMap<_, _> = headers.iter().map(|(k, v)| (k, [v])).collect();
    let listed = serde_json::to_string(&listed).expect("texts are JSON");
    let mut secrets = vec![
        keys.secret_access_key.expose().clone(),
        headers["authorization"].clone(),
    ];
    secrets.extend(
        keys.session_token
            .iter()
            .map(|token| token.expose().clone()),
    );
    Ok(Proof {
        body: json!({
            "role": role,
            "iam_http_request_method": "POST",
            "iam_request_url": STANDARD.encode(url.as_str()),
            "iam_request_body": STANDARD.encode(QUESTION),
            "iam_request_headers": STANDARD.encode(listed),
        }),
        secrets,
    })
}

/// What a signature is computed for.
struct Signing<'a> {
    region: &'a str,
    service: &'a str,
    now: Timestamp,
}

impl Signing<'_> {
    /// `headers` of a POST of `body`, with host, date and signature added.
    fn signed(
        &self,
        keys: &AwsKeys,
        url: &Url,
        mut headers: BTreeMap<String, String>,
        body: &str,
    ) -> BTreeMap<String, String> {
        let utc = self.now.to_zoned(TimeZone::UTC);
        let date = utc.strftime("%Y%m%d").to_string();
        let moment = utc.strftime("%Y%m%dT%H%M%SZ").to_string();
        let host = url.host_str().unwrap_or_default();
        let host = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        headers.insert("host".to_owned(), host);
        headers.insert("x-amz-date".to_owned(), moment.clone());
        if let Some(token) = &keys.session_token {
            headers.insert("x-amz-security-token".to_owned(), token.expose().clone());
        }

        let names: Vec<&str> = headers.keys().map(String::as_str).collect();
        let names = names.join(";");
        let lines = headers.iter().fold(String::new(), |lines, (name, value)| {
            lines + name + ":" + value.trim() + "\n"
        });
        let request = format!(
            "POST\n{}\n{}\n{lines}\n{names}\n{}",
            url.path(),
            url.query().unwrap_or_default(),
            hex(&Sha256::digest(body))
        );
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let text = format!(
            "AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}",
            hex(&Sha256::digest(request))
        );
        let first = format!("AWS4{}", keys.secret_access_key.expose());
        let key = [&date, self.region, self.service, "aws4_request"]
            .iter()
            .fold(first.into_bytes(), |key, part| mac(&key, part));
        let signature = hex(&mac(&key, &text));
        headers.insert(
            "authorization".to_owned(),
            format!(
                "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, \
                 Signature={signature}",
                keys.access_key_id
            ),
        );
        headers
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn keys(session_token: Option<&str>) -> AwsKeys {
        AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            session_token: session_token.map(|token| Secret::from(token.to_owned())),
        }
    }

    fn moment() -> Timestamp {
        "2015-08-30T12:36:00Z".parse().unwrap()
    }

    #[test]
    fn a_signature_equals_that_of_awss_example() {
        let signing = Signing {
            region: "us-east-1",
            service: "service",
            now: moment(),
        };
        let url = Url::parse("https://example.amazonaws.com/").unwrap();
        let headers = signing.signed(&keys(None), &url, BTreeMap::new(), "");
        assert_eq!(
            headers["authorization"],
            "AWS4-HMAC-SHA256 \
             Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    fn decoded(body: &Value, field: &str) -> String {
        String::from_utf8(STANDARD.decode(body[field].as_str().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn china_has_its_own_domain() {
        let question = Question {
            region: Some("cn-north-1"),
            endpoint: None,
            server_id: None,
        };
        let proof = proof("app", &question, &keys(None), moment()).unwrap();
        assert_eq!(
            decoded(&proof.body, "iam_request_url"),
            "https://sts.cn-north-1.amazonaws.com.cn/"
        );
    }

    #[test]
    fn the_server_id_header_is_signed_too() {
        let question = Question {
            region: Some("eu-west-1"),
            endpoint: None,
            server_id: Some("vault.example.com"),
        };
        let proof = proof("app", &question, &keys(Some("session")), moment()).unwrap();
        assert_eq!(
            decoded(&proof.body, "iam_request_url"),
            "https://sts.eu-west-1.amazonaws.com/"
        );
        assert_eq!(decoded(&proof.body, "iam_request_body"), QUESTION);
        let headers: BTreeMap<String, Vec<String>> =
            serde_json::from_str(&decoded(&proof.body, "iam_request_headers")).unwrap();
        assert_eq!(headers[SERVER_ID], ["vault.example.com"]);
        let authorization = &headers["authorization"][0];
        let signed = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;\
                      x-vault-aws-iam-server-id";
        assert!(authorization.contains(signed), "{authorization}");
        assert!(authorization.contains("/20150830/eu-west-1/sts/"));
    }

    #[test]
    fn without_a_region_the_global_endpoint_is_used() {
        let question = Question {
            region: None,
            endpoint: None,
            server_id: None,
        };
        let proof = proof("app", &question, &keys(None), moment()).unwrap();
        assert_eq!(decoded(&proof.body, "iam_request_url"), GLOBAL_ENDPOINT);
        assert!(decoded(&proof.body, "iam_request_headers").contains("/us-east-1/sts/"));
    }

    #[test]
    fn the_keys_are_redacted() {
        let question = Question {
            region: None,
            endpoint: None,
            server_id: None,
        };
        let proof = proof("app", &question, &keys(Some("session")), moment()).unwrap();
        assert!(proof.secrets.contains(&"session".to_owned()));
        assert!(
            proof
                .secrets
                .iter()
                .any(|secret| secret.starts_with("wJalr"))
        );
    }
}
