//! What AWS was asked, by its own log.

use std::cell::Ref;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use testkit::{Result, eventually};

use super::Site;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Call {
    pub(crate) seq: u64,
    /// On AWS's clock.
    pub(crate) time: Timestamp,
    pub(crate) account: Option<String>,
    pub(crate) key: Option<String>,
    #[serde(default)]
    pub(crate) service: Option<String>,
    pub(crate) operation: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) body: String,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<String>,
}

impl Call {
    pub(crate) fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or_default()
    }

    /// What it was about: a name or an id.
    pub(crate) fn resource(&self) -> &str {
        self.resource.as_deref().unwrap_or_default()
    }

    /// Whether it was done and said to be.
    pub(crate) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status < 300)
    }

    /// Whether it changes anything.
    pub(crate) fn is_write(&self) -> bool {
        let reads = ["Get", "List", "Describe", "Verify", "Assume", "Scan"];
        !reads.iter().any(|read| self.operation().starts_with(read))
    }

    /// The texts of the elements of this name in its body.
    pub(crate) fn texts(&self, element: &str) -> Vec<&str> {
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let rest = self.body.split(open.as_str()).skip(1);
        let texts = rest.filter_map(|rest| rest.split_once(close.as_str()));
        texts.map(|(text, _)| text).collect()
    }

    /// The tags in its body.
    pub(crate) fn tags(&self) -> Vec<(&str, &str)> {
        let (keys, values) = (self.texts("Key"), self.texts("Value"));
        keys.into_iter().zip(values).collect()
    }

    /// The changes of a batch, such as `CREATE a.example.com CNAME`, in order of name.
    pub(crate) fn changes(&self) -> Vec<String> {
        let actions = self.texts("Action").into_iter();
        let (names, kinds) = (self.texts("Name"), self.texts("Type"));
        let all = actions.zip(names.into_iter().zip(kinds));
        let mut changes: Vec<_> = all
            .map(|(action, (name, kind))| format!("{action} {} {kind}", name.trim_end_matches('.')))
            .collect();
        changes.sort();
        changes
    }

    /// Those of them that lead somewhere: ownership records left out.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let mut changes = self.changes();
        changes.retain(|change| !change.ends_with(" TXT"));
        changes
    }

    /// How many seconds of AWS's time after `earlier` it came.
    pub(crate) fn after(&self, earlier: &Self) -> i64 {
        self.time.duration_since(earlier.time).as_secs()
    }
}

/// Checks that each of these calls came at least so many seconds of AWS's time after the one before.
pub(crate) fn are_apart(calls: &[Call], least: i64) {
    for two in calls.windows(2) {
        let pause = two[1].after(&two[0]);
        assert!(pause >= least, "after {pause} s: {calls:#?}");
    }
}

/// How long a wait for a request rests between two looks, beside the 25 ms that [`eventually`] does
/// at least.
const PAUSE: Duration = Duration::from_millis(25);

/// Asks `look`, which reads AWS's log, until it finds something.
async fn polled<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    eventually(what, async || {
        let found = look().await?;
        if found.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(found)
    })
    .await
}

