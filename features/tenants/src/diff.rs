//! Three-way diff of a tenant: whose doing a difference is, and what is sent for it. Pure.
//!
//! | last applied | live | desired | enforce        | report, suspend       |
//! |--------------|------|---------|----------------|-----------------------|
//! | any          | a    | a       | only recorded  | only recorded         |
//! | a            | a    | b       | b is sent      | b is sent             |
//! | a            | x    | a       | a is sent      | x stays, and is drift |
//! | a            | x    | b       | b is sent      | b is sent             |
//!
//! Domains and parameters count by element in the right-hand column, all else by field. What is
//! sent is always complete, so that an Update that replaces and one that merges give the same.

mod ineffective;
#[cfg(test)]
mod laws;
mod merge;
mod sweep;
#[cfg(test)]
mod tests;
mod wanted;

use api::tenants::{BodyCertificateRequest, DriftPolicy, DriftedField, TenantBody, reasons};
use kernel::{ChangeKind, Reason, Rules, diff3};
use serde_json::Value;

use crate::body::{Body, Field, side_by_side};

pub(crate) use ineffective::Ineffective;
pub(crate) use sweep::news;
pub(crate) use wanted::{Last, needs_default_group};

/// All that a plan is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The normalised spec.
    pub(crate) declared: &'a TenantBody,
    pub(crate) last: &'a Last,
    pub(crate) live: &'a Body,
    /// The id of the account's default group; see [`needs_default_group`].
    pub(crate) default_group: Option<&'a str>,
    /// The managed certificate, if it is known to be issued.
    pub(crate) issued: Option<&'a str>,
    /// Whether the certificate request goes out again, unchanged, because CloudFront lost it.
    pub(crate) resend: bool,
    pub(crate) policy: DriftPolicy,
}

/// What differs and what is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// The fields that differ from what is desired.
    pub(crate) changes: Vec<FieldChange>,
    /// The Update to send, unless it is held back.
    pub(crate) update: Option<Update>,
    /// What `status.lastApplied` becomes when the Update is accepted; without one, at once.
    ///
    /// It holds what is ours, not what an Update carries along: drift that was left alone stays
    /// drift. Its tags are those recorded before; they change when the tags are written.
    pub(crate) record: TenantBody,
    /// What `status.certificateArn` becomes: what is live, unless that is drift.
    pub(crate) certificate_in_use: Option<String>,
}

/// One UpdateDistributionTenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    /// Every member, the empty ones too.
    pub(crate) body: Body,
    /// The certificate request, only where it has to be sent.
    pub(crate) request: Option<BodyCertificateRequest>,
    pub(crate) cause: Cause,
}

/// Why an Update is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The spec was edited, or its certificate is due.
    Edit,
    /// Others changed the tenant, and that is undone.
    Drift,
    /// Both at once.
    EditAndDrift,
}

impl Cause {
    /// Whether the Update undoes what others did.
    pub(crate) fn corrects(self) -> bool {
        match self {
            Self::Edit => false,
            Self::Drift | Self::EditAndDrift => true,
        }
    }
}

/// A field that differs from what is desired.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldChange {
    pub(crate) field: Field,
    pub(crate) kind: ChangeKind,
    last: Option<Value>,
    live: Option<Value>,
    desired: Option<Value>,
}

impl FieldChange {
    pub(crate) fn is_edit(&self) -> bool {
        matches!(self.kind, ChangeKind::Edit | ChangeKind::Both)
    }

    pub(crate) fn is_drift(&self) -> bool {
        matches!(self.kind, ChangeKind::Drift | ChangeKind::Both)
    }

    /// Desired, last applied and live, as people read them; none is nothing.
    pub(crate) fn sides(&self) -> [Option<String>; 3] {
        let (desired, live) = side_by_side(self.desired.as_ref(), self.live.as_ref());
        let (last, _) = side_by_side(self.last.as_ref(), self.live.as_ref());
        [desired, last, live]
    }

    fn drifted(&self) -> DriftedField {
        let (want, live) = side_by_side(self.last.as_ref(), self.live.as_ref());
        DriftedField {
            field: self.field.word().to_owned(),
            want,
            live,
        }
    }
}

impl Plan {
    /// What others changed, for `status.drift`. Equal lists are one and the same drift.
    pub(crate) fn drift(&self) -> Vec<DriftedField> {
        let drifted = self.changes.iter().filter(|change| change.is_drift());
        drifted.map(FieldChange::drifted).collect()
    }

    /// What others changed and the Update left so, as `shown` is what came of it.
    pub(crate) fn drift_left(&self, shown: &Body) -> Vec<DriftedField> {
        let ours = Body::from(&self.record);
        let drifted = self.changes.iter().filter(|change| change.is_drift());
        let left = drifted.filter_map(|change| differing(change.field, &ours, shown));
        left.collect()
    }

