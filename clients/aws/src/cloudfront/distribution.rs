//! A distribution: the parts that concern its tenants.

use aws_sdk_cloudfront::types;

use super::CloudFront;
use crate::call::Call;
use crate::{Error, Operation};

/// A distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// `tenant-only` for those that have tenants; `direct`, or nothing, for others.
    pub connection_mode: Option<String>,
    /// ARN of its own certificate in Certificate Manager; none if it uses CloudFront's.
    pub certificate_arn: Option<String>,
    /// The parameters that its tenants set.
    pub parameters: Vec<ParameterDefinition>,
}

/// A parameter of a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDefinition {
    /// Its name.
    pub name: String,
    /// Whether a tenant must set it, unless there is a default.
    pub required: bool,
    /// Its value in tenants that do not set it.
    pub default: Option<String>,
}

impl Distribution {
    /// Whether it serves requests only through tenants.
    pub fn is_tenant_only(&self) -> bool {
        self.connection_mode.as_deref() == Some("tenant-only")
    }

    fn read(call: &Call<'_>, received: Option<types::Distribution>) -> Result<Self, Error> {
        let received = received.ok_or_else(|| call.lacks("Distribution"))?;
        let config = received.distribution_config;
        let config = config.ok_or_else(|| call.lacks("DistributionConfig"))?;
        let defined = config
            .tenant_config
            .and_then(|tenants| tenants.parameter_definitions);
        Ok(Self {
            id: received.id,
            arn: received.arn,
            connection_mode: config.connection_mode.map(|mode| mode.as_str().to_owned()),
            certificate_arn: config
                .viewer_certificate
                .and_then(|viewer| viewer.acm_certificate_arn)
                .filter(|arn| !arn.is_empty()),
            parameters: defined
                .unwrap_or_default()
                .into_iter()
                .map(parameter)
                .collect(),
        })
    }
}

fn parameter(received: types::ParameterDefinition) -> ParameterDefinition {
    let schema = received.definition.and_then(|schema| schema.string_schema);
    ParameterDefinition {
        name: received.name,
        required: schema.as_ref().is_some_and(|schema| schema.required),
        default: schema.and_then(|schema| schema.default_value),
    }
}

impl CloudFront {
    /// The distribution of this id.
    pub async fn distribution(&self, id: &str) -> Result<Distribution, Error> {
        let call = Call::new(Operation::GetDistribution, id);
        let send = || self.client().get_distribution().id(id).send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        Distribution::read(&call, answer.distribution)
    }
}
