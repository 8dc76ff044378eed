//! Verifies a translated pair before it is sent.
//!
//! The volume controller binds a volume and a claim that name each other also if class, size or mode do not
//! fit, so a mistake would show only in the pod. What is needed is read from the source here, without the
//! code that translated it.

use std::fmt;

use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::pair::Pair;
use super::volume_id::{DRIVER, ebs_source};
use super::zone::ZONE;
use super::{Destination, Document, PairTarget};
use crate::quantity::nanos;

/// The volumeMode of an object without one.
const DEFAULT_MODE: &str = "Filesystem";

/// A field of a translated object that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The object, such as `PersistentVolume pvc-1`.
    pub object: String,
    /// The field, as a JSON pointer.
    pub field: String,
    /// Its value.
    pub found: String,
    /// What it must be.
    pub need: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            object,
            field,
            found,
            need,
        } = self;
        write!(f, "{object} {field}: found {found}, need {need}")
    }
}

/// How `dest` differs from what `source` must become. Empty if it may be sent.
///
/// | verified                                                        | must be                       |
/// |-----------------------------------------------------------------|-------------------------------|
/// | driver, handle; no in-tree volume                               | the source's volume           |
/// | reclaim policy                                                  | `Retain`                      |
/// | zone                                                            | EC2's                         |
/// | class of the volume, class of the claim                         | renamed; unset stays unset    |
/// | capacity, accessModes, volumeMode, attributes class of both     | the source's                  |
/// | capacity                                                        | at least the request          |
/// | volumeMode of both                                              | equal                         |
/// | accessModes of the claim                                        | among those of the volume     |
/// | claimRef, volumeName                                            | each other's names, no UID    |
/// | dataSource, dataSourceRef, selector, annotations of the bind    | absent                        |
pub fn differences(
    source: &Pair,
    dest: &Pair,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Vec<Difference> {
    let mut found = volume_differences(&source.volume, &dest.volume, to, target);
    found.extend(claim_differences(&source.claim, &dest.claim, to, target));
    found.extend(misfits(dest));
    found
}

fn volume_differences(
    source: &Document<PersistentVolume>,
    dest: &Document<PersistentVolume>,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Vec<Difference> {
    let id = ebs_source(source).ok().map(|ebs| json!(ebs.id.as_str()));
    let claim_ref = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": to.namespace, "name": target.claim,
    });
    let zone = json!({"key": ZONE, "operator": "In", "values": [target.zone]});
    let zone_field = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0";
    let needed = [
        ("/metadata/name", Some(json!(target.volume))),
        ("/spec/csi/driver", Some(json!(DRIVER))),
        ("/spec/csi/volumeHandle", id),
        ("/spec/awsElasticBlockStore", None),
        ("/spec/persistentVolumeReclaimPolicy", Some(json!("Retain"))),
        ("/spec/storageClassName", renamed(source, to)),
        ("/spec/claimRef", Some(claim_ref)),
        (zone_field, Some(zone)),
    ];
    let same = [
        "/spec/capacity",
        "/spec/accessModes",
        "/spec/volumeMode",
        "/spec/mountOptions",
        "/spec/volumeAttributesClassName",
    ];
    let same = same.map(|field| (field, source.field(field).cloned()));
    unmet(dest, needed.into_iter().chain(same))
}

fn claim_differences(
    source: &Document<PersistentVolumeClaim>,
    dest: &Document<PersistentVolumeClaim>,
    to: &Destination<'_>,
    target: &PairTarget<'_>,
) -> Vec<Difference> {
    let needed = [
        ("/metadata/name", Some(json!(target.claim))),
        ("/metadata/namespace", Some(json!(to.namespace))),
        (
            "/metadata/annotations/pv.kubernetes.io~1bind-completed",
            None,
        ),
        (
            "/metadata/annotations/pv.kubernetes.io~1bound-by-controller",
            None,
        ),
        ("/spec/volumeName", Some(json!(target.volume))),
        ("/spec/storageClassName", renamed(source, to)),
        ("/spec/dataSource", None),
        ("/spec/dataSourceRef", None),
        ("/spec/selector", None),
    ];
    let same = [
        "/spec/accessModes",
        "/spec/resources",
        "/spec/volumeMode",
        "/spec/volumeAttributesClassName",
    ];
    let same = same.map(|field| (field, source.field(field).cloned()));
    unmet(dest, needed.into_iter().chain(same))
}

/// Where volume and claim of the destination do not fit each other.
fn misfits(dest: &Pair) -> Vec<Difference> {
    let Pair { volume, claim } = dest;
    let mut found = Vec::new();
    let capacity = volume.field("/spec/capacity/storage");
    let request = claim.field("/spec/resources/requests/storage");
    let amount = |field: &Value| field.as_str().and_then(nanos);
    let least = request.map_or(Some(0), amount);
    let fits = |capacity| least.is_some_and(|least| least <= capacity);
    if !capacity.and_then(amount).is_some_and(fits) {
        let need = format!("at least {}", printed(request));
        found.push(difference(volume, "/spec/capacity/storage", capacity, need));
    }
    let volume_mode = volume.text("/spec/volumeMode").unwrap_or(DEFAULT_MODE);
    let mode = claim.text("/spec/volumeMode").unwrap_or(DEFAULT_MODE);
    if volume_mode != mode {
        let live = volume.field("/spec/volumeMode");
        found.push(difference(
            volume,
            "/spec/volumeMode",
            live,
            mode.to_owned(),
        ));
    }
    let offered = volume.field("/spec/accessModes").and_then(Value::as_array);
    let requested = claim.field("/spec/accessModes");
    let mut modes = requested.and_then(Value::as_array).into_iter().flatten();
    if !modes.all(|mode| offered.is_some_and(|offered| offered.contains(mode))) {
        let need = format!("some of {}", printed(volume.field("/spec/accessModes")));
        found.push(difference(claim, "/spec/accessModes", requested, need));
    }
    found
}

/// The class at the destination: unset stays unset, and `""` stays `""`.
fn renamed<K>(source: &Document<K>, to: &Destination<'_>) -> Option<Value> {
    let class = source.text("/spec/storageClassName")?;
    Some(to.classes.renamed(class).into())
}

/// The fields that are not as needed; none means absent.
fn unmet<'a, K: Resource>(
    dest: &Document<K>,
    needed: impl Iterator<Item = (&'a str, Option<Value>)>,
) -> Vec<Difference> {
    let unmet = needed.filter(|(field, need)| dest.field(field) != need.as_ref());
    unmet
        .map(|(field, need)| difference(dest, field, dest.field(field), printed(need.as_ref())))
        .collect()
}

fn difference<K: Resource>(
    object: &Document<K>,
    field: &str,
    found: Option<&Value>,
    need: String,
) -> Difference {
    Difference {
        object: object.title(),
        field: field.to_owned(),
        found: printed(found),
        need,
    }
}

fn printed(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests;
