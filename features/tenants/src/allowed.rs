//! What TenantPolicies let the objects of a namespace name. Pure.
//!
//! Without a policy in the cluster everything is allowed, unless one is required. With one or more,
//! a single policy that speaks for the namespace has to allow all that an object names; one whose
//! selector makes no sense is there, and allows nothing. Deletion never asks.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::tenants::names::{ANY, DEFAULT_GROUP};
use api::tenants::{RoleGrant, TenantPolicySpec, reasons, zone_id};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kernel::Reason;
use kube::core::{Selector, SelectorExt};

use crate::body::domain;
use crate::words::few;

/// The field of a policy that is no list.
const ADOPTION: &str = "adoption";

/// A policy of the cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a TenantPolicySpec,
}

/// The namespace of the object that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namespace<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: &'a BTreeMap<String, String>,
}

/// All that an object names, in the order in which it is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named<'a> {
    pub(crate) distribution: Option<&'a str>,
    /// Those in the spec, and those discovered, once they are known.
    pub(crate) zones: Vec<&'a str>,
    pub(crate) role: Option<&'a str>,
    /// The DynamoDB table of a source.
    pub(crate) table: Option<&'a str>,
    /// None for an object that has nothing to do with groups.
    pub(crate) group: Option<Group<'a>>,
    pub(crate) domains: Vec<&'a str>,
    /// Whether it would take over tenants or records that are there.
    pub(crate) adoption: bool,
}

/// A connection group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    /// None for the default group while its id is not known.
    pub(crate) id: Option<&'a str>,
    /// Whether it is the account's default group.
    pub(crate) default: bool,
}

/// Leave to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Leave {
    /// The external id for the role that was named: the policy's, never the spec's.
    pub(crate) external_id: Option<String>,
}

