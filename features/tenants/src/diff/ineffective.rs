//! Updates that CloudFront accepted and that still did not change what they should.

use std::time::Duration;

use api::tenants::{DriftedField, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{Backoff, Reason};

use super::{Plan, told};
use crate::body::{Body, Field};

/// When the same body is sent again: after 5 minutes, doubling to an hour.
const AGAIN: Backoff = Backoff {
    first: Duration::from_secs(5 * 60),
    cap: Duration::from_secs(60 * 60),
    jitter: 0.0,
};

/// A body that was accepted and is not what CloudFront shows. Kept in memory; after a restart a
/// condition that tells of it is what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ineffective {
    sent: Body,
    fields: Vec<DriftedField>,
    tries: u32,
    not_before: Timestamp,
}

impl Ineffective {
    /// What is known once `sent` was accepted and `shown` is what came of it; none if it took hold.
    ///
    /// `shown` is the answer, or a read of the version that the answer named: a later version may
    /// have been made by others, which is drift. `asked` says that CloudFront has a certificate
    /// request, whose certificate it may attach on its own.
    pub(crate) fn next(
        before: Option<&Self>,
        sent: &Body,
        shown: &Body,
        asked: bool,
        now: Timestamp,
    ) -> Option<Self> {
        let fields = differing(sent, shown, asked);
        if fields.is_empty() {
            return None;
        }
        let same = before.filter(|before| before.sent == *sent);
        let tries = same.map_or(0, |before| before.tries).saturating_add(1);
        let wait = AGAIN.delay(tries, 0.5);
        Some(Self {
            sent: sent.clone(),
            fields,
            tries,
            not_before: now.saturating_add(wait).unwrap_or(Timestamp::MAX),
        })
    }

    /// What is left of it after a restart: `told` is what Synced says, `given` what was accepted.
    ///
    /// It waits as if it was sent just now. What the message does not name is others' doing.
    pub(crate) fn recalled(
        told: &Condition,
        given: &Body,
        live: &Body,
        now: Timestamp,
    ) -> Option<Self> {
        if told.reason != reasons::UPDATE_NOT_EFFECTIVE {
            return None;
        }
        let is_named = |field: &str| told.message.contains(&format!("{field} (want "));
        // An Update names group and certificate, whoever chose them.
        let mut sent = given.clone();
        let open = [
            (
                Field::ConnectionGroupId,
                given.connection_group_id.is_none(),
            ),
            (Field::Certificate, given.certificate_arn.is_none()),
        ];
        for (field, _) in open.into_iter().filter(|(_, is_open)| *is_open) {
            if !is_named(field.word()) {
                field.copy(live, &mut sent);
            }
        }
        let mut known = Self::next(None, &sent, live, false, now)?;
        known.fields.retain(|one| is_named(&one.field));
        (!known.fields.is_empty()).then_some(known)
    }

    /// Whether `body` is the one that had no effect, and its time has not come.
    pub(crate) fn holds_back(&self, body: &Body, now: Timestamp) -> bool {
        self.sent == *body && now < self.not_before
    }

    /// Takes back what `last` says of fields that never changed: giving them is still an edit.
    pub(crate) fn undo(&self, last: &mut Body, live: &Body) {
        let fields = self.fields.iter();
        for field in fields.filter_map(|one| Field::named(&one.field)) {
            field.copy(live, last);
        }
    }

    /// Whether `plan` still finds other values in fields that should have changed. If not, the
    /// spec was edited or the Update took hold late, and this is to be forgotten.
    pub(crate) fn persists(&self, plan: &Plan) -> bool {
        let mut changes = plan.changes.iter();
        changes.any(|change| {
            let word = change.field.word();
            self.fields.iter().any(|field| field.field == word)
        })
    }

    /// When the same body may be sent again.
    pub(crate) fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// Why Synced is False.
    pub(crate) fn reason(&self) -> Reason {
        let message = format!(
            "CloudFront accepted the Update and yet shows otherwise: {}; the same is sent again \
             after {:.0}, an edit of the spec at once",
            told(&self.fields),
            self.not_before
        );
        Reason::new(reasons::UPDATE_NOT_EFFECTIVE, message)
    }
}

