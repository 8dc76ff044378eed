//! The body of a Create or an Update of a tenant.

use super::config::{Asked, Customizations, Geo, Host, Parameter, WebAcl};
use super::error::invalid;
use crate::protocol::ApiError;
use crate::xml::read::Node;

/// A request body; what is absent is `None`, what is sent empty is empty.
#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub(crate) distribution: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) domains: Option<Vec<String>>,
    pub(crate) tags: Option<Vec<(String, String)>>,
    pub(crate) customizations: Option<Customizations>,
    pub(crate) parameters: Option<Vec<Parameter>>,
    pub(crate) group: Option<String>,
    pub(crate) asked: Option<Asked>,
    pub(crate) enabled: Option<bool>,
}

const UPDATED: &[&str] = &[
    "DistributionId",
    "Domains",
    "Customizations",
    "Parameters",
    "ConnectionGroupId",
    "ManagedCertificateRequest",
    "Enabled",
];

impl Body {
    /// Reads the members of a Create.
    pub(crate) fn created(root: Node<'_, '_>) -> Result<Self, ApiError> {
        let known: Vec<_> = UPDATED.iter().chain(&["Name", "Tags"]).copied().collect();
        root.only(&known)?;
        Self::read(root)
    }

    /// Reads the members of an Update.
    pub(crate) fn updated(root: Node<'_, '_>) -> Result<Self, ApiError> {
        root.only(UPDATED)?;
        Self::read(root)
    }

    fn read(root: Node<'_, '_>) -> Result<Self, ApiError> {
        let domains = root.list("Domains", &["member", "DomainItem"])?;
        let domains: Option<Result<Vec<_>, _>> =
            domains.map(|all| all.iter().map(|one| one.needed("Domain")).collect());
        let parameters = root.list("Parameters", &["member", "Parameter"])?;
        let parameters: Option<Result<Vec<_>, _>> =
            parameters.map(|all| all.into_iter().map(parameter).collect());
        Ok(Self {
            distribution: root.leaf("DistributionId"),
            name: root.leaf("Name"),
            domains: domains.transpose()?,
            tags: root.child("Tags").map(tags).transpose()?,
            customizations: root
                .child("Customizations")
                .map(customizations)
                .transpose()?,
            parameters: parameters.transpose()?,
            group: root.leaf("ConnectionGroupId"),
            asked: root
                .child("ManagedCertificateRequest")
                .map(asked)
                .transpose()?,
            enabled: root.flag("Enabled")?,
        })
    }
}

/// Keys and values of `Tags`, in the order sent.
pub(crate) fn tags(node: Node<'_, '_>) -> Result<Vec<(String, String)>, ApiError> {
    let all = node.list("Items", &["Tag"])?.unwrap_or_default();
    let pair = |tag: Node<'_, '_>| {
        let value = tag.leaf("Value").unwrap_or_default();
        Ok((tag.needed("Key")?, value))
    };
    all.into_iter().map(pair).collect()
}

fn parameter(node: Node<'_, '_>) -> Result<Parameter, ApiError> {
    Ok(Parameter {
        name: node.needed("Name")?,
        value: node.needed("Value")?,
    })
}

fn customizations(node: Node<'_, '_>) -> Result<Customizations, ApiError> {
    node.only(&["WebAcl", "Certificate", "GeoRestrictions"])?;
    let acl = |acl: Node<'_, '_>| -> Result<_, ApiError> {
        let (action, arn) = (acl.needed("Action")?, acl.leaf("Arn"));
        Ok(WebAcl { action, arn })
    };
    let geo = |geo: Node<'_, '_>| -> Result<_, ApiError> {
        let locations = geo.list("Locations", &["Location"])?.unwrap_or_default();
        Ok(Geo {
            kind: geo.needed("RestrictionType")?,
            locations: locations.into_iter().map(Node::text).collect(),
        })
    };
    let certificate = node.child("Certificate");
    Ok(Customizations {
        web_acl: node.child("WebAcl").map(acl).transpose()?,
        certificate: certificate.map(|one| one.needed("Arn")).transpose()?,
        geo: node.child("GeoRestrictions").map(geo).transpose()?,
    })
}

fn asked(node: Node<'_, '_>) -> Result<Asked, ApiError> {
    let host = match node.needed("ValidationTokenHost")?.as_str() {
        "cloudfront" => Host::Cloudfront,
        "self-hosted" => Host::SelfHosted,
        other => {
            let told = format!("ValidationTokenHost '{other}' is not valid.");
            return Err(invalid(&told));
        }
    };
    Ok(Asked {
        host,
        primary: node.leaf("PrimaryDomainName"),
        logging: node.leaf("CertificateTransparencyLoggingPreference"),
    })
}
