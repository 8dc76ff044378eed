//! The certificates of all accounts, shared by ACM and CloudFront.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a certificate. Its JSON is CloudFront's name for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The domains are not validated yet.
    PendingValidation,
    /// It can be used.
    #[default]
    Issued,
    /// It was unused for too long.
    Inactive,
    /// It has expired.
    Expired,
    /// The domains were not validated in time.
    ValidationTimedOut,
    /// It was revoked.
    Revoked,
    /// It was refused.
    Failed,
}

impl Status {
    /// CloudFront's name for it.
    pub fn cloudfront(self) -> &'static str {
        match self {
            Self::PendingValidation => "pending-validation",
            Self::Issued => "issued",
            Self::Inactive => "inactive",
            Self::Expired => "expired",
            Self::ValidationTimedOut => "validation-timed-out",
            Self::Revoked => "revoked",
            Self::Failed => "failed",
        }
    }

    /// ACM's name for it.
    pub fn acm(self) -> String {
        self.cloudfront().replace('-', "_").to_uppercase()
    }
}

/// A certificate.
#[derive(Debug, Clone, Serialize)]
pub struct Certificate {
    /// ARN, in us-east-1.
    pub arn: String,
    /// The names it covers, the main one first.
    pub names: Vec<String>,
    /// Its status.
    pub status: Status,
    /// Whether CloudFront requested it.
    pub managed: bool,
    /// When it was requested.
    pub since: Timestamp,
}

impl Certificate {
    /// Whether it is issued and covers `domain`.
    pub fn covers(&self, domain: &str) -> bool {
        self.status == Status::Issued && self.names.iter().any(|name| fits(name, domain))
    }
}

/// Equal, or `*.x` for exactly one more label; case is ignored.
fn fits(name: &str, domain: &str) -> bool {
    if name.eq_ignore_ascii_case(domain) {
        return true;
    }
    match (name.strip_prefix("*."), domain.split_once('.')) {
        (Some(base), Some((label, rest))) => label != "*" && base.eq_ignore_ascii_case(rest),
        (Some(_) | None, _) => false,
    }
}

/// All certificates, by ARN.
#[derive(Debug, Default)]
pub struct Certificates {
    by_arn: BTreeMap<String, Certificate>,
}

impl Certificates {
    /// The certificate of this ARN.
    pub fn get(&self, arn: &str) -> Option<&Certificate> {
        self.by_arn.get(arn)
    }

    /// Adds a certificate, or replaces the one of the same ARN.
    pub fn put(&mut self, certificate: Certificate) {
        self.by_arn.insert(certificate.arn.clone(), certificate);
    }

    /// Changes the status of a certificate.
    pub fn set(&mut self, arn: &str, status: Status) {
        if let Some(certificate) = self.by_arn.get_mut(arn) {
            certificate.status = status;
        }
    }

    /// Removes a certificate; `false` if there is none.
    pub fn remove(&mut self, arn: &str) -> bool {
        self.by_arn.remove(arn).is_some()
    }

    /// All certificates.
    pub fn all(&self) -> impl Iterator<Item = &Certificate> {
        self.by_arn.values()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::itself("a.example.com", "a.example.com", true)]
    #[case::another_case("A.example.com", "a.EXAMPLE.com", true)]
    #[case::one_more_label("*.example.com", "a.example.com", true)]
    #[case::the_apex("*.example.com", "example.com", false)]
    #[case::two_more_labels("*.example.com", "a.b.example.com", false)]
    #[case::the_same_wildcard("*.example.com", "*.example.com", true)]
    #[case::a_deeper_wildcard("*.example.com", "*.b.example.com", false)]
    fn a_certificate_covers(#[case] name: &str, #[case] domain: &str, #[case] covered: bool) {
        assert_eq!(fits(name, domain), covered);
    }

    #[test]
    fn a_certificate_that_is_not_issued_covers_nothing() {
        let mut certificate = Certificate {
            arn: String::new(),
            names: vec!["a.example.com".to_owned()],
            status: Status::Issued,
            managed: true,
            since: Timestamp::UNIX_EPOCH,
        };
        assert!(certificate.covers("a.example.com"));
        certificate.status = Status::PendingValidation;
        assert!(!certificate.covers("a.example.com"));
    }

    #[test]
    fn acm_and_cloudfront_name_a_status_differently() {
        assert_eq!(Status::ValidationTimedOut.acm(), "VALIDATION_TIMED_OUT");
        assert_eq!(
            Status::ValidationTimedOut.cloudfront(),
            "validation-timed-out"
        );
    }
}
