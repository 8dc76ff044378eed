//! Makes objects for what a scan has found.

use api::vault::{
    Discovery, DiscoveryStatus, RoleFamily, VaultClusterRole, VaultConnection, VaultPolicy,
    VaultRole,
};
use engine::{ApiError, Classified, Note, Pass, kill_point};
use kernel::Class;
use kube::api::{Api, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use super::Thing;
use super::claims::Claims;
use super::object::{self, Object, Origin};
use super::report::{self, FAILED, PENDING};
use super::role::{self, Surroundings};
use crate::ctx::Ctx;
use crate::names;
use crate::place::{Found, Place};

/// The field manager of what is made.
const MANAGER: &str = "pontoon-vault";
/// An event names this many failures.
const TOLD: usize = 3;

/// Where objects are made, and for which connection.
pub(super) struct Site<'a> {
    connection: &'a str,
    namespace: &'a str,
    around: Surroundings<'a>,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        connection: &'a VaultConnection,
        discovery: &'a Discovery,
        claims: &'a Claims,
    ) -> Self {
        let spec = &connection.spec;
        let mount = names::role_mount(spec.defaults.as_ref(), &spec.auth);
        let jwt = spec.auth.jwt.as_ref();
        Self {
            connection: connection.metadata.name.as_deref().unwrap_or_default(),
            namespace: discovery.target_namespace.as_deref().unwrap_or_default(),
            around: Surroundings {
                family: mount.map_or(RoleFamily::Kubernetes, |at| at.family),
                audiences: jwt.map(|jwt| &*jwt.audiences).unwrap_or_default(),
                claims,
            },
        }
    }
}

/// Makes an object for each of `things` that no object names, and puts down in `found` what became
/// of it. An object that has the name already is left alone.
pub(super) async fn make(
    things: Vec<Thing>,
    site: &Site<'_>,
    found: &mut DiscoveryStatus,
    before: Option<&DiscoveryStatus>,
    ctx: &Ctx,
    pass: &Pass,
) {
    let nameless = things
        .into_iter()
        .filter(|thing| !site.around.claims.is_wanted(&thing.place));
    let mut failures = Vec::new();
    for thing in nameless {
        let made = match declared(&thing, site, found, ctx) {
            Ok(object) => create(&object, ctx).await,
            Err(why) => Err(why),
        };
        let place = &thing.place;
        let mut listed = found.discovered_resources.iter_mut();
        let entry = listed.find(|one| report::is(one, place));
        if let Some(entry) = entry {
            let became = if made.is_ok() { PENDING } else { FAILED };
            entry.adoption_status = Some(became.to_owned());
            if let Err(why) = &made
                && !had_failed(before, place)
            {
                failures.push(format!("{place}: {why}"));
            }
        }
        if let Err(why) = made {
            tracing::debug!(vaultConnection = site.connection, path = %place, why, "no object was made");
        }
    }
    if let Some(note) = told(&failures) {
        pass.event(note);
    }
}

/// Failures are told once.
fn had_failed(before: Option<&DiscoveryStatus>, place: &Place) -> bool {
    let mut known = before
        .iter()
        .flat_map(|before| &before.discovered_resources);
    let known = known.find(|one| report::is(one, place));
    known.is_some_and(|one| one.adoption_status.as_deref() == Some(FAILED))
}

fn told(failures: &[String]) -> Option<Note> {
    let shown = failures.iter().take(TOLD).cloned().collect::<Vec<_>>();
    let more = failures.len().saturating_sub(TOLD);
    let more = match more {
        0 => String::new(),
        more => format!("; and {more} more, see discoveryStatus"),
    };
    let said = format!("no object was made for {}{more}", shown.join("; "));
    (!failures.is_empty()).then(|| Note::warning("AutoCreateFailed", said))
}

/// The object for `thing`, or why there can be none.
fn declared(
    thing: &Thing,
    site: &Site<'_>,
    found: &DiscoveryStatus,
    ctx: &Ctx,
) -> Result<Object, String> {
    let external_name = thing.place.name();
    let name = report::suggested(external_name);
    let name = name.ok_or("no object can have its name; declare it by hand")?;
    let mut listed = found.discovered_resources.iter();
    let entry = listed.find(|one| report::is(one, &thing.place));
    let since = entry.and_then(|entry| entry.discovered_at.as_ref());
    let origin = Origin {
        connection: site.connection,
        namespace: site.namespace,
        name: &name,
        external_name,
        since: since.map_or_else(|| ctx.now(), |since| since.0),
    };
    match &thing.found {
        Found::Policy { text, .. } => object::policy(text, &origin).map(Object::Policy),
        Found::Role { fields, .. } => role::role(fields, &site.around, &origin),
    }
}

async fn create(object: &Object, ctx: &Ctx) -> Result<(), String> {
    let client = || ctx.deck.client.clone();
    match object {
        Object::Policy(object) => {
            let namespace = object.namespace().unwrap_or_default();
            post(Api::<VaultPolicy>::namespaced(client(), &namespace), object).await
        }
        Object::Role(object) => {
            let namespace = object.namespace().unwrap_or_default();
            post(Api::<VaultRole>::namespaced(client(), &namespace), object).await
        }
        Object::ClusterRole(object) => post(Api::<VaultClusterRole>::all(client()), object).await,
    }
}

/// Not applied but created: what exists is not touched, whatever our cache knows of it.
async fn post<K>(api: Api<K>, object: &K) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
{
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let what = format!("{} {}", K::kind(&()), object.name_any());
    kill_point("vault-before-declare");
    let made = api.create(&params, object).await;
    kill_point("vault-after-declare");
    let made = made.map_err(|error| ApiError::classify(format!("create {what}"), error));
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.class() == Class::AlreadyExists => Err(format!(
            "{what} exists and is left alone; rename it, or declare the other by hand"
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::vault::DiscoveredResource;

    fn place() -> Place {
        Place::parse("sys/policies/acl/app").unwrap()
    }

    #[test]
    fn a_failure_is_told_once() {
        let status = |adoption: &str| DiscoveryStatus {
            discovered_resources: vec![DiscoveredResource {
                kind: Some("policy".into()),
                name: Some("App".into()),
                adoption_status: Some(adoption.into()),
                ..DiscoveredResource::default()
            }],
            ..DiscoveryStatus::default()
        };
        assert!(had_failed(Some(&status(FAILED)), &place()));
        assert!(!had_failed(Some(&status(PENDING)), &place()));
        assert!(!had_failed(None, &place()));
    }

    #[test]
    fn many_failures_are_one_event() {
        assert_eq!(told(&[]), None);
        let failures: Vec<String> = (0..5).map(|n| format!("p{n}: why")).collect();
        let note = Note::warning(
            "AutoCreateFailed",
            "no object was made for p0: why; p1: why; p2: why; and 2 more, see discoveryStatus",
        );
        assert_eq!(told(&failures), Some(note));
    }
}
