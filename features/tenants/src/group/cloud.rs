//! CloudFront as a pass over a group uses it.

use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{CloudFront, Group, GroupBody as Body, GroupSummary};
use aws::{Asker, Error};
use engine::{Pass, kill_point};
use kernel::spread;

use crate::ctx::Ctx;
use crate::tags::Tags;
use crate::told::Told;

/// A list has an end; one that does not is cut here.
const PAGES: usize = 1000;
/// How far lists are spread around their interval.
pub(super) const SPREAD: f64 = 0.1;

/// All groups there are, as one list told them for everybody.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Listing {
    /// When it was asked for, by the engine's clock.
    pub(super) at: Duration,
    /// When the next one is due.
    pub(super) until: Duration,
    pub(super) groups: Vec<GroupSummary>,
}

impl Listing {
    pub(super) fn of(&self, id: &str) -> Option<&GroupSummary> {
        self.groups.iter().find(|group| group.id == id)
    }
}

/// The calls a pass can make. What a pass decides is tested against a model of it.
pub(super) trait Cloud: Send {
    /// All groups, from one list that all passes share.
    fn listing(&mut self) -> impl Future<Output = Result<Arc<Listing>, Error>> + Send;

    /// The group of this id or name.
    fn group(&mut self, named: &str) -> impl Future<Output = Result<Group, Error>> + Send;

    fn tags(&mut self, arn: &str) -> impl Future<Output = Result<Tags, Error>> + Send;

    fn create(
        &mut self,
        name: &str,
        tags: &Tags,
        body: &Body,
    ) -> impl Future<Output = Result<Group, Error>> + Send;

    fn update(
        &mut self,
        id: &str,
        etag: &str,
        body: &Body,
    ) -> impl Future<Output = Result<Group, Error>> + Send;

    fn delete(&mut self, id: &str, etag: &str) -> impl Future<Output = Result<(), Error>> + Send;

    fn tag(&mut self, arn: &str, tags: &Tags) -> impl Future<Output = Result<(), Error>> + Send;

    fn untag(
        &mut self,
        arn: &str,
        keys: &[String],
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// CloudFront itself. A pass that waits for an answer holds no place among those that run.
pub(super) struct OnAws<'a> {
    ctx: &'a Ctx,
    listing: &'a Told<(), Listing>,
    cloudfront: CloudFront,
    pass: &'a mut Pass,
}

impl<'a> OnAws<'a> {
    pub(super) async fn new(
        ctx: &'a Ctx,
        listing: &'a Told<(), Listing>,
        asker: &Asker,
        pass: &'a mut Pass,
    ) -> Self {
        let cloudfront = ctx.own().await.cloudfront(asker);
        Self {
            ctx,
            listing,
            cloudfront,
            pass,
        }
    }
}

impl Cloud for OnAws<'_> {
    async fn listing(&mut self) -> Result<Arc<Listing>, Error> {
        // Less than the shortest interval: whoever comes when the next list is due asks for it, and
        // those who come with it share it.
        let longest = self.ctx.settings.sweep.mul_f64(1.0 - 1.5 * SPREAD);
        let ask = || listed(self.ctx, &self.cloudfront);
        let listing = self.listing.get((), longest, ask);
        self.pass.outside(Box::pin(listing)).await
    }

    async fn group(&mut self, named: &str) -> Result<Group, Error> {
        let call = self.cloudfront.group(named);
        self.pass.outside(Box::pin(call)).await
    }

    async fn tags(&mut self, arn: &str) -> Result<Tags, Error> {
        let call = self.cloudfront.tags(arn);
        self.pass.outside(Box::pin(call)).await
    }

    async fn create(&mut self, name: &str, tags: &Tags, body: &Body) -> Result<Group, Error> {
        kill_point("group-before-create");
        let call = self.cloudfront.create_group(name, tags, body);
        let made = self.pass.outside(Box::pin(call)).await;
        kill_point("group-after-create");
        if let Ok(made) = &made {
            self.ctx.outside.forget_group(&made.id);
        }
        made
    }

    async fn update(&mut self, id: &str, etag: &str, body: &Body) -> Result<Group, Error> {
        kill_point("group-before-update");
        let call = self.cloudfront.update_group(id, etag, body);
        let updated = self.pass.outside(Box::pin(call)).await;
        kill_point("group-after-update");
        self.ctx.outside.forget_group(id);
        updated
    }

    async fn delete(&mut self, id: &str, etag: &str) -> Result<(), Error> {
        kill_point("group-before-delete");
        let call = self.cloudfront.delete_group(id, etag);
        let deleted = self.pass.outside(Box::pin(call)).await;
        kill_point("group-after-delete");
        self.ctx.outside.forget_group(id);
        deleted
    }

    async fn tag(&mut self, arn: &str, tags: &Tags) -> Result<(), Error> {
        let call = self.cloudfront.tag(arn, tags);
        self.pass.outside(Box::pin(call)).await
    }

    async fn untag(&mut self, arn: &str, keys: &[String]) -> Result<(), Error> {
        let call = self.cloudfront.untag(arn, keys);
        self.pass.outside(Box::pin(call)).await
    }
}

async fn listed(ctx: &Ctx, cloudfront: &CloudFront) -> Result<Listing, Error> {
    let at = ctx.deck.clock.elapsed();
    let (mut groups, mut marker) = (Vec::new(), None::<String>);
    for _ in 0..PAGES {
        let page = cloudfront.groups(marker.as_deref()).await?;
        groups.extend(page.items);
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    let interval = spread(ctx.settings.sweep, SPREAD, fastrand::f64());
    Ok(Listing {
        at,
        until: at.saturating_add(interval),
        groups,
    })
}
