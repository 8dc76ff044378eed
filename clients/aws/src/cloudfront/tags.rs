//! Tags of a resource, by its ARN.

use std::collections::BTreeMap;

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;

use super::CloudFront;
use crate::call::Call;
use crate::{Error, Operation};

/// Tags: values by key.
pub type Tags = BTreeMap<String, String>;

impl CloudFront {
    /// The tags of the resource of this ARN.
    pub async fn tags(&self, arn: &str) -> Result<Tags, Error> {
        let call = Call::new(Operation::ListTagsForResource, arn);
        let send = || self.client().list_tags_for_resource().resource(arn).send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        Ok(read(answer.tags))
    }

    /// Adds these tags, or changes existing ones. Other tags stay.
    pub async fn tag(&self, arn: &str, tags: &Tags) -> Result<(), Error> {
        let call = Call::new(Operation::TagResource, arn);
        let tags = sdk(tags).map_err(|wrong| call.wrong(&wrong))?;
        let send = || {
            let request = self.client().tag_resource().resource(arn);
            request.tags(tags.clone()).send()
        };
        self.account.call(&call, &self.caller, send).await.map(drop)
    }

    /// Removes the tags of these keys.
    pub async fn untag(&self, arn: &str, keys: &[String]) -> Result<(), Error> {
        let call = Call::new(Operation::UntagResource, arn);
        let keys = types::TagKeys::builder().set_items(Some(keys.to_vec()));
        let keys = keys.build();
        let send = || {
            let request = self.client().untag_resource().resource(arn);
            request.tag_keys(keys.clone()).send()
        };
        self.account.call(&call, &self.caller, send).await.map(drop)
    }
}

/// Tags in the SDK's form.
fn sdk(tags: &Tags) -> Result<types::Tags, BuildError> {
    let tags: Result<Vec<_>, _> = tags
        .iter()
        .map(|(key, value)| types::Tag::builder().key(key).value(value).build())
        .collect();
    Ok(types::Tags::builder().set_items(Some(tags?)).build())
}

/// Tags in the SDK's form; `None` if there are none.
pub(super) fn some(tags: &Tags) -> Result<Option<types::Tags>, BuildError> {
    if tags.is_empty() {
        return Ok(None);
    }
    sdk(tags).map(Some)
}

pub(super) fn read(received: Option<types::Tags>) -> Tags {
    let items = received
        .and_then(|received| received.items)
        .unwrap_or_default();
    items
        .into_iter()
        .map(|tag| (tag.key, tag.value.unwrap_or_default()))
        .collect()
}
