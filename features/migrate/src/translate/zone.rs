//! The zone of a volume and its node affinity at the destination.
//!
//! EC2's zone counts. What the PersistentVolume declares is only compared with it: two zones for one volume
//! mean that we do not understand it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};

use super::Document;

/// The key that every node has.
pub const ZONE: &str = "topology.kubernetes.io/zone";
const DRIVER_ZONE: &str = "topology.ebs.csi.aws.com/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const ZONES: [&str; 3] = [ZONE, DRIVER_ZONE, OLD_ZONE];

/// What the driver adds for a volume on an Outpost: its ARN, part by part.
const OUTPOST: [&str; 4] = [
    "topology.ebs.csi.aws.com/partition",
    "topology.ebs.csi.aws.com/account-id",
    "topology.ebs.csi.aws.com/region",
    "topology.ebs.csi.aws.com/outpost-id",
];

/// How the zones in a label of an in-tree volume are separated.
const LABEL_SEPARATOR: &str = "__";

/// Why a volume gets no node affinity. It prints as what was found and what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneRefusal {
    /// EC2 shows another zone than the PersistentVolume.
    #[error("found zone {found} in {field}, need {need} as EC2 shows")]
    Mismatch {
        /// Where the zone was found.
        field: String,
        /// The zones there.
        found: String,
        /// EC2's zone.
        need: String,
    },
    /// Terms name different Outposts.
    #[error("found several values of {key} in nodeAffinity, need one")]
    SeveralOutposts {
        /// The key.
        key: String,
    },
}

