//! The writer of zones: what passes handed in goes out in batches, one at a time for each zone.
//!
//! | Route 53 answers a batch      | so                                                            |
//! |-------------------------------|---------------------------------------------------------------|
//! | taken                         | its objects are told, and the change is followed              |
//! | its records cannot be         | it is halved; one alone is told                               |
//! | slow down, or not done yet    | all that is left goes back, and the zone rests                |
//! | credentials are not accepted  | the same for this way into the zone alone, and it is told     |
//! | it failed, or did not answer  | the same, ever longer; what may have happened is told as lost |
//! | any other refusal             | its objects are told                                          |
//!
//! What STS answers, asked for the credentials of a role, is about that way into the zone alone.

use std::sync::Arc;
use std::time::Duration;

use aws::{Caller, Fault, Priority};
use engine::kill_point;
use futures::stream::{FuturesUnordered, StreamExt};
use kernel::ObjectKey;

use super::batch::{Batch, Load};
use super::known::Answer;
use super::zones::role;
use super::{Bundle, Place};
use crate::ctx::{Ctx, Ours};
use crate::failure::Way;
use crate::outside::count;

/// How long a zone rests that is throttled or not done, or a way into it that is closed.
const REST: Duration = Duration::from_secs(60);

/// Writes what is handed in, for as long as it is polled. What an earlier run left is forgotten:
/// passes plan it again.
pub(crate) async fn write(ctx: Arc<Ctx>) {
    ctx.zones.clear();
    let mut under_way = FuturesUnordered::new();
    loop {
        let now = ctx.deck.clock.elapsed();
        let (due, next) = ctx.zones.due(now);
        for batch in due {
            under_way.push(send(&ctx, batch));
        }
        let wait = next.map_or(Duration::from_secs(3600), |next| next.saturating_sub(now));
        tokio::select! {
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            () = ctx.zones.news.notified() => {}
            () = tokio::time::sleep(ctx.deck.clock.real(wait)) => {}
        }
    }
}

/// Sends a batch, and its halves if it is refused, until whoever is to blame is alone.
async fn send(ctx: &Ctx, batch: Batch<ObjectKey>) {
    let place = batch.place.clone();
    let (mut queue, mut rest) = (vec![batch], None);
    while let Some(batch) = queue.pop() {
        let error = match try_once(ctx, &batch).await {
            Ok(change) => {
                ctx.zones.heard(&place);
                accepted(ctx, batch, &change);
                continue;
            }
            Err(error) => error,
        };
        count(ctx, &error, Way::Dns);
        match answer(&error) {
            Next::Halve => {
                ctx.zones.heard(&place);
                match batch.halves() {
                    Ok([first, second]) => queue.extend([second, first]),
                    Err(alone) => tell(ctx, alone, |_| refusal(&error)),
                }
            }
            Next::Rest => {
                rest = rested(ctx, &place, &error);
                queue.push(batch);
                break;
            }
            Next::Close => {
                let now = ctx.deck.clock.elapsed();
                ctx.zones.closed(&place, error.to_string(), now, now + REST);
                queue.push(batch);
                for batch in &queue {
                    say(ctx, batch);
                }
                break;
            }
            Next::Backoff => {
                failed(ctx, batch, &error, &mut queue);
                break;
            }
            Next::Tell => {
                ctx.zones.heard(&place);
                tell(ctx, batch, |_| refusal(&error));
            }
        }
    }
    queue.reverse();
    let back = queue.into_iter().flat_map(|batch| batch.loads).collect();
    ctx.zones.done(&place.zone, back, rest);
}

/// What an error of a batch leads to.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// One of its bundles is to blame.
    Halve,
    /// The zone rests, or the way into it.
    Rest,
    /// The way in rests, and its objects hear of it.
    Close,
    /// The way in rests, ever longer.
    Backoff,
    /// Its objects are told.
    Tell,
}

fn answer(error: &aws::Error) -> Next {
    match error.fault() {
        Fault::InvalidRecords => Next::Halve,
        // One that may not write any more leaves it to the next.
        Fault::Throttled | Fault::ZoneBusy | Fault::Deposed => Next::Rest,
        Fault::Passing => Next::Backoff,
        Fault::Credentials => Next::Close,
        Fault::DomainTaken
        | Fault::NameTaken
        | Fault::Denied
        | Fault::OwnershipUnverified
        | Fault::InvalidSpec
        | Fault::DistributionMissing
        | Fault::EntityMissing
        | Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::OtherMissing
        | Fault::LimitExceeded
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::Refused => Next::Tell,
    }
}

/// Until when the zone rests; none if only this way into it does.
fn rested(ctx: &Ctx, place: &Place, error: &aws::Error) -> Option<Duration> {
    let until = ctx.deck.clock.elapsed() + REST;
    if error.lacks_credentials() {
        ctx.zones.rests(place, until);
        return None;
    }
    Some(until)
}

