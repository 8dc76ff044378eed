//! Who is woken by whose change. A change that concerns nobody wakes nobody.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use api::vault::{PolicyKind, PolicyReference};
use engine::{Cache, Stored};
use kernel::ObjectKey;
use parking_lot::Mutex;
use serde_json::Value;

use crate::ctx::Ctx;
use crate::links::Dependent;

/// What others care about of each object, as last seen.
struct Memory {
    cache: Cache,
    seen: Mutex<HashMap<ObjectKey, u64>>,
}

impl Memory {
    fn new(cache: &Cache) -> Self {
        Self {
            cache: cache.clone(),
            seen: Mutex::default(),
        }
    }

    /// Whether `gist` is news of the object. That it is gone always is.
    fn is_news(&self, object: &Stored, gist: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        gist.hash(&mut hasher);
        let hash = hasher.finish();
        let mut seen = self.seen.lock();
        if self.cache.store().get(object.key()).is_none() {
            seen.remove(object.key());
            return true;
        }
        seen.insert(object.key().clone(), hash) != Some(hash)
    }
}

/// Concerns nobody, but is read before the first pass: passes look it up, and what is not read yet
/// would be taken for absent.
pub(crate) fn nobody(_: &Stored) -> Vec<ObjectKey> {
    Vec::new()
}

fn parsed(object: &Stored) -> Value {
    serde_json::from_str(object.json()).unwrap_or_default()
}

/// A policy concerns the roles that refer to it, by its name in Vault and who may bind it.
pub(crate) fn roles_of_policy(
    ctx: &Arc<Ctx>,
    kind: PolicyKind,
    wanted: Dependent,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let ctx = ctx.clone();
    let memory = Memory::new(match kind {
        PolicyKind::VaultPolicy => &ctx.caches.policies,
        PolicyKind::VaultClusterPolicy | PolicyKind::External => &ctx.caches.cluster_policies,
    });
    move |policy| {
        let whole = parsed(policy);
        let gist = (
            whole["status"]["vaultName"].to_string(),
            whole["spec"]["connectionRef"].to_string(),
            whole["spec"]["vaultNamespace"].to_string(),
            whole["spec"]["bindableFrom"].to_string(),
        );
        if !memory.is_news(policy, &gist) {
            return Vec::new();
        }
        let roles = ctx.roles_of(kind, policy.key()).into_iter();
        let roles = roles.filter(|(kind, _)| *kind == wanted);
        roles.map(|(_, role)| role.key().clone()).collect()
    }
}

/// A role concerns the policies it refers to. What it is bound to by now concerns only those of them
/// that keep an earlier name for it: the others would look at Vault for nothing.
pub(crate) fn policies_of_role(
    roles: &Cache,
    policies: &Cache,
    wanted: PolicyKind,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (memory, bound) = (Memory::new(roles), Memory::new(roles));
    let policies = policies.clone();
    let keeps_names = move |policy: &ObjectKey| {
        let held = policies.store().get(policy);
        held.is_some_and(|policy| parsed(&policy)["status"]["previousNames"].is_array())
    };
    let before: Mutex<HashMap<ObjectKey, Vec<ObjectKey>>> = Mutex::default();
    move |role| {
        let mut whole = parsed(role);
        let gist = (
            whole["spec"]["policies"].to_string(),
            whole["spec"]["tokenMaxTTL"].to_string(),
        );
        let refers_anew = memory.is_news(role, &gist);
        let is_rebound = bound.is_news(role, &whole["status"]["resolvedPolicies"].to_string());
        if !refers_anew && !is_rebound {
            return Vec::new();
        }
        let references: Vec<PolicyReference> =
            serde_json::from_value(whole["spec"]["policies"].take()).unwrap_or_default();
        let own = role.key().namespace.as_deref();
        let now: Vec<ObjectKey> = references
            .iter()
            .filter(|reference| reference.kind == wanted)
            .map(|reference| match wanted {
                PolicyKind::VaultPolicy => {
                    let namespace = reference.namespace.as_deref().or(own);
                    ObjectKey::of(namespace, &reference.name)
                }
                PolicyKind::VaultClusterPolicy | PolicyKind::External => {
                    ObjectKey::cluster(&*reference.name)
                }
            })
            .collect();
        // A reference that was dropped concerns the policy it pointed at.
        let mut both = now.clone();
        let dropped = before.lock().insert(role.key().clone(), now);
        both.extend(dropped.into_iter().flatten());
        both.sort();
        both.dedup();
        if !refers_anew {
            both.retain(&keeps_names);
        }
        both
    }
}

/// A namespace's labels concern what it holds.
pub(crate) fn objects_in_namespace(
    ctx: &Arc<Ctx>,
    kind: Dependent,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let ctx = ctx.clone();
    let memory = Memory::new(&ctx.caches.namespaces);
    move |namespace| {
        if !memory.is_news(namespace, &labels(namespace)) {
            return Vec::new();
        }
        let name = Some(&*namespace.key().name);
        let all = ctx.caches.of(kind).store().all().into_iter();
        let there = all.filter(|object| object.key().namespace.as_deref() == name);
        there.map(|object| object.key().clone()).collect()
    }
}

/// A namespace's labels concern whoever picks namespaces by them: `picks` says so of a spec.
pub(crate) fn pickers(
    cache: &Cache,
    namespaces: &Cache,
    picks: fn(&Value) -> bool,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let memory = Memory::new(namespaces);
    let cache = cache.clone();
    move |namespace| {
        if !memory.is_news(namespace, &labels(namespace)) {
            return Vec::new();
        }
        let all = cache.store().all().into_iter();
        let picking = all.filter(|object| picks(&parsed(object)["spec"]));
        picking.map(|object| object.key().clone()).collect()
    }
}

fn labels(namespace: &Stored) -> (Vec<(String, String)>, bool) {
    let labels = namespace.metadata().labels.unwrap_or_default();
    (labels.into_iter().collect(), namespace.is_deleting())
}
