//! What appliers remember: what the server made of our writes, and its schemas.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, header};
use kernel::{Class, RealClock, SharedClock};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::lru::Lru;
use super::shape::Document;
use crate::{ApiError, Classified, Kind};

/// The number of objects whose last answer is remembered; about 15 MB.
const ANSWERS: usize = 100_000;
/// The number of group-versions whose schemas are remembered. The largest built-in one needs about 1 MB.
const DOCUMENTS: usize = 64;
/// Schemas that seem outdated are not read again within this time. They may still differ from what the server
/// does, and then each write would read them.
const OUTDATED_PAUSE: Duration = Duration::from_mins(5);

/// What the server made of our last apply of an object, as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerAnswer {
    /// What we sent.
    pub(super) desired: u64,
    /// The live values of all desired fields.
    pub(super) values: u64,
    /// The same, if the object has no managedFields that show how its fields are merged.
    pub(super) plain_values: u64,
    /// Our entry in managedFields.
    pub(super) entry: u64,
}

type Fetched = Arc<OnceCell<Option<Arc<Document>>>>;

/// Bounded, and shared by the clones of an applier. Losing it costs one request for each object.
#[derive(Clone)]
pub(crate) struct ApplyMemory {
    contents: Arc<Mutex<Contents>>,
    clock: SharedClock,
}

struct Contents {
    answers: Lru<u64, ServerAnswer>,
    documents: Lru<String, Fetched>,
    /// When the schemas of a group-version were last forgotten.
    forgotten: Lru<String, Duration>,
}

impl Default for ApplyMemory {
    fn default() -> Self {
        Self::with_clock(Arc::new(RealClock::new()))
    }
}

impl ApplyMemory {
    pub(super) fn with_clock(clock: SharedClock) -> Self {
        let contents = Contents {
            answers: Lru::new(ANSWERS),
            documents: Lru::new(DOCUMENTS),
            forgotten: Lru::new(DOCUMENTS),
        };
        Self {
            contents: Arc::new(Mutex::new(contents)),
            clock,
        }
    }

    pub(super) fn answer(&self, manager: &str, object: &Value) -> Option<ServerAnswer> {
        let key = answer_key(manager, object)?;
        self.contents.lock().answers.get(&key).copied()
    }

    pub(super) fn set_answer(&self, manager: &str, object: &Value, answer: ServerAnswer) {
        if let Some(key) = answer_key(manager, object) {
            self.contents.lock().answers.insert(key, answer);
        }
    }

    /// The schemas of the kind's group-version; none if the server has none, or cannot be read now.
    /// Concurrent callers share one request.
    pub(super) async fn document(&self, client: &Client, kind: &Kind) -> Option<Arc<Document>> {
        let path = document_path(kind);
        let fetched = {
            let documents = &mut self.contents.lock().documents;
            let present = documents.get(&path).cloned();
            present.unwrap_or_else(|| {
                let fetched = Fetched::default();
                documents.insert(path.clone(), fetched.clone());
                fetched
            })
        };
        let document = fetched.get_or_try_init(|| fetch(client, &path)).await;
        document.cloned().unwrap_or_default()
    }

    /// The same without a request: only what an earlier call has read.
    pub(super) fn read_document(&self, kind: &Kind) -> Option<Arc<Document>> {
        let documents = &mut self.contents.lock().documents;
        documents.get(&document_path(kind))?.get()?.clone()
    }

    /// Forgets the schemas of the kind's group-version, because they are missing or outdated. It does nothing if
    /// it forgot them a short time ago.
    pub(super) fn forget_document(&self, kind: &Kind) {
        let (path, now) = (document_path(kind), self.clock.elapsed());
        let contents = &mut *self.contents.lock();
        let last = contents.forgotten.get(&path);
        if last.is_none_or(|last| now.saturating_sub(*last) >= OUTDATED_PAUSE) {
            contents.documents.remove(&path);
            contents.forgotten.insert(path, now);
        }
    }
}

fn answer_key(manager: &str, object: &Value) -> Option<u64> {
    let uid = object["metadata"]["uid"].as_str()?;
    let mut hasher = DefaultHasher::new();
    (manager, uid).hash(&mut hasher);
    Some(hasher.finish())
}

fn document_path(kind: &Kind) -> String {
    let root = if kind.group.is_empty() { "api" } else { "apis" };
    format!("/openapi/v3/{root}/{}", kind.api_version())
}

/// None if the server has no such document, or one that cannot be parsed. Other errors are not remembered.
async fn fetch(client: &Client, path: &str) -> Result<Option<Arc<Document>>, ApiError> {
    let what = || format!("get {path}");
    let request = Request::get(path)
        .header(header::ACCEPT, "application/json")
        .body(Vec::new())
        .map_err(|error| ApiError::Unreadable {
            what: what(),
            message: error.to_string(),
        })?;
    let text = client.request_text(request).await;
    let text = text.map_err(|error| ApiError::classify(what(), error));
    match text.inspect_err(|error| tracing::debug!(%error, "no schemas")) {
        Ok(text) => Ok(Document::parse(&text)
            .inspect_err(|error| tracing::debug!(path, %error, "schemas cannot be read"))
            .ok()
            .map(Arc::new)),
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    use rstest::rstest;

    #[rstest]
    #[case::core(Kind::of::<Service>(), "/openapi/v3/api/v1")]
    #[case::group(Kind::of::<Deployment>(), "/openapi/v3/apis/apps/v1")]
    fn schemas_are_read_by_group_version(#[case] kind: Kind, #[case] expected: &str) {
        assert_eq!(document_path(&kind), expected);
    }
}
