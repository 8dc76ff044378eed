//! Updates that CloudFront accepted without changing the group.

use std::time::Duration;

use api::tenants::{DriftedField, reasons};
use aws::cloudfront::GroupBody as Body;
use kernel::{Backoff, Reason};

use super::diff::differing;
use crate::diff::told;

/// The pause before the same body is sent again: 5 minutes, doubling to an hour.
const RESEND_BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(5 * 60),
    cap: Duration::from_secs(60 * 60),
    jitter: 0.0,
};

/// A body that CloudFront accepted but does not show. It is only in memory: after a restart, the operator
/// sends the body once more and finds out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ineffective {
    sent: Body,
    fields: Vec<DriftedField>,
    tries: u32,
    /// By the engine's clock.
    not_before: Duration,
}

impl Ineffective {
    /// The state after CloudFront accepted `sent` and shows `shown`; none if the update had its effect.
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
            not_before: elapsed.saturating_add(RESEND_BACKOFF.delay(tries, 0.5)),
        })
    }

    /// How long `body` must not be sent yet; none unless it is the body that had no effect.
    pub(super) fn remaining_pause(&self, body: &Body, elapsed: Duration) -> Option<Duration> {
        let left = self.not_before.saturating_sub(elapsed);
        (self.sent == *body && !left.is_zero()).then_some(left)
    }

    /// The body that had no effect.
    pub(super) fn sent(&self) -> &Body {
        &self.sent
    }

    /// Why Synced is False.
    pub(super) fn reason(&self) -> Reason {
        let wait = RESEND_BACKOFF.delay(self.tries, 0.5).as_secs() / 60;
        let message = format!(
            "CloudFront accepted the update but still returns other values: {}; the operator sends \
             the same update again after {wait} min, and an edit of the spec at once",
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
    fn the_pause_before_the_same_body_doubles() {
        let mut ineffective = None;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            ineffective = Ineffective::next(
                ineffective.as_ref(),
                &body(false),
                &body(true),
                Duration::ZERO,
            );
            let left = ineffective
                .as_ref()
                .unwrap()
                .remaining_pause(&body(false), Duration::ZERO);
            pauses.push(left.unwrap().as_secs() / 60);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn another_body_may_be_sent_at_once() {
        let ineffective =
            Ineffective::next(None, &body(false), &body(true), Duration::ZERO).unwrap();
        assert_eq!(
            ineffective.remaining_pause(&body(true), Duration::ZERO),
            None
        );
        assert_eq!(
            ineffective.remaining_pause(&body(false), Duration::from_secs(300)),
            None
        );
    }

    #[test]
    fn an_update_with_an_effect_ends_it() {
        let ineffective = Ineffective::next(None, &body(false), &body(true), Duration::ZERO);
        let next = Ineffective::next(
            ineffective.as_ref(),
            &body(true),
            &body(true),
            Duration::ZERO,
        );
        assert_eq!(next, None);
    }

    #[test]
    fn the_reason_names_field_and_values() {
        let ineffective =
            Ineffective::next(None, &body(false), &body(true), Duration::ZERO).unwrap();
        let reason = ineffective.reason();
        assert_eq!(reason.code, reasons::UPDATE_NOT_EFFECTIVE);
        assert!(
            reason.message.contains("enabled (want false, live true)"),
            "{reason}"
        );
    }
}
