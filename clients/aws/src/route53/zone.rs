//! Hosted zones.

use aws_sdk_route53::types;

use super::{Route53, bare, domain};
use crate::call::Call;
use crate::{Error, Operation, Page};

/// The most entries that a page of a list has.
const PAGE: i32 = 100;

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is private, visible only in VPCs.
    pub private: bool,
}

impl Zone {
    fn read(received: types::HostedZone) -> Self {
        Self {
            id: bare(&received.id).to_owned(),
            name: domain(&received.name),
            private: received.config.is_some_and(|config| config.private_zone),
        }
    }
}

impl Route53 {
    /// The zone of this id.
    pub async fn zone(&self, id: &str) -> Result<Zone, Error> {
        let call = Call::new(Operation::GetHostedZone, id);
        let send = || self.client().get_hosted_zone().id(id).send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.hosted_zone.ok_or_else(|| call.lacks("HostedZone"))?;
        Ok(Zone::read(received))
    }

    /// A page of up to 100 of the account's zones, from `marker` on.
    pub async fn zones(&self, marker: Option<&str>) -> Result<Page<Zone>, Error> {
        let call = Call::new(Operation::ListHostedZones, "");
        let send = || {
            self.client()
                .list_hosted_zones()
                .set_marker(marker.map(str::to_owned))
                .max_items(PAGE)
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let next = match (answer.is_truncated, answer.next_marker) {
            (false, _) => None,
            (true, None) => return Err(call.lacks("NextMarker")),
            (true, next) => next,
        };
        Ok(Page {
            items: answer.hosted_zones.into_iter().map(Zone::read).collect(),
            next,
        })
    }
}
