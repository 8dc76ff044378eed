//! Which EBS volume a PersistentVolume is.

use std::fmt;

use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::Value;

use super::Document;

/// The driver of EBS volumes.
pub const DRIVER: &str = "ebs.csi.aws.com";

/// The id of an EBS volume: `vol-` and 8 or 17 hexadecimal digits in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(String);

impl VolumeId {
    /// Reads an id; none if the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("vol-")?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = matches!(digits.len(), 8 | 17) && digits.bytes().all(is_hex);
        is_id.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a PersistentVolume declares of its EBS volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EbsSource {
    /// The id.
    pub id: VolumeId,
    /// Whether it is a volume of the driver built into Kubernetes.
    pub is_in_tree: bool,
    /// The zone in an in-tree id, if it has one.
    pub zone: Option<String>,
}

/// Why a PersistentVolume cannot move. It prints as what was found and what is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotEbs {
    /// It has another source, or several.
    #[error("found {found}, need one EBS volume (csi {DRIVER}, or awsElasticBlockStore)")]
    Source {
        /// Its sources.
        found: String,
    },
    /// Another CSI driver has it.
    #[error("found CSI driver {found:?}, need {DRIVER}")]
    Driver {
        /// The driver.
        found: String,
    },
    /// The handle is not the id of an EBS volume.
    #[error("found volumeHandle {found:?}, need vol- and 8 or 17 hexadecimal digits")]
    Handle {
        /// The handle.
        found: String,
    },
    /// The in-tree id has none of its three forms.
    #[error("found volumeID {found:?}, need vol-…, aws:///vol-… or aws://<zone>/vol-…")]
    InTreeId {
        /// The id.
        found: String,
    },
}

/// | source                                           | volume                   |
/// |--------------------------------------------------|--------------------------|
/// | csi, driver `ebs.csi.aws.com`, a handle `vol-…`  | that id                  |
/// | awsElasticBlockStore `vol-…` or `aws:///vol-…`   | that id, in-tree         |
/// | awsElasticBlockStore `aws://<zone>/vol-…`        | that id and zone, in-tree |
/// | anything else                                    | refused                  |
///
/// # Errors
/// The volume is no EBS volume, or its id has an unknown form.
pub fn ebs_source(volume: &Document<PersistentVolume>) -> Result<EbsSource, NotEbs> {
    let in_tree = volume.field("/spec/awsElasticBlockStore");
    match (volume.field("/spec/csi"), in_tree) {
        (Some(csi), None) => csi_source(csi),
        (None, Some(in_tree)) => in_tree_source(in_tree),
        (Some(_), Some(_)) => Err(NotEbs::Source {
            found: "csi and awsElasticBlockStore".to_owned(),
        }),
        (None, None) => Err(NotEbs::Source {
            found: other_source(volume),
        }),
    }
}

fn csi_source(csi: &Value) -> Result<EbsSource, NotEbs> {
    let driver = text(csi, "driver");
    if driver != DRIVER {
        return Err(NotEbs::Driver {
            found: driver.to_owned(),
        });
    }
    let handle = text(csi, "volumeHandle");
    let id = VolumeId::parse(handle).ok_or_else(|| NotEbs::Handle {
        found: handle.to_owned(),
    })?;
    Ok(EbsSource {
        id,
        is_in_tree: false,
        zone: None,
    })
}

fn in_tree_source(in_tree: &Value) -> Result<EbsSource, NotEbs> {
    let found = text(in_tree, "volumeID");
    let (id, zone) = in_tree_id(found).ok_or_else(|| NotEbs::InTreeId {
        found: found.to_owned(),
    })?;
    Ok(EbsSource {
        id,
        is_in_tree: true,
        zone,
    })
}

fn in_tree_id(text: &str) -> Option<(VolumeId, Option<String>)> {
    let Some(path) = text.strip_prefix("aws://") else {
        return Some((VolumeId::parse(text)?, None));
    };
    let (zone, id) = path.split_once('/')?;
    let is_zone = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let zone = (!zone.is_empty()).then(|| zone.to_owned());
    let is_legal = zone.iter().all(|zone| zone.bytes().all(is_zone));
    is_legal.then_some((VolumeId::parse(id)?, zone))
}

