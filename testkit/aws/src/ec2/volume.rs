//! A volume, its attachments and their states.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Its id.
    pub id: String,
    /// The owner.
    pub account: String,
    /// Its availability zone.
    #[serde(rename = "az")]
    pub zone: String,
    /// Its size in GiB.
    pub size: u64,
    /// `gp3`, `io2`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Provisioned operations per second.
    pub iops: Option<u64>,
    /// Key of its encryption; none if it is not encrypted.
    pub kms_key_id: Option<String>,
    /// The snapshot of which it was made.
    pub snapshot_id: Option<String>,
    /// Whether several instances may attach it.
    pub multi_attach: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// When it was made.
    pub created: Timestamp,
    /// Its attachments, in the order in which they were made.
    pub attachments: Vec<Attachment>,
    /// Its last modification, if there was any.
    pub modification: Option<Modification>,
    #[serde(skip)]
    pub(super) stage: VolumeStage,
    /// Whether control made it. Then stale reads see it too.
    #[serde(skip)]
    pub(super) is_seeded: bool,
    /// Whether control allowed several attachments.
    #[serde(skip)]
    pub(super) may_share: bool,
}

/// An attachment of a volume to an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// The instance.
    pub instance: String,
    /// The name of the device there.
    pub device: String,
    /// When it was requested.
    pub since: Timestamp,
    /// Whether the volume is deleted with the instance.
    pub delete_on_termination: bool,
    #[serde(skip)]
    pub(super) stage: AttachmentStage,
}

/// A change of size or type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Modification {
    /// `modifying`, `optimizing`, `completed` or `failed`.
    pub state: String,
    /// The size before.
    pub original_size: u64,
    /// When it began.
    pub started: Timestamp,
}

/// How far the life of a volume is. A time is when the stage ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeStage {
    Creating(Option<Timestamp>),
    Ready,
    Deleting(Option<Timestamp>),
    Deleted,
    Error,
}

/// How far an attachment is. A time is when the stage ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttachmentStage {
    Attaching(Timestamp),
    Attached,
    Detaching(Timestamp),
    /// A detach that does not end until control releases it.
    Busy,
}

impl Volume {
    /// `creating`, `available`, `in-use`, `deleting`, `deleted` or `error`.
    pub fn state(&self) -> &'static str {
        match self.stage {
            VolumeStage::Creating(_) => "creating",
            VolumeStage::Ready if self.attachments.is_empty() => "available",
            VolumeStage::Ready => "in-use",
            VolumeStage::Deleting(_) => "deleting",
            VolumeStage::Deleted => "deleted",
            VolumeStage::Error => "error",
        }
    }

    /// The attachment to an instance.
    pub fn attachment(&self, instance: &str) -> Option<&Attachment> {
        let mut all = self.attachments.iter();
        all.find(|attachment| attachment.instance == instance)
    }

    /// When it changes next by itself.
    pub(super) fn next_change(&self) -> Option<Timestamp> {
        let own = match self.stage {
            VolumeStage::Creating(until) | VolumeStage::Deleting(until) => until,
            VolumeStage::Ready | VolumeStage::Deleted | VolumeStage::Error => None,
        };
        let attachments = self.attachments.iter();
        let theirs = attachments.filter_map(|attachment| match attachment.stage {
            AttachmentStage::Attaching(until) | AttachmentStage::Detaching(until) => Some(until),
            AttachmentStage::Attached | AttachmentStage::Busy => None,
        });
        theirs.chain(own).min()
    }

    /// Whether it exists in a region. A zone that names no region is in all of them.
    pub(super) fn is_in(&self, region: &str) -> bool {
        is_in(&self.zone, region)
    }
}

impl Attachment {
    /// `attaching`, `attached`, `detaching` or `busy`.
    pub fn state(&self) -> &'static str {
        match self.stage {
            AttachmentStage::Attaching(_) => "attaching",
            AttachmentStage::Attached => "attached",
            AttachmentStage::Detaching(_) => "detaching",
            AttachmentStage::Busy => "busy",
        }
    }
}

/// Whether a zone belongs to a region. A zone that names no region belongs to all of them.
pub(super) fn is_in(zone: &str, region: &str) -> bool {
    let own = zone.strip_suffix(|letter: char| letter.is_ascii_lowercase());
    let own = own.filter(|own| own.ends_with(|digit: char| digit.is_ascii_digit()));
    let own = own.filter(|own| own.matches('-').count() >= 2);
    region.is_empty() || own.is_none_or(|own| own == region)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::is_in;

    #[rstest]
    #[case::own_region("us-east-1a", "us-east-1", true)]
    #[case::other_region("us-east-1a", "eu-west-1", false)]
    #[case::long_region("us-gov-west-1b", "us-gov-west-1", true)]
    #[case::zone_without_region("a", "eu-west-1", true)]
    #[case::number_without_region("zone-1a", "eu-west-1", true)]
    #[case::no_region_asked("us-east-1a", "", true)]
    fn a_zone_belongs_to_its_region(
        #[case] zone: &str,
        #[case] region: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(is_in(zone, region), expected);
    }
}
