//! Connection groups.

use aws_sdk_cloudfront::types;
use jiff::Timestamp;

use super::{CloudFront, PAGE, Tags, tags};
use crate::call::Call;
use crate::timestamp::timestamp;
use crate::{Error, Operation, Page};

/// A connection group as CloudFront returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its version: a write names the version it is based on.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: String,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// The DNS name that domains point to.
    pub routing_endpoint: String,
    /// Whether CloudFront uses it for new tenants that name no group.
    pub is_default: bool,
    /// Its configuration.
    pub body: GroupBody,
    /// Its tags; `None` if the answer does not contain them. [`CloudFront::tags`] always returns them.
    pub tags: Option<Tags>,
}

/// The desired configuration of a connection group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBody {
    /// Whether it has IPv6 addresses.
    pub ipv6_enabled: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its anycast IP list.
    pub anycast_ip_list_id: Option<String>,
}

/// A connection group as a list returns it: without IPv6 and tags.
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
    /// The DNS name that domains point to.
    pub routing_endpoint: String,
    /// Whether CloudFront uses it for new tenants that name no group.
    pub is_default: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its anycast IP list.
    pub anycast_ip_list_id: Option<String>,
}

impl Group {
    fn read(
        call: &Call<'_>,
        received: Option<types::ConnectionGroup>,
        etag: Option<String>,
    ) -> Result<Self, Error> {
        let received = received.ok_or_else(|| call.lacks("ConnectionGroup"))?;
        Ok(Self {
            id: received.id.ok_or_else(|| call.lacks("Id"))?,
            arn: received.arn.ok_or_else(|| call.lacks("Arn"))?,
            name: received.name.ok_or_else(|| call.lacks("Name"))?,
            etag: etag.ok_or_else(|| call.lacks("ETag"))?,
            status: received.status.unwrap_or_default(),
            modified: received.last_modified_time.as_ref().and_then(timestamp),
            routing_endpoint: received
                .routing_endpoint
                .ok_or_else(|| call.lacks("RoutingEndpoint"))?,
            is_default: received.is_default.unwrap_or_default(),
            body: GroupBody {
                ipv6_enabled: received.ipv6_enabled.unwrap_or_default(),
                enabled: received.enabled.ok_or_else(|| call.lacks("Enabled"))?,
                anycast_ip_list_id: received.anycast_ip_list_id,
            },
            tags: received.tags.map(|received| tags::read(Some(received))),
        })
    }
}

impl GroupSummary {
    fn read(call: &Call<'_>, received: types::ConnectionGroupSummary) -> Result<Self, Error> {
        Ok(Self {
            id: received.id,
            arn: received.arn,
            name: received.name,
            etag: received.e_tag,
            status: received.status.unwrap_or_default(),
            routing_endpoint: received.routing_endpoint,
            is_default: received.is_default.unwrap_or_default(),
            enabled: received.enabled.ok_or_else(|| call.lacks("Enabled"))?,
            anycast_ip_list_id: received.anycast_ip_list_id,
        })
    }
}

impl CloudFront {
    /// Creates a group of this name with these tags.
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
        let answer = self.account.call(&call, &self.caller, send).await?;
        Group::read(&call, answer.connection_group, answer.e_tag)
    }

    /// The group of this id, name or ARN.
    pub async fn group(&self, named: &str) -> Result<Group, Error> {
        let call = Call::new(Operation::GetConnectionGroup, named);
        let send = || {
            let request = self.client().get_connection_group();
            request.identifier(named).send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Group::read(&call, answer.connection_group, answer.e_tag)
    }

    /// Updates the group of this id to `body`, if it is still at version `etag`.
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
        let answer = self.account.call(&call, &self.caller, send).await?;
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
        self.account.call(&call, &self.caller, send).await.map(drop)
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
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.connection_groups.unwrap_or_default();
        let items: Result<_, _> = received
            .into_iter()
            .map(|one| GroupSummary::read(&call, one))
            .collect();
        Ok(Page {
            items: items?,
            next: answer.next_marker.filter(|marker| !marker.is_empty()),
        })
    }
}
