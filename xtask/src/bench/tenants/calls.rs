//! The calls of AWS, from the emulator's log.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// Pages of one listing of a zone are closer together than this; two listings are not.
const APART: SignedDuration = SignedDuration::from_mins(10);

/// One request, with the time of the emulator's clock.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Call {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    service: Option<String>,
    operation: Option<String>,
    resource: Option<String>,
    status: Option<u16>,
    code: Option<String>,
}

impl Call {
    fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or_default()
    }

    /// Its resource: a name or an id.
    pub(super) fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or_default()
    }

    fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status < 300)
    }

    fn is_write(&self) -> bool {
        let reads = ["Get", "List", "Describe", "Verify", "Assume", "Scan"];
        !reads.iter().any(|read| self.operation().starts_with(read))
    }
}

/// The calls of an interval, in the order of their arrival.
#[derive(Debug, Clone)]
pub(super) struct Calls(Vec<Call>);

impl Calls {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        Self(calls)
    }

    pub(super) fn count(&self) -> f64 {
        count(self.0.iter())
    }

    /// The number of calls of this operation, including refused ones.
    pub(super) fn of(&self, operation: &str) -> f64 {
        count(self.0.iter().filter(|call| call.operation() == operation))
    }

    /// The successful calls of this operation.
    pub(super) fn done(&self, operation: &str) -> impl Iterator<Item = &Call> {
        let is_meant = move |call: &&Call| call.operation() == operation && call.is_ok();
        self.0.iter().filter(is_meant)
    }

    /// The number of calls of CloudFront.
    pub(super) fn cloudfront(&self) -> f64 {
        count(self.of_cloudfront())
    }

    /// The number of throttled calls of CloudFront.
    pub(super) fn throttled(&self) -> f64 {
        let is_throttled = |call: &&Call| call.code.as_deref() == Some("Throttling");
        count(self.of_cloudfront().filter(is_throttled))
    }

    fn of_cloudfront(&self) -> impl Iterator<Item = &Call> {
        let is_meant = |call: &&Call| call.service.as_deref() == Some("cloudfront");
        self.0.iter().filter(is_meant)
    }

    /// The number of writes, including refused ones.
    pub(super) fn writes(&self) -> f64 {
        count(self.0.iter().filter(|call| call.is_write()))
    }

    /// When each listing of the zone began.
    pub(super) fn listings(&self) -> Vec<Timestamp> {
        let pages = self.0.iter().filter(|call| is_listing(call));
        let (mut begun, mut last) = (Vec::new(), None);
        for page in pages {
            if last.is_none_or(|last| page.time.duration_since(last) > APART) {
                begun.push(page.time);
            }
            last = Some(page.time);
        }
        begun
    }

    /// The calls between two times.
    pub(super) fn between(&self, from: Timestamp, to: Timestamp) -> Self {
        let within = |call: &&Call| (from..to).contains(&call.time);
        Self(self.0.iter().filter(within).cloned().collect())
    }

    /// The number of calls of each operation, the most frequent first, as text.
    pub(super) fn summary(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for call in &self.0 {
            *counts.entry(call.operation()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let summary = counts
            .iter()
            .map(|(operation, count)| format!("{count} {operation}"));
        summary.collect::<Vec<_>>().join(", ")
    }
}

fn is_listing(call: &Call) -> bool {
    call.operation() == "ListResourceRecordSets"
}

/// A count as a measurement. One that is far too large becomes a number that meets no bar.
pub(super) fn count(all: impl Iterator) -> f64 {
    f64::from(u32::try_from(all.count()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &str, second: i64, code: Option<&str>) -> Call {
        let service = if operation.contains("Tenant") {
            "cloudfront"
        } else {
            "route53"
        };
        Call {
            seq: 0,
            time: Timestamp::from_second(second).unwrap(),
            service: Some(service.to_owned()),
            operation: Some(operation.to_owned()),
            resource: None,
            status: Some(if code.is_some() { 400 } else { 200 }),
            code: code.map(str::to_owned),
        }
    }

    fn is(measured: f64, wanted: u32) -> bool {
        (measured - f64::from(wanted)).abs() < f64::EPSILON
    }

    #[test]
    fn a_throttled_create_is_a_call_and_a_write_but_no_success() {
        let calls = Calls::new(vec![
            call("ListDistributionTenants", 0, None),
            call("CreateDistributionTenant", 1, Some("Throttling")),
            call("CreateDistributionTenant", 2, None),
            call("ChangeResourceRecordSets", 3, None),
        ]);
        assert!(is(calls.count(), 4) && is(calls.cloudfront(), 3));
        assert!(is(calls.throttled(), 1) && is(calls.writes(), 3));
        assert!(is(calls.of("CreateDistributionTenant"), 2));
        assert_eq!(calls.done("CreateDistributionTenant").count(), 1);
        assert!(
            calls
                .summary()
                .starts_with("2 CreateDistributionTenant, 1 ")
        );
    }

    #[test]
    fn a_listing_begins_with_the_first_of_consecutive_pages() {
        let page = |second| call("ListResourceRecordSets", second, None);
        let calls = Calls::new(vec![page(0), page(1), page(300), page(3600), page(3601)]);
        let begun = calls.listings();
        assert_eq!(begun.len(), 2);
        assert!(is(calls.between(begun[0], begun[1]).count(), 3));
    }
}
