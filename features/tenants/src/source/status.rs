//! What a source says of itself.

use std::collections::BTreeSet;

use api::tenants::{
    ChangeAction, PendingChange, TenantSource, TenantSourceSpec, TenantSourceStatus, conditions,
    names, reasons,
};
use engine::Note;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kernel::{Conditions, Reason, cap, find};

use super::apply::Done;
use super::compare::Found;
use super::plan::{Step, pending};
use super::polls::{Judged, Tally};
use super::prune::{Missing, Objection, Verdict};
use crate::words::few;

/// How old `lastPollTime` may become while nothing else changes.
const STALE: SignedDuration = SignedDuration::from_hours(1);
/// Bytes of one line about a row.
const LINE: usize = 400;

/// What a pass came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The table may not be read, or objects may not be made where it says.
    Denied(Reason),
    /// The table could not be read.
    Unread(String),
    /// It was read.
    Read(Report),
}

/// What was found and done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    rows: usize,
    tenants: usize,
    errors: Vec<String>,
    /// Objects that were made, changed and deleted since the last status.
    tally: Tally,
    /// In a dry run: what would be made and changed.
    would: Option<(usize, usize)>,
    /// Changes that are still to be made, beyond those that are listed too.
    left: usize,
    conflicts: usize,
    /// Objects of the source in other namespaces than it names now.
    abroad: usize,
    pending: Vec<PendingChange>,
    pruning: Pruning,
}

/// What is said of objects without a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Pruning {
    holds: bool,
    reason: &'static str,
    message: String,
    hash: Option<String>,
    pending: Vec<PendingChange>,
}

impl Pruning {
    /// What is said of `judged`: `kept` are the objects without a row that are still there.
    fn new(judged: &Judged, kept: &[Missing], confirm: i64, dry: bool) -> Self {
        let names: Vec<&str> = kept.iter().map(|one| &*one.name).collect();
        let (count, few) = (names.len(), few(&names));
        let waits = |one: &Missing| {
            let misses = judged.misses.get(&one.uid).copied().unwrap_or_default();
            format!(
                "{} of {confirm} readings missed its row",
                misses.min(confirm)
            )
        };
        let listed = kept.iter().map(|one| {
            let name = one.name.clone();
            pending(ChangeAction::Delete, name, waits(one))
        });
        let yes = |message: String| Self {
            holds: true,
            reason: reasons::UP_TO_DATE,
            message,
            ..Self::default()
        };
        match &judged.verdict {
            Verdict::Disabled => Self {
                reason: reasons::PRUNE_DISABLED,
                message: format!(
                    "{count} objects have no row and stay: {few}; set prune.enabled, or delete \
                     them by hand"
                ),
                ..Self::default()
            },
            Verdict::Blocked { set, hash, why } => Self {
                reason: reasons::PRUNE_BLOCKED,
                message: blocked(set, hash, *why),
                hash: Some(hash.clone()),
                pending: listed.collect(),
                ..Self::default()
            },
            Verdict::Unconfirmed | Verdict::Delete(_) if !kept.is_empty() => {
                let when = if dry {
                    "they would go, but this is a dry run".to_owned()
                } else {
                    format!("they go once {confirm} readings in a row have missed it")
                };
                Self {
                    pending: listed.collect(),
                    ..yes(format!("{count} objects have no row: {few}; {when}"))
                }
            }
            Verdict::UpToDate | Verdict::Unconfirmed | Verdict::Delete(_) => {
                yes("every object of the source has its row".to_owned())
            }
        }
    }
}

fn blocked(set: &[Missing], hash: &str, why: Objection) -> String {
    let names: Vec<&str> = set.iter().map(|one| &*one.name).collect();
    format!(
        "{} objects have no row and none is deleted, because {why}: {}; if exactly these are to \
         go, annotate the source with {}={hash}",
        names.len(),
        few(&names),
        names::APPROVE_PRUNE
    )
}

impl Outcome {
    fn ready(&self) -> (bool, Reason) {
        match self {
            Self::Denied(reason) => (false, reason.clone()),
            Self::Unread(why) => {
                let message = format!("{why}; nothing was changed");
                (false, Reason::new(reasons::POLL_FAILED, message))
            }
            Self::Read(report) => report.ready(),
        }
    }
}

