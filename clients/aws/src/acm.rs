//! Certificate Manager in us-east-1: names and status of a certificate.

use crate::call::Call;
use crate::{Account, Caller, Error, Operation};

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
