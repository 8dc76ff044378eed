//! The object that would declare a role found. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::vault::{
    BoundClaimsType, ConflictPolicy, DeletionPolicy, DriftMode, Duration, JwtRole, PolicyKind,
    PolicyReference, ResolveBy, RoleFamily, RoleSpec, SelectedServiceAccounts, ServiceAccount,
    VaultClusterRole, VaultClusterRoleSpec, VaultRole, VaultRoleSpec, names as words,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::claims::Claims;
use super::object::{Object, Origin};
use crate::language::text::Header;
use crate::pairs::{Pair, Product};
use crate::role::payload::{self, Canonical, Subjects};

/// A difference is told in this many lines.
const DIFF_LINES: usize = 4;

/// Where the role is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) family: RoleFamily,
    /// The audiences of the connection's own JWT login, if it has one.
    pub(super) audiences: &'a [String],
    pub(super) claims: &'a Claims,
}

/// Whom a role admits, in the words of a spec.
enum Who {
    /// Exactly these.
    Accounts(BTreeSet<Pair>),
    /// Those in namespaces whose labels Vault looks at.
    Selected(SelectedServiceAccounts),
    /// Whose token says what the spec's `jwt` asks for.
    Token,
    /// Anybody, which no object says: a person has to decide.
    Anybody,
}

/// The role that says what `live` says. One that admits nobody but accounts of the origin's
/// namespace is a VaultRole there.
///
/// # Errors
/// Why no object can.
pub(super) fn role(
    live: &Map<String, Value>,
    around: &Surroundings<'_>,
    origin: &Origin<'_>,
) -> Result<Object, String> {
    let (jwt, who) = match around.family {
        RoleFamily::Kubernetes => (None, reviewed(live)?),
        RoleFamily::Jwt => bound(live)?,
    };
    let is_confined = match &who {
        Who::Accounts(pairs) => pairs
            .iter()
            .all(|(namespace, _)| namespace == origin.namespace),
        Who::Selected(_) | Who::Token | Who::Anybody => false,
    };
    let policies = texts(live, "token_policies");
    let within = is_confined.then_some(origin.namespace);
    let mut spec = said(
        live,
        jwt,
        references(&policies, within, around.claims),
        origin,
    );
    payload::check(&spec)?;
    if let Some(subjects) = subjects(&who, around.family) {
        let differs = |spec: &RoleSpec| difference(live, spec, &subjects, &policies, around);
        let plain = RoleSpec {
            jwt: None,
            ..spec.clone()
        };
        // Usual ways need no words, and no grant of jwtOverrides.
        if matches!(who, Who::Accounts(_)) && differs(&plain).is_none() {
            spec = plain;
        }
        if let Some(diff) = differs(&spec) {
            return Err(format!("no spec says all of it; it would become:\n{diff}"));
        }
    }
    Ok(object(spec, who, is_confined, origin))
}

fn object(spec: RoleSpec, who: Who, is_confined: bool, origin: &Origin<'_>) -> Object {
    let (pairs, selected) = match who {
        Who::Accounts(pairs) => (pairs, None),
        Who::Selected(selected) => (BTreeSet::new(), Some(selected)),
        Who::Token => (BTreeSet::new(), None),
        Who::Anybody => {
            let somebody = words::DISCOVERY_PLACEHOLDER.to_owned();
            (BTreeSet::from([(somebody.clone(), somebody)]), None)
        }
    };
    if is_confined {
        let service_accounts = pairs.into_iter().map(|(_, name)| name).collect();
        let mut role = VaultRole::new(
            origin.name,
            VaultRoleSpec {
                role: spec,
                service_accounts,
            },
        );
        role.metadata = origin.metadata(true);
        return Object::Role(role);
    }
    let account = |(namespace, name)| ServiceAccount { name, namespace };
    let mut role = VaultClusterRole::new(
        origin.name,
        VaultClusterRoleSpec {
            role: spec,
            service_accounts: pairs.into_iter().map(account).collect(),
            selected_service_accounts: selected,
            service_account_binding: None,
        },
    );
    role.metadata = origin.metadata(false);
    Object::ClusterRole(role)
}

