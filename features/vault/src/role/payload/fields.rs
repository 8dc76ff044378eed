//! The fields of a role that are ours to set, and when two values of one say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::vault::{Duration, RoleFamily};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value, json};

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One text; unset, this one.
    Text(&'static str),
    /// A label selector as JSON text.
    Selector,
    /// A length of time.
    Seconds,
    /// A number.
    Count,
    /// Yes or no.
    Flag,
    /// Texts in no order.
    Set,
    /// Names of policies, in which Vault does not tell capitals.
    Policies,
    /// IP addresses and networks.
    Networks,
    /// Values by the claim that must have one of them.
    Claims,
}

const KUBERNETES: &[(&str, Shape)] = &[
    ("bound_service_account_names", Shape::Set),
    ("bound_service_account_namespaces", Shape::Set),
    ("bound_service_account_namespace_selector", Shape::Selector),
    ("audience", Shape::Text("")),
    ("alias_name_source", Shape::Text("serviceaccount_uid")),
];

const JWT: &[(&str, Shape)] = &[
    ("role_type", Shape::Text("jwt")),
    ("user_claim", Shape::Text("")),
    ("groups_claim", Shape::Text("")),
    ("bound_audiences", Shape::Set),
    ("bound_subject", Shape::Text("")),
    ("bound_claims", Shape::Claims),
    ("bound_claims_type", Shape::Text("string")),
];

const BOTH: &[(&str, Shape)] = &[
    ("token_policies", Shape::Policies),
    ("token_ttl", Shape::Seconds),
    ("token_max_ttl", Shape::Seconds),
    ("token_explicit_max_ttl", Shape::Seconds),
    ("token_period", Shape::Seconds),
    ("token_num_uses", Shape::Count),
    ("token_bound_cidrs", Shape::Networks),
    ("token_type", Shape::Text("default")),
    ("token_no_default_policy", Shape::Flag),
];

/// All fields of a family but the marker.
pub(super) fn of(family: RoleFamily) -> impl Iterator<Item = (&'static str, Shape)> {
    let own = match family {
        RoleFamily::Kubernetes => KUBERNETES,
        RoleFamily::Jwt => JWT,
    };
    own.iter().chain(BOTH).copied()
}

/// All fields of a family, cleared.
pub(super) fn zeros(family: RoleFamily) -> Map<String, Value> {
    of(family)
        .map(|(field, shape)| (field.to_owned(), shape.zero()))
        .collect()
}

impl Shape {
    /// The value that says nothing.
    fn zero(self) -> Value {
        match self {
            Self::Text(unset) => json!(unset),
            Self::Selector => json!(""),
            Self::Seconds | Self::Count => json!(0),
            Self::Flag => json!(false),
            Self::Set | Self::Policies | Self::Networks => json!([]),
            Self::Claims => json!({}),
        }
    }

    /// What `value` says, alike for all values that say the same; none for the zero.
    ///
    /// A value that cannot be read stays as it is: it is not what we wrote.
    pub(super) fn normal(self, value: &Value) -> Option<Value> {
        let read = match self {
            // Older servers answer "" where they mean what is unset.
            Self::Text(unset) => value.as_str().map(|text| match text {
                "" => json!(unset),
                text => json!(text),
            }),
            Self::Selector => value.as_str().map(|text| json!(same_selector(text))),
            Self::Seconds => in_seconds(value),
            Self::Count | Self::Flag => None,
            Self::Set => texts(value, str::to_owned),
            Self::Policies => texts(value, str::to_lowercase),
            Self::Networks => texts(value, network),
            Self::Claims => claims(value),
        };
        let normal = read.unwrap_or_else(|| value.clone());
        (!normal.is_null() && normal != self.zero()).then_some(normal)
    }
}

/// A list, or one text with commas, as Vault accepts it.
fn texts(value: &Value, same: impl Fn(&str) -> String) -> Option<Value> {
    let found: Vec<&str> = match value {
        Value::Array(values) => values.iter().map(Value::as_str).collect::<Option<_>>()?,
        Value::String(text) => text.split_terminator(',').collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let set: BTreeSet<String> = found.into_iter().map(|text| same(text.trim())).collect();
    Some(json!(set))
}

fn in_seconds(value: &Value) -> Option<Value> {
    match value.as_str() {
        Some("") => Some(json!(0)),
        Some(text) => Some(json!(text.parse::<Duration>().ok()?.as_secs())),
        None => None,
    }
}

/// A claim with one value is a claim with a list of one.
fn claims(value: &Value) -> Option<Value> {
    let listed = |(claim, values): (&String, &Value)| {
        let values = match values {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        // Values need not be texts; their JSON is an order all the same.
        let sorted: BTreeMap<String, Value> = values
            .into_iter()
            .map(|value| (value.to_string(), value))
            .collect();
        (claim.clone(), sorted.into_values().collect())
    };
    let claims: BTreeMap<String, Value> = value.as_object()?.iter().map(listed).collect();
    Some(json!(claims))
}

/// An address or a network as Vault prints it: a network of one address is the address, and an IPv4
/// address in IPv6 clothes is an IPv4 address. What is neither stays as it is.
pub(super) fn network(text: &str) -> String {
    match parsed(text.trim()) {
        Some((address, bits)) if bits == width(address) => address.to_string(),
        Some((address, bits)) => format!("{address}/{bits}"),
        None => text.trim().to_owned(),
    }
}

/// Whether it is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    parsed(text.trim()).is_some()
}

/// The address, and how many of its bits count.
fn parsed(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = bits.unwrap_or(width(address));
    if bits > width(address) {
        return None;
    }
    match address.to_canonical() {
        plain if plain == address => Some((plain, bits)),
        within => Some((within, bits.checked_sub(96)?)),
    }
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// A selector as the JSON text that is sent, alike for all that pick the same by the same terms.
pub(super) fn selector(selector: &LabelSelector) -> String {
    let mut terms = selector.clone();
    terms.match_labels = terms.match_labels.filter(|labels| !labels.is_empty());
    let expressions = terms.match_expressions.take().unwrap_or_default();
    let mut expressions: Vec<_> = expressions
        .into_iter()
        .map(|mut expression| {
            let values: BTreeSet<String> =
                expression.values.unwrap_or_default().into_iter().collect();
            expression.values = (!values.is_empty()).then(|| values.into_iter().collect());
            expression
        })
        .collect();
    expressions
        .sort_by(|a, b| (&a.key, &a.operator, &a.values).cmp(&(&b.key, &b.operator, &b.values)));
    expressions.dedup();
    terms.match_expressions = (!expressions.is_empty()).then_some(expressions);
    serde_json::to_string(&terms).expect("a label selector is JSON")
}

/// The same for a selector that Vault answers: it keeps the text it was given, which may be another's.
fn same_selector(text: &str) -> String {
    let read = || {
        let value: Value = serde_json::from_str(text).ok()?;
        let terms: LabelSelector = serde_json::from_value(value.clone()).ok()?;
        // Vault is laxer about the spelling of keys: what we would drop may count there.
        (serde_json::to_value(&terms).ok()? == value).then(|| selector(&terms))
    };
    read().unwrap_or_else(|| text.to_owned())
}