/// The name of the source of a volume that is not EBS: the fields of a spec that are objects, without those
/// that every PersistentVolume has.
fn other_source(volume: &Document<PersistentVolume>) -> String {
    let spec = volume.field("/spec").and_then(Value::as_object);
    let is_source = |field: &str, value: &Value| {
        value.is_object() && !matches!(field, "capacity" | "claimRef" | "nodeAffinity")
    };
    let sources = spec.into_iter().flatten();
    let sources = sources.filter(|(field, value)| is_source(field, value));
    let names: Vec<&str> = sources.map(|(field, _)| &**field).collect();
    if names.is_empty() {
        "no volume source".to_owned()
    } else {
        names.join(" and ")
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    const ID: &str = "vol-0123456789abcdef0";

    fn read(spec: Value) -> Result<EbsSource, NotEbs> {
        let value = json!({"metadata": {"name": "pv"}, "spec": spec});
        ebs_source(&Document::read(value).unwrap())
    }

    fn csi(handle: &str) -> Result<EbsSource, NotEbs> {
        read(json!({"csi": {"driver": DRIVER, "volumeHandle": handle}}))
    }

    fn in_tree(id: &str) -> Result<EbsSource, NotEbs> {
        read(json!({"awsElasticBlockStore": {"volumeID": id}}))
    }

    fn found(id: &str, is_in_tree: bool, zone: Option<&str>) -> EbsSource {
        EbsSource {
            id: VolumeId::parse(id).unwrap(),
            is_in_tree,
            zone: zone.map(str::to_owned),
        }
    }

    #[rstest]
    #[case::of_17_digits(ID)]
    #[case::of_8_digits("vol-0a1b2c3d")]
    fn a_csi_handle_is_the_id(#[case] id: &str) {
        assert_eq!(csi(id), Ok(found(id, false, None)));
    }

    #[rstest]
    #[case::empty("")]
    #[case::too_short("vol-0a1b2c3")]
    #[case::between("vol-0a1b2c3d4")]
    #[case::too_long("vol-0123456789abcdef01")]
    #[case::upper_case("vol-0A1B2C3D")]
    #[case::no_hex("vol-0a1b2c3g")]
    #[case::a_prefix("aws:///vol-0a1b2c3d")]
    #[case::a_space("vol-0a1b2c3d ")]
    #[case::a_line_break("vol-0a1b2c3d\n")]
    #[case::a_snapshot("snap-0a1b2c3d")]
    fn another_csi_handle_is_refused(#[case] handle: &str) {
        let found = handle.to_owned();
        assert_eq!(csi(handle), Err(NotEbs::Handle { found }));
    }

    #[rstest]
    #[case::bare("vol-0a1b2c3d", None)]
    #[case::without_zone("aws:///vol-0a1b2c3d", None)]
    #[case::with_zone("aws://eu-west-1a/vol-0a1b2c3d", Some("eu-west-1a"))]
    fn an_in_tree_id_has_three_forms(#[case] id: &str, #[case] zone: Option<&str>) {
        assert_eq!(in_tree(id), Ok(found("vol-0a1b2c3d", true, zone)));
    }

    #[rstest]
    #[case::empty("")]
    #[case::two_slashes("aws://vol-0a1b2c3d")]
    #[case::a_deeper_path("aws://eu-west-1a/x/vol-0a1b2c3d")]
    #[case::another_scheme("gce://eu-west-1a/vol-0a1b2c3d")]
    #[case::a_zone_in_capitals("aws://EU/vol-0a1b2c3d")]
    #[case::no_id("aws://eu-west-1a/")]
    #[case::a_wrong_id("aws://eu-west-1a/vol-0a1b")]
    fn another_in_tree_id_is_refused(#[case] id: &str) {
        let found = id.to_owned();
        assert_eq!(in_tree(id), Err(NotEbs::InTreeId { found }));
    }

    #[rstest]
    #[case::auto_mode("ebs.csi.eks.amazonaws.com")]
    #[case::efs("efs.csi.aws.com")]
    #[case::none("")]
    fn another_driver_is_refused(#[case] driver: &str) {
        let found = driver.to_owned();
        let spec = json!({"csi": {"driver": driver, "volumeHandle": ID}});
        assert_eq!(read(spec), Err(NotEbs::Driver { found }));
    }

    #[rstest]
    #[case::nfs(json!({"capacity": {"storage": "1Gi"}, "nfs": {"server": "a"}}), "nfs")]
    #[case::none(json!({"claimRef": {"name": "a"}}), "no volume source")]
    #[case::both(
        json!({
            "csi": {"driver": DRIVER, "volumeHandle": ID},
            "awsElasticBlockStore": {"volumeID": ID},
        }),
        "csi and awsElasticBlockStore"
    )]
    fn another_source_is_refused_by_name(#[case] spec: Value, #[case] found: &str) {
        let found = found.to_owned();
        assert_eq!(read(spec), Err(NotEbs::Source { found }));
    }

    #[test]
    fn a_refusal_names_what_was_found_and_needed() {
        assert_eq!(
            csi("vol-x").unwrap_err().to_string(),
            "found volumeHandle \"vol-x\", need vol- and 8 or 17 hexadecimal digits"
        );
    }

    proptest! {
        #[test]
        fn every_id_is_read_from_each_form(
            id in "vol-([0-9a-f]{8}|[0-9a-f]{17})",
            zone in "[a-z]{2}-[a-z]{4}-[1-9][a-z]",
        ) {
            prop_assert_eq!(csi(&id), Ok(found(&id, false, None)));
            prop_assert_eq!(in_tree(&id), Ok(found(&id, true, None)));
            prop_assert_eq!(in_tree(&format!("aws:///{id}")), Ok(found(&id, true, None)));
            let with_zone = in_tree(&format!("aws://{zone}/{id}"));
            prop_assert_eq!(with_zone, Ok(found(&id, true, Some(&zone))));
        }

        #[test]
        fn nothing_but_the_three_forms_is_read(
            text in "(aws:|://|/|[a-c]|vol-|0a1b2c3d|[0-9a-f]{17}|[G/ -]){0,6}|.{0,30}",
        ) {
            if let Ok(source) = in_tree(&text) {
                let id = source.id.as_str();
                let zone = source.zone.unwrap_or_default();
                let is_a_form = text == id || text == format!("aws://{zone}/{id}");
                prop_assert!(is_a_form, "{} was read as {} in {:?}", text, id, zone);
                prop_assert!(VolumeId::parse(id).is_some());
            }
            prop_assert_eq!(csi(&text).is_ok(), VolumeId::parse(&text).is_some());
        }
    }
}
