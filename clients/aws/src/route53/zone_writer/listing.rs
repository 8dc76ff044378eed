//! All records of a zone. A page that fails is requested again.

use std::time::Duration;

use kernel::SharedClock;

use super::pace::{BACKOFF, PAUSE};
use super::{ZoneAccess, ZoneClient, ZoneUser};
use crate::route53::{Record, Start};
use crate::{Caller, Error, Fault, Priority};

/// The most pages of one list; with more, Route 53 repeats pages.
const PAGES: usize = 10_000;
/// The most requests for one page.
const TRIES: u32 = 5;

impl ZoneClient {
    /// All records of a zone. A page that fails in a way that should pass is requested again.
    ///
    /// The list may be older than the last accepted change.
    ///
    /// # Errors
    /// The last error of a page. Each was given to [`ZoneUser::failed`] before.
    pub async fn records(
        &self,
        user: &dyn ZoneUser,
        access: &ZoneAccess,
    ) -> Result<Vec<Record>, Error> {
        let account = user.account(access.login.role()?).await;
        let route53 = account.route53(&Caller::new(Priority::Sweep, ""));
        let (mut records, mut from) = (Vec::new(), None::<Start>);
        for _ in 0..PAGES {
            let page = || route53.records(&access.zone, from.as_ref());
            let failed = |error: &Error| user.failed(error);
            let page = repeated(&self.writer.clock, failed, page).await?;
            records.extend(page.items);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        Ok(records)
    }
}

async fn repeated<T, F>(
    clock: &SharedClock,
    failed: impl Fn(&Error),
    request: impl Fn() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut failures = 0;
    loop {
        let error = match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        failed(&error);
        failures += 1;
        match pause(error.fault(), failures, fastrand::f64()) {
            Some(pause) if failures < TRIES => tokio::time::sleep(clock.real(pause)).await,
            Some(_) | None => return Err(error),
        }
    }
}

/// The pause before a request is repeated; none if that would not help.
fn pause(fault: Fault, failures: u32, random: f64) -> Option<Duration> {
    match fault {
        Fault::Throttled | Fault::ZoneBusy => Some(PAUSE),
        Fault::Passing | Fault::Deposed => Some(BACKOFF.delay(failures, random)),
        Fault::DomainTaken
        | Fault::NameTaken
        | Fault::Denied
        | Fault::Credentials
        | Fault::OwnershipUnverified
        | Fault::InvalidSpec
        | Fault::InvalidRecords
        | Fault::DistributionMissing
        | Fault::EntityMissing
        | Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::OtherMissing
        | Fault::LimitExceeded
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::Refused => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    use kernel::ScaledClock;
    use rstest::rstest;

    use super::*;
    use crate::{Operation, Refusal};

    #[rstest]
    #[case::failed(Fault::Passing, &[1, 2, 4, 8])]
    #[case::throttled(Fault::Throttled, &[60, 60])]
    #[case::busy(Fault::ZoneBusy, &[60])]
    #[case::denied(Fault::Denied, &[])]
    #[case::without_credentials(Fault::Credentials, &[])]
    #[case::without_a_zone(Fault::ZoneMissing, &[])]
    fn only_what_should_pass_is_repeated(#[case] fault: Fault, #[case] pauses: &[u64]) {
        for (failures, expected) in (1..).zip(pauses) {
            let pause = pause(fault, failures, 0.5).unwrap();
            assert_eq!(pause.as_secs(), *expected);
        }
        assert_eq!(pause(fault, 1, 0.5).is_some(), !pauses.is_empty());
    }

    fn refusal(status: u16, code: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            operation: Operation::ListResourceRecordSets,
            resource: "Z1".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            status,
            request_id: None,
        }))
    }

    #[rstest]
    #[case::failed_twice(&[500, 500], Ok(3))]
    #[case::failed_for_long(&[500; 9], Err(Fault::Passing))]
    #[case::denied_after_that(&[500, 403], Err(Fault::Denied))]
    #[tokio::test]
    async fn a_page_that_fails_is_requested_again(
        #[case] failures: &[u16],
        #[case] expected: Result<usize, Fault>,
    ) {
        let clock: SharedClock = Arc::new(ScaledClock::new(100_000));
        let (requests, errors) = (Cell::new(0), RefCell::new(Vec::new()));
        let request = async || {
            let at = requests.replace(requests.get() + 1);
            match failures.get(at) {
                None => Ok(requests.get()),
                Some(403) => Err(refusal(403, "AccessDenied")),
                Some(status) => Err(refusal(*status, "InternalError")),
            }
        };
        let failed = |error: &Error| errors.borrow_mut().push(error.fault());
        let answer = repeated(&clock, failed, request).await;
        assert_eq!(answer.map_err(|error| error.fault()), expected);
        let failures = requests.get() - usize::from(expected.is_ok());
        assert_eq!(errors.borrow().len(), failures, "each is counted");
    }
}
