//! ACM: DescribeCertificate (JSON 1.1, us-east-1).
//!
//! Certificates are edited by `mutate`, one change per request:
//! - `{"service": "acm", "certificate": {"arn", "names": ["*.example.com"], "status"?}}` adds one;
//!   the first name is its domain name, the status `ISSUED` unless given;
//! - `{"service": "acm", "delete": "<arn>"}`.
//!
//! CloudFront reads the same certificates and adds its managed ones.

mod certificates;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

pub use certificates::{Certificate, Certificates, Status};

use crate::control::read;
use crate::protocol::{ApiError, Protocol};
use crate::service::{Call, ControlError, Moment, Operation, Service, Violation};
use crate::wire::{Request, Response};

/// The emulated ACM.
#[derive(Debug)]
pub struct Acm {
    certificates: Arc<Mutex<Certificates>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Describe {
    certificate_arn: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum CertificateChange {
    Certificate(CertificateSeed),
    Delete(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateSeed {
    arn: String,
    names: Vec<String>,
    #[serde(default)]
    status: Status,
}

impl Acm {
    /// An ACM with certificates that it shares with other services.
    pub fn new(certificates: Arc<Mutex<Certificates>>) -> Self {
        Self { certificates }
    }

    fn describe(&self, call: &Call<'_>, arn: &str) -> Result<Value, ApiError> {
        let account = account(arn).ok_or_else(|| {
            ApiError::new(
                400,
                "ValidationException",
                &format!("Invalid Arn: {arn} is no certificate"),
            )
        })?;
        let caller = call.caller.filter(|caller| caller.account == account);
        caller.ok_or_else(|| {
            let message =
                format!("You are not authorized to perform acm:DescribeCertificate on {arn}");
            ApiError::new(400, "AccessDeniedException", &message)
        })?;
        let certificates = self.certificates.lock();
        let certificate = certificates.get(arn).ok_or_else(|| {
            let message = format!("Could not find certificate {arn}.");
            ApiError::new(400, "ResourceNotFoundException", &message)
        })?;
        Ok(json!({ "Certificate": shown(certificate) }))
    }
}

fn shown(certificate: &Certificate) -> Value {
    let kind = "AMAZON_ISSUED";
    json!({
        "CertificateArn": certificate.arn,
        "DomainName": certificate.names.first(),
        "SubjectAlternativeNames": certificate.names,
        "Status": certificate.status.acm(),
        "Type": kind,
        "KeyAlgorithm": "RSA-2048",
        "SignatureAlgorithm": "SHA256WITHRSA",
        "CreatedAt": certificate.since.as_second(),
        "InUseBy": [],
        "RenewalEligibility": "ELIGIBLE",
        "ManagedBy": certificate.managed.then_some("CLOUDFRONT"),
    })
}

/// The account in a certificate's ARN, if it is one.
pub(crate) fn account(arn: &str) -> Option<&str> {
    let (account, rest) = arn
        .strip_prefix("arn:aws:acm:us-east-1:")?
        .split_once(':')?;
    rest.strip_prefix("certificate/")
        .filter(|id| !id.is_empty())
        .map(|_| account)
}

impl Service for Acm {
    fn name(&self) -> &'static str {
        "acm"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Json11
    }

    fn regions(&self) -> Option<&'static [&'static str]> {
        Some(&["us-east-1"])
    }

    fn is_for_roles(&self) -> bool {
        false
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        let name = request
            .target("CertificateManager")
            .filter(|name| *name == "DescribeCertificate")?;
        let body: Value = request.json().unwrap_or_default();
        Some(Operation {
            name: name.to_owned(),
            resource: body["CertificateArn"].as_str().map(str::to_owned),
        })
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let Describe { certificate_arn } = request.json()?;
        let answer = self.describe(call, &certificate_arn)?;
        Ok(Response::json(200, "application/x-amz-json-1.1", &answer))
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        let mut certificates = self.certificates.lock();
        match read("mutate acm", change)? {
            CertificateChange::Certificate(CertificateSeed { arn, names, status }) => {
                if account(&arn).is_none() || names.is_empty() {
                    return Err(ControlError::invalid(
                        "mutate acm: a certificate has an arn (arn:aws:acm:us-east-1:<account>:certificate/<id>) and names",
                    ));
                }
                certificates.put(Certificate {
                    arn,
                    names,
                    status,
                    managed: false,
                    since: moment.now,
                });
            }
            CertificateChange::Delete(arn) => {
                if !certificates.remove(&arn) {
                    return Err(ControlError::unknown(format!("no certificate {arn}")));
                }
            }
        }
        Ok(json!({}))
    }

    fn state(&self, _moment: &Moment<'_>) -> Value {
        let certificates = self.certificates.lock();
        json!({ "certificates": certificates.all().collect::<Vec<_>>() })
    }

    fn violations(&self) -> Vec<Violation> {
        Vec::new()
    }

    fn reset(&mut self) {
        *self.certificates.lock() = Certificates::default();
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use crate::desk::Desk;

    const ARN: &str = "arn:aws:acm:us-east-1:000000000000:certificate/1";

    fn described(desk: &mut Desk, key: &str, arn: &str) -> (u16, serde_json::Value) {
        let body = json!({ "CertificateArn": arn }).to_string();
        let target = ("x-amz-target", "CertificateManager.DescribeCertificate");
        let answer = desk.as_key(key, "acm", Method::POST, "/", &[target], &body);
        (answer.status, answer.json())
    }

    #[test]
    fn a_certificate_has_its_names_and_its_status() {
        let mut desk = Desk::new();
        let seed = json!({ "arn": ARN, "names": ["*.example.com", "example.com"] });
        desk.mutate("acm", json!({ "certificate": seed }));
        let (status, answer) = described(&mut desk, "test", ARN);
        assert_eq!(status, 200);
        let certificate = &answer["Certificate"];
        assert_eq!(certificate["DomainName"], "*.example.com");
        assert_eq!(certificate["SubjectAlternativeNames"][1], "example.com");
        assert_eq!(certificate["Status"], "ISSUED");
    }

    #[test]
    fn unknown_and_foreign_certificates_have_different_errors() {
        let mut desk = Desk::new();
        let (status, answer) = described(&mut desk, "test", ARN);
        assert_eq!(
            (status, &answer["__type"]),
            (400, &json!("ResourceNotFoundException"))
        );
        let (_, answer) = described(&mut desk, "AKIA222222222222", ARN);
        assert_eq!(answer["__type"], "AccessDeniedException");
    }

    #[test]
    fn a_seed_without_names_is_refused() {
        let mut desk = Desk::new();
        let message = desk.refused("acm", json!({ "certificate": { "arn": ARN, "names": [] } }));
        assert!(message.contains("names"), "{message}");
    }
}
