//! What a tenant is configured to be: merged by an Update, compared, written in answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::body::Body;
use crate::xml::Element;

/// The part of a tenant that an Update changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Config {
    pub(crate) distribution: String,
    pub(crate) domains: Vec<String>,
    pub(crate) customizations: Customizations,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) group: String,
    pub(crate) enabled: bool,
}

/// What a tenant has otherwise than its distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Customizations {
    pub(crate) web_acl: Option<WebAcl>,
    pub(crate) certificate: Option<String>,
    pub(crate) geo: Option<Geo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebAcl {
    pub(crate) action: String,
    pub(crate) arn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Geo {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) locations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A request for a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) host: Host,
    pub(crate) primary: Option<String>,
    pub(crate) logging: Option<String>,
}

/// Who serves the token that proves a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Host {
    Cloudfront,
    SelfHosted,
}

impl Host {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cloudfront => "cloudfront",
            Self::SelfHosted => "self-hosted",
        }
    }
}

/// What happens to members an Update leaves out: the switch `update`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They go back to their defaults.
    Replace,
    /// They stay; what is sent replaces what is there.
    Merge,
    /// They stay; customizations and parameters are merged one by one.
    DeepMerge,
}

impl Mode {
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "merge" => Self::Merge,
            "deepMerge" => Self::DeepMerge,
            _ => Self::Replace,
        }
    }
}

impl Config {
    /// What an Update of `body` leaves.
    pub(crate) fn updated(&self, body: &Body, mode: Mode, default_group: &str) -> Self {
        let replaced = mode == Mode::Replace;
        let customizations = match (&body.customizations, mode) {
            (Some(sent), Mode::DeepMerge) => self.customizations.with(sent),
            (Some(sent), Mode::Replace | Mode::Merge) => sent.clone(),
            (None, Mode::Replace) => Customizations::default(),
            (None, Mode::Merge | Mode::DeepMerge) => self.customizations.clone(),
        };
        let parameters = match (&body.parameters, mode) {
            (Some(sent), Mode::DeepMerge) => merged(&self.parameters, sent),
            (Some(sent), Mode::Replace | Mode::Merge) => sent.clone(),
            (None, Mode::Replace) => Vec::new(),
            (None, Mode::Merge | Mode::DeepMerge) => self.parameters.clone(),
        };
        let group = if replaced { default_group } else { &self.group };
        let enabled = replaced || self.enabled;
        Self {
            distribution: body
                .distribution
                .as_ref()
                .unwrap_or(&self.distribution)
                .clone(),
            domains: body.domains.as_ref().unwrap_or(&self.domains).clone(),
            customizations,
            parameters,
            group: body.group.as_deref().unwrap_or(group).to_owned(),
            enabled: body.enabled.unwrap_or(enabled),
        }
    }

    /// Whether both are the same to a caller: lists without order, empty blocks absent.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.normal() == other.normal()
    }

    fn normal(&self) -> Self {
        let mut normal = self.clone();
        normal.domains.sort();
        normal.parameters.sort();
        let customized = &mut normal.customizations;
        if let Some(geo) = &mut customized.geo {
            geo.locations.sort();
        }
        if let Some(acl) = &mut customized.web_acl
            && acl.action == "disable"
        {
            acl.arn = None;
        }
        normal
    }

    /// Adds `Customizations` to an answer.
    pub(crate) fn customized(&self) -> Element {
        let Customizations {
            web_acl,
            certificate,
            geo,
        } = &self.customizations;
        let acl = web_acl.iter().map(|acl| {
            Element::new("WebAcl")
                .leaf("Action", &acl.action)
                .leaf_if("Arn", acl.arn.as_deref())
        });
        let certificate = certificate
            .iter()
            .map(|arn| Element::new("Certificate").leaf("Arn", arn));
        let geo = geo.iter().map(|geo| {
            let locations = geo
                .locations
                .iter()
                .fold(Element::new("Locations"), |all, one| {
                    all.leaf("Location", one)
                });
            Element::new("GeoRestrictions")
                .leaf("RestrictionType", &geo.kind)
                .child(locations)
        });
        Element::new("Customizations").children(acl.chain(certificate).chain(geo))
    }

    /// `Parameters` in an answer.
    pub(crate) fn parameters(&self) -> Element {
        let all = self.parameters.iter().map(|one| {
            Element::new("member")
                .leaf("Name", &one.name)
                .leaf("Value", &one.value)
        });
        Element::new("Parameters").children(all)
    }
}

impl Customizations {
    fn with(&self, sent: &Self) -> Self {
        Self {
            web_acl: sent.web_acl.clone().or_else(|| self.web_acl.clone()),
            certificate: sent
                .certificate
                .clone()
                .or_else(|| self.certificate.clone()),
            geo: sent.geo.clone().or_else(|| self.geo.clone()),
        }
    }
}

fn merged(there: &[Parameter], sent: &[Parameter]) -> Vec<Parameter> {
    let all = there.iter().chain(sent);
    let by_name: BTreeMap<_, _> = all.map(|one| (&one.name, one)).collect();
    by_name.into_values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parameter(name: &str, value: &str) -> Parameter {
        Parameter {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    fn live() -> Config {
        Config {
            distribution: "E1".to_owned(),
            domains: vec!["a.example.com".to_owned()],
            customizations: Customizations {
                certificate: Some("arn".to_owned()),
                ..Customizations::default()
            },
            parameters: vec![parameter("p", "1")],
            group: "cg1".to_owned(),
            enabled: false,
        }
    }

    #[rstest] //          mode             certificate  parameters  group   enabled
    #[case::replaced(Mode::Replace, false, 0, "cg0", true)]
    #[case::kept(Mode::Merge, true, 1, "cg1", false)]
    #[case::kept_deeply(Mode::DeepMerge, true, 1, "cg1", false)]
    fn what_is_left_out_is(
        #[case] mode: Mode,
        #[case] certificate: bool,
        #[case] parameters: usize,
        #[case] group: &str,
        #[case] enabled: bool,
    ) {
        let config = live().updated(&Body::default(), mode, "cg0");
        assert_eq!(config.customizations.certificate.is_some(), certificate);
        assert_eq!(config.parameters.len(), parameters);
        assert_eq!((config.group.as_str(), config.enabled), (group, enabled));
        assert_eq!(config.domains, ["a.example.com"]);
    }

    #[rstest]
    #[case::replaced(Mode::Replace, false, 1)]
    #[case::replaced_as_a_block(Mode::Merge, false, 1)]
    #[case::added_to(Mode::DeepMerge, true, 2)]
    fn what_is_sent_empty_or_partly_is(
        #[case] mode: Mode,
        #[case] certificate: bool,
        #[case] parameters: usize,
    ) {
        let body = Body {
            customizations: Some(Customizations::default()),
            parameters: Some(vec![parameter("q", "2")]),
            ..Body::default()
        };
        let config = live().updated(&body, mode, "cg0");
        assert_eq!(config.customizations.certificate.is_some(), certificate);
        assert_eq!(config.parameters.len(), parameters);
    }

    #[test]
    fn order_and_a_disabled_acls_arn_do_not_count() {
        let mut one = live();
        one.domains.push("b.example.com".to_owned());
        one.customizations.web_acl = Some(WebAcl {
            action: "disable".to_owned(),
            arn: Some("arn".to_owned()),
        });
        let mut other = one.clone();
        other.domains.reverse();
        other.customizations.web_acl = Some(WebAcl {
            action: "disable".to_owned(),
            arn: None,
        });
        assert!(one.same_as(&other));
        other.enabled = true;
        assert!(!one.same_as(&other));
    }
}
