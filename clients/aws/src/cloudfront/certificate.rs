//! Certificates that CloudFront asks for on behalf of a tenant.

use super::CloudFront;
use crate::call::Call;
use crate::{Error, Operation};

/// How a tenant's managed certificate stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCertificate {
    /// Its ARN, once there is one.
    pub arn: Option<String>,
    /// `pending-validation`, `issued`, `failed` and so on.
    pub status: String,
    /// Who serves the token that proves a domain: `cloudfront` or `self-hosted`.
    pub validation_token_host: Option<String>,
    /// What each domain has to serve.
    pub tokens: Vec<ValidationToken>,
}

/// Where the token that proves a domain is looked for, and where it lies.
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
        let answer = self.account.call(&call, &self.asker, send).await?;
        let told = answer.managed_certificate_details;
        let told = told.ok_or_else(|| call.lacks("ManagedCertificateDetails"))?;
        let status = told.certificate_status;
        let status = status.ok_or_else(|| call.lacks("CertificateStatus"))?;
        let tokens = told.validation_token_details.unwrap_or_default();
        Ok(ManagedCertificate {
            arn: told.certificate_arn,
            status: status.as_str().to_owned(),
            validation_token_host: told
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
