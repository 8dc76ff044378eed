//! The name of our session as a web identity (IRSA).
//!
//! The SDK's default chain invents a new name at each fetch if `AWS_ROLE_SESSION_NAME` is not set. A
//! name that changes is useless in the rules of other systems, for example in a role of Vault.

use aws_config::default_provider::use_dual_stack::use_dual_stack_provider;
use aws_config::default_provider::use_fips::use_fips_provider;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::{StaticConfiguration, WebIdentityTokenCredentialsProvider};

/// The web identity of the environment with this session name. `None` without a web identity, or if
/// the environment names its session.
pub(crate) fn unnamed(session_name: &str) -> Option<StaticConfiguration> {
    of(|name| std::env::var(name).ok(), session_name)
}

fn of(
    variable: impl Fn(&str) -> Option<String>,
    session_name: &str,
) -> Option<StaticConfiguration> {
    // STS refuses an empty name.
    let own = variable("AWS_ROLE_SESSION_NAME").filter(|own| !own.is_empty());
    if own.is_some() {
        return None;
    }
    Some(StaticConfiguration {
        web_identity_token_file: variable("AWS_WEB_IDENTITY_TOKEN_FILE")?.into(),
        role_arn: variable("AWS_ROLE_ARN")?,
        session_name: session_name.to_owned(),
    })
}

/// The SDK's default chain with this web identity: environment, profile, web identity. A web identity
/// that is set gives keys or fails, so the default chain would not go on to container and instance.
pub(crate) async fn chain(
    identity: StaticConfiguration,
    config: ProviderConfig,
) -> CredentialsProviderChain {
    // Both read the profile, from which the provider takes STS's endpoint too.
    let fips = use_fips_provider(&config).await;
    let dual_stack = use_dual_stack_provider(&config).await;
    let config = config.with_use_fips(fips).with_use_dual_stack(dual_stack);
    let profile = ProfileFileCredentialsProvider::builder().configure(&config);
    let web_identity = WebIdentityTokenCredentialsProvider::builder()
        .configure(&config)
        .static_configuration(identity);
    let environment = EnvironmentVariableCredentialsProvider::new();
    CredentialsProviderChain::first_try("Environment", environment)
        .or_else("Profile", profile.build())
        .or_else("WebIdentityToken", web_identity.build())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FILE: (&str, &str) = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
    const ROLE: (&str, &str) = ("AWS_ROLE_ARN", "arn:aws:iam::222222222222:role/dns");

    #[rstest]
    #[case::without_a_name(&[FILE, ROLE], true)]
    #[case::with_an_empty_name(&[FILE, ROLE, ("AWS_ROLE_SESSION_NAME", "")], true)]
    #[case::with_a_name(&[FILE, ROLE, ("AWS_ROLE_SESSION_NAME", "mine")], false)]
    #[case::without_a_role(&[FILE], false)]
    #[case::without_a_token(&[ROLE], false)]
    fn a_web_identity_gets_our_session_name(
        #[case] environment: &[(&str, &str)],
        #[case] is_ours: bool,
    ) {
        let variable = |name: &str| {
            let mut all = environment.iter();
            all.find(|(one, _)| *one == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let identity = of(variable, "pontoon");
        let name = identity.map(|identity| identity.session_name);
        assert_eq!(name.as_deref(), is_ours.then_some("pontoon"));
    }
}
