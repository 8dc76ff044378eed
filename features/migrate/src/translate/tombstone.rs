//! The tombstone: a claim that cannot be bound and has the name of a moved one.
//!
//! A pod that comes back in the old cluster stays Pending on it. With class `""` and a volume that never exists,
//! no provisioner makes an empty disk for the name, and the moved disk is out of reach.

use api::migrate::names::{RUN, TOMBSTONE_LABEL};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Map, Value, json};

use super::Document;
use super::metadata::Metadata;
use super::names::fenced_volume;

/// The tombstone of `claim`.
///
/// Access modes and request are the claim's, so that quota and LimitRange accept the one where they accepted
/// the other. It has none of the user's labels: who deletes claims by label shall not open the fence.
pub fn tombstone(
    claim: &Document<PersistentVolumeClaim>,
    run_id: &str,
    ordinal: i32,
) -> Document<PersistentVolumeClaim> {
    let mut spec = Map::new();
    for (field, value) in [
        ("accessModes", claim.field("/spec/accessModes").cloned()),
        ("resources", requests(claim)),
        ("storageClassName", Some("".into())),
        ("volumeName", Some(fenced_volume(run_id, ordinal).into())),
    ] {
        if let Some(value) = value {
            spec.insert(field.to_owned(), value);
        }
    }
    let mut metadata = Metadata::new(claim.name(), claim.namespace());
    metadata.label(TOMBSTONE_LABEL, "true");
    metadata.annotate(RUN, run_id);
    Document::made(metadata.into_value(), spec.into())
}

fn requests(claim: &Document<PersistentVolumeClaim>) -> Option<Value> {
    let requests = claim.field("/spec/resources/requests")?;
    Some(json!({ "requests": requests }))
}

/// Whether `live` is the tombstone of this run and ordinal: label, marker, class and volume are ours.
pub fn is_tombstone(live: &Document<PersistentVolumeClaim>, run_id: &str, ordinal: i32) -> bool {
    live.label(TOMBSTONE_LABEL) == Some("true")
        && live.annotation(RUN) == Some(run_id)
        && live.text("/spec/storageClassName") == Some("")
        && live.text("/spec/volumeName") == Some(&*fenced_volume(run_id, ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::fixtures::{RUN_ID, csi_pair};
    use rstest::rstest;

    fn made() -> Value {
        tombstone(&csi_pair().claim, RUN_ID, 0).into_value()
    }

    #[test]
    fn a_tombstone_is_exactly_this() {
        assert_eq!(
            made(),
            json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "data-web-0",
                    "namespace": "shop",
                    "labels": {TOMBSTONE_LABEL: "true"},
                    "annotations": {RUN: RUN_ID},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "8Gi"}},
                    "storageClassName": "",
                    "volumeName": "fenced-3f2b9c1e-0",
                },
            })
        );
    }

    #[test]
    fn a_clone_becomes_a_tombstone_without_source() {
        let mut claim = csi_pair().claim.into_value();
        claim["spec"]["dataSource"] = json!({"kind": "VolumeSnapshot", "name": "s"});
        let made = tombstone(&Document::read(claim).unwrap(), RUN_ID, 0);
        assert!(made.field("/spec/dataSource").is_none());
    }

    #[rstest]
    #[case::as_made("", json!(null), true)]
    #[case::without_label("/metadata/labels", json!({}), false)]
    #[case::of_another_run("/metadata/annotations", json!({RUN: "other"}), false)]
    #[case::with_a_class("/spec/storageClassName", json!("gp3"), false)]
    #[case::with_a_real_volume("/spec/volumeName", json!("pvc-1"), false)]
    #[case::of_another_ordinal("/spec/volumeName", json!("fenced-3f2b9c1e-1"), false)]
    fn our_tombstone_is_recognised(
        #[case] pointer: &str,
        #[case] changed: Value,
        #[case] is_ours: bool,
    ) {
        let mut live = made();
        if !pointer.is_empty() {
            *live.pointer_mut(pointer).unwrap() = changed;
        }
        let live = Document::read(live).unwrap();
        assert_eq!(is_tombstone(&live, RUN_ID, 0), is_ours);
    }
}
