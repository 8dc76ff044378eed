//! Certificate Manager in us-east-1: names and status of a certificate.

use crate::call::Call;
use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::Hosts;
use crate::{Account, Caller, Error, Fault, Operation, Service};

impl Service {
    /// Certificate Manager.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const Acm: Self = Self(&ServiceRow {
        name: "acm",
        id: "ACM",
        signing: "acm",
        hosts: Hosts::Regional("acm"),
        region: Some("us-east-1"),
        fault: |code, _| (code == "ResourceNotFoundException").then_some(Fault::OtherMissing),
    });
}

const ALL: Limit = Limit {
    label: "acm",
    rates: RateRange::new(5.0, 0.2, 10.0),
};

operations! { Acm "ACM":
    Read DescribeCertificate ALL;
}

/// Certificate Manager, used by one caller; see [`Account::acm`].
#[derive(Debug, Clone)]
pub struct Acm {
    account: Account,
    caller: Caller,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its ARN.
    pub arn: String,
    /// The names it covers.
    pub names: Vec<String>,
    /// Its status in ACM: `ISSUED`.
    pub status: String,
}

impl Acm {
    pub(crate) fn new(account: Account, caller: Caller) -> Self {
        Self { account, caller }
    }

    /// The certificate of this ARN.
    pub async fn certificate(&self, arn: &str) -> Result<Certificate, Error> {
        let call = Call::new(Operation::DescribeCertificate, arn);
        let client = self.account.acm_client();
        let send = || client.describe_certificate().certificate_arn(arn).send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        let detail = answer
            .certificate
            .ok_or_else(|| call.lacks("Certificate"))?;
        let mut names = detail.subject_alternative_names.unwrap_or_default();
        // The alternative names contain the main name, except in certificates imported long ago.
        if let Some(main) = detail.domain_name
            && !names.contains(&main)
        {
            names.insert(0, main);
        }
        let status = detail.status.ok_or_else(|| call.lacks("Status"))?;
        Ok(Certificate {
            arn: detail.certificate_arn.unwrap_or_else(|| arn.to_owned()),
            names,
            status: status.as_str().to_owned(),
        })
    }
}
