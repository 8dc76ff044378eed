//! What the feature asks AWS for and may know from a while ago: distributions, connection groups,
//! hosted zones, certificates. And how it asks where nobody waits for the answer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{Distribution, Group, GroupSummary};
use aws::route53::Zone;
use aws::{Account, Caller, Error, Fault, acm};
use kernel::{Backoff, SharedClock};

use crate::ctx::Ctx;
use crate::failure::{self, Again, Way};
use crate::told::{KEPT, Told};

/// A list has an end; one that does not is cut here.
const PAGES: usize = 1000;

/// How long what should pass by itself is waited for.
pub(crate) const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(5 * 60),
    jitter: 0.2,
};
/// Times that something is asked for before it is left until the next regular look.
const TRIES: u32 = 5;

/// Counts an error, whoever met it.
pub(crate) fn count(ctx: &Ctx, error: &Error, way: Way) {
    if let Some(error_type) = failure::counted(error, way) {
        ctx.metrics.failed(error_type);
    }
}

/// Whether a fault should be over by itself: AWS is slow, or away.
pub(crate) fn passes(fault: Fault, way: Way) -> bool {
    pause(fault, way, 1, 0.5).is_some()
}

/// How long to wait before something is asked for again; none if that would change nothing.
fn pause(fault: Fault, way: Way, failures: u32, random: f64) -> Option<Duration> {
    let again = failure::failure(fault, way).again;
    match (fault, again) {
        (Fault::Throttled | Fault::ZoneBusy, again) => again.wait(Duration::ZERO, random),
        (_, Again::Backoff) => Some(BACKOFF.delay(failures, random)),
        (_, Again::AtOnce | Again::Slow | Again::After(_) | Again::Between(..)) => None,
    }
}

/// Asks for something nobody waits for, such as the page of a list: what should pass is asked for
/// again after a while. Every error is counted.
///
/// # Errors
/// The last one: it does not pass, or not for a long time.
pub(crate) async fn insist<T, F>(ctx: &Ctx, way: Way, ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let met = |error: &Error| count(ctx, error, way);
    insisted(&ctx.deck.clock, way, met, ask).await
}

async fn insisted<T, F>(
    clock: &SharedClock,
    way: Way,
    met: impl Fn(&Error),
    ask: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut failures = 0;
    loop {
        let error = match ask().await {
            Ok(told) => return Ok(told),
            Err(error) => error,
        };
        met(&error);
        failures += 1;
        match pause(error.fault(), way, failures, fastrand::f64()) {
            Some(wait) if failures < TRIES => tokio::time::sleep(clock.real(wait)).await,
            Some(_) | None => return Err(error),
        }
    }
}

/// What AWS told of things that many objects name.
pub(crate) struct Outside {
    distributions: Told<String, Distribution>,
    groups: Told<String, Group>,
    /// All groups there are.
    all_groups: Told<(), Vec<GroupSummary>>,
    /// By role, empty for our own account, and id.
    zones: Told<(String, String), Zone>,
    all_zones: Told<String, Vec<Zone>>,
    certificates: Told<String, acm::Certificate>,
}

impl Outside {
    pub(crate) fn new(clock: &SharedClock) -> Self {
        Self {
            distributions: Told::new(clock.clone()),
            groups: Told::new(clock.clone()),
            all_groups: Told::new(clock.clone()),
            zones: Told::new(clock.clone()),
            all_zones: Told::new(clock.clone()),
            certificates: Told::new(clock.clone()),
        }
    }

    /// A distribution, as told within `longest`.
    pub(crate) async fn distribution(
        &self,
        account: &Account,
        asker: &Caller,
        id: &str,
        longest: Duration,
    ) -> Result<Arc<Distribution>, Error> {
        let ask = async || account.cloudfront(asker).distribution(id).await;
        self.distributions.get(id.to_owned(), longest, ask).await
    }

    /// What [`distribution`](Self::distribution) gives without a call; none if it needs one.
    pub(crate) fn cached_distribution(&self, id: &str) -> Option<Result<Arc<Distribution>, Error>> {
        self.distributions.cached(&id.to_owned())
    }

    /// Whether [`group`](Self::group) finds it without a call.
    pub(crate) fn has_group(&self, id: &str) -> bool {
        let cached = self.groups.cached(&id.to_owned());
        cached.is_some_and(|told| told.is_ok())
    }

    /// The account's default group, if no call is needed to know it.
    pub(crate) fn cached_default_group(&self) -> Option<GroupSummary> {
        let all = self.all_groups.cached(&())?.ok()?;
        all.iter().find(|group| group.is_default).cloned()
    }

    /// A connection group by its id.
    pub(crate) async fn group(
        &self,
        account: &Account,
        asker: &Caller,
        id: &str,
    ) -> Result<Arc<Group>, Error> {
        let ask = async || account.cloudfront(asker).group(id).await;
        self.groups.get(id.to_owned(), KEPT, ask).await
    }

