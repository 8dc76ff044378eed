//! The records of a tenant that is in CloudFront.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{DistributionTenant, RecordState, TenantBody, reasons};
use aws::Caller;
use engine::Pass;

use super::draft::{Draft, Question};
use super::ground::Ground;
use super::say::Part;
use super::stop::{Stop, moment};
use super::{dns, say, target};
use crate::body::Live;
use crate::ctx::Ctx;
use crate::dns::plan::Served;

/// Whether a record is not where it should be yet.
pub(super) fn is_on_its_way(draft: &Draft) -> bool {
    let mut records = draft.status.dns_records.iter();
    records.any(|one| one.state != RecordState::Applied || one.change_id.is_some())
}

/// The names a tenant serves, as far as that can be told.
pub(super) fn served(live: &Live) -> Served {
    if live.summary.is_deployed() {
        Served::These(live.body().domains)
    } else {
        Served::Unknown
    }
}

/// Whether CloudFront refused the Update of this spec, and the records need not wait for it: those
/// of another group do.
pub(super) fn is_update_refused(ground: &Ground, ctx: &Ctx, draft: &Draft) -> bool {
    let refused = ctx.memory.of(&ground.key).update_refused;
    let given = draft.status.last_applied.as_ref();
    let stays = |body: &TenantBody| body.connection_group_id == ground.declared.connection_group_id;
    refused.is_some() && refused == ground.generation && given.is_some_and(stays)
}

/// Brings the records a step further; when to look again.
///
/// Without `live` CloudFront refuses the tenant's Update: records lead where they do, and none goes.
pub(super) async fn records(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    live: Option<&Live>,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    if !dns::concerns(object, draft) {
        if object.spec.settings.dns.is_none() {
            draft.yes(Question::Dns, say::no_records());
        }
        say::drift(Part::Records, Vec::new(), ground, ctx, draft);
        return Ok(None);
    }
    let trouble = ctx.memory.of(&ground.key).dns_trouble;
    if let Some(left) = trouble.holds_back(&moment(draft, ctx)) {
        if draft.says(Question::Ready, reasons::DNS_ERROR) {
            draft.restate(Question::Ready);
        }
        return Ok(Some(left));
    }
    draft.held_up =
        draft.told(Question::Dns).is_none() || draft.says(Question::Ready, reasons::DNS_ERROR);
    let target = match dns::route53(object) {
        Some(_) => target::target(ground, asker, ctx, draft, pass).await?,
        None => None,
    };
    let served = live.map_or(Served::Unknown, served);
    let nowhere_else = BTreeSet::new();
    let course = dns::Course {
        target: target.as_ref(),
        only: live.is_none().then_some(&nowhere_else),
    };
    let reached = dns::advance(object, ground, course, &served, ctx, draft, pass).await?;
    if reached.again {
        ctx.memory.note(&ground.key, |memory| {
            memory.sends_records = ground.generation.filter(|_| live.is_none());
        });
        return Err(Stop::Again);
    }
    let drifted = std::mem::take(&mut draft.drifted_records);
    say::drift(Part::Records, drifted, ground, ctx, draft);
    Ok(reached.wait)
}