impl Report {
    /// From what was found, what was decided, and what was done.
    pub(super) fn new(
        found: &Found,
        judged: &Judged,
        done: &Done,
        tally: Tally,
        spec: &TenantSourceSpec,
    ) -> Self {
        let Found { tenants, plan, .. } = found;
        let refused = done.refused.iter().map(|(name, why)| {
            format!(
                "tenant {name}: its object is not taken: {why}; correct its rows or the template"
            )
        });
        let undeletable = done.undeletable.iter().map(|(name, why)| {
            format!(
                "tenant {name}: its object has no row and cannot be deleted: {why}; let the \
                 operator delete it, or delete it by hand"
            )
        });
        let errors = tenants.errors.iter().cloned();
        let pruned: BTreeSet<&String> = done.pruned.iter().collect();
        let undone = |one: &&Missing| !pruned.contains(&one.name);
        let kept: Vec<Missing> = plan.missing.iter().filter(undone).cloned().collect();
        let confirm = spec.prune.unwrap_or_default().confirm_polls;
        let planned = plan
            .steps
            .iter()
            .filter(|_| spec.dry_run)
            .map(Step::pending);
        let held_up = plan.held_up.iter().chain(&done.held_up);
        let pending = held_up.chain(&done.left).cloned().chain(planned);
        Self {
            rows: tenants.rows,
            tenants: tenants.count,
            errors: errors.chain(refused).chain(undeletable).collect(),
            tally,
            would: spec.dry_run.then_some((plan.creates, plan.updates)),
            left: done.open(),
            conflicts: plan.conflicts + done.held_up.len(),
            abroad: found.abroad,
            pending: pending.take(names::PENDING_CHANGES_CAP).collect(),
            pruning: Pruning::new(judged, &kept, confirm, spec.dry_run),
        }
    }

    fn ready(&self) -> (bool, Reason) {
        let mut said = vec![format!("{} tenants in {} rows", self.tenants, self.rows)];
        said.extend(self.would.map(|(create, update)| {
            format!("a dry run: {create} objects would be made and {update} changed, and none is")
        }));
        let counts = [
            (self.conflicts, "objects are in the way, see pendingChanges"),
            (self.left, "changes are still to be made"),
            (
                self.abroad,
                "objects of this source are in other namespaces and are left alone",
            ),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        said.extend(counts.map(|(count, what)| format!("{count} {what}")));
        let said = said.join("; ");
        if self.errors.is_empty() {
            return (true, Reason::new(reasons::POLLED, said));
        }
        let message = format!(
            "{} errors, and their tenants are left alone: {}; {said}",
            self.errors.len(),
            few(&self.errors)
        );
        (false, Reason::new(reasons::ROWS_INVALID, message))
    }
}

/// The status after `outcome`; none if it says nothing new and is not too old.
pub(super) fn status(
    source: &TenantSource,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<TenantSourceStatus> {
    let before = source.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let mut set = Conditions::new(&before.conditions, source.metadata.generation, now);
    let (holds, reason) = outcome.ready();
    if holds {
        set.yes(conditions::READY, &reason);
    } else {
        set.no(conditions::READY, &reason);
    }
    let mut was_read = false;
    if let Outcome::Read(report) = outcome {
        was_read = true;
        tell(&mut after, report);
        let reason = Reason::new(report.pruning.reason, report.pruning.message.clone());
        if report.pruning.holds {
            set.yes(conditions::PRUNED, &reason);
        } else {
            set.no(conditions::PRUNED, &reason);
        }
    }
    after.conditions = set.into_parts().0;
    let last = before.last_poll_time.as_ref();
    let is_old = last.is_none_or(|Time(last)| now.duration_since(*last) >= STALE);
    let is_news = after != before;
    if was_read && (is_news || is_old) {
        after.last_poll_time = Some(Time(now));
    }
    (after != before).then_some(after)
}

fn tell(status: &mut TenantSourceStatus, report: &Report) {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let add = |total: &mut Option<i64>, count: usize| {
        *total = Some(total.unwrap_or_default().saturating_add(number(count)));
    };
    status.tenants_discovered = Some(number(report.tenants));
    add(&mut status.tenants_created, report.tally.created);
    add(&mut status.tenants_updated, report.tally.updated);
    add(&mut status.tenants_pruned, report.tally.pruned);
    let changes = report.pending.iter().chain(&report.pruning.pending);
    status.pending_changes = changes.take(names::PENDING_CHANGES_CAP).cloned().collect();
    status.plan_hash.clone_from(&report.pruning.hash);
    let lines = report.errors.iter().take(names::ROW_ERRORS_CAP);
    status.row_errors = lines.map(|line| cap(line, LINE)).collect();
}

/// Warnings that are due because a condition says something new.
pub(super) fn warnings(before: &[Condition], after: &[Condition]) -> Vec<Note> {
    let worse = [
        (
            conditions::READY,
            &[
                reasons::POLL_FAILED,
                reasons::ROWS_INVALID,
                reasons::POLICY_DENIED,
            ][..],
        ),
        (conditions::PRUNED, &[reasons::PRUNE_BLOCKED][..]),
    ];
    let due = |(kind, reasons): &(&str, &[&str])| {
        let now = find(after, kind).filter(|now| reasons.contains(&&*now.reason))?;
        let same = |was: &Condition| was.reason == now.reason && was.message == now.message;
        let known = find(before, kind).is_some_and(same);
        (!known).then(|| Note::warning(now.reason.clone(), now.message.clone()))
    };
    worse.iter().filter_map(due).collect()
}

#[cfg(test)]
mod tests;