fn differing(sent: &Body, shown: &Body, asked: bool) -> Vec<DriftedField> {
    let attached = asked && sent.certificate_arn.is_none();
    let expected = |field: &Field| *field == Field::Certificate && attached;
    let fields = Field::ALL.into_iter().filter(|field| !expected(field));
    let fields = fields.filter_map(|field| super::differing(field, sent, shown));
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::tests::{any_body, body};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use proptest::prelude::*;
    use serde_json::json;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    #[test]
    fn the_same_body_waits_ever_longer() {
        let (sent, shown) = (body(json!({"enabled": false})), body(json!({})));
        let mut known = None;
        let mut waits = Vec::new();
        for _ in 0..7 {
            known = Ineffective::next(known.as_ref(), &sent, &shown, false, at(0));
            waits.push(known.as_ref().unwrap().not_before().as_second() / 60);
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn another_body_is_not_held_back_and_starts_anew() {
        let (sent, shown) = (body(json!({"enabled": false})), body(json!({})));
        let other = body(json!({"enabled": false, "distributionId": "E2"}));
        let known = Ineffective::next(None, &sent, &shown, false, at(0)).unwrap();
        assert!(known.holds_back(&sent, at(4)));
        assert!(!known.holds_back(&sent, at(5)));
        assert!(!known.holds_back(&other, at(1)));
        let next = Ineffective::next(Some(&known), &other, &shown, false, at(1)).unwrap();
        assert_eq!(next.not_before(), at(6));
    }

    #[test]
    fn the_reason_names_field_and_values() {
        let (sent, shown) = (body(json!({"enabled": false})), body(json!({})));
        let known = Ineffective::next(None, &sent, &shown, false, at(0)).unwrap();
        let reason = known.reason();
        assert_eq!(reason.code, "UpdateNotEffective");
        assert!(
            reason.message.contains("enabled (want false, live true)"),
            "{reason}"
        );
    }

    #[test]
    fn after_a_restart_what_the_condition_names_is_recalled() {
        let sent = body(json!({"enabled": false, "distributionId": "E2"}));
        let shown = body(json!({"distributionId": "E2"}));
        let told = |reason: &Reason| Condition {
            last_transition_time: Time(at(0)),
            message: reason.message.clone(),
            observed_generation: Some(1),
            reason: reason.code.to_string(),
            status: "False".to_owned(),
            type_: "Synced".to_owned(),
        };
        let known = Ineffective::next(None, &sent, &shown, false, at(0)).unwrap();
        let condition = told(&known.reason());
        let recalled = Ineffective::recalled(&condition, &sent, &shown, at(10)).unwrap();
        assert!(recalled.holds_back(&sent, at(14)));
        assert!(!recalled.holds_back(&sent, at(15)));

        // What others changed meanwhile is drift.
        let changed = body(json!({"distributionId": "E3"}));
        let recalled = Ineffective::recalled(&condition, &sent, &changed, at(10)).unwrap();
        let fields: Vec<_> = recalled.fields.iter().map(|one| &*one.field).collect();
        assert_eq!(fields, ["enabled"]);

        let other = told(&Reason::new(reasons::DRIFT_DETECTED, &*condition.message));
        assert_eq!(Ineffective::recalled(&other, &sent, &shown, at(10)), None);
        assert_eq!(
            Ineffective::recalled(&condition, &sent, &sent, at(10)),
            None
        );
    }

    #[test]
    fn a_certificate_that_attached_itself_is_no_lack_of_effect() {
        let arn = json!({"customizations": {"certificate": {"arn": "M"}}});
        let (none, some) = (body(json!({})), body(arn));
        let next = |sent, shown, asked| Ineffective::next(None, sent, shown, asked, at(0));
        assert_eq!(next(&none, &some, true), None);
        assert!(next(&none, &some, false).is_some());
        assert!(next(&some, &none, true).is_some());
    }

    proptest! {
        /// What never changed is no drift: giving it is an edit still to be made, under any policy.
        #[test]
        fn what_never_changed_counts_as_not_given(sent in any_body(), shown in any_body()) {
            let mut last = sent.clone();
            if let Some(known) = Ineffective::next(None, &sent, &shown, false, at(0)) {
                known.undo(&mut last, &shown);
            }
            prop_assert_eq!(last, shown);
        }

        #[test]
        fn what_took_hold_is_forgotten(sent in any_body(), before in any_body(), asked: bool) {
            let known = Ineffective::next(None, &before, &sent, false, at(0));
            prop_assert_eq!(Ineffective::next(known.as_ref(), &sent, &sent, asked, at(1)), None);
        }
    }
}
