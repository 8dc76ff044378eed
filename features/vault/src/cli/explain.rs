//! `explain`: whether a service account can log in by a role, and what keeps it from that.

use api::vault::{RoleFamily, RoleStatus, SplitRole, VaultClusterRole, VaultRole};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::ArgMatches;
use engine::cli::flags::value;
use engine::cli::{Answer, Failure, ObjectRef, ReadyCondition};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kernel::ObjectKey;
use kube::api::{Api, PostParams};
use serde_json::{Map, Value};
use vault_client::{AuthMount, Client, Secret};

use super::check::{Checks, Failed, Found, fails, unchecked};
use super::session::{VaultSession, pair};
use crate::language::glob::Glob;
use crate::links::Dependent;
use crate::place::Place;
use crate::role::payload;
use crate::sync::{Declared, Record, own_vault};
use crate::tenancy::selects;

const NO_TOKEN: &str = "give a token of it with --jwt";

/// Who wants to log in, by what.
struct Asked {
    account: ObjectKey,
    /// The account as tokens name it.
    subject: String,
    jwt: Option<Jwt>,
}

/// A token and what it says of itself.
struct Jwt {
    secret: Secret,
    claims: Map<String, Value>,
}

/// A role as far as its status tells.
struct Role {
    connection: String,
    vault_namespace: Option<String>,
    status: RoleStatus,
    records: Vec<Record>,
}

impl Role {
    fn of<K: Declared<Status = RoleStatus>>(role: &K) -> Self {
        let (terms, status) = (role.terms(), role.status());
        Self {
            connection: terms.connection.to_owned(),
            vault_namespace: terms.vault_namespace.map(str::to_owned),
            records: K::records(&status),
            status,
        }
    }

    /// What the object says of itself.
    fn ready(&self) -> String {
        let ready = ReadyCondition::new(&self.status.sync.conditions, None);
        format!("{}: {}", ready.reason, ready.message)
    }

    /// The role in Vault for those of `namespace`: its own, else the one at the base name.
    fn place(&self, namespace: &str) -> Option<&Place> {
        let of = |slot: Option<&str>| self.records.iter().find(|one| one.slot.as_deref() == slot);
        let record = of(Some(namespace)).or_else(|| of(None));
        record.map(|record| &record.place)
    }
}

pub(super) async fn explain(session: &VaultSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let target = session.target(args)?;
    if !matches!(target.id, Dependent::Role | Dependent::ClusterRole) {
        return Err(format!(
            "nobody logs in by a {}; name a VaultRole (vr) or VaultClusterRole (vcr)",
            target.kind().kind
        )
        .into());
    }
    let account = pair(value(args, "sa").unwrap_or_default(), "--sa team-a/app")?;
    let asked = Asked {
        subject: format!(
            "system:serviceaccount:{}:{}",
            account.namespace.as_deref().unwrap_or_default(),
            account.name
        ),
        jwt: value(args, "jwt").map(jwt).transpose()?,
        account,
    };
    let mut checks = Checks::default();
    examine(session, &target, &asked, &mut checks).await?.ok();
    Ok(checks.answer())
}

fn jwt(file: &str) -> Result<Jwt, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("--jwt {file} cannot be read: {error}"))?;
    let text = text.trim();
    let middle = text.split('.').nth(1);
    let bytes = middle.and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(Jwt {
        claims: claims.ok_or_else(|| format!("--jwt {file} holds no JWT"))?,
        secret: Secret::new(text.to_owned()),
    })
}

fn parsed(target: &ObjectRef<Dependent>) -> Result<Option<Role>, Failure> {
    let Some(object) = target.find() else {
        return Ok(None);
    };
    let kind = target.kind();
    Ok(Some(if target.id == Dependent::Role {
        Role::of(&object.parse::<VaultRole>(kind)?)
    } else {
        Role::of(&object.parse::<VaultClusterRole>(kind)?)
    }))
}

