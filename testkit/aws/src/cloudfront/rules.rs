//! What CloudFront refuses in a tenant, before it changes anything.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::config::{Asked, Config, Host};
use super::error::{invalid, not_found, unverified};
use super::store::{Distribution, Group};
use crate::acm::{Certificates, account as account_of};
use crate::protocol::ApiError;
use crate::route53::{Pointing, Zones};

/// The most tags a thing may have.
const MOST_TAGS: usize = 50;

/// The world a tenant is to fit into.
pub(super) struct Surroundings<'a> {
    pub(super) account: &'a str,
    pub(super) distribution: &'a Distribution,
    pub(super) group: &'a Group,
    pub(super) certificates: &'a Certificates,
    pub(super) zones: &'a Zones,
    /// The request for a managed certificate that counts: sent now, or kept from before.
    pub(super) asked: Option<&'a Asked>,
    pub(super) now: Timestamp,
}

/// Three to 128 characters, letters and digits at both ends.
pub(super) fn name(name: &str) -> Result<(), ApiError> {
    let ends = |character: Option<char>| character.is_some_and(|one| one.is_ascii_alphanumeric());
    let inside = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
    let fits = (3..=128).contains(&name.len())
        && ends(name.chars().next())
        && ends(name.chars().next_back())
        && name.chars().all(inside);
    fits.then_some(()).ok_or_else(|| {
        invalid(&format!(
            "The name {name} must match [a-zA-Z0-9][a-zA-Z0-9-.]{{1,126}}[a-zA-Z0-9]."
        ))
    })
}

/// What needs no more than the configuration itself.
pub(super) fn shape(config: &Config) -> Result<(), ApiError> {
    if config.domains.is_empty() {
        return Err(invalid("At least one domain is required."));
    }
    let mut seen = BTreeSet::new();
    for domain in &config.domains {
        is_domain(domain)?;
        if !seen.insert(domain) {
            return Err(invalid(&format!("The domain {domain} is given twice.")));
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = config.parameters.iter().find(|one| !seen.insert(&one.name)) {
        let told = format!("The parameter {} is given twice.", twice.name);
        return Err(invalid(&told));
    }
    if let Some(acl) = &config.customizations.web_acl {
        match (acl.action.as_str(), &acl.arn) {
            ("disable", _) | ("override", Some(_)) => {}
            ("override", None) => {
                return Err(invalid("WebAcl needs an Arn when its Action is override."));
            }
            (other, _) => return Err(invalid(&format!("WebAcl Action '{other}' is not valid."))),
        }
    }
    if let Some(geo) = &config.customizations.geo {
        match (geo.kind.as_str(), geo.locations.is_empty()) {
            ("none", true) | ("whitelist" | "blacklist", false) => {}
            ("none" | "whitelist" | "blacklist", _) => {
                let told = "GeoRestrictions: a whitelist or blacklist has Locations, none has not.";
                return Err(invalid(told));
            }
            (other, _) => {
                return Err(invalid(&format!("RestrictionType '{other}' is not valid.")));
            }
        }
    }
    Ok(())
}

fn is_domain(domain: &str) -> Result<(), ApiError> {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .chars()
                .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "-_".contains(one))
    };
    let host = domain.strip_prefix("*.").unwrap_or(domain);
    let fits = domain.len() <= 253 && host.contains('.') && host.split('.').all(label);
    fits.then_some(()).ok_or_else(|| {
        invalid(&format!(
            "The domain {domain} is not valid: lower case, two labels or more, no final dot."
        ))
    })
}

/// The tags a call may set.
pub(super) fn tags(tags: &[(String, String)]) -> Result<(), ApiError> {
    let wrong = |told: String| Err(ApiError::new(400, "InvalidTagging", &told));
    let mut seen = BTreeSet::new();
    for (key, value) in tags {
        if key.is_empty() || key.len() > 128 || value.len() > 256 {
            return wrong(format!("The tag {key} is too long or has no key."));
        }
        if key.to_lowercase().starts_with("aws:") {
            return wrong(format!("The tag key {key} is reserved."));
        }
        if !seen.insert(key) {
            return wrong(format!("The tag key {key} is given twice."));
        }
    }
    if tags.len() > MOST_TAGS {
        return wrong(format!("There are more than {MOST_TAGS} tags."));
    }
    Ok(())
}

/// A certificate that a tenant names must be there, issued and the account's own.
pub(super) fn certificate(config: &Config, around: &Surroundings<'_>) -> Result<(), ApiError> {
    let Some(arn) = &config.customizations.certificate else {
        return Ok(());
    };
    let usable = around.certificates.get(arn).is_some_and(|certificate| {
        account_of(arn) == Some(around.account) && certificate.status == crate::acm::Status::Issued
    });
    usable.then_some(()).ok_or_else(|| {
        invalid(&format!(
            "The specified SSL certificate doesn't exist, isn't in us-east-1 region, isn't valid, or doesn't include a valid certificate chain: {arn}"
        ))
    })
}

/// The distribution must be one for tenants, and get the parameters it demands.
pub(super) fn parent(config: &Config, around: &Surroundings<'_>) -> Result<(), ApiError> {
    if !around.distribution.tenant_only {
        let told = format!(
            "The distribution {} does not take distribution tenants: its connection mode is direct.",
            around.distribution.id
        );
        return Err(ApiError::new(409, "InvalidAssociation", &told));
    }
    let missing = around.distribution.parameters.iter().find(|defined| {
        let given = || config.parameters.iter().any(|one| one.name == defined.name);
        defined.required && defined.default.is_none() && !given()
    });
    match missing {
        None => Ok(()),
        Some(missing) => Err(invalid(&format!(
            "The required parameter {} is missing.",
            missing.name
        ))),
    }
}

