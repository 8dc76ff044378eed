//! What a step of the records, or an error on the way to it, comes to: in status, zones and
//! conditions.

use std::time::Duration;

use api::tenants::{events, reasons};
use aws::route53::zone_writer::Propagated;
use engine::{Note, Pass};
use kernel::{ObjectKey, Reason};

use super::{ANSWER, Reached};
use crate::ctx::{Ctx, Ours};
use crate::diff::told;
use crate::dns::plan::{self, Step};
use crate::dns::verdict::Verdict;
use crate::failure::Way;
use crate::tenant::draft::{Draft, Question};
use crate::tenant::stop::{Stop, failed, moment};

/// Takes a step over into status, zones and conditions. It was made knowing of `changes`.
pub(super) fn take(
    step: Step,
    changes: &Propagated,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
) -> Reached {
    draft.status.dns_records.clone_from(&step.records);
    draft.status.dns_target = plan::target(&step.records).map(str::to_owned);
    let pending = plan::pending(&step.records);
    draft.status.dns_change_id = pending.keys().next().map(|change| (*change).to_owned());
    if ctx.zones.writer.follow_all(&pending, changes, key) {
        ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
    }
    for clash in &step.left {
        let told = format!("{clash}; it stays");
        draft.note(Note::warning(reasons::DNS_CONFLICT, told));
    }
    corrected(&step, key, ctx, draft);
    let wait = step.verdict.as_ref();
    let wait = wait.and_then(|verdict| say(verdict, key, ctx, draft));
    let is_under_way = !step.submit.is_empty() || step.again || step.verdict.is_none();
    if !step.submit.is_empty() {
        let corrected = step.corrected.clone();
        ctx.zones.note(key, |known| known.corrects(corrected));
        ctx.zones.submit(key, step.submit.clone());
    }
    let undone: Vec<_> = step.corrected.values().flatten().collect();
    let left = step.drift.iter().filter(|one| !undone.contains(one));
    draft.drifted_records = left.cloned().collect();
    let reached = Reached {
        insync: step.insync.clone(),
        wait: wait.or(is_under_way.then_some(ANSWER)),
        again: step.again,
    };
    draft.step = Some(step);
    reached
}

/// Tells of what others changed and Route 53 took back, once.
fn corrected(step: &Step, key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) {
    if step.news.is_empty() {
        return;
    }
    ctx.zones.note(key, |known| known.has_told(&step.news));
    ctx.metrics.drifted();
    let news: Vec<_> = step.news.values().flatten().cloned().collect();
    let message = format!("put right in Route 53: {}", told(&news));
    draft.note(Note::warning(events::DRIFT_CORRECTED, message));
}

/// Puts the verdict into DNSReady; when to look again.
fn say(verdict: &Verdict, key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) -> Option<Duration> {
    let reason = verdict.reason();
    let is_first = !draft.says(Question::Dns, &reason.code);
    if is_first && reason.code == reasons::DNS_RECORD_CREATING {
        let told = reason.message.clone();
        draft.note(Note::normal(reasons::DNS_RECORD_CREATING, told));
    }
    let wait = match verdict {
        Verdict::Conflict(_) | Verdict::Failed(_) => {
            let wait = paced(&reason, key, ctx, draft);
            if draft.held_up {
                let held = Reason::new(reasons::DNS_ERROR, reason.message.clone());
                draft.no(Question::Ready, held);
            }
            draft.no(Question::Dns, reason);
            return Some(wait);
        }
        // Said where the spec is known: one that goes has not changed its mind.
        Verdict::NotConfigured { .. } => None,
        Verdict::Ready { .. } => {
            draft.yes(Question::Dns, reason);
            None
        }
        Verdict::Creating { .. } | Verdict::Propagating { .. } => {
            draft.no(Question::Dns, reason);
            Some(ANSWER)
        }
        Verdict::Drift(_) => {
            draft.no(Question::Dns, reason);
            None
        }
    };
    ctx.memory.note(key, |memory| {
        memory.dns_trouble.over();
        memory.dns_again = None;
    });
    wait
}

/// When what is told for `reason` is looked at again: slowly, counted from when it was first told.
fn paced(reason: &Reason, key: &ObjectKey, ctx: &Ctx, draft: &Draft) -> Duration {
    let (code, at) = (reason.code.clone(), moment(draft, ctx));
    let again = ctx.memory.note(key, |memory| {
        let wait = memory.dns_trouble.paced(code, &at);
        *memory.dns_again.get_or_insert(at.elapsed + wait)
    });
    again.saturating_sub(at.elapsed)
}

/// Says why the records cannot be told, and ends the pass. AWS refused nothing: it is not counted.
pub(super) fn refuse(text: &str, key: &ObjectKey, draft: &mut Draft, ctx: &Ctx) -> Stop {
    let reason = Reason::new(reasons::DNS_ERROR, text);
    let at = moment(draft, ctx);
    let wait = ctx.memory.note(key, |memory| {
        memory.dns_trouble.blocked(reasons::DNS_ERROR, &at)
    });
    if draft.held_up {
        draft.no(Question::Ready, reason.clone());
    }
    draft.no(Question::Dns, reason);
    Stop::Held(wait)
}

/// Route 53 did not tell, and the pass ends.
pub(super) fn untold(error: aws::Error, draft: &mut Draft, ctx: &Ctx, pass: &Pass) -> Stop {
    restate(draft);
    failed(error, Way::Dns, draft, ctx, pass)
}

/// A spec that DNS held up still waits for it, whatever else is well.
pub(in crate::tenant) fn restate(draft: &mut Draft) {
    if draft.held_up && draft.says(Question::Ready, reasons::DNS_ERROR) {
        draft.restate(Question::Ready);
    }
}