/// A batch failed, and should not the next time.
fn failed(
    ctx: &Ctx,
    batch: Batch<ObjectKey>,
    error: &aws::Error,
    queue: &mut Vec<Batch<ObjectKey>>,
) {
    let (now, text) = (ctx.deck.clock.elapsed(), error.to_string());
    ctx.zones.stumbled(&batch.place, text, now, fastrand::f64());
    if error.may_have_happened() {
        tell(ctx, batch, |_| Answer::Lost);
    } else {
        if ctx.zones.troubled().contains_key(&batch.place) {
            say(ctx, &batch);
        }
        queue.push(batch);
    }
}

/// Has the objects of a batch say what keeps it.
fn say(ctx: &Ctx, batch: &Batch<ObjectKey>) {
    for Load { from, bundle } in &batch.loads {
        wake(ctx, from, bundle);
    }
}

async fn try_once(ctx: &Ctx, batch: &Batch<ObjectKey>) -> Result<String, aws::Error> {
    let account = ctx.account(role(&batch.place.login)?.as_ref()).await;
    let changes: Vec<_> = batch.changes().map(Into::into).collect();
    ctx.metrics.batched(batch.weight().records);
    let asker = Caller::new(Priority::Edit, "");
    kill_point("tenants-before-batch");
    let route53 = account.route53(&asker);
    let answer = route53.change_batch(&batch.place.zone, &changes).await;
    kill_point("tenants-after-batch");
    answer
}

fn accepted(ctx: &Ctx, batch: Batch<ObjectKey>, change: &str) {
    let login = batch.place.login.clone();
    tell(ctx, batch, |key| {
        ctx.changes
            .follow(change, &login, key, ctx.deck.clock.elapsed());
        Answer::Accepted {
            change: change.to_owned(),
        }
    });
}

/// What a refusal is to those whose changes it is about.
fn refusal(error: &aws::Error) -> Answer {
    let text = error.to_string();
    match error.fault() {
        Fault::ZoneMissing => Answer::NoZone { text },
        // Something is there, or is not there as it should be; a read tells.
        Fault::InvalidRecords if error.code() == Some("InvalidChangeBatch") => {
            Answer::Differs { text }
        }
        _ => Answer::Refused { text },
    }
}

/// Tells all who handed something in, and wakes them.
fn tell(ctx: &Ctx, batch: Batch<ObjectKey>, answer: impl Fn(&ObjectKey) -> Answer) {
    for Load { from, bundle } in batch.loads {
        let answer = answer(&from);
        let is_awaited = ctx
            .zones
            .note(&from, |known| known.answered(&bundle.spot(), answer));
        if is_awaited {
            wake(ctx, &from, &bundle);
        }
    }
}

/// Wakes one who handed in `bundle`.
fn wake(ctx: &Ctx, key: &ObjectKey, bundle: &Bundle) {
    if bundle.only_marks() {
        // Nothing in its status says that it waits: it would be left alone.
        ctx.memory.note(key, |memory| memory.doubted = true);
    }
    ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn refused(status: u16, code: &str) -> aws::Error {
        aws::Error::Refused(Box::new(aws::Refusal {
            operation: aws::Operation::ChangeResourceRecordSets,
            resource: "Z1".to_owned(),
            code: code.to_owned(),
            message: "no".to_owned(),
            status,
            request_id: None,
        }))
    }

    #[rstest]
    #[case::broken(500, "InternalError", Next::Backoff)]
    #[case::throttled(400, "Throttling", Next::Rest)]
    #[case::busy(400, "PriorRequestNotComplete", Next::Rest)]
    #[case::bad(400, "InvalidChangeBatch", Next::Halve)]
    #[case::denied(403, "AccessDenied", Next::Tell)]
    #[case::without_credentials(403, "ExpiredToken", Next::Close)]
    #[case::without_a_zone(404, "NoSuchHostedZone", Next::Tell)]
    fn a_batch_that_was_not_taken(#[case] status: u16, #[case] code: &str, #[case] next: Next) {
        assert_eq!(answer(&refused(status, code)), next);
    }

    #[rstest]
    #[case::exists(refused(400, "InvalidChangeBatch"), "differs")]
    #[case::nonsense(refused(400, "InvalidInput"), "refused")]
    #[case::denied(refused(403, "AccessDenied"), "refused")]
    #[case::without_a_zone(refused(404, "NoSuchHostedZone"), "no zone")]
    fn those_who_are_refused_hear(#[case] error: aws::Error, #[case] told: &str) {
        let heard = match refusal(&error) {
            Answer::Differs { .. } => "differs",
            Answer::Refused { .. } => "refused",
            Answer::NoZone { .. } => "no zone",
            Answer::Pending | Answer::Accepted { .. } | Answer::Lost => "nothing",
        };
        assert_eq!(heard, told);
    }
}
