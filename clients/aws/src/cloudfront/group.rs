//! Connection groups.

use aws_sdk_cloudfront::types;
use jiff::Timestamp;

use super::{CloudFront, PAGE, Tags, tags};
use crate::call::Call;
use crate::moment::moment;
use crate::{Error, Operation, Page};

/// A group as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its version: a write names the one it is based on.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: String,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Where domains lead.
    pub routing_endpoint: String,
    /// Whether new tenants without a group come here.
    pub is_default: bool,
    /// What it was asked to be.
    pub body: GroupBody,
    /// Its tags; `None` if the answer says nothing of them. [`CloudFront::tags`] always does.
    pub tags: Option<Tags>,
}

/// What a group is asked to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBody {
    /// Whether it has addresses of IPv6.
    pub ipv6_enabled: bool,
    /// Whether it serves.
    pub enabled: bool,
    /// Its list of static addresses.
    pub anycast_ip_list_id: Option<String>,
}

/// A group as a list tells it: nothing of IPv6 and tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSummary {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: String,
    /// Where domains lead.
    pub routing_endpoint: String,
    /// Whether new tenants without a group come here.
    pub is_default: bool,
    /// Whether it serves.
    pub enabled: bool,
    /// Its list of static addresses.
    pub anycast_ip_list_id: Option<String>,
}

impl Group {
    fn read(
        call: &Call<'_>,
        told: Option<types::ConnectionGroup>,
        etag: Option<String>,
    ) -> Result<Self, Error> {
        let told = told.ok_or_else(|| call.lacks("ConnectionGroup"))?;
        Ok(Self {
            id: told.id.ok_or_else(|| call.lacks("Id"))?,
            arn: told.arn.ok_or_else(|| call.lacks("Arn"))?,
            name: told.name.ok_or_else(|| call.lacks("Name"))?,
            etag: etag.ok_or_else(|| call.lacks("ETag"))?,
            status: told.status.unwrap_or_default(),
            modified: told.last_modified_time.as_ref().and_then(moment),
            routing_endpoint: told
                .routing_endpoint
                .ok_or_else(|| call.lacks("RoutingEndpoint"))?,
            is_default: told.is_default.unwrap_or_default(),
            body: GroupBody {
                ipv6_enabled: told.ipv6_enabled.unwrap_or_default(),
                enabled: told.enabled.ok_or_else(|| call.lacks("Enabled"))?,
                anycast_ip_list_id: told.anycast_ip_list_id,
            },
            tags: told.tags.map(|told| tags::read(Some(told))),
        })
    }
}

impl GroupSummary {
    fn read(call: &Call<'_>, told: types::ConnectionGroupSummary) -> Result<Self, Error> {
        Ok(Self {
            id: told.id,
            arn: told.arn,
            name: told.name,
            etag: told.e_tag,
            status: told.status.unwrap_or_default(),
            routing_endpoint: told.routing_endpoint,
            is_default: told.is_default.unwrap_or_default(),
            enabled: told.enabled.ok_or_else(|| call.lacks("Enabled"))?,
            anycast_ip_list_id: told.anycast_ip_list_id,
        })
    }
}

impl CloudFront {
    /// Makes a group of this name, with these tags from the first moment on.
    pub async fn create_group(
        &self,
        name: &str,
        tags: &Tags,
        body: &GroupBody,
    ) -> Result<Group, Error> {
        let call = Call::new(Operation::CreateConnectionGroup, name);
        let tags = tags::some(tags).map_err(|wrong| call.wrong(&wrong))?;
        let send = || {
            self.client()
                .create_connection_group()
                .name(name)
                .ipv6_enabled(body.ipv6_enabled)
                .enabled(body.enabled)
                .set_anycast_ip_list_id(body.anycast_ip_list_id.clone())
                .set_tags(tags.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.asker, send).await?;
        Group::read(&call, answer.connection_group, answer.e_tag)
    }

    /// The group of this id, name or ARN.
    pub async fn group(&self, named: &str) -> Result<Group, Error> {
        let call = Call::new(Operation::GetConnectionGroup, named);
        let send = || {
            let request = self.client().get_connection_group();
            request.identifier(named).send()
        };
        let answer = self.account.call(&call, &self.asker, send).await?;
        Group::read(&call, answer.connection_group, answer.e_tag)
    }

    /// Makes the group of this id what `body` says, if it is still at version `etag`.
    pub async fn update_group(
        &self,
        id: &str,
        etag: &str,
        body: &GroupBody,
    ) -> Result<Group, Error> {
        let call = Call::new(Operation::UpdateConnectionGroup, id);
        let send = || {
            self.client()
                .update_connection_group()
                .id(id)
                .if_match(etag)
                .ipv6_enabled(body.ipv6_enabled)
                .enabled(body.enabled)
                .set_anycast_ip_list_id(body.anycast_ip_list_id.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.asker, send).await?;
        Group::read(&call, answer.connection_group, answer.e_tag)
    }

    /// Deletes the group of this id, if it is still at version `etag`. It must be disabled, deployed
    /// and without tenants.
    pub async fn delete_group(&self, id: &str, etag: &str) -> Result<(), Error> {
        let call = Call::new(Operation::DeleteConnectionGroup, id);
        let send = || {
            let request = self.client().delete_connection_group();
            request.id(id).if_match(etag).send()
        };
        self.account.call(&call, &self.asker, send).await.map(drop)
    }

    /// A page of up to 100 groups, from `marker` on.
    pub async fn groups(&self, marker: Option<&str>) -> Result<Page<GroupSummary>, Error> {
        let call = Call::new(Operation::ListConnectionGroups, "");
        let send = || {
            self.client()
                .list_connection_groups()
                .set_marker(marker.map(str::to_owned))
                .max_items(PAGE)
                .send()
        };
        let answer = self.account.call(&call, &self.asker, send).await?;
        let told = answer.connection_groups.unwrap_or_default();
        let items: Result<_, _> = told
            .into_iter()
            .map(|one| GroupSummary::read(&call, one))
            .collect();
        Ok(Page {
            items: items?,
            next: answer.next_marker.filter(|marker| !marker.is_empty()),
        })
    }
}