/// What writing `spec` would change; none if nothing.
fn difference(
    live: &Map<String, Value>,
    spec: &RoleSpec,
    subjects: &Subjects,
    policies: &[String],
    around: &Surroundings<'_>,
) -> Option<String> {
    // Not compared: whose it is.
    let header = Header {
        auth_mount: None,
        cluster: None,
        resource: String::new(),
        kind: String::new(),
    };
    let wanted = payload::payload(&payload::Wanted {
        spec,
        subjects,
        policies,
        header: &header,
        audiences: around.audiences,
        max_token_ttl: None,
    });
    let live = Canonical::of_live(around.family, live);
    let wanted = wanted.canonical();
    (live != wanted).then(|| payload::diff(&live, &wanted, DIFF_LINES))
}

/// None where a person has to decide first.
fn subjects(who: &Who, family: RoleFamily) -> Option<Subjects> {
    match (who, family) {
        (Who::Accounts(pairs), RoleFamily::Kubernetes) => {
            let (namespaces, names) = pairs.iter().cloned().unzip();
            Some(Subjects::Accounts(Product { names, namespaces }))
        }
        (Who::Accounts(pairs), RoleFamily::Jwt) => Some(Subjects::Jwt(pairs.clone())),
        (Who::Selected(selected), _) => Some(Subjects::Selected {
            names: selected.names.iter().cloned().collect(),
            selector: selected.namespace_selector.clone(),
        }),
        (Who::Token, _) => Some(Subjects::Jwt(BTreeSet::new())),
        (Who::Anybody, _) => None,
    }
}

/// Whom a role of the kubernetes family admits.
fn reviewed(live: &Map<String, Value>) -> Result<Who, String> {
    let names = texts(live, "bound_service_account_names");
    let namespaces = texts(live, "bound_service_account_namespaces");
    if let Some(selector) = text(live, "bound_service_account_namespace_selector") {
        if !namespaces.is_empty() {
            return Err("it admits namespaces by name and by label".to_owned());
        }
        let namespace_selector = serde_json::from_str(&selector)
            .map_err(|error| format!("its namespace selector cannot be read: {error}"))?;
        return Ok(Who::Selected(SelectedServiceAccounts {
            names,
            namespace_selector,
            resolve_by: ResolveBy::Vault,
        }));
    }
    let of = |namespace: &String| {
        let pair = |name: &String| (namespace.clone(), name.clone());
        names.iter().map(pair).collect::<Vec<Pair>>()
    };
    let pairs: BTreeSet<Pair> = namespaces.iter().flat_map(of).collect();
    if pairs.is_empty() {
        return Ok(Who::Anybody);
    }
    let accounts = pairs
        .iter()
        .map(|(namespace, name)| (&**namespace, &**name));
    payload::check_accounts(accounts)?;
    Ok(Who::Accounts(pairs))
}

/// Whom a role of the jwt family admits, and what it asks of tokens.
fn bound(live: &Map<String, Value>) -> Result<(Option<JwtRole>, Who), String> {
    let mut jwt = JwtRole {
        user_claim: text(live, "user_claim").unwrap_or_default(),
        bound_audiences: texts(live, "bound_audiences"),
        bound_subject: None,
        bound_claims: BTreeMap::new(),
        bound_claims_list: BTreeMap::new(),
        bound_claims_type: choice(live, "bound_claims_type").unwrap_or_default(),
        role_type: None,
        groups_claim: text(live, "groups_claim"),
    };
    let subject = text(live, "bound_subject");
    let claims = claims(live)?;
    let who = match (subject, claims.is_empty()) {
        (None, true) => Who::Anybody,
        (Some(_), false) => return Err("it binds a subject and claims".to_owned()),
        (Some(subject), true) => {
            let pair = account(&subject);
            jwt.bound_subject = Some(subject).filter(|_| pair.is_none());
            pair.map_or(Who::Token, |pair| Who::Accounts(BTreeSet::from([pair])))
        }
        (None, false) => {
            let pairs = accounts(&claims, jwt.bound_claims_type);
            if pairs.is_none() {
                jwt.bound_claims_list = claims;
            }
            pairs.map_or(Who::Token, Who::Accounts)
        }
    };
    Ok((Some(jwt), who))
}

