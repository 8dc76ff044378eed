//! What a DistributionTenant may say, by the rules of its CRD: asked here first, so that a wrong
//! row is told as such and not as the refusal of an object nobody wrote.

use super::rows::shown;

/// What the CRD takes at most.
pub(super) const DOMAINS: usize = 500;
pub(super) const PARAMETERS: usize = 50;
pub(super) const TAGS: usize = 48;

const DOMAIN_CHARS: usize = 254;
const LABEL_CHARS: usize = 63;
const NAME_CHARS: std::ops::RangeInclusive<usize> = 3..=128;
const KEY_CHARS: usize = 128;
const VALUE_CHARS: usize = 256;
/// Keys of tags that are AWS's or the operator's.
const RESERVED: [&str; 2] = ["aws:", "pontoon.io/"];

/// Whether an object can have this name, and a tenant in CloudFront too.
pub(super) fn is_object_name(name: &str) -> bool {
    NAME_CHARS.contains(&name.len()) && is_subdomain(name)
}

/// Whether Kubernetes takes it for the name of an object. Such a name leads nowhere else when it
/// becomes part of a URL.
pub(super) fn is_subdomain(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            part.starts_with(edge)
                && part.ends_with(edge)
                && part.chars().all(|c| edge(c) || c == '-')
        })
}

/// A host name of two or more labels in any case, below `*.` or not, with a final dot or not.
pub(crate) fn is_domain(domain: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_label = |label: &str| {
        label.len() <= LABEL_CHARS
            && label.starts_with(edge)
            && label.ends_with(edge)
            && label.chars().all(|c| edge(c) || c == '-')
    };
    let name = domain.strip_prefix("*.").unwrap_or(domain);
    let name = name.strip_suffix('.').unwrap_or(name);
    domain.len() <= DOMAIN_CHARS && name.contains('.') && name.split('.').all(is_label)
}

pub(super) fn check_parameter(name: &str, value: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !(1..=KEY_CHARS).contains(&name.len()) || !name.chars().all(fits) {
        return Err(format!(
            "no parameter can be called {}; rename the column: param_ and up to {KEY_CHARS} \
             letters, digits, - and _",
            shown(name)
        ));
    }
    check_value("parameter", name, value)
}

pub(super) fn check_tag(key: &str, value: &str) -> Result<(), String> {
    let reserved = |begin: &&str| {
        key.get(..begin.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(begin))
    };
    if let Some(begin) = RESERVED.iter().find(|begin| reserved(begin)) {
        return Err(format!(
            "no tag's key may begin with {begin}; rename the column tag_{key}"
        ));
    }
    if !(1..=KEY_CHARS).contains(&key.chars().count()) {
        return Err(format!(
            "a tag's key has 1 to {KEY_CHARS} characters; rename the column {}",
            shown(&format!("tag_{key}"))
        ));
    }
    check_value("tag", key, value)
}

fn check_value(what: &str, name: &str, value: &str) -> Result<(), String> {
    if value.chars().count() <= VALUE_CHARS {
        return Ok(());
    }
    Err(format!(
        "the {what} {name} has more than {VALUE_CHARS} characters; shorten it"
    ))
}

#[cfg(test)]
mod tests {
    use api::tenants::DistributionTenant;
    use kube::CustomResourceExt as _;
    use proptest::prelude::*;
    use proptest::string::string_regex;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    /// The schema of a field of the spec, by the names on the way to it.
    fn schema(way: &[&str]) -> Value {
        let crd = serde_json::to_value(DistributionTenant::crd()).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let spec = &root["properties"]["spec"];
        let down = |at: &Value, step: &&str| match *step {
            "items" => at["items"].clone(),
            field => at["properties"][field].clone(),
        };
        way.iter().fold(spec.clone(), |at, step| down(&at, step))
    }