/// Each of `domains` must be covered by the certificate, asked for with a token we serve
/// ourselves, or lead to the group already.
pub(super) fn ownership(
    config: &Config,
    domains: &[String],
    around: &Surroundings<'_>,
) -> Result<(), ApiError> {
    let proved = |domain: &&String| {
        covers(config, domain, around)
            || match around.asked.map(|asked| asked.host) {
                Some(Host::SelfHosted) => true,
                Some(Host::Cloudfront) => {
                    let endpoint = &around.group.endpoint;
                    around.zones.pointing(domain, endpoint, around.now) == Pointing::There
                }
                None => false,
            }
    };
    match domains.iter().find(|domain| !proved(domain)) {
        None => Ok(()),
        Some(domain) => Err(unverified(domain)),
    }
}

fn covers(config: &Config, domain: &str, around: &Surroundings<'_>) -> bool {
    let own = config.customizations.certificate.as_ref();
    let arn = own.or(around.distribution.certificate.as_ref());
    arn.and_then(|arn| around.certificates.get(arn))
        .is_some_and(|certificate| certificate.covers(domain))
}

/// A request's main domain must be one of the tenant's.
pub(super) fn asked(config: &Config, asked: &Asked) -> Result<(), ApiError> {
    match &asked.primary {
        Some(primary) if !config.domains.contains(primary) => Err(invalid(&format!(
            "PrimaryDomainName {primary} is none of the domains."
        ))),
        Some(_) | None => Ok(()),
    }
}

pub(super) fn no_distribution(id: &str) -> ApiError {
    not_found("distribution", id)
}

pub(super) fn no_group(id: &str) -> ApiError {
    not_found("connection group", id)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::config::{Geo, Parameter, WebAcl};
    use super::*;

    fn config() -> Config {
        Config {
            domains: vec!["a.example.com".to_owned()],
            ..Config::default()
        }
    }

    #[rstest]
    #[case::short("ab", false)]
    #[case::shortest("abc", true)]
    #[case::dots_inside("my-tenant.prod", true)]
    #[case::a_dot_at_the_end("abc.", false)]
    #[case::an_underscore("a_c", false)]
    #[case::longest(&"x".repeat(128), true)]
    #[case::too_long(&"x".repeat(129), false)]
    fn a_tenant_is_named(#[case] named: &str, #[case] fits: bool) {
        assert_eq!(name(named).is_ok(), fits);
    }

    #[rstest]
    #[case::plain("a.example.com", true)]
    #[case::a_wildcard("*.example.com", true)]
    #[case::upper_case("A.example.com", false)]
    #[case::a_final_dot("a.example.com.", false)]
    #[case::one_label("localhost", false)]
    #[case::a_star_inside("a.*.com", false)]
    fn a_domain_is_lower_case_and_has_labels(#[case] domain: &str, #[case] fits: bool) {
        assert_eq!(is_domain(domain).is_ok(), fits);
    }

    #[test]
    fn nothing_is_given_twice() {
        let mut twice = config();
        twice.domains.push("a.example.com".to_owned());
        assert_eq!(shape(&twice).unwrap_err().code, "InvalidArgument");
        let mut twice = config();
        let parameter = Parameter {
            name: "p".to_owned(),
            value: "1".to_owned(),
        };
        twice.parameters = vec![parameter.clone(), parameter];
        assert!(shape(&twice).is_err());
        assert!(shape(&config()).is_ok());
    }

    #[rstest]
    #[case::override_without_arn("override", None, false)]
    #[case::override_with_arn("override", Some("arn"), true)]
    #[case::disable("disable", None, true)]
    #[case::something_else("allow", None, false)]
    fn a_web_acl_is(#[case] action: &str, #[case] arn: Option<&str>, #[case] fits: bool) {
        let mut config = config();
        config.customizations.web_acl = Some(WebAcl {
            action: action.to_owned(),
            arn: arn.map(str::to_owned),
        });
        assert_eq!(shape(&config).is_ok(), fits);
    }

    #[rstest]
    #[case::none("none", &[], true)]
    #[case::none_with_places("none", &["DE"], false)]
    #[case::whitelist("whitelist", &["DE"], true)]
    #[case::an_empty_blacklist("blacklist", &[], false)]
    fn a_geo_restriction_is(#[case] kind: &str, #[case] places: &[&str], #[case] fits: bool) {
        let mut config = config();
        config.customizations.geo = Some(Geo {
            kind: kind.to_owned(),
            locations: places.iter().map(|one| (*one).to_owned()).collect(),
        });
        assert_eq!(shape(&config).is_ok(), fits);
    }

    #[rstest]
    #[case::plain(&["team"], true)]
    #[case::reserved(&["aws:x"], false)]
    #[case::twice(&["a", "a"], false)]
    fn a_tag_is(#[case] keys: &[&str], #[case] fits: bool) {
        let sent: Vec<_> = keys
            .iter()
            .map(|key| ((*key).to_owned(), String::new()))
            .collect();
        assert_eq!(tags(&sent).is_ok(), fits);
    }
}
