//! What a connection gives to every namespace that its templates pick: a policy and a role.

use std::collections::BTreeSet;

use api::vault::{PolicyKind, Template, VaultConnection, conditions, names as words};
use engine::{ApiError, Cache, Kind, Note, Pass, Stored};
use kernel::{ObjectKey, find};
use kube::Resource;
use serde_json::{Value, json};

use crate::controllers::{Controllers, Part};
use crate::ctx::Ctx;
use crate::tenancy::selects;

/// Whether the controllers run that look after what templates give. Without them nobody may write it.
pub(super) fn can_be_given(controllers: &Controllers) -> bool {
    controllers.has(Part::Policy) && controllers.has(Part::Role)
}

/// What to tell of templates whose controllers do not run: once for each edit of the connection.
pub(super) fn left_out(connection: &VaultConnection) -> Option<Note> {
    let tenancy = connection.spec.tenancy.as_ref();
    let has_templates = tenancy.is_some_and(|tenancy| !tenancy.templates.is_empty());
    let status = connection.status.as_ref();
    let ready = status.and_then(|status| find(&status.conditions, conditions::READY));
    let is_reported = ready.is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation == connection.metadata.generation
    });
    (has_templates && !is_reported).then(|| {
        Note::warning(
            "TemplatesLeftOut",
            "templates need the controllers policy and role; add them to --vault-controllers",
        )
    })
}

/// Makes every picked namespace have what the templates say, and no other. Answers with whom it
/// could not: a namesake that is not ours is left alone.
pub(super) async fn spread(
    connection: &VaultConnection,
    ctx: &Ctx,
) -> Result<BTreeSet<ObjectKey>, ApiError> {
    let name = connection.metadata.name.as_deref().unwrap_or_default();
    let tenancy = connection.spec.tenancy.as_ref();
    let templates = tenancy.map(|tenancy| &*tenancy.templates);
    let mut wanted = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for template in templates.unwrap_or_default() {
        for namespace in picked(template, ctx) {
            let key = ObjectKey::namespaced(namespace, &*template.name);
            let label = label(name, &template.name);
            for (cache, object) in [
                (&ctx.caches.policies, policy(connection, template, &key)),
                (&ctx.caches.roles, role(connection, template, &key)),
            ] {
                if !give(cache, &key, object, &label, ctx).await? {
                    taken.insert(key.clone());
                }
            }
            wanted.insert((key, label));
        }
    }
    take_back(
        name,
        |key, label| wanted.contains(&(key.clone(), label.to_owned())),
        ctx,
    )
    .await?;
    Ok(taken)
}

/// Takes everything back: the connection goes.
pub(super) async fn take_back_all(connection: &str, ctx: &Ctx) -> Result<(), ApiError> {
    take_back(connection, |_, _| false, ctx).await
}

/// Tells of namesakes, once for each.
pub(super) fn tell_taken(taken: &BTreeSet<ObjectKey>, told: &BTreeSet<ObjectKey>, pass: &Pass) {
    for key in taken.difference(told) {
        pass.event(Note::warning(
            "TemplateNameTaken",
            format!("{key} is not of our template and is left alone; rename it or the template"),
        ));
    }
}

fn label(connection: &str, template: &str) -> String {
    format!("{connection}.{template}")
}

fn picked(template: &Template, ctx: &Ctx) -> Vec<String> {
    let all = ctx.caches.namespaces.store().all().into_iter();
    let picked = all.filter(|namespace| {
        let labels = namespace.metadata().labels.unwrap_or_default();
        !namespace.is_deleting() && selects(&template.namespace_selector, &labels)
    });
    let mut names: Vec<_> = picked
        .map(|namespace| namespace.key().name.to_string())
        .collect();
    names.sort();
    names
}

