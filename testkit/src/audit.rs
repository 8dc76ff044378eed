//! The requests to the API server, from its audit log.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::eventually::{DEADLINE, eventually};

/// What the API server logs: every write, and reads by all but its own components. Reads of Events,
/// of Leases and of paths that are not objects are left out, to limit the size.
pub(crate) const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
    nonResourceURLs: ["*"]
  - level: None
    resources:
      - group: ""
        resources: [events]
      - group: events.k8s.io
      - group: coordination.k8s.io
  - level: None
    users:
      - system:apiserver
      - system:kube-controller-manager
      - system:kube-scheduler
      - system:kwok
  - level: None
    userGroups: ["system:serviceaccounts:kube-system"]
  - level: Metadata
"#;

/// A point in the log.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    offset: u64,
    time: Timestamp,
}

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When the API server received it.
    pub time: Timestamp,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The user that sent it.
    pub user: String,
    /// The program that sent it.
    pub user_agent: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, such as `configmaps`.
    pub resource: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists, and for creates that leave the name to the server.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// Path and query.
    pub request_uri: String,
}

impl Entry {
    /// Whether it could change something; refused attempts count.
    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }

    /// Whether it is about a Lease.
    pub fn is_lease(&self) -> bool {
        self.group == "coordination.k8s.io" && self.resource == "leases"
    }
}

/// The current point: a request that was answered before is earlier, even if its line is not written
/// yet.
pub(crate) fn mark(log: &Path) -> Mark {
    let offset = std::fs::metadata(log).map_or(0, |meta| meta.len());
    Mark {
        offset,
        time: Timestamp::now(),
    }
}

/// The requests received since `mark`, in the order in which they were answered.
pub(crate) fn entries(log: &Path, mark: Mark) -> Result<Vec<Entry>> {
    let mut file = File::open(log).with_context(|| format!("cannot read {}", log.display()))?;
    // Start one byte earlier to see whether the mark is in the middle of a line.
    file.seek(SeekFrom::Start(mark.offset.saturating_sub(1)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let lines = match (mark.offset, bytes.iter().position(|byte| *byte == b'\n')) {
        (0, _) => &bytes[..],
        (_, Some(end)) => &bytes[end + 1..],
        (_, None) => &[],
    };
    // The text after the last line end is still being written.
    let whole = lines
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1);
    let mut entries = Vec::new();
    for line in lines[..whole]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let event: Event = serde_json::from_slice(line).with_context(|| {
            format!(
                "{} has a line that is not an audit event: {}",
                log.display(),
                String::from_utf8_lossy(line)
            )
        })?;
        let received = event.request_received_timestamp;
        if event.stage == "ResponseComplete" && received >= mark.time {
            entries.push(event.entry());
        }
    }
    Ok(entries)
}

/// Sends a read and waits until the log shows it: then the lines of all requests answered before are
/// written too. Without an answer it does not wait, because the API server may be down.
///
/// # Errors
/// After a minute, if the API server has answered and the log does not show it.
pub(crate) async fn fence(log: &Path, client: &kube::Client) -> Result<()> {
    let from = mark(log);
    let token = format!("fence={:016x}", fastrand::u64(..));
    let uri = format!("/api/v1/namespaces/default?{token}");
    let request = http::Request::get(uri)
        .body(Vec::new())
        .expect("the path is well formed");
    let answer = tokio::time::timeout(DEADLINE, client.request::<Value>(request)).await;
    if !matches!(answer, Ok(Ok(_))) {
        return Ok(());
    }
    let what = format!(
        "a line about the answered read {token} in {}",
        log.display()
    );
    eventually(&what, async || {
        let all = entries(log, from).unwrap_or_default();
        let shown = all.iter().any(|one| one.request_uri.ends_with(&token));
        Ok(shown.then_some(()))
    })
    .await
}

/// Whether `entry` is a read of [`fence`].
pub(crate) fn is_fence(entry: &Entry) -> bool {
    entry.request_uri.contains("?fence=")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Response,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
struct Response {
    #[serde(default)]
    code: u16,
}

impl Event {
    fn entry(self) -> Entry {
        let ObjectRef {
            api_group,
            resource,
            subresource,
            namespace,
            name,
        } = self.object_ref;
        Entry {
            time: self.request_received_timestamp,
            verb: self.verb,
            user: self.user.username,
            user_agent: self.user_agent,
            group: api_group,
            resource,
            subresource,
            namespace,
            name,
            code: self.response_status.code,
            request_uri: self.request_uri,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn log_line(name: &str, time: Timestamp) -> String {
        format!(
            r#"{{"stage":"ResponseComplete","requestURI":"/x","verb":"patch","user":{{"username":"u"}},"objectRef":{{"resource":"configmaps","name":"{name}"}},"responseStatus":{{"code":200}},"requestReceivedTimestamp":"{time}"}}"#
        ) + "\n"
    }

    fn names(log: &Path, mark: Mark) -> Vec<String> {
        entries(log, mark)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    }

    #[test]
    fn an_incomplete_line_is_not_read_yet() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        let from = mark(log.path());
        let (first, second) = (
            log_line("a", Timestamp::now()),
            log_line("b", Timestamp::now()),
        );
        write!(log, "{first}{}", &second[..40]).unwrap();
        assert_eq!(names(log.path(), from), ["a"]);
        write!(log, "{}", &second[40..]).unwrap();
        assert_eq!(names(log.path(), from), ["a", "b"]);
    }

    #[test]
    fn a_mark_within_a_line_starts_at_the_next() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        let first = log_line("a", Timestamp::now());
        write!(log, "{}", &first[..40]).unwrap();
        let from = mark(log.path());
        write!(log, "{}{}", &first[40..], log_line("b", Timestamp::now())).unwrap();
        assert_eq!(names(log.path(), from), ["b"]);
    }

    #[test]
    fn a_request_received_before_the_mark_is_not_included() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        let before = Timestamp::now();
        let from = mark(log.path());
        write!(
            log,
            "{}{}",
            log_line("late", before),
            log_line("new", Timestamp::now())
        )
        .unwrap();
        assert_eq!(names(log.path(), from), ["new"]);
    }
}