    #[test]
    fn the_limits_are_the_crds() {
        let most = |way: &[&str], rule: &str| schema(way)[rule].as_u64().unwrap();
        let count = |limit: usize| u64::try_from(limit).unwrap();
        assert_eq!(most(&["domains"], "maxItems"), count(DOMAINS));
        assert_eq!(most(&["parameters"], "maxItems"), count(PARAMETERS));
        assert_eq!(most(&["tags"], "maxItems"), count(TAGS));
        let domain = ["domains", "items", "domain"];
        assert_eq!(most(&domain, "maxLength"), count(DOMAIN_CHARS));
        for way in [["parameters", "items", "name"], ["tags", "items", "key"]] {
            assert_eq!(most(&way, "maxLength"), count(KEY_CHARS));
        }
        for list in ["parameters", "tags"] {
            assert_eq!(
                most(&[list, "items", "value"], "maxLength"),
                count(VALUE_CHARS)
            );
        }
    }

    #[rstest]
    #[case::plain("www.example.com", true)]
    #[case::any_case("WWW.Example.COM", true)]
    #[case::final_dot("www.example.com.", true)]
    #[case::wildcard("*.example.com", true)]
    #[case::underscore("_dmarc.example.com", true)]
    #[case::one_label("localhost", false)]
    #[case::wildcard_of_a_top_domain("*.com", false)]
    #[case::wildcard_inside("www.*.com", false)]
    #[case::two_final_dots("www.example.com..", false)]
    #[case::empty_label("www..com", false)]
    #[case::hyphen_at_an_edge("www-.example.com", false)]
    #[case::blank("www example.com", false)]
    #[case::a_url("https://example.com", false)]
    #[case::not_ascii("bücher.example.com", false)]
    #[case::empty("", false)]
    #[case::dot(".", false)]
    fn a_domain_is_a_host_name(#[case] domain: &str, #[case] holds: bool) {
        assert_eq!(is_domain(domain), holds);
    }

    #[test]
    fn lengths_are_bounded_as_by_the_crd() {
        let label = |n: usize| "a".repeat(n);
        assert!(is_domain(&format!("{}.com", label(63))));
        assert!(!is_domain(&format!("{}.com", label(64))));
        let long = [label(63), label(63), label(63), label(61)].join(".");
        assert!(is_domain(&long) && is_domain(&format!("{long}.")));
        assert!(!is_domain(&format!("b{long}.")));
    }

    #[rstest]
    #[case::plain("acme", true)]
    #[case::dots_and_hyphens("acme.prod-1", true)]
    #[case::short("ab", false)]
    #[case::capital("Acme", false)]
    #[case::underscore("ac_me", false)]
    #[case::edge("-acme", false)]
    #[case::edge_of_a_part("acme.-x", false)]
    #[case::empty_part("acme..x", false)]
    #[case::a_path("../secrets", false)]
    fn an_object_has_a_name_both_sides_take(#[case] name: &str, #[case] holds: bool) {
        assert_eq!(is_object_name(name), holds);
        assert!(!is_object_name(&"a".repeat(129)) && is_object_name(&"a".repeat(128)));
    }

    #[rstest]
    #[case::aws("aws:x")]
    #[case::aws_in_capitals("AWS:x")]
    #[case::ours("pontoon.io/cluster")]
    #[case::empty("")]
    fn reserved_and_empty_keys_are_refused(#[case] key: &str) {
        assert!(check_tag(key, "v").is_err());
    }

    #[test]
    fn characters_count_and_not_bytes() {
        assert!(check_tag(&"ä".repeat(128), &"ä".repeat(256)).is_ok());
        assert!(check_tag("k", &"ä".repeat(257)).is_err());
        assert!(check_parameter("p", &"ä".repeat(257)).is_err());
        assert!(check_parameter("", "v").is_err() && check_parameter("a.b", "v").is_err());
    }

    /// Strings that the CRD takes for a domain, as far as their length goes.
    fn domains() -> impl Strategy<Value = String> {
        let schema = schema(&["domains", "items", "domain"]);
        let pattern = schema["pattern"].as_str().unwrap();
        string_regex(pattern.trim_matches(['^', '$'])).unwrap()
    }

    proptest! {
        #[test]
        fn what_the_crd_takes_for_a_domain_is_one(domain in domains()) {
            prop_assert_eq!(is_domain(&domain), domain.len() <= DOMAIN_CHARS, "{}", domain);
        }
    }
}
