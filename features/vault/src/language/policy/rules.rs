//! From a policy back to rules, for discovery.

use std::collections::BTreeMap;

use super::{Constant, Parameters, PathRules, Policy};
use crate::language::text::{self, Rule};

/// What a VaultPolicy's `rules` can hold.
const MAX_RULES: usize = 500;
const MAX_PATH_BYTES: usize = 512;
const MAX_PARAMETERS: usize = 32;

/// The rules that say the same as `policy`, or nothing if rules cannot say it: then only its text
/// can.
pub fn expressible(policy: &Policy) -> Option<Vec<Rule>> {
    let fits = policy.name.is_none() && (1..=MAX_RULES).contains(&policy.paths.len());
    if !fits {
        return None;
    }
    policy
        .paths
        .iter()
        .map(|(path, blocks)| match blocks.as_slice() {
            [block] if is_rule_path(path) => rule(path, block),
            _ => None,
        })
        .collect()
}

fn rule(path: &str, block: &PathRules) -> Option<Rule> {
    let PathRules {
        capabilities,
        allowed_parameters,
        denied_parameters,
        required_parameters,
        min_wrapping_ttl,
        max_wrapping_ttl,
        subscribe_event_types,
        others,
    } = block;
    let lists = [required_parameters, subscribe_event_types];
    let sayable = !capabilities.is_empty()
        && others.is_empty()
        && lists.into_iter().flatten().all(|text| is_rule_text(text));
    sayable.then_some(())?;
    Some(Rule {
        path: path.to_owned(),
        capabilities: capabilities.iter().cloned().collect(),
        allowed_parameters: plain(allowed_parameters)?,
        denied_parameters: plain(denied_parameters)?,
        required_parameters: required_parameters.iter().cloned().collect(),
        min_wrapping_ttl: *min_wrapping_ttl,
        max_wrapping_ttl: *max_wrapping_ttl,
        subscribe_event_types: subscribe_event_types.iter().cloned().collect(),
    })
}

/// Parameters whose names and values a rule can hold.
fn plain(parameters: &Parameters) -> Option<BTreeMap<String, Vec<String>>> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|ch| ch.is_ascii_alphanumeric() || "_.*-".contains(ch))
    };
    if parameters.len() > MAX_PARAMETERS {
        return None;
    }
    parameters
        .iter()
        .map(|(name, values)| {
            let values = values.iter().map(|value| match value {
                Constant::Text(text) if is_rule_text(text) => Some(text.clone()),
                _ => None,
            });
            let values: Vec<String> = values.collect::<Option<_>>()?;
            is_name(name).then(|| (name.clone(), values))
        })
        .collect()
}

fn is_rule_text(text: &str) -> bool {
    !text.contains("${") && !text.contains(char::is_control)
}

/// The pattern of a rule's `path`; ours are not among the templates, for they would be replaced.
fn is_rule_path(path: &str) -> bool {
    (1..=MAX_PATH_BYTES).contains(&path.len())
        && !path.starts_with('/')
        && path
            .chars()
            .all(|ch| ch.is_ascii_alphanumeric() || "/_*.{}+-".contains(ch))
        && !["..", "+*", text::NAMESPACE, text::NAME]
            .iter()
            .any(|refused| path.contains(refused))
}
