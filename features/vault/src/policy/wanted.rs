//! The text a policy's spec asks for, if its namespace may have it. Pure.

use api::vault::{Capability, Parameters, PolicyRule, PolicySpec, reasons};
use kernel::Reason;

use crate::language::policy::Policy;
use crate::language::text::{self, Names, Rule};
use crate::place::Wanted;
use crate::sync::{Ground, Stop};

/// The text, and how many rules it has.
pub(super) fn wanted(spec: &PolicySpec, ground: &Ground) -> Result<(Wanted, i64), Stop> {
    let names = Names {
        namespace: ground.key.namespace.as_deref().unwrap_or_default(),
        name: &ground.key.name,
    };
    let text = if let Some(raw) = &spec.raw_hcl {
        text::from_raw(&ground.header, raw, names)
            .map_err(|refused| invalid(format!("rawHCL is no policy: {refused}")))?
    } else {
        let rules: Vec<Rule> = spec.rules.iter().map(rule).collect();
        text::from_rules(&ground.header, &rules, names)
    };
    let canonical = Policy::parse(&text).map_err(|refused| invalid(refused.to_string()))?;
    if let Some(guard) = ground.guard() {
        let denied = |refusal: crate::tenancy::Refusal| {
            Stop::blocked(Reason::new(reasons::TENANCY_DENIED, refusal.to_string()))
        };
        guard.policy(spec, &canonical).map_err(denied)?;
    }
    let count = canonical.blocks().count();
    let count = match &spec.raw_hcl {
        Some(_) => count,
        None => spec.rules.len(),
    };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Ok((Wanted::Policy { text, canonical }, count))
}

fn invalid(message: String) -> Stop {
    Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, message))
}

/// The list form of parameters is the parameter `*`.
pub(crate) fn rule(rule: &PolicyRule) -> Rule {
    let PolicyRule {
        path,
        capabilities,
        description: _,
        parameters,
        allowed_parameters,
        denied_parameters,
        min_wrapping_ttl,
        max_wrapping_ttl,
        subscribe_event_types,
    } = rule;
    let mut made = Rule {
        path: path.clone(),
        capabilities: capabilities
            .iter()
            .map(|one: &Capability| one.as_str().to_owned())
            .collect(),
        allowed_parameters: allowed_parameters.clone(),
        denied_parameters: denied_parameters.clone(),
        min_wrapping_ttl: min_wrapping_ttl.as_ref().map(api::vault::Duration::as_std),
        max_wrapping_ttl: max_wrapping_ttl.as_ref().map(api::vault::Duration::as_std),
        subscribe_event_types: subscribe_event_types.clone(),
        ..Rule::default()
    };
    if let Some(Parameters {
        allowed,
        denied,
        required,
    }) = parameters
    {
        for (list, map) in [
            (allowed, &mut made.allowed_parameters),
            (denied, &mut made.denied_parameters),
        ] {
            if !list.is_empty() {
                map.insert("*".to_owned(), list.clone());
            }
        }
        made.required_parameters.clone_from(required);
    }
    made
}
