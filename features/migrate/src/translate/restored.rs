//! What brings a source claim back to its disk.
//!
//! First [`claim_ref_reset`] on the Released volume: from then on the name is this disk's, whoever claims it.
//! Then the tombstone goes, and the claim of the capture is created again.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Map, Value, json};

use super::document::is_empty;
use super::{Document, keys};

/// Metadata that a user may set, and that a claim created again may have.
const USER_METADATA: [&str; 5] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
];

/// Owners whose end would delete the claim. The StatefulSet controller adds them itself by its policy.
const CONTROLLED: [&str; 2] = ["StatefulSet", "Pod"];

/// The claim as it was captured, bound to its volume by `volumeName`.
///
/// | part                                         | created again |
/// |----------------------------------------------|---------------|
/// | spec, labels, other annotations and owners   | as captured   |
/// | annotations of the bind                      | dropped: with them the claim would become Lost |
/// | owners of kind StatefulSet and Pod           | dropped       |
/// | finalizers and what the server sets          | dropped       |
pub fn restored_claim(
    captured: &Document<PersistentVolumeClaim>,
) -> Document<PersistentVolumeClaim> {
    let fields = captured.field("/metadata").and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    let kept = fields.filter(|(field, _)| USER_METADATA.contains(&&***field));
    let mut metadata: Map<String, Value> = kept
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|key, _| !keys::is_bind_annotation(key));
    }
    if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
        owners.retain(|owner| !CONTROLLED.iter().any(|kind| owner["kind"] == *kind));
    }
    metadata.retain(|_, value| !is_empty(value));
    Document::made(metadata.into(), captured.spec().into())
}

/// The merge patch by which a Released volume becomes Available to the claim that it names.
///
/// The caller binds it to the UID and resourceVersion of the volume that was read.
pub fn claim_ref_reset() -> Value {
    json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::fixtures::csi_pair;

    #[test]
    fn a_claim_is_created_again_as_captured() {
        let mut captured = csi_pair().claim.into_value();
        let fields = captured["metadata"].as_object_mut().unwrap();
        fields.remove("uid");
        fields.remove("resourceVersion");
        fields.remove("creationTimestamp");
        fields.remove("finalizers");
        fields.remove("managedFields");
        fields.remove("ownerReferences");
        let annotations = fields["annotations"].as_object_mut().unwrap();
        annotations.remove("pv.kubernetes.io/bind-completed");
        annotations.remove("pv.kubernetes.io/bound-by-controller");
        captured.as_object_mut().unwrap().remove("status");
        let restored = restored_claim(&csi_pair().claim);
        assert_eq!(restored.value(), &captured);
        assert_eq!(restored.text("/spec/volumeName"), Some("pvc-1"));
    }

    #[test]
    fn an_owner_of_the_user_is_kept() {
        let mut captured = csi_pair().claim.into_value();
        let database =
            json!({"apiVersion": "example.org/v1", "kind": "Database", "name": "d", "uid": "u"});
        let owners = captured["metadata"]["ownerReferences"]
            .as_array_mut()
            .unwrap();
        owners.push(database.clone());
        owners.push(json!({"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "p"}));
        let restored = restored_claim(&Document::read(captured).unwrap());
        assert_eq!(
            restored.value()["metadata"]["ownerReferences"],
            json!([database])
        );
    }

    #[test]
    fn a_claim_with_bind_annotations_alone_has_none() {
        let captured = json!({
            "metadata": {
                "name": "data-web-0",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
        });
        let restored = restored_claim(&Document::read(captured).unwrap());
        assert!(restored.field("/metadata/annotations").is_none());
    }

    #[test]
    fn a_reset_reference_keeps_its_name() {
        let mut volume = csi_pair().volume.into_value();
        let mut claim_ref = volume["spec"]["claimRef"].take();
        let patch = claim_ref_reset();
        for (field, value) in patch["spec"]["claimRef"].as_object().unwrap() {
            assert!(value.is_null());
            claim_ref.as_object_mut().unwrap().remove(field);
        }
        assert_eq!(
            claim_ref,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": "shop", "name": "data-web-0",
            })
        );
    }
}
