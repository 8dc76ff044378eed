//! GetDistribution: a distribution as far as tenants need it.

use super::store::{Definition, Distribution};
use super::{At, CloudFront, answered};
use crate::protocol::ApiError;
use crate::wire::Response;
use crate::xml::Element;

impl CloudFront {
    pub(super) fn get_distribution(&self, at: &At<'_>, id: &str) -> Result<Response, ApiError> {
        let distribution = self.store.distribution(at.account, id).ok_or_else(|| {
            let told = "The specified distribution does not exist.";
            ApiError::new(404, "NoSuchDistribution", told)
        })?;
        Ok(answered(200, told(distribution), Some(&distribution.etag)))
    }
}

fn told(distribution: &Distribution) -> Element {
    let domain = format!("{}.cloudfront.net", distribution.id.to_lowercase());
    Element::new("Distribution")
        .leaf("Id", &distribution.id)
        .leaf("ARN", &distribution.arn)
        .leaf("Status", "Deployed")
        .leaf("LastModifiedTime", &distribution.modified.to_string())
        .leaf("InProgressInvalidationBatches", "0")
        .leaf("DomainName", &domain)
        .child(config(distribution))
}

fn config(distribution: &Distribution) -> Element {
    let origin = Element::new("Origin")
        .leaf("Id", "origin")
        .leaf("DomainName", "origin.example.net");
    let origins = Element::new("Origins")
        .leaf("Quantity", "1")
        .child(Element::new("Items").child(origin));
    let behaviour = Element::new("DefaultCacheBehavior")
        .leaf("TargetOriginId", "origin")
        .leaf("ViewerProtocolPolicy", "redirect-to-https");
    let aliases = distribution
        .aliases
        .iter()
        .fold(Element::new("Items"), |all, one| all.leaf("CNAME", one));
    let aliases = Element::new("Aliases")
        .leaf("Quantity", &distribution.aliases.len().to_string())
        .child(aliases);
    let mode = if distribution.tenant_only {
        "tenant-only"
    } else {
        "direct"
    };
    let defined = distribution.parameters.iter().map(definition);
    let tenants =
        Element::new("TenantConfig").child(Element::new("ParameterDefinitions").children(defined));
    Element::new("DistributionConfig")
        .leaf("CallerReference", &format!("seed-{}", distribution.id))
        .child(aliases)
        .child(origins)
        .child(behaviour)
        .leaf("Comment", "")
        .leaf("Enabled", "true")
        .child(certificate(distribution))
        .child(tenants)
        .leaf("ConnectionMode", mode)
}

fn certificate(distribution: &Distribution) -> Element {
    let viewer = Element::new("ViewerCertificate");
    match &distribution.certificate {
        None => viewer.leaf("CloudFrontDefaultCertificate", "true"),
        Some(arn) => viewer
            .leaf("CloudFrontDefaultCertificate", "false")
            .leaf("ACMCertificateArn", arn)
            .leaf("SSLSupportMethod", "sni-only")
            .leaf("MinimumProtocolVersion", "TLSv1.2_2021"),
    }
}

fn definition(defined: &Definition) -> Element {
    let schema = Element::new("StringSchema")
        .leaf_if("DefaultValue", defined.default.as_deref())
        .leaf("Required", &defined.required.to_string());
    Element::new("member")
        .leaf("Name", &defined.name)
        .child(Element::new("Definition").child(schema))
}
