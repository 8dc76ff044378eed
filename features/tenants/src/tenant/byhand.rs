//! Records that somebody else makes: which, and whether they are there.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{DistributionTenant, DnsProvider, reasons};
use aws::Caller;
use engine::Pass;
use kernel::{Backoff, Reason};

use super::create::way;
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, count, failed, moment};
use super::target;
use crate::ctx::Ctx;
use crate::dns::required::required;
use crate::failure::{Missing, slow};
use crate::outside::passes;
use crate::words::few;

/// How often CloudFront is asked: after 5 min, doubling to 1 h.
const LOOKS: Backoff = Backoff {
    first: Duration::from_secs(5 * 60),
    cap: Duration::from_secs(60 * 60),
    jitter: 0.0,
};

/// Whether the records are somebody else's to make.
pub(super) fn is_by_hand(object: &DistributionTenant) -> bool {
    let dns = object.spec.settings.dns.as_ref();
    dns.is_some_and(|dns| dns.provider == DnsProvider::None)
}

/// Lists the records that somebody else has to make. CloudFront may want to see those of added
/// domains before it takes them.
pub(super) async fn require(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<(), Stop> {
    if !is_by_hand(object) || !draft.status.dns_records.is_empty() {
        return Ok(());
    }
    let trouble = ctx.memory.of(&ground.key).dns_trouble;
    if trouble.holds_back(&moment(draft, ctx)).is_some() {
        return Ok(());
    }
    if let Some(target) = target::target(ground, asker, ctx, draft, pass).await? {
        let domains = ground.declared.domains.iter().map(String::as_str);
        draft.status.required_records = required(domains, &target, &BTreeSet::new());
    }
    Ok(())
}

/// Says whether DNS leads to the tenant, where the records are not ours to make.
pub(super) async fn verify(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    if !is_by_hand(object) {
        draft.status.required_records.clear();
        return Ok(None);
    }
    if !draft.status.dns_records.is_empty() {
        return Ok(None); // ours go first
    }
    let before = object.status.as_ref();
    let before = before.map_or(&[][..], |status| &status.required_records);
    let now = ctx.deck.clock.elapsed();
    let is_old = draft.told(Question::Dns).is_some() && draft.status.required_records == before;
    let due = ctx.memory.of(&ground.key).records_due;
    let left = due.map(|due| due.saturating_sub(now));
    if let Some(left) = left.filter(|left| is_old && !left.is_zero() && !pass.is_urgent()) {
        return Ok(Some(left));
    }
    let Some(id) = draft.status.id.clone() else {
        return Ok(None);
    };
    let cloudfront = ctx.own().await.cloudfront(asker);
    let told = match cloudfront.verify_dns(&id, None).await {
        Ok(told) => told,
        Err(error) => return refused(error, object, now, ctx, draft, pass),
    };
    let missing = told.iter().filter(|one| !one.is_valid());
    let missing: Vec<&str> = missing.map(|one| one.domain.as_str()).collect();
    let wait = ctx.memory.note(&ground.key, |memory| {
        let looks = if missing.is_empty() {
            0
        } else {
            memory.record_polls.saturating_add(1)
        };
        let wait = (looks > 0).then(|| LOOKS.delay(looks, 0.5));
        memory.record_polls = looks;
        memory.records_due = Some(now + wait.unwrap_or(LOOKS.cap));
        wait
    });
    if missing.is_empty() {
        let message = "DNS leads every domain to CloudFront";
        draft.yes(Question::Dns, Reason::new(reasons::DNS_READY, message));
    } else {
        let message = format!(
            "DNS does not lead to CloudFront yet: {}; make the records in status.requiredRecords",
            few(&missing)
        );
        let reason = Reason::new(reasons::RECORDS_REQUIRED, message);
        draft.no(Question::Dns, reason);
    }
    Ok(wait)
}

/// CloudFront does not tell: that concerns DNS alone, unless it passes by itself.
fn refused(
    error: aws::Error,
    object: &DistributionTenant,
    now: Duration,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let on_way = way(object, Missing::Distribution);
    if passes(error.fault(), on_way) {
        return Err(failed(error, on_way, draft, ctx, pass));
    }
    count(&error, on_way, ctx);
    let reason = Reason::new(reasons::DNS_ERROR, error.to_string());
    let wait = slow(
        draft.since(Question::Dns, &reason.code, ctx.now()),
        fastrand::f64(),
    );
    draft.no(Question::Dns, reason);
    ctx.memory.note(pass.key(), |memory| {
        memory.records_due = Some(now + wait);
    });
    Ok(Some(wait))
}