/// Applies one object; answers whether the name was free or ours.
async fn give(
    cache: &Cache,
    key: &ObjectKey,
    object: Value,
    label: &str,
    ctx: &Ctx,
) -> Result<bool, ApiError> {
    let held = cache.store().get(key);
    if let Some(held) = &held
        && label_of(held).as_deref() != Some(label)
    {
        return Ok(false);
    }
    let kind = &cache.key().kind;
    let live = match &held {
        Some(held) => serde_json::from_str(held.json()).ok(),
        None => None,
    };
    ctx.applier.adopt(kind, object, live.as_ref()).await?;
    Ok(true)
}

fn label_of(object: &Stored) -> Option<String> {
    object.metadata().labels?.remove(words::TEMPLATE_LABEL)
}

async fn take_back(
    connection: &str,
    keep: impl Fn(&ObjectKey, &str) -> bool,
    ctx: &Ctx,
) -> Result<(), ApiError> {
    let prefix = label(connection, "");
    for cache in [&ctx.caches.roles, &ctx.caches.policies] {
        for object in cache.store().all() {
            let Some(label) = label_of(&object).filter(|label| label.starts_with(&prefix)) else {
                continue;
            };
            if !keep(object.key(), &label) && !object.is_deleting() {
                let kind: &Kind = &cache.key().kind;
                ctx.applier.delete(kind, object.key(), object.uid()).await?;
            }
        }
    }
    Ok(())
}

fn metadata(connection: &VaultConnection, template: &Template, key: &ObjectKey) -> Value {
    let name = connection.metadata.name.as_deref().unwrap_or_default();
    json!({
        "name": &*key.name,
        "namespace": key.namespace.as_deref(),
        "labels": { words::TEMPLATE_LABEL: label(name, &template.name) },
        "ownerReferences": [connection.controller_owner_ref(&())],
    })
}

fn policy(connection: &VaultConnection, template: &Template, key: &ObjectKey) -> Value {
    json!({
        "metadata": metadata(connection, template, key),
        "spec": {
            "connectionRef": connection.metadata.name,
            "rules": template.rules,
        },
    })
}

fn role(connection: &VaultConnection, template: &Template, key: &ObjectKey) -> Value {
    let mut spec = json!({
        "connectionRef": connection.metadata.name,
        "serviceAccounts": template.service_accounts,
        "policies": [{ "kind": PolicyKind::VaultPolicy, "name": template.name }],
    });
    for (field, life) in [
        ("tokenTTL", &template.token_ttl),
        ("tokenMaxTTL", &template.token_max_ttl),
    ] {
        if let Some(life) = life {
            spec[field] = json!(life);
        }
    }
    json!({ "metadata": metadata(connection, template, key), "spec": spec })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::all("policy,role", true)]
    #[case::without_policies("role,kv,discovery", false)]
    #[case::without_roles("policy", false)]
    fn templates_need_both_controllers(#[case] chosen: &str, #[case] expected: bool) {
        let controllers = Controllers::parse(chosen).unwrap();
        assert_eq!(can_be_given(&controllers), expected);
    }

    fn connection(templates: Value, ready: Value) -> VaultConnection {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "generation": 2},
            "spec": {
                "address": "https://vault",
                "auth": {"kubernetes": {"role": "r"}},
                "tenancy": {"templates": templates},
            },
            "status": {"conditions": ready},
        }))
        .unwrap()
    }

    fn ready(status: &str, generation: i64) -> Value {
        json!([{
            "type": "Ready", "status": status, "reason": "x", "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    }

    fn one() -> Value {
        json!([{"name": "t", "namespaceSelector": {}, "rules": [], "serviceAccounts": []}])
    }

    #[rstest]
    #[case::at_first(one(), json!([]), true)]
    #[case::after_an_outage(one(), ready("False", 2), true)]
    #[case::after_an_edit(one(), ready("True", 1), true)]
    #[case::told_already(one(), ready("True", 2), false)]
    #[case::without_templates(json!([]), json!([]), false)]
    fn templates_that_are_left_out_are_told_once(
        #[case] templates: Value,
        #[case] ready: Value,
        #[case] told: bool,
    ) {
        assert_eq!(left_out(&connection(templates, ready)).is_some(), told);
    }
}
