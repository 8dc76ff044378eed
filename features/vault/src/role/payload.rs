//! A role on the wire: every field we know of, an unset one as its zero.
//!
//! ```text
//! spec, subjects, policies ──▶ Payload ──▶ Canonical ◀── what Vault answers
//! ```
//! # Promises
//! - A write leaves nothing of what the role said before: what the spec does not set is cleared.
//! - Fields that are not ours to set are neither sent nor compared.
//! - Where nobody is named, nobody gets in.

mod canonical;
mod check;
mod fields;
mod live;
mod marker;

use std::collections::{BTreeMap, BTreeSet};

use api::vault::{
    AliasNameSource, BoundClaimsType, Duration, JwtRole, RoleFamily, RoleSpec, TokenType,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::language::text::Header;
use crate::pairs::{Pair, Product};
pub(crate) use canonical::{Canonical, diff};
pub(crate) use check::{check, check_accounts};
pub(crate) use live::{family, not_echoed};
pub(crate) use marker::marker;

/// The audience of tokens where neither the role nor its connection names one.
const AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";
/// The claim that names who logs in, unless the role says another.
const USER_CLAIM: &str = "sub";
/// No namespace and no ServiceAccount has this name.
const NOBODY: &str = "_";

/// Who may log in. Which variant it is follows from the mount's family.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Subjects {
    /// ServiceAccounts by name and namespace; Vault asks the cluster whose a token is.
    Accounts(Product),
    /// ServiceAccounts by name, in namespaces whose labels Vault itself looks at.
    Selected {
        /// Service accounts of these names
        names: BTreeSet<String>,
        /// in namespaces that this picks.
        selector: LabelSelector,
    },
    /// Exactly these ServiceAccounts, told by the subject of their JWT. A subject or claims in the
    /// role's own `jwt` stand before them.
    Jwt(BTreeSet<Pair>),
}

impl Subjects {
    /// The kind of mount that understands them.
    pub(crate) fn family(&self) -> RoleFamily {
        match self {
            Self::Accounts(_) | Self::Selected { .. } => RoleFamily::Kubernetes,
            Self::Jwt(_) => RoleFamily::Jwt,
        }
    }
}

/// All that one role in Vault follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// What the object says.
    pub(crate) spec: &'a RoleSpec,
    /// Who may log in.
    pub(crate) subjects: &'a Subjects,
    /// The policies found, by their names in Vault, in any order.
    pub(crate) policies: &'a [String],
    /// Whose role it is.
    pub(crate) header: &'a Header,
    /// The audiences of the connection's own JWT login, if it has one.
    pub(crate) audiences: &'a [String],
    /// The longest TTL, max TTL and period that tenants may have; none or zero: any.
    pub(crate) max_token_ttl: Option<&'a Duration>,
}

/// The fields of a role as they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    family: RoleFamily,
    fields: Map<String, Value>,
}

impl Payload {
    /// What is sent, complete.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        self.fields.clone()
    }

    /// The SHA-256 of the JSON text that is sent, in hexadecimal.
    pub(crate) fn sent_hash(&self) -> String {
        let text = serde_json::to_string(&self.fields).expect("JSON values print");
        format!("{:x}", Sha256::digest(text))
    }

    /// What it says, without the marker.
    pub(crate) fn canonical(&self) -> Canonical {
        Canonical::of_payload(self)
    }
}

/// What is sent for `wanted`.
pub(crate) fn payload(wanted: &Wanted<'_>) -> Payload {
    let family = wanted.subjects.family();
    let mut fields = fields::zeros(family);
    let bound = match wanted.subjects {
        Subjects::Accounts(product) => accounts(wanted.spec, product),
        Subjects::Selected { names, selector } => selected(wanted.spec, names, selector),
        Subjects::Jwt(pairs) => jwt(wanted, pairs),
    };
    let set = bound.into_iter().chain(token(wanted));
    fields.extend(set.map(|(field, value)| (field.to_owned(), value)));
    fields.insert(marker::FIELD.to_owned(), marker::written(wanted.header));
    Payload { family, fields }
}

/// Whether the role itself names a subject or claims, so that ServiceAccounts do not count.
pub(crate) fn is_bound_by_token(spec: &RoleSpec) -> bool {
    spec.jwt.as_ref().and_then(told).is_some()
}

