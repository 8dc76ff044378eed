//! EC2 in one region: volumes, snapshots and tags. No SDK crate: each call is a plain request.
//!
//! ```text
//! Filter ──▶ request ──▶ Account::plain ──▶ XML ──▶ Volume, VolumeChange, Snapshot
//! VolumeWatch: which volumes to read, and when ──▶ Ec2::read_batch ──▶ VolumeWatch
//! ```
//! # Promises
//! - The operations of this module are all that exist. Nothing here attaches, detaches, changes or
//!   deletes a volume.
//! - Volumes are selected by filters: an unknown id is missing in the answer and fails no call. A
//!   volume that is missing is never reported as free.
//! - A read ends after five seconds, a write after the time-out of all calls.
//! - A list is complete, or the call fails.

mod operations;
mod permission;
pub(crate) mod request;
mod snapshot;
mod tags;
mod volume;
mod volume_change;
pub mod volume_watch;

use std::time::Duration;

pub(crate) use operations::{OPERATIONS, is_dry_run_success};
pub use permission::Permission;
pub use snapshot::{NewSnapshot, Snapshot, SnapshotState};
pub use tags::Tags;
pub use volume::{Attachment, AttachmentState, Volume, VolumeState};
pub use volume_change::{VolumeChange, VolumeChangeState};

use self::request::Filter;
use crate::call::Call;
use crate::wire::{Answer, Form, Request, XmlNode};
use crate::{Account, Caller, Error, Operation, Page};

/// How long a read may take.
pub const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// A list with more pages is not read: 200 instances with 128 volumes each have 52 pages.
const MOST_PAGES: usize = 100;
/// What precedes the part of a denial that differs each time.
const ENCODED: &str = "Encoded authorization failure message:";

/// EC2 in one region, used by one caller; see [`Account::ec2`].
#[derive(Debug, Clone)]
pub struct Ec2 {
    account: Account,
    caller: Caller,
    region: String,
}

impl Ec2 {
    pub(crate) fn new(account: Account, caller: Caller, region: String) -> Self {
        Self {
            account,
            caller,
            region,
        }
    }

    /// The region.
    pub fn region(&self) -> &str {
        &self.region
    }

    fn call<'a>(&'a self, operation: Operation, resource: &'a str) -> Call<'a> {
        call(operation, resource).within(&self.region)
    }

    async fn send(&self, call: &Call<'_>, form: &Form) -> Result<Answer, Error> {
        let request = Request::form(form);
        let answer = self.account.plain(call, Some(&self.caller), &request).await;
        answer.map_err(without_encoded_part)
    }

    /// The entries of all pages of a list. `set` is the element that has them.
    async fn list<T>(
        &self,
        operation: Operation,
        filters: &[Filter],
        set: &str,
        read: ReadEntry<T>,
    ) -> Result<Vec<T>, Error> {
        let call = self.call(operation, "");
        let mut all = Vec::new();
        let mut next = None;
        for _ in 0..MOST_PAGES {
            let form = request::list(operation, filters, next.as_deref());
            let answer = self.send(&call, &form).await?;
            let page = page(&answer, set, read)?;
            all.extend(page.items);
            next = page.next;
            if next.is_none() {
                return Ok(all);
            }
        }
        Err(call.lacks(&format!("end after {MOST_PAGES} pages")))
    }
}

fn call(operation: Operation, resource: &str) -> Call<'_> {
    let call = Call::new(operation, resource);
    if operation.writes() {
        return call;
    }
    call.ended_after(READ_TIMEOUT)
}

/// Reads one entry of a list.
type ReadEntry<T> = fn(&Answer, XmlNode<'_>) -> Result<T, Error>;

fn page<T>(answer: &Answer, set: &str, read: ReadEntry<T>) -> Result<Page<T>, Error> {
    let document = answer.xml()?;
    let root = document.root();
    let entries = root.child(set).ok_or_else(|| answer.lacks(set))?;
    let entries = entries.children("item").map(|entry| read(answer, entry));
    let next = root.text("nextToken").filter(|next| !next.is_empty());
    Ok(Page {
        items: entries.collect::<Result<_, _>>()?,
        next: next.map(str::to_owned),
    })
}

/// The text of an element that must be there.
fn required<'a>(answer: &Answer, node: XmlNode<'a>, name: &str) -> Result<&'a str, Error> {
    let text = node.text(name).filter(|text| !text.is_empty());
    text.ok_or_else(|| answer.lacks(name))
}

/// The text of an element, or an empty one.
fn optional(node: XmlNode<'_>, name: &str) -> String {
    node.text(name).unwrap_or_default().to_owned()
}

fn is_true(node: XmlNode<'_>, name: &str) -> bool {
    node.text(name) == Some("true")
}

/// The same error with the same text each time: EC2 ends a denial with an encoded part that differs
/// from call to call.
fn without_encoded_part(error: Error) -> Error {
    let Error::Refused(mut refusal) = error else {
        return error;
    };
    if let Some((plain, _)) = refusal.message.split_once(ENCODED) {
        let end = plain.trim_end().trim_end_matches('.').len();
        refusal.message.truncate(end);
    }
    Error::Refused(refusal)
}

#[cfg(test)]
mod tests;