    /// What `status.certificateArn` becomes once the Update was answered by `shown`: drift that it
    /// only carried along is still not ours.
    pub(crate) fn in_use_after(&self, shown: &Body) -> Option<String> {
        let corrects = self
            .update
            .as_ref()
            .is_some_and(|update| update.cause.corrects());
        if drifts(&self.changes, Field::Certificate) && !corrects {
            self.certificate_in_use.clone()
        } else {
            shown.certificate_arn.clone()
        }
    }
}

/// What to do about one tenant.
pub(crate) fn plan(ground: &Ground<'_>) -> Plan {
    let Ground { last, live, .. } = *ground;
    let wanted = wanted::wanted(ground);
    let changes = changes(&last.body, live, &wanted.body);
    let request = request_to_send(ground);
    let edited = request.is_some() || changes.iter().any(FieldChange::is_edit);
    let drifted = changes.iter().any(FieldChange::is_drift);
    let update = cause(edited, drifted, ground.policy).and_then(|cause| {
        let body = match ground.policy {
            DriftPolicy::Enforce => merge::complete(&wanted.body, live),
            DriftPolicy::Report | DriftPolicy::Suspend => {
                merge::merged(&last.body, live, &wanted.body)
            }
        };
        // Merged, an edit may turn out to be true already.
        let needed = request.is_some() || body != *live;
        needed.then_some(Update {
            body,
            request,
            cause,
        })
    });
    let certificate_in_use = if drifts(&changes, Field::Certificate) {
        last.certificate_in_use.clone()
    } else {
        live.certificate_arn.clone()
    };
    Plan {
        update,
        record: wanted.record,
        certificate_in_use,
        changes,
    }
}

fn drifts(changes: &[FieldChange], field: Field) -> bool {
    let mut changes = changes.iter();
    changes.any(|change| change.field == field && change.is_drift())
}

fn cause(edited: bool, drifted: bool, policy: DriftPolicy) -> Option<Cause> {
    match (edited, drifted, policy) {
        (true, true, DriftPolicy::Enforce) => Some(Cause::EditAndDrift),
        (false, true, DriftPolicy::Enforce) => Some(Cause::Drift),
        (true, _, _) => Some(Cause::Edit),
        (false, _, _) => None,
    }
}

/// The request goes out when it changed, or when CloudFront lost it: each time it may start anew.
fn request_to_send(ground: &Ground<'_>) -> Option<BodyCertificateRequest> {
    let declared = ground.declared.managed_certificate_request.as_ref();
    let changed = declared != ground.last.request.as_ref();
    declared.filter(|_| changed || ground.resend).cloned()
}

/// The fields that differ from `desired`, in the order of their words.
fn changes(last: &Body, live: &Body, desired: &Body) -> Vec<FieldChange> {
    let rules = Rules::new().unordered("/domains").unordered("/parameters");
    let (last, live) = (last.compared(), live.compared());
    let diff = diff3(Some(&last), Some(&live), &desired.compared(), &rules);
    let changes = diff.changes.into_iter();
    let changes = changes.filter(|change| change.kind != ChangeKind::Same);
    changes
        .map(|change| FieldChange {
            field: Field::named(change.path.trim_start_matches('/'))
                .expect("every path of a compared body is a field's word"),
            kind: change.kind,
            last: change.last,
            live: change.live,
            desired: change.desired,
        })
        .collect()
}

/// Why Synced is False while drift is left alone.
pub(crate) fn drift_reason(drift: &[DriftedField], policy: DriftPolicy) -> Reason {
    let message = format!(
        "changed in AWS and left so, because driftPolicy is {}: {}; undo it there, put it into the \
         spec, or set driftPolicy to enforce",
        policy.as_str(),
        told(drift)
    );
    Reason::new(reasons::DRIFT_DETECTED, message)
}

/// Both sides of a field, if they differ.
fn differing(field: Field, want: &Body, live: &Body) -> Option<DriftedField> {
    let (want, live) = (field.of(want), field.of(live));
    if want == live {
        return None;
    }
    let (want, live) = side_by_side(Some(&want), Some(&live));
    Some(DriftedField {
        field: field.word().to_owned(),
        want,
        live,
    })
}

/// Drifted fields with both sides: `enabled (want true, live false)`.
pub(crate) fn told(fields: &[DriftedField]) -> String {
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
    let fields = fields.iter().map(|one| {
        format!(
            "{} (want {}, live {})",
            one.field,
            side(&one.want),
            side(&one.live)
        )
    });
    fields.collect::<Vec<_>>().join(", ")
}
