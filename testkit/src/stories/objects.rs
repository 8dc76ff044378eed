//! Objects: how a story creates and changes them, and how it reads their conditions.

use anyhow::Result;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Resource, ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::story::Story;

/// The manifest of an object.
pub fn manifest<K: Resource<DynamicType = ()>>(name: &str, spec: &Value) -> String {
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "spec": spec,
    });
    format!("---\n{object}\n")
}

/// Changes `target` by the merge patch `change` (RFC 7386).
pub fn merge(target: &mut Value, change: &Value) {
    let (Value::Object(target), Value::Object(change)) = (&mut *target, change) else {
        *target = change.clone();
        return;
    };
    for (key, value) in change {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Creates an object, or replaces its spec.
pub async fn declare<K>(story: &Story, name: &str, spec: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    story.apply(&manifest::<K>(name, spec)).await.map(drop)
}

/// Changes an object by a merge patch.
pub async fn change_object<K>(story: &Story, name: &str, change: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let (how, change) = (PatchParams::default(), Patch::Merge(change));
    story.objects::<K>().patch(name, &how, &change).await?;
    Ok(())
}

/// Sets or removes an annotation.
pub async fn annotate<K>(
    story: &Story,
    name: &str,
    annotation: &str,
    value: Option<&str>,
) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let change = json!({"metadata": {"annotations": {annotation: value}}});
    change_object::<K>(story, name, &change).await
}

/// Sets an annotation on all objects of a kind whose name begins with `prefix`.
pub async fn annotate_all<K>(
    story: &Story,
    prefix: &str,
    annotation: &str,
    value: &str,
) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let api = story.objects::<K>();
    let how = PatchParams::default();
    let change = Patch::Merge(json!({"metadata": {"annotations": {annotation: value}}}));
    for object in api.list_metadata(&ListParams::default()).await? {
        let name = object.name_any();
        if !name.starts_with(prefix) {
            continue;
        }
        match api.patch_metadata(&name, &how, &change).await {
            Err(kube::Error::Api(refused)) if refused.code == 404 => {} // deleted meanwhile
            answer => drop(answer?),
        }
    }
    Ok(())
}

/// Sets or removes a label of the story's namespace.
pub async fn label_namespace(story: &Story, label: &str, value: Option<&str>) -> Result<()> {
    let namespaces = Api::<Namespace>::all(story.client());
    let change = Patch::Merge(json!({"metadata": {"labels": {label: value}}}));
    let how = PatchParams::default();
    namespaces.patch(story.name(), &how, &change).await?;
    Ok(())
}

/// Whether an object has an annotation.
pub fn is_annotated(object: &impl ResourceExt, annotation: &str) -> bool {
    object.annotations().contains_key(annotation)
}

/// The message of a condition; empty if there is no such condition.
pub fn condition_message(conditions: &[Condition], type_: &str) -> String {
    let one = conditions.iter().find(|one| one.type_ == type_);
    one.map(|one| one.message.clone()).unwrap_or_default()
}

/// Status and reason of a condition, such as `False/Deploying`; empty if there is no such condition.
pub fn condition_state(conditions: &[Condition], type_: &str) -> String {
    let one = conditions.iter().find(|one| one.type_ == type_);
    one.map(|one| format!("{}/{}", one.status, one.reason))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_sets_removes_and_leaves_the_rest() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut target, &json!({"a": {"b": null, "e": 3}, "d": [2]}));
        assert_eq!(target, json!({"a": {"c": 2, "e": 3}, "d": [2]}));
    }
}
