//! The zone of a volume, where EC2 cannot be asked for it. Pure.

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::Value;

use crate::translate::Document;
use crate::translate::volume_id::ebs_source;
use crate::translate::zone::ZONE;

/// The keys that name a zone, in labels and node affinity.
const KEYS: [&str; 3] = [
    ZONE,
    "topology.ebs.csi.aws.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// The zone that a volume declares: by its in-tree id, a label, or its node affinity.
pub(super) fn declared_zone(volume: &Document<PersistentVolume>) -> Option<String> {
    let in_tree = ebs_source(volume).ok().and_then(|source| source.zone);
    let label = || {
        KEYS.iter()
            .find_map(|key| volume.label(key))
            .map(str::to_owned)
    };
    in_tree.or_else(label).or_else(|| by_affinity(volume))
}

fn by_affinity(volume: &Document<PersistentVolume>) -> Option<String> {
    let terms = volume.field("/spec/nodeAffinity/required/nodeSelectorTerms")?;
    let terms = terms.as_array().into_iter().flatten();
    let mut required =
        terms.flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    required.find_map(|one| {
        let is_zone = one["key"].as_str().is_some_and(|key| KEYS.contains(&key));
        let values = one["values"].as_array()?;
        let [value] = &values[..] else {
            return None;
        };
        (is_zone && one["operator"] == "In").then(|| value.as_str().map(str::to_owned))?
    })
}

/// The text at a JSON pointer, or nothing.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn affinity(key: &str, operator: &str, values: &[&str]) -> Value {
        let one = json!({"key": key, "operator": operator, "values": values});
        json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [one]}]}}})
    }

    #[rstest]
    #[case::in_tree(json!({"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/vol-0a1b2c3d"}}), json!({}), Some("eu-west-1a"))]
    #[case::label(json!({}), json!({"topology.kubernetes.io/zone": "eu-west-1b"}), Some("eu-west-1b"))]
    #[case::affinity(affinity("topology.ebs.csi.aws.com/zone", "In", &["eu-west-1c"]), json!({}), Some("eu-west-1c"))]
    #[case::several_zones(affinity(ZONE, "In", &["a", "b"]), json!({}), None)]
    #[case::another_operator(affinity(ZONE, "NotIn", &["a"]), json!({}), None)]
    #[case::another_key(affinity("kubernetes.io/hostname", "In", &["a"]), json!({}), None)]
    #[case::none(json!({}), json!({}), None)]
    fn a_volume_declares_its_zone(
        #[case] spec: Value,
        #[case] labels: Value,
        #[case] expected: Option<&str>,
    ) {
        let value = json!({"metadata": {"name": "pv", "labels": labels}, "spec": spec});
        let volume = Document::read(value).unwrap();
        assert_eq!(declared_zone(&volume).as_deref(), expected);
    }
}