type Fields = Vec<(&'static str, Value)>;

fn accounts(spec: &RoleSpec, product: &Product) -> Fields {
    let Product { names, namespaces } = product;
    let mut fields = reviewed(spec);
    fields.push(("bound_service_account_names", or_nobody(names)));
    fields.push(("bound_service_account_namespaces", or_nobody(namespaces)));
    fields
}

fn selected(spec: &RoleSpec, names: &BTreeSet<String>, selector: &LabelSelector) -> Fields {
    let selector = fields::selector(selector);
    let mut fields = reviewed(spec);
    fields.push(("bound_service_account_names", or_nobody(names)));
    fields.push(("bound_service_account_namespace_selector", json!(selector)));
    fields
}

/// What roles of the kubernetes family say beside whom they admit.
fn reviewed(spec: &RoleSpec) -> Fields {
    let source = spec.alias_name_source.unwrap_or(AliasNameSource::Uid);
    let audience = spec.audience.as_deref().unwrap_or_default();
    vec![
        ("audience", json!(audience)),
        ("alias_name_source", json!(source)),
    ]
}

/// Vault refuses an empty list, and would keep the one before it.
fn or_nobody(names: &BTreeSet<String>) -> Value {
    if names.is_empty() {
        json!([NOBODY])
    } else {
        list(names)
    }
}

fn jwt(wanted: &Wanted<'_>, pairs: &BTreeSet<Pair>) -> Fields {
    let jwt = wanted.spec.jwt.as_ref();
    let own = jwt.map_or(&[][..], |jwt| &jwt.bound_audiences);
    let usual = [AUDIENCE.to_owned()];
    let audiences = [own, wanted.audiences]
        .into_iter()
        .find(|audiences| !audiences.is_empty())
        .unwrap_or(&usual);
    let user_claim = jwt
        .map(|jwt| jwt.user_claim.as_str())
        .filter(|claim| !claim.is_empty());
    let groups_claim = jwt.and_then(|jwt| jwt.groups_claim.as_deref());
    let compared = jwt.map_or(BoundClaimsType::String, |jwt| jwt.bound_claims_type);
    let (subject, claims) = jwt.and_then(told).unwrap_or_else(|| named(pairs));
    vec![
        ("user_claim", json!(user_claim.unwrap_or(USER_CLAIM))),
        ("groups_claim", json!(groups_claim.unwrap_or_default())),
        ("bound_audiences", list(audiences)),
        ("bound_subject", json!(subject)),
        ("bound_claims", json!(claims)),
        ("bound_claims_type", json!(compared)),
    ]
}

/// The values of which each claim must have one.
type Claims = BTreeMap<String, BTreeSet<String>>;

/// The subject or the claims that a role itself names, if it does.
fn told(jwt: &JwtRole) -> Option<(String, Claims)> {
    let subject = jwt.bound_subject.clone().unwrap_or_default();
    let one = |(claim, value): (&String, &String)| (claim.clone(), [value.clone()].into());
    let mut claims: Claims = jwt.bound_claims.iter().map(one).collect();
    for (claim, values) in &jwt.bound_claims_list {
        claims.insert(claim.clone(), values.iter().cloned().collect());
    }
    (!subject.is_empty() || !claims.is_empty()).then_some((subject, claims))
}

/// Exactly the ServiceAccounts of `pairs`.
fn named(pairs: &BTreeSet<Pair>) -> (String, Claims) {
    let subject = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
    let mut subjects: BTreeSet<String> = pairs
        .iter()
        .map(|(namespace, name)| subject(namespace, name))
        .collect();
    if subjects.len() > 1 {
        return (String::new(), [("sub".to_owned(), subjects)].into());
    }
    let only = subjects.pop_first();
    (
        only.unwrap_or_else(|| subject(NOBODY, NOBODY)),
        Claims::new(),
    )
}

/// What roles of both families say of the tokens they give.
fn token(wanted: &Wanted<'_>) -> Fields {
    // Whoever adds a field to the spec says here whether tokens have to do with it.
    let RoleSpec {
        connection_ref: _,
        conflict_policy: _,
        deletion_policy: _,
        drift_mode: _,
        policies: _,
        token_ttl,
        token_max_ttl,
        jwt: _,
        external_name: _,
        vault_namespace: _,
        audience: _,
        alias_name_source: _,
        token_bound_cidrs,
        token_period,
        token_explicit_max_ttl,
        token_num_uses,
        token_type,
        token_no_default_policy,
    } = wanted.spec;
    // To Vault, 0 is no limit: a cap of 0 caps nothing, and must not make 0 of a life.
    let cap = wanted.max_token_ttl.map(Duration::as_secs);
    let cap = cap.filter(|cap| *cap > 0);
    let capped = |life: &Option<Duration>| seconds(life.as_ref()).min(cap.unwrap_or(u64::MAX));
    let max_ttl = match capped(token_max_ttl) {
        0 => cap.unwrap_or(0),
        given => given,
    };
    let networks = token_bound_cidrs.iter().map(|text| fields::network(text));
    vec![
        ("token_policies", list(wanted.policies)),
        ("token_ttl", json!(capped(token_ttl))),
        ("token_max_ttl", json!(max_ttl)),
        (
            "token_explicit_max_ttl",
            json!(seconds(token_explicit_max_ttl.as_ref())),
        ),
        ("token_period", json!(capped(token_period))),
        ("token_num_uses", json!(token_num_uses.unwrap_or(0))),
        (
            "token_bound_cidrs",
            list(&networks.collect::<BTreeSet<_>>()),
        ),
        (
            "token_type",
            json!(token_type.unwrap_or(TokenType::Default)),
        ),
        (
            "token_no_default_policy",
            json!(token_no_default_policy.unwrap_or(false)),
        ),
    ]
}

fn seconds(life: Option<&Duration>) -> u64 {
    life.map_or(0, Duration::as_secs)
}

/// Sorted, each once, without the spaces around that Vault drops.
fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> Value {
    let texts: BTreeSet<&str> = texts.into_iter().map(|text| text.trim()).collect();
    json!(texts)
}

#[cfg(test)]
mod tests;