impl Site {
    /// All requests of this story. Only what is new is fetched.
    fn seen(&self) -> Result<Ref<'_, Vec<Call>>> {
        let last = self.log.borrow().last().map_or(0, |call| call.seq);
        let new: Vec<Call> = serde_json::from_value(self.entries_after(last)?)?;
        self.log.borrow_mut().extend(new);
        Ok(self.log.borrow())
    }

    /// Those that `is_meant`.
    pub(crate) fn those(&self, is_meant: impl Fn(&Call) -> bool) -> Result<Vec<Call>> {
        let seen = self.seen()?;
        Ok(seen.iter().filter(|call| is_meant(call)).cloned().collect())
    }

    /// All requests of this story.
    pub(crate) fn log(&self) -> Result<Vec<Call>> {
        self.those(|_| true)
    }

    /// The number of the last request.
    pub(crate) fn mark(&self) -> Result<u64> {
        Ok(self.seen()?.last().map_or(0, |call| call.seq))
    }

    /// The requests after `mark`.
    pub(crate) fn since(&self, mark: u64) -> Result<Vec<Call>> {
        self.those(|call| call.seq > mark)
    }

    /// All calls of an operation, refused ones too.
    pub(crate) fn calls(&self, operation: &str) -> Result<Vec<Call>> {
        self.those(|call| call.operation() == operation)
    }

    /// How many there are.
    pub(crate) fn count(&self, operation: &str) -> Result<usize> {
        let seen = self.seen()?;
        let calls = seen.iter().filter(|call| call.operation() == operation);
        Ok(calls.count())
    }

    /// The operations of all writes that were done, in their order.
    pub(crate) fn done(&self) -> Result<Vec<String>> {
        self.done_since(0)
    }

    /// Of those after `mark`.
    pub(crate) fn done_since(&self, mark: u64) -> Result<Vec<String>> {
        let done = self.since(mark)?.into_iter();
        let done = done.filter(|call| call.is_write() && call.is_ok());
        Ok(done.map(|call| call.operation().to_owned()).collect())
    }

    /// The batches for Route 53 that were taken.
    pub(crate) fn batches(&self) -> Result<Vec<Call>> {
        let mut batches = self.calls("ChangeResourceRecordSets")?;
        batches.retain(Call::is_ok);
        Ok(batches)
    }

    /// Waits until an operation was called this often in all; the calls.
    pub(crate) async fn called(&self, operation: &str, times: usize) -> Result<Vec<Call>> {
        polled(&format!("{times} calls of {operation}"), async || {
            let is_so = self.count(operation)? >= times;
            is_so.then(|| self.calls(operation)).transpose()
        })
        .await
    }

    /// Waits until each refused call of an operation is counted as an error of this type, and none
    /// twice; how many there are. On a slow machine that may be more than one.
    pub(crate) async fn counts_each(&self, operation: &str, error_type: &str) -> Result<usize> {
        let what = format!("each refusal of {operation} counts once as {error_type}");
        polled(&what, async || {
            let calls = self.calls(operation)?;
            let refused = calls.iter().filter(|call| !call.is_ok()).count();
            let counted = self.errors(error_type).await?;
            let is_so = refused > 0 && counted == u64::try_from(refused)?;
            Ok(is_so.then_some(refused))
        })
        .await
    }

    /// Waits until so many seconds of AWS's time, and of the operator's, have passed.
    pub(crate) async fn waits(&self, seconds: i64) -> Result<()> {
        let began = self.time()?;
        eventually(&format!("{seconds} s pass in AWS"), async || {
            let passed = self.time()?.duration_since(began);
            Ok((passed.as_secs() >= seconds).then_some(()))
        })
        .await
    }

    /// Waits until all tenants of a distribution were compared with AWS this often: that happens
    /// while one of them is in CloudFront.
    ///
    /// By the beginning of the next look, what the last one found is under way.
    pub(crate) async fn sweeps(&self, times: usize) -> Result<()> {
        let before = self.count("ListDistributionTenants")?;
        let calls = self.called("ListDistributionTenants", before + times + 1);
        calls.await.map(drop)
    }

    /// The requests, one a line, and how often each came in a row.
    pub(super) fn told(&self) -> String {
        let mut lines: Vec<(Timestamp, String, usize)> = Vec::new();
        for call in self.log().unwrap_or_default() {
            let code = call.code.as_deref().unwrap_or_default();
            let status = call.status.map_or("cut".to_owned(), |one| one.to_string());
            let line = format!("{} {} {status} {code}", call.operation(), call.resource());
            match lines.last_mut() {
                Some((_, last, times)) if *last == line => *times += 1,
                _ => lines.push((call.time, line, 1)),
            }
        }
        let shown = lines
            .iter()
            .map(|(time, line, times)| format!("{time} {line} x{times}\n"));
        shown.collect()
    }
}