/// Whether `named` is allowed in `namespace`; if not, which value is refused and by whom.
pub(crate) fn allowed(
    policies: &[Policy<'_>],
    required: bool,
    namespace: Namespace<'_>,
    named: &Named<'_>,
) -> Result<Leave, Reason> {
    if policies.is_empty() && !required {
        return Ok(Leave::default());
    }
    let mut policies = policies.to_vec();
    policies.sort_by_key(|policy| policy.name);
    let here = policies.iter().filter(|policy| policy.is_for(namespace));
    let judged: Vec<_> = here
        .map(|policy| (policy, policy.refusals(named)))
        .collect();
    let granting = judged.iter().filter(|(_, refusals)| refusals.is_empty());
    // A grant of this very role before one of any: it knows the external id.
    let best = granting.min_by_key(|(policy, _)| named.role.map(|role| policy.is_wide(role)));
    if let Some((policy, _)) = best {
        let grant = named.role.and_then(|role| policy.grant(role));
        let external_id = grant.and_then(|grant| grant.external_id.clone());
        return Ok(Leave { external_id });
    }
    let nearest = judged.iter().min_by_key(|(_, refusals)| refusals.len());
    let message = match nearest {
        Some((policy, refusals)) => refused(policy.name, refusals),
        None => unheard(&policies, namespace.name, named),
    };
    Err(Reason::new(reasons::POLICY_DENIED, message))
}

/// Whether a policy makes sense; if not, it allows nothing.
pub(crate) fn accepted(spec: &TenantPolicySpec) -> Result<(), Reason> {
    let invalid = |message: String| Err(Reason::new(reasons::INVALID_SPEC, message));
    match (&spec.namespace_selector, spec.namespaces.is_empty()) {
        (None, false) => Ok(()),
        (Some(selector), true) => match senseless(selector) {
            None => Ok(()),
            Some(why) => invalid(format!(
                "namespaceSelector {why}; until that is put right this policy allows nothing"
            )),
        },
        (None, true) | (Some(_), false) => invalid(
            "exactly one of namespaces and namespaceSelector says for whom this policy speaks; \
             until then it allows nothing"
                .to_owned(),
        ),
    }
}

/// What Kubernetes would refuse in a selector of its own kinds.
fn senseless(selector: &LabelSelector) -> Option<String> {
    let mut terms = selector.match_expressions.iter().flatten();
    terms.find_map(|term| {
        let key = &term.key;
        let given = term
            .values
            .as_ref()
            .is_some_and(|values| !values.is_empty());
        match (term.operator.as_str(), given) {
            _ if key.is_empty() => Some("has a term without a key".to_owned()),
            ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => None,
            (operator @ ("In" | "NotIn"), false) => {
                Some(format!("compares {key} by {operator} with no values"))
            }
            (operator @ ("Exists" | "DoesNotExist"), true) => Some(format!(
                "asks whether {key} is there by {operator} and gives values"
            )),
            (operator, _) => Some(format!("has the unknown operator {operator:?} for {key}")),
        }
    })
}

/// A value that a policy does not allow.
struct Refusal {
    /// What it is, for people.
    what: &'static str,
    value: String,
    /// The field of the policy that would have to have it.
    list: &'static str,
}

impl Policy<'_> {
    fn is_for(&self, namespace: Namespace<'_>) -> bool {
        if accepted(self.spec).is_err() {
            return false;
        }
        match &self.spec.namespace_selector {
            None => self
                .spec
                .namespaces
                .iter()
                .any(|name| name == namespace.name),
            Some(selector) => Selector::try_from(selector.clone())
                .is_ok_and(|selector| selector.matches(namespace.labels)),
        }
    }

    /// Everything that it does not allow, in the order of [`Named`].
    fn refusals(&self, named: &Named<'_>) -> Vec<Refusal> {
        let spec = self.spec;
        let refuse = |what, list| {
            move |value: &&str| Refusal {
                what,
                value: (*value).to_owned(),
                list,
            }
        };
        let distributions = named.distribution.iter();
        let distributions = distributions
            .filter(|id| !lists(&spec.distributions, id))
            .map(refuse("distribution", "distributions"));
        let zones = named.zones.iter();
        let zones = zones
            .filter(|id| !self.has_zone(id))
            .map(refuse("hosted zone", "hostedZones"));
        let roles = named.role.iter();
        let roles = roles
            .filter(|arn| self.grant(arn).is_none())
            .map(refuse("role", "roles"));
        let tables = named.table.iter();
        let tables = tables
            .filter(|name| !lists(&spec.dynamodb_tables, name))
            .map(refuse("DynamoDB table", "dynamodbTables"));
        let groups = named.group.iter();
        let groups = groups
            .filter(|group| !self.has_group(**group))
            .map(|group| Refusal {
                what: "connection group",
                value: group
                    .id
                    .filter(|_| !group.default)
                    .unwrap_or(DEFAULT_GROUP)
                    .to_owned(),
                list: "connectionGroups",
            });
        let domains = named.domains.iter();
        let domains = domains
            .filter(|name| !self.has_domain(name))
            .map(refuse("domain", "domains"));
        let adoption = (named.adoption && !spec.adoption).then_some(Refusal {
            what: ADOPTION,
            value: "of what is there already".to_owned(),
            list: ADOPTION,
        });
        let first = distributions.chain(zones).chain(roles).chain(tables);
        first.chain(groups).chain(domains).chain(adoption).collect()
    }

    fn has_zone(&self, id: &str) -> bool {
        let mut zones = self.spec.hosted_zones.iter();
        zones.any(|zone| zone == ANY || zone_id(zone) == zone_id(id))
    }

    /// The grant for a role: its own, else one for any.
    fn grant(&self, arn: &str) -> Option<&RoleGrant> {
        let granted = |wanted: &str| self.spec.roles.iter().find(|role| role.arn == wanted);
        granted(arn).or_else(|| granted(ANY))
    }

    fn is_wide(&self, arn: &str) -> bool {
        self.grant(arn).is_none_or(|grant| grant.arn != arn)
    }

    fn has_group(&self, group: Group<'_>) -> bool {
        let Some(groups) = &self.spec.connection_groups else {
            return true;
        };
        let by_id = group.id.is_some_and(|id| lists(groups, id));
        by_id || group.default && lists(groups, DEFAULT_GROUP)
    }

    fn has_domain(&self, name: &str) -> bool {
        let Some(patterns) = &self.spec.domains else {
            return true;
        };
        let name = domain(name);
        patterns.iter().any(|pattern| fits(&domain(pattern), &name))
    }
}

fn lists(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == ANY || value == wanted)
}

/// `x.com` is itself alone; `*.x.com` is everything below it, wildcards included, at any depth.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        // With its dot, so that `ax.com` is not below `x.com`.
        Some(parent) => name.len() > parent.len() && name.ends_with(parent),
        None => name == pattern,
    }
}

fn refused(policy: &str, refusals: &[Refusal]) -> String {
    let Some(Refusal { what, value, list }) = refusals.first() else {
        return format!("TenantPolicy {policy} refuses it");
    };
    let remedy = if *list == ADOPTION {
        format!("have {list} allowed there")
    } else {
        format!("have it added to {list} there")
    };
    let more = match refusals.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "no TenantPolicy allows all that this object names; {policy} comes nearest and refuses \
         {what} {value}{more}: {remedy}, or change the spec"
    )
}

/// Nobody speaks for the namespace.
fn unheard(policies: &[Policy<'_>], namespace: &str, named: &Named<'_>) -> String {
    let first = match (named.distribution, named.table) {
        (Some(id), _) => format!("distribution {id}"),
        (None, Some(table)) => format!("DynamoDB table {table}"),
        (None, None) => "everything".to_owned(),
    };
    if policies.is_empty() {
        return format!(
            "{first} is refused: a TenantPolicy is required and there is none; have one made for \
             namespace {namespace}"
        );
    }
    let names: Vec<&str> = policies.iter().map(|policy| policy.name).collect();
    format!(
        "{first} is refused: no TenantPolicy speaks for namespace {namespace}; have it added to \
         one of: {}",
        few(&names)
    )
}