/// The outer error: it could not be told. The inner one: a check has failed.
async fn examine(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    asked: &Asked,
    checks: &mut Checks,
) -> Result<Result<(), Failed>, Failure> {
    let role = parsed(target)?;
    let object = match &role {
        None => fails(target.missing()),
        Some(role) if role.records.is_empty() => fails(format!(
            "it has not been written to Vault: {}",
            role.ready()
        )),
        Some(role) => Ok(role.ready()),
    };
    if let Err(failed) = checks.add("object", object) {
        return Ok(Err(failed));
    }
    let role = role.expect("the check has failed without one");
    let connection = session.connection(&role.connection)?;
    let vault = session.vault(&role.connection).await?;
    let vault = own_vault(&vault, &connection, role.vault_namespace.as_deref());
    let namespace = asked.account.namespace.as_deref().unwrap_or_default();
    let place = role.place(namespace);
    let there = place.or_else(|| role.records.first().map(|record| &record.place));
    let there = there.expect("there is a record, or the first check has failed");
    let mount = there.mount().cloned().expect("a role is at a mount");
    let live = vault.read_role(&mount, there.name()).await?;
    let said = match &live {
        Some(_) => Ok(there.to_string()),
        None => fails(format!(
            "{there} is not in Vault; see: pontoon vault plan {}",
            target.argument()
        )),
    };
    if let Err(failed) = checks.add("role", said) {
        return Ok(Err(failed));
    }
    let live = live.expect("the check has failed without it");
    let policies = policies(&vault, &role, &live).await?;
    let config = config(&vault, &mount, &live).await?;
    let review = review(session, asked, &live).await;
    let rest = || {
        checks.add("split name", split(&role, place, namespace))?;
        checks.add("pair", admitted(session, asked, &live))?;
        checks.add("audience", audience(asked, &live))?;
        checks.add("expiry", expiry(asked, session.ctx.now()))?;
        checks.add("mount config", config)?;
        checks.add("TokenReview", review)?;
        checks.add("policies", policies)
    };
    Ok(rest())
}

fn split(role: &Role, place: Option<&Place>, namespace: &str) -> Found {
    let Some(place) = place else {
        let names = role.status.vault_role_names.iter();
        let known = names.filter_map(|one: &SplitRole| one.namespace.as_deref());
        return fails(format!(
            "there is no role for namespace {namespace}; there are some for: {}",
            known.collect::<Vec<_>>().join(", ")
        ));
    };
    Ok(format!("log in as {}", place.name()))
}

fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => vec![text.clone()],
        Some(Value::Array(all)) => all
            .iter()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn globs(patterns: &[String], name: &str) -> bool {
    let fits = |glob: &String| Glob::new(glob).is_ok_and(|glob| glob.matches(name));
    patterns.iter().any(fits)
}

/// Whether the role in Vault admits the account.
fn admitted(session: &VaultSession, asked: &Asked, live: &Map<String, Value>) -> Found {
    if let Some(jwt) = &asked.jwt
        && jwt.claims.get("sub").and_then(Value::as_str) != Some(&asked.subject)
    {
        let whose = jwt
            .claims
            .get("sub")
            .map_or_else(String::new, Value::to_string);
        return fails(format!("the token is of {whose}, not of {}", asked.subject));
    }
    match payload::family(live) {
        RoleFamily::Kubernetes => by_account(session, asked, live),
        RoleFamily::Jwt => by_claims(asked, live),
    }
}

fn by_account(session: &VaultSession, asked: &Asked, live: &Map<String, Value>) -> Found {
    let namespace = asked.account.namespace.as_deref().unwrap_or_default();
    let names = texts(live.get("bound_service_account_names"));
    let namespaces = texts(live.get("bound_service_account_namespaces"));
    if !globs(&names, &asked.account.name) {
        return fails(format!(
            "the role admits service accounts named {}, not {}",
            names.join(", "),
            asked.account.name
        ));
    }
    if globs(&namespaces, namespace) {
        return Ok(format!("{} is admitted", asked.account));
    }
    let selector = live.get("bound_service_account_namespace_selector");
    let selector = selector.and_then(Value::as_str).unwrap_or_default();
    match serde_json::from_str::<LabelSelector>(selector) {
        Ok(selector) if selects(&selector, &session.ctx.labels(namespace)) => Ok(format!(
            "{} is admitted by the labels of its namespace",
            asked.account
        )),
        Ok(_) => fails(format!(
            "the role's selector does not pick namespace {namespace}"
        )),
        Err(_) => fails(format!(
            "the role admits namespaces {}, not {namespace}",
            namespaces.join(", ")
        )),
    }
}

fn by_claims(asked: &Asked, live: &Map<String, Value>) -> Found {
    let subject = texts(live.get("bound_subject"));
    if subject.iter().any(|bound| *bound != asked.subject) {
        return fails(format!("the role admits {} alone", subject.join(", ")));
    }
    let glob = live.get("bound_claims_type").and_then(Value::as_str) == Some("glob");
    let fits = |bound: &[String], value: &str| {
        if glob {
            globs(bound, value)
        } else {
            bound.iter().any(|one| one == value)
        }
    };
    let empty = Map::new();
    let claims = live.get("bound_claims").and_then(Value::as_object);
    for (claim, bound) in claims.unwrap_or(&empty) {
        let bound = texts(Some(bound));
        let held = match (&**claim, &asked.jwt) {
            ("sub", _) => vec![asked.subject.clone()],
            (_, Some(jwt)) => texts(jwt.claims.get(claim)),
            (_, None) => {
                return unchecked(format!("the role asks for the claim {claim}; {NO_TOKEN}"));
            }
        };
        if !held.iter().any(|value| fits(&bound, value)) {
            return fails(format!(
                "the role asks for {claim} to be one of {}",
                bound.join(", ")
            ));
        }
    }
    Ok(format!("{} is admitted", asked.subject))
}