/// The node affinity of `volume` at the destination: one term with EC2's zone.
///
/// | found in nodeAffinity                         | at the destination                        |
/// |-----------------------------------------------|-------------------------------------------|
/// | any of the three zone keys, EC2's zone        | one key, `topology.kubernetes.io/zone`    |
/// | any of the three zone keys, another zone      | refused                                   |
/// | keys of an Outpost                            | the same                                  |
/// | hostname, region, any other key, matchFields  | dropped                                   |
///
/// Also a zone in `in_tree_zone`, from the id of an in-tree volume, or in a zone label must be EC2's.
///
/// # Errors
/// The zones differ, or terms name different Outposts.
pub fn node_affinity(
    volume: &Document<PersistentVolume>,
    in_tree_zone: Option<&str>,
    ec2_zone: &str,
) -> Result<Value, ZoneRefusal> {
    if let Some(zone) = in_tree_zone {
        require(
            "the in-tree volumeID",
            zone == ec2_zone,
            || zone.to_owned(),
            ec2_zone,
        )?;
    }
    for key in ZONES {
        if let Some(label) = volume.label(key) {
            let is_same = label.split(LABEL_SEPARATOR).all(|zone| zone == ec2_zone);
            require(
                &format!("label {key}"),
                is_same,
                || label.to_owned(),
                ec2_zone,
            )?;
        }
    }
    let mut outpost: BTreeMap<&str, &Value> = BTreeMap::new();
    for requirement in requirements(volume) {
        let key = requirement.get("key").and_then(Value::as_str);
        let key = key.unwrap_or_default();
        if ZONES.contains(&key) {
            let field = format!("nodeAffinity key {key}");
            let is_same = admits_only(requirement, ec2_zone);
            require(&field, is_same, || printed(requirement), ec2_zone)?;
        } else if OUTPOST.contains(&key)
            && outpost
                .insert(key, requirement)
                .is_some_and(|other| other != requirement)
        {
            return Err(ZoneRefusal::SeveralOutposts {
                key: key.to_owned(),
            });
        }
    }
    let zone = json!({"key": ZONE, "operator": "In", "values": [ec2_zone]});
    let expressions: Vec<Value> = [zone]
        .into_iter()
        .chain(outpost.into_values().cloned())
        .collect();
    Ok(json!({"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}))
}

fn require(
    field: &str,
    is_same: bool,
    found: impl FnOnce() -> String,
    need: &str,
) -> Result<(), ZoneRefusal> {
    if is_same {
        return Ok(());
    }
    Err(ZoneRefusal::Mismatch {
        field: field.to_owned(),
        found: found(),
        need: need.to_owned(),
    })
}

/// The requirements of all terms.
fn requirements(volume: &Document<PersistentVolume>) -> impl Iterator<Item = &Value> {
    let terms = volume.field("/spec/nodeAffinity/required/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array).into_iter().flatten();
    let expressions = terms.filter_map(|term| term.get("matchExpressions")?.as_array());
    expressions.flatten()
}

/// Whether a requirement names `zone` alone, or no zone and does not exclude this one.
fn admits_only(requirement: &Value, zone: &str) -> bool {
    let values = requirement.get("values").and_then(Value::as_array);
    let mut values = values.into_iter().flatten();
    match requirement.get("operator").and_then(Value::as_str) {
        Some("In") => values.all(|value| value == zone),
        Some("NotIn") => values.all(|value| value != zone),
        Some("Exists") => true,
        _ => false,
    }
}

fn printed(requirement: &Value) -> String {
    let values = requirement.get("values").and_then(Value::as_array);
    let values: Vec<&str> = values
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let values = values.join(", ");
    match requirement.get("operator").and_then(Value::as_str) {
        Some("In") => values,
        operator => format!("{} {values}", operator.unwrap_or("no operator")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const HERE: &str = "eu-west-1a";
    const OTHER: &str = "eu-west-1b";

    fn is_in(key: &str, zone: &str) -> Value {
        json!({"key": key, "operator": "In", "values": [zone]})
    }

    fn volume(terms: Value) -> Document<PersistentVolume> {
        let affinity = json!({"required": {"nodeSelectorTerms": terms}});
        let value = json!({"metadata": {"name": "pv"}, "spec": {"nodeAffinity": affinity}});
        Document::read(value).unwrap()
    }

    fn term(requirements: Value) -> Document<PersistentVolume> {
        volume(json!([{ "matchExpressions": requirements }]))
    }

    fn one_term(requirements: Value) -> Value {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}})
    }

    fn here() -> Value {
        is_in(ZONE, HERE)
    }

    #[rstest]
    #[case::the_standard_key(json!([here()]))]
    #[case::the_drivers_key(json!([is_in(DRIVER_ZONE, HERE)]))]
    #[case::the_old_key(json!([is_in(OLD_ZONE, HERE)]))]
    #[case::all_keys(json!([is_in(OLD_ZONE, HERE), is_in(DRIVER_ZONE, HERE), here()]))]
    #[case::no_key(json!([]))]
    #[case::any_zone(json!([{"key": ZONE, "operator": "Exists"}]))]
    #[case::not_another_zone(json!([{"key": ZONE, "operator": "NotIn", "values": [OTHER]}]))]
    #[case::a_hostname_is_dropped(json!([here(), is_in("kubernetes.io/hostname", "node-1")]))]
    #[case::a_region_is_dropped(json!([here(), is_in("topology.kubernetes.io/region", "eu-west-1")]))]
    fn one_term_with_one_standard_key_remains(#[case] requirements: Value) {
        let affinity = node_affinity(&term(requirements), None, HERE);
        assert_eq!(affinity, Ok(one_term(json!([here()]))));
    }

    #[test]
    fn a_volume_without_affinity_gets_ec2s_zone() {
        let bare = Document::read(json!({"metadata": {"name": "pv"}})).unwrap();
        let affinity = node_affinity(&bare, Some(HERE), HERE);
        assert_eq!(affinity, Ok(one_term(json!([here()]))));
    }

    #[test]
    fn several_terms_become_one() {
        let terms = volume(json!([
            {"matchExpressions": [is_in(DRIVER_ZONE, HERE)]},
            {"matchFields": [is_in("metadata.name", "node-1")]},
            {"matchExpressions": [here()]},
        ]));
        assert_eq!(
            node_affinity(&terms, None, HERE),
            Ok(one_term(json!([here()])))
        );
    }

    #[test]
    fn keys_of_an_outpost_are_kept() {
        let mut requirements = vec![here()];
        requirements.extend(OUTPOST.map(|key| is_in(key, "x")));
        let affinity = node_affinity(&term(json!(requirements)), None, HERE).unwrap();
        let expressions = &affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"];
        let expressions = expressions.as_array().unwrap();
        assert_eq!(expressions.len(), requirements.len());
        assert!(
            requirements
                .iter()
                .all(|requirement| expressions.contains(requirement))
        );
    }

    #[test]
    fn terms_of_two_outposts_are_refused() {
        let terms = volume(json!([
            {"matchExpressions": [is_in(OUTPOST[3], "op-1")]},
            {"matchExpressions": [is_in(OUTPOST[3], "op-2")]},
        ]));
        let key = OUTPOST[3].to_owned();
        let refusal = ZoneRefusal::SeveralOutposts { key };
        assert_eq!(node_affinity(&terms, None, HERE), Err(refusal));
    }

    #[rstest]
    #[case::the_standard_key(json!([is_in(ZONE, OTHER)]))]
    #[case::the_drivers_key(json!([here(), is_in(DRIVER_ZONE, OTHER)]))]
    #[case::the_old_key(json!([is_in(OLD_ZONE, OTHER)]))]
    #[case::two_zones(json!([{"key": ZONE, "operator": "In", "values": [HERE, OTHER]}]))]
    #[case::not_here(json!([{"key": ZONE, "operator": "NotIn", "values": [HERE]}]))]
    #[case::no_zone(json!([{"key": ZONE, "operator": "DoesNotExist"}]))]
    fn an_affinity_to_another_zone_is_refused(#[case] requirements: Value) {
        node_affinity(&term(requirements), None, HERE).unwrap_err();
    }

    #[test]
    fn an_in_tree_id_of_another_zone_is_refused() {
        let refusal = node_affinity(&term(json!([here()])), Some(OTHER), HERE).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "found zone eu-west-1b in the in-tree volumeID, need eu-west-1a as EC2 shows"
        );
    }

    #[rstest]
    #[case::ec2s_zone(HERE, true)]
    #[case::ec2s_zone_twice("eu-west-1a__eu-west-1a", true)]
    #[case::another_zone(OTHER, false)]
    #[case::two_zones("eu-west-1a__eu-west-1b", false)]
    fn a_zone_label_must_be_ec2s_zone(#[case] label: &str, #[case] is_accepted: bool) {
        for key in ZONES {
            let value = json!({"metadata": {"name": "pv", "labels": {key: label}}});
            let labelled = Document::read(value).unwrap();
            let affinity = node_affinity(&labelled, None, HERE);
            assert_eq!(affinity.is_ok(), is_accepted);
        }
    }
}