    /// The account's default group; none while the account has none.
    pub(crate) async fn default_group(
        &self,
        account: &Account,
        asker: &Caller,
    ) -> Result<Option<GroupSummary>, Error> {
        let ask = async || {
            let cloudfront = account.cloudfront(asker);
            let (mut all, mut marker) = (Vec::new(), None::<String>);
            for _ in 0..PAGES {
                let page = cloudfront.groups(marker.as_deref()).await?;
                all.extend(page.items);
                marker = page.next;
                if marker.is_none() {
                    break;
                }
            }
            Ok(all)
        };
        let all = self.all_groups.get((), KEPT, ask).await?;
        let default = all.iter().find(|group| group.is_default).cloned();
        if default.is_none() {
            self.all_groups.forget(&()); // the next tenant may bring it into being
        }
        Ok(default)
    }

    /// A group was made, changed or deleted.
    pub(crate) fn forget_group(&self, id: &str) {
        self.groups.forget(&id.to_owned());
        self.all_groups.forget(&());
    }

    /// A hosted zone of `account`, which is reached as `role`.
    pub(crate) async fn zone(
        &self,
        account: &Account,
        role: &str,
        asker: &Caller,
        id: &str,
    ) -> Result<Arc<Zone>, Error> {
        let ask = async || account.route53(asker).zone(id).await;
        let key = (role.to_owned(), id.to_owned());
        self.zones.get(key, KEPT, ask).await
    }

    /// All hosted zones of `account`, which is reached as `role`.
    pub(crate) async fn zones(
        &self,
        account: &Account,
        role: &str,
        asker: &Caller,
    ) -> Result<Arc<Vec<Zone>>, Error> {
        let ask = async || {
            let route53 = account.route53(asker);
            let (mut all, mut marker) = (Vec::new(), None::<String>);
            for _ in 0..PAGES {
                let page = route53.zones(marker.as_deref()).await?;
                all.extend(page.items);
                marker = page.next;
                if marker.is_none() {
                    break;
                }
            }
            Ok(all)
        };
        self.all_zones.get(role.to_owned(), KEPT, ask).await
    }

    /// A certificate in us-east-1.
    pub(crate) async fn certificate(
        &self,
        account: &Account,
        asker: &Caller,
        arn: &str,
        longest: Duration,
    ) -> Result<Arc<acm::Certificate>, Error> {
        let ask = async || account.acm(asker).certificate(arn).await;
        self.certificates.get(arn.to_owned(), longest, ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use kernel::ScaledClock;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::broken(Fault::Passing, &[1, 2, 4, 8])]
    #[case::throttled(Fault::Throttled, &[60, 60])]
    #[case::busy(Fault::ZoneBusy, &[60])]
    #[case::denied(Fault::Denied, &[])]
    #[case::without_credentials(Fault::Credentials, &[])]
    #[case::without_a_zone(Fault::ZoneMissing, &[])]
    fn what_passes_is_asked_for_again(#[case] fault: Fault, #[case] waits: &[u64]) {
        for (at, expected) in (1..).zip(waits) {
            let wait = pause(fault, Way::Dns, at, 0.5).unwrap();
            assert_eq!(wait.as_secs(), *expected);
        }
        assert_eq!(passes(fault, Way::Dns), !waits.is_empty());
    }

    fn refusal(status: u16, code: &str) -> Error {
        Error::Refused(Box::new(aws::Refusal {
            operation: aws::Operation::ListResourceRecordSets,
            resource: "Z1".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            status,
            request_id: None,
        }))
    }

    #[rstest]
    #[case::broken_twice(&[500, 500], Ok(3))]
    #[case::broken_for_long(&[500; 9], Err(Fault::Passing))]
    #[case::denied_after_that(&[500, 403], Err(Fault::Denied))]
    #[tokio::test]
    async fn a_page_that_fails_is_asked_for_again(
        #[case] failures: &[u16],
        #[case] expected: Result<usize, Fault>,
    ) {
        let clock: SharedClock = Arc::new(ScaledClock::new(100_000));
        let (asked, met) = (Cell::new(0), RefCell::new(Vec::new()));
        let ask = async || {
            let at = asked.replace(asked.get() + 1);
            match failures.get(at) {
                None => Ok(asked.get()),
                Some(403) => Err(refusal(403, "AccessDenied")),
                Some(status) => Err(refusal(*status, "InternalError")),
            }
        };
        let count = |error: &Error| met.borrow_mut().push(error.fault());
        let answer = insisted(&clock, Way::Dns, count, ask).await;
        assert_eq!(answer.map_err(|error| error.fault()), expected);
        let errors = asked.get() - usize::from(expected.is_ok());
        assert_eq!(met.borrow().len(), errors, "each is counted");
    }
}