/// The audiences of which a token must have one; none: the role does not ask.
fn wanted_audiences(live: &Map<String, Value>) -> Vec<String> {
    match payload::family(live) {
        RoleFamily::Kubernetes => texts(live.get("audience")),
        RoleFamily::Jwt => texts(live.get("bound_audiences")),
    }
}

fn audience(asked: &Asked, live: &Map<String, Value>) -> Found {
    let wanted = wanted_audiences(live);
    if wanted.is_empty() {
        return Ok("the role asks for none".to_owned());
    }
    let wanted_text = wanted.join(", ");
    let Some(jwt) = &asked.jwt else {
        return unchecked(format!("the token must be for {wanted_text}; {NO_TOKEN}"));
    };
    let held = texts(jwt.claims.get("aud"));
    if held.iter().any(|one| wanted.contains(one)) {
        Ok(format!("the token is for {}", held.join(", ")))
    } else {
        fails(format!(
            "the token is for {}, and must be for {wanted_text}",
            held.join(", ")
        ))
    }
}

fn expiry(asked: &Asked, now: Timestamp) -> Found {
    let Some(jwt) = &asked.jwt else {
        return unchecked(NO_TOKEN);
    };
    let end = jwt.claims.get("exp").and_then(Value::as_i64);
    match end.and_then(|second| Timestamp::from_second(second).ok()) {
        None => Ok("the token does not end".to_owned()),
        Some(end) if end > now => Ok(format!("the token ends at {end}")),
        Some(end) => fails(format!("the token ended at {end}; take a new one")),
    }
}

async fn config(
    vault: &Client,
    mount: &AuthMount,
    live: &Map<String, Value>,
) -> Result<Found, Failure> {
    let config = match vault.read_auth_config(mount).await {
        Ok(config) => config.unwrap_or_default(),
        Err(error @ vault_client::Error::Denied { .. }) => {
            return Ok(unchecked(format!("it may not be read: {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    let fields: &[&str] = match payload::family(live) {
        RoleFamily::Kubernetes => &["kubernetes_host"],
        RoleFamily::Jwt => &[
            "oidc_discovery_url",
            "jwks_url",
            "jwks_pairs",
            "jwt_validation_pubkeys",
        ],
    };
    let says = |field: &&&str| match config.get(**field) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(all)) => !all.is_empty(),
        _ => false,
    };
    Ok(match fields.iter().find(says) {
        Some(field) => Ok(format!("auth/{mount} has {field} {}", config[*field])),
        None => fails(format!(
            "auth/{mount}/config says none of {}",
            fields.join(", ")
        )),
    })
}

/// What the API server says of the token, asked as Vault asks.
async fn review(session: &VaultSession, asked: &Asked, live: &Map<String, Value>) -> Found {
    if payload::family(live) == RoleFamily::Jwt {
        return Ok("Vault itself checks tokens at such a mount".to_owned());
    }
    let Some(jwt) = &asked.jwt else {
        return unchecked(NO_TOKEN);
    };
    let audiences = wanted_audiences(live);
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(jwt.secret.expose().clone()),
            audiences: (!audiences.is_empty()).then_some(audiences),
        },
        ..TokenReview::default()
    };
    let api = Api::<TokenReview>::all(session.cluster.client());
    let status = match api.create(&PostParams::default(), &review).await {
        Ok(review) => review.status.unwrap_or_default(),
        Err(error) => return unchecked(format!("the API server was not asked: {error}")),
    };
    let user = status
        .user
        .and_then(|user| user.username)
        .unwrap_or_default();
    match status.authenticated {
        Some(true) if user == asked.subject => Ok(format!("the API server knows {user}")),
        Some(true) => fails(format!("to the API server the token is of {user}")),
        Some(false) | None => fails(format!(
            "this cluster does not take the token: {}",
            status.error.unwrap_or_else(|| "no reason given".to_owned())
        )),
    }
}

async fn policies(
    vault: &Client,
    role: &Role,
    live: &Map<String, Value>,
) -> Result<Found, Failure> {
    let unresolved = role.status.policy_bindings.iter();
    let unresolved = unresolved.filter(|one| one.resolved != Some(true));
    let mut missing: Vec<_> = unresolved.filter_map(|one| one.k8s_ref.clone()).collect();
    let bound = texts(live.get("token_policies"));
    for name in &bound {
        match vault.read_policy(name).await {
            Ok(Some(_)) => {}
            Ok(None) => missing.push(name.clone()),
            Err(error @ vault_client::Error::Denied { .. }) => {
                return Ok(unchecked(format!("they may not be read: {error}")));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if missing.is_empty() {
        Ok(format!("the token gets {}", bound.join(", ")))
    } else {
        fails(format!(
            "it would log in without {}, which Vault does not have",
            missing.join(", ")
        ))
    })
}
