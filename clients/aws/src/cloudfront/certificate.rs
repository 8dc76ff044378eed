//! Certificates that CloudFront requests for a tenant.

use super::CloudFront;
use crate::call::Call;
use crate::{Error, Operation};

/// The state of a tenant's managed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCertificate {
    /// Its ARN, once it has one.
    pub arn: Option<String>,
    /// `pending-validation`, `issued`, `failed` and so on.
    pub status: String,
    /// Who serves the token that proves a domain: `cloudfront` or `self-hosted`.
    pub validation_token_host: Option<String>,
    /// The token that each domain has to serve.
    pub tokens: Vec<ValidationToken>,
}

/// Where CloudFront requests the token that proves a domain, and where the token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationToken {
    /// The domain.
    pub domain: String,
    /// Redirect this …
    pub redirect_from: Option<String>,
    /// … to this.
    pub redirect_to: Option<String>,
}

impl CloudFront {
    /// The managed certificate of the tenant of this id, name or ARN.
    ///
    /// # Errors
    /// [`EntityMissing`](crate::Fault::EntityMissing) also when the tenant has none.
    pub async fn managed_certificate(&self, tenant: &str) -> Result<ManagedCertificate, Error> {
        let call = Call::new(Operation::GetManagedCertificateDetails, tenant);
        let send = || {
            let request = self.client().get_managed_certificate_details();
            request.identifier(tenant).send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.managed_certificate_details;
        let received = received.ok_or_else(|| call.lacks("ManagedCertificateDetails"))?;
        let status = received.certificate_status;
        let status = status.ok_or_else(|| call.lacks("CertificateStatus"))?;
        let tokens = received.validation_token_details.unwrap_or_default();
        Ok(ManagedCertificate {
            arn: received.certificate_arn,
            status: status.as_str().to_owned(),
            validation_token_host: received
                .validation_token_host
                .map(|host| host.as_str().to_owned()),
            tokens: tokens
                .into_iter()
                .map(|token| ValidationToken {
                    domain: token.domain,
                    redirect_from: token.redirect_from,
                    redirect_to: token.redirect_to,
                })
                .collect(),
        })
    }
}
