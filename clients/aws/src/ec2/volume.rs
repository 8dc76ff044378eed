//! Volumes: their state, and what they are attached to.

use std::fmt;

use super::request::{Filter, LARGEST_FILTER};
use super::{Ec2, Tags, is_true, optional, required, tags};
use crate::wire::{Answer, XmlNode};
use crate::{Error, Operation};

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Its id: `vol-0123456789abcdef0`.
    pub id: String,
    /// Its state.
    pub state: VolumeState,
    /// Its availability zone: `eu-west-1a`.
    pub zone: String,
    /// Its size in GiB.
    pub size_gib: u64,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The ARN of its key, if it is encrypted.
    pub kms_key: Option<String>,
    /// Whether several instances can use it at once.
    pub multi_attach: bool,
    /// Its type: `gp3`.
    pub volume_type: String,
    /// Its tags.
    pub tags: Tags,
    /// What it is attached to.
    pub attachments: Vec<Attachment>,
}

/// An attachment of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The id of the instance; empty if another service of AWS uses the volume.
    pub instance: String,
    /// The name of the device on the instance.
    pub device: String,
    /// Its state.
    pub state: AttachmentState,
    /// Whether the volume is deleted with the instance.
    pub delete_on_termination: bool,
}

/// Declares an enum of the states that EC2 can show, `Unknown` for states that are new to us.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident: $($(#[$state_doc:meta])* $state:ident $text:literal)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $($(#[$state_doc])* $state,)*
            /// A state that is new to us, or none.
            Unknown(String),
        }

        impl $name {
            pub(super) fn read(text: &str) -> Self {
                match text {
                    $($text => Self::$state,)*
                    _ => Self::Unknown(text.to_owned()),
                }
            }

            /// The state as EC2 writes it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$state => $text,)*
                    Self::Unknown(text) => text,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(super) use states;

states! {
    /// The state of a volume.
    VolumeState:
    /// It is being created.
    Creating "creating"
    /// It is attached to nothing.
    Available "available"
    /// It is attached, or about to be.
    InUse "in-use"
    /// It is being deleted.
    Deleting "deleting"
    /// It is deleted.
    Deleted "deleted"
    /// Its hardware failed.
    Error "error"
}

states! {
    /// The state of an attachment.
    AttachmentState:
    /// The volume is being attached.
    Attaching "attaching"
    /// The instance can use the volume.
    Attached "attached"
    /// The volume is being detached.
    Detaching "detaching"
    /// The volume is detached.
    Detached "detached"
    /// The instance does not release the device.
    Busy "busy"
}

impl Volume {
    /// Whether it is available and EC2 shows no attachment, not even a detached one.
    ///
    /// # When not to use it
    /// As the only proof that no node uses the disk: the cluster must agree.
    pub fn is_free(&self) -> bool {
        self.state == VolumeState::Available && self.attachments.is_empty()
    }
}

impl Ec2 {
    /// The volumes of these ids. Ids that EC2 does not have are missing in the answer.
    pub async fn volumes<V: AsRef<str>>(&self, ids: &[V]) -> Result<Vec<Volume>, Error> {
        let mut all = Vec::new();
        for ids in ids.chunks(LARGEST_FILTER) {
            all.extend(self.selected(Filter::volumes(ids)).await?);
        }
        Ok(all)
    }

    /// The volumes that are attached to these instances.
    pub async fn volumes_of_instances<V: AsRef<str>>(
        &self,
        instances: &[V],
    ) -> Result<Vec<Volume>, Error> {
        let mut all = Vec::new();
        for instances in instances.chunks(LARGEST_FILTER) {
            all.extend(self.selected(Filter::instances(instances)).await?);
        }
        Ok(all)
    }

    async fn selected(&self, filter: Filter) -> Result<Vec<Volume>, Error> {
        let operation = Operation::DescribeVolumes;
        self.list(operation, &[filter], "volumeSet", read).await
    }
}

/// A volume of an answer. Its list of attachments must be there: without it the volume would look
/// free.
pub(super) fn read(answer: &Answer, node: XmlNode<'_>) -> Result<Volume, Error> {
    let attachments = node.child("attachmentSet");
    let attachments = attachments.ok_or_else(|| answer.lacks("attachmentSet"))?;
    let size = required(answer, node, "size")?.parse();
    let kms_key = node.text("kmsKeyId").filter(|key| !key.is_empty());
    Ok(Volume {
        id: required(answer, node, "volumeId")?.to_owned(),
        state: VolumeState::read(required(answer, node, "status")?),
        zone: required(answer, node, "availabilityZone")?.to_owned(),
        size_gib: size.map_err(|_| answer.lacks("valid size"))?,
        encrypted: is_true(node, "encrypted"),
        kms_key: kms_key.map(str::to_owned),
        multi_attach: is_true(node, "multiAttachEnabled"),
        volume_type: optional(node, "volumeType"),
        tags: tags::read(node),
        attachments: attachments.children("item").map(attachment).collect(),
    })
}

fn attachment(node: XmlNode<'_>) -> Attachment {
    Attachment {
        instance: optional(node, "instanceId"),
        device: optional(node, "device"),
        state: AttachmentState::read(node.text("status").unwrap_or_default()),
        delete_on_termination: is_true(node, "deleteOnTermination"),
    }
}
