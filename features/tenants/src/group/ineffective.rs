//! Updates that CloudFront accepted and that still did not change what they should.

use std::time::Duration;

use api::tenants::{DriftedField, reasons};
use aws::cloudfront::GroupBody as Body;
use kernel::{Backoff, Reason};

use super::diff::differing;
use crate::diff::told;

/// When the same body is sent again: after 5 minutes, doubling to an hour.
const AGAIN: Backoff = Backoff {
    first: Duration::from_secs(5 * 60),
    cap: Duration::from_secs(60 * 60),
    jitter: 0.0,
};

/// A body that was accepted and is not what CloudFront shows. Kept in memory only: after a restart
/// it is sent once more, and found out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ineffective {
    sent: Body,
    fields: Vec<DriftedField>,
    tries: u32,
    /// By the engine's clock.
    not_before: Duration,
}

impl Ineffective {
    /// What is known once `sent` was accepted and `shown` is what came of it; none if it took hold.
    pub(super) fn next(
        before: Option<&Self>,
        sent: &Body,
        shown: &Body,
        elapsed: Duration,
    ) -> Option<Self> {
        let fields = differing(sent, shown);
        if fields.is_empty() {
            return None;
        }
        let same = before.filter(|before| before.sent == *sent);
        let tries = same.map_or(0, |before| before.tries).saturating_add(1);
        Some(Self {
            sent: sent.clone(),
            fields,
            tries,
            not_before: elapsed.saturating_add(AGAIN.delay(tries, 0.5)),
        })
    }

    /// How long `body`, if it is the one that had no effect, is not to be sent yet.
    pub(super) fn holds_back(&self, body: &Body, elapsed: Duration) -> Option<Duration> {
        let left = self.not_before.saturating_sub(elapsed);
        (self.sent == *body && !left.is_zero()).then_some(left)
    }

    /// What had no effect.
    pub(super) fn sent(&self) -> &Body {
        &self.sent
    }

    /// Why Synced is False.
    pub(super) fn reason(&self) -> Reason {
        let wait = AGAIN.delay(self.tries, 0.5).as_secs() / 60;
        let message = format!(
            "CloudFront accepted the Update and yet shows otherwise: {}; the same is sent again \
             {wait} min after the last time, an edit of the spec at once",
            told(&self.fields)
        );
        Reason::new(reasons::UPDATE_NOT_EFFECTIVE, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(enabled: bool) -> Body {
        Body {
            ipv6_enabled: true,
            enabled,
            anycast_ip_list_id: None,
        }
    }

    #[test]
    fn the_same_body_waits_ever_longer() {
        let mut known = None;
        let mut waits = Vec::new();
        for _ in 0..7 {
            known = Ineffective::next(known.as_ref(), &body(false), &body(true), Duration::ZERO);
            let left = known
                .as_ref()
                .unwrap()
                .holds_back(&body(false), Duration::ZERO);
            waits.push(left.unwrap().as_secs() / 60);
        }
        assert_eq!(waits, [5, 10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn another_body_is_not_held_back() {
        let known = Ineffective::next(None, &body(false), &body(true), Duration::ZERO).unwrap();
        assert_eq!(known.holds_back(&body(true), Duration::ZERO), None);
        assert_eq!(
            known.holds_back(&body(false), Duration::from_secs(300)),
            None
        );
    }

    #[test]
    fn what_took_hold_is_forgotten() {
        let known = Ineffective::next(None, &body(false), &body(true), Duration::ZERO);
        let next = Ineffective::next(known.as_ref(), &body(true), &body(true), Duration::ZERO);
        assert_eq!(next, None);
    }

    #[test]
    fn the_reason_names_field_and_values() {
        let known = Ineffective::next(None, &body(false), &body(true), Duration::ZERO).unwrap();
        let reason = known.reason();
        assert_eq!(reason.code, reasons::UPDATE_NOT_EFFECTIVE);
        assert!(
            reason.message.contains("enabled (want false, live true)"),
            "{reason}"
        );
    }
}
