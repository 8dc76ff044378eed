//! Tags of volumes and snapshots.

use std::collections::BTreeMap;

use super::{Ec2, optional, request};
use crate::wire::XmlNode;
use crate::{Error, Operation};

/// Tags: values by key.
pub type Tags = BTreeMap<String, String>;

impl Ec2 {
    /// Adds these tags to the resource of this id, or changes existing ones. Other tags stay.
    /// Without a tag nothing is sent.
    pub async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<(), Error> {
        if tags.is_empty() {
            return Ok(());
        }
        let call = self.call(Operation::CreateTags, resource);
        let form = request::create_tags(resource, tags);
        self.send(&call, &form).await.map(|_| ())
    }

    /// Removes the tags with these keys from the resource of this id, whatever their values. Missing
    /// ones are no error. Without a key nothing is sent: EC2 would delete all tags.
    pub async fn delete_tags<V: AsRef<str>>(
        &self,
        resource: &str,
        keys: &[V],
    ) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let call = self.call(Operation::DeleteTags, resource);
        let form = request::delete_tags(resource, keys);
        self.send(&call, &form).await.map(|_| ())
    }
}

/// The tags of a volume or a snapshot.
pub(super) fn read(node: XmlNode<'_>) -> Tags {
    let tags = node.child("tagSet");
    let tags = tags.into_iter().flat_map(|tags| tags.children("item"));
    tags.map(|tag| (optional(tag, "key"), optional(tag, "value")))
        .collect()
}