fn claims(live: &Map<String, Value>) -> Result<BTreeMap<String, Vec<String>>, String> {
    let Some(claims) = live.get("bound_claims").and_then(Value::as_object) else {
        return Ok(BTreeMap::new());
    };
    let listed = |(claim, value): (&String, &Value)| {
        let values = match value {
            Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
        let texts = texts.collect::<Option<Vec<_>>>();
        let texts = texts.ok_or_else(|| format!("claim {claim} is bound to more than texts"))?;
        Ok((claim.clone(), texts))
    };
    claims.iter().map(listed).collect()
}

/// The accounts that a list of subjects names, if it names nothing else; one alone is written as a
/// subject, not as a claim.
fn accounts(
    claims: &BTreeMap<String, Vec<String>>,
    compared: BoundClaimsType,
) -> Option<BTreeSet<Pair>> {
    let subjects = claims.get("sub").filter(|_| claims.len() == 1)?;
    let pairs: BTreeSet<Pair> = subjects
        .iter()
        .map(|subject| account(subject))
        .collect::<Option<_>>()?;
    (pairs.len() > 1 && compared == BoundClaimsType::String).then_some(pairs)
}

fn account(subject: &str) -> Option<Pair> {
    let named = subject.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = named.split_once(':')?;
    Some((namespace.to_owned(), name.to_owned()))
}

/// The policies by the objects that have them, as far as a role `within` a namespace can count on
/// these; else by their names in Vault.
fn references(policies: &[String], within: Option<&str>, claims: &Claims) -> Vec<PolicyReference> {
    let external = |name: &str| PolicyReference {
        kind: PolicyKind::External,
        name: name.to_owned(),
        namespace: None,
    };
    if policies.is_empty() {
        return vec![external(words::DISCOVERY_PLACEHOLDER)];
    }
    // Those of other namespaces may have to be granted, and what is not granted is left out.
    let counts = |known: &&PolicyReference| {
        within.is_none_or(|within| known.namespace.as_deref() == Some(within))
    };
    let one = |name: &String| {
        let known = claims.policy(name).filter(counts).cloned();
        known.unwrap_or_else(|| external(name))
    };
    policies.iter().map(one).collect()
}

fn said(
    live: &Map<String, Value>,
    jwt: Option<JwtRole>,
    policies: Vec<PolicyReference>,
    origin: &Origin<'_>,
) -> RoleSpec {
    let flag = live.get("token_no_default_policy").and_then(Value::as_bool);
    let uses = live.get("token_num_uses").and_then(Value::as_u64);
    let uses = uses.and_then(|uses| u32::try_from(uses).ok());
    RoleSpec {
        connection_ref: origin.connection.to_owned(),
        conflict_policy: ConflictPolicy::Adopt,
        deletion_policy: DeletionPolicy::Retain,
        drift_mode: Some(DriftMode::Detect),
        policies,
        token_ttl: seconds(live, "token_ttl"),
        token_max_ttl: seconds(live, "token_max_ttl"),
        jwt,
        external_name: Some(origin.external_name.to_owned()),
        vault_namespace: None,
        audience: text(live, "audience"),
        alias_name_source: choice(live, "alias_name_source"),
        token_bound_cidrs: texts(live, "token_bound_cidrs"),
        token_period: seconds(live, "token_period"),
        token_explicit_max_ttl: seconds(live, "token_explicit_max_ttl"),
        token_num_uses: uses.filter(|uses| *uses > 0),
        token_type: choice(live, "token_type"),
        token_no_default_policy: flag.filter(|flag| *flag),
    }
}

fn text(live: &Map<String, Value>, field: &str) -> Option<String> {
    let text = live.get(field).and_then(Value::as_str);
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A list, or one text with commas.
fn texts(live: &Map<String, Value>, field: &str) -> Vec<String> {
    let found: BTreeSet<&str> = match live.get(field) {
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(text)) => text.split_terminator(',').map(str::trim).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            BTreeSet::new()
        }
    };
    found.into_iter().map(str::to_owned).collect()
}

fn seconds(live: &Map<String, Value>, field: &str) -> Option<Duration> {
    let value = live.get(field)?;
    let life = value.as_u64().map(Duration::from_secs);
    let life = life.or_else(|| value.as_str()?.parse().ok())?;
    (!life.as_std().is_zero()).then_some(life)
}

/// A word that the spec knows; one that it does not know shows in the comparison.
fn choice<T: DeserializeOwned>(live: &Map<String, Value>, field: &str) -> Option<T> {
    serde_json::from_value(live.get(field)?.clone()).ok()
}

#[cfg(test)]
mod tests;
