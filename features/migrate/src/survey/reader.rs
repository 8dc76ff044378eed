//! Calls to one cluster that change nothing: gets, lists, access reviews and dry runs.

use std::fmt;
use std::sync::OnceLock;

use engine::ApiError;
use http::Request;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::request;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::classify::{UNAUTHORIZED, is_login_refused};
use crate::preflight::access::Access;

/// Concurrent calls to one cluster. A survey makes about 100 calls and must leave room for runs under way.
const IN_FLIGHT: usize = 8;
/// Objects of a page. Larger answers are costly for the API server.
const PAGE: u32 = 500;

/// The objects of one kind, in a namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collection {
    resource: String,
    namespace: Option<String>,
    path: String,
}

impl Collection {
    /// Of a kind of Kubernetes.
    pub(super) fn of<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> Self {
        Self {
            resource: K::plural(&()).into_owned(),
            namespace: namespace.map(str::to_owned),
            path: K::url_path(&(), namespace),
        }
    }

    /// Of any kind outside the core group. `version` is group and version.
    pub(super) fn named(version: &str, resource: &str, namespace: Option<&str>) -> Self {
        let scope = namespace.map(|namespace| format!("namespaces/{namespace}/"));
        let scope = scope.unwrap_or_default();
        Self {
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            path: format!("/apis/{version}/{scope}{resource}"),
        }
    }

    fn request(&self) -> request::Request {
        request::Request::new(&*self.path)
    }

    fn object(&self, name: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{name}", self.resource),
            None => format!("{} {name}", self.resource),
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in namespace {namespace}", self.resource),
            None => f.write_str(&self.resource),
        }
    }
}

/// One cluster. Makes at most [`IN_FLIGHT`] calls at once.
///
/// After a call that was not answered, or a login that was refused, later calls fail at once with the same
/// error: a cluster that is away must not delay the survey once for each call.
pub(super) struct Reader {
    client: Client,
    permits: Semaphore,
    outage: OnceLock<FailedOnce>,
}

/// The first error of a cluster that is away.
struct FailedOnce {
    is_login: bool,
    message: String,
}

/// A part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<Value>>,
}

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            permits: Semaphore::new(IN_FLIGHT),
            outage: OnceLock::new(),
        }
    }

    /// The object of this name; none if there is none.
    pub(super) async fn find<K: DeserializeOwned>(
        &self,
        of: &Collection,
        name: &str,
    ) -> Result<Option<K>, ApiError> {
        let request = of.request().get(name, &GetParams::default());
        existing(self.call(format!("get {}", of.object(name)), request).await)
    }

    /// Whether there is an object of this name. The server sends its metadata alone, no values of a Secret.
    pub(super) async fn exists(&self, of: &Collection, name: &str) -> Result<bool, ApiError> {
        let request = of.request().get_metadata(name, &GetParams::default());
        let what = format!("get metadata of {}", of.object(name));
        let found = existing(self.call::<Value>(what, request).await)?;
        Ok(found.is_some())
    }

    /// All objects. One that does not fit its type is logged and left out.
    pub(super) async fn list<K: DeserializeOwned>(
        &self,
        of: &Collection,
    ) -> Result<Vec<K>, ApiError> {
        let mut all = Vec::new();
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let request = of.request().list(&parameters);
            let page: Page = self.call(format!("list {of}"), request).await?;
            let objects = page.items.into_iter().flatten();
            all.extend(objects.filter_map(|object| parsed(of, object)));
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok(all);
            }
            parameters.continue_token = next;
        }
    }

    /// All objects of a kind that the server may not have; none if it does not have it.
    pub(super) async fn list_optional<K: DeserializeOwned>(
        &self,
        of: &Collection,
    ) -> Result<Option<Vec<K>>, ApiError> {
        existing(self.list(of).await)
    }

    /// Whether the login may do this.
    pub(super) async fn may(&self, access: &Access) -> Result<bool, ApiError> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    group: Some(access.group.to_owned()),
                    resource: Some(access.resource.to_owned()),
                    verb: Some(access.verb.to_owned()),
                    namespace: access.namespace.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let of = Collection::of::<SelfSubjectAccessReview>(None);
        let body = serde_json::to_vec(&review).expect("a Kubernetes object is JSON");
        let request = of.request().create(&PostParams::default(), body);
        let what = format!("review whether the login may {access}");
        let review: SelfSubjectAccessReview = self.call(what, request).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    /// What a create would give.
    pub(super) async fn try_create(
        &self,
        of: &Collection,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let request = of
            .request()
            .create(&parameters, body.to_string().into_bytes());
        self.call(format!("create {of} (dry run)"), request).await
    }

    /// What a merge patch would give.
    pub(super) async fn try_patch(
        &self,
        of: &Collection,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let parameters = PatchParams::default().dry_run();
        let request = of.request().patch(name, &parameters, &Patch::Merge(patch));
        let what = format!("patch {} (dry run)", of.object(name));
        self.call(what, request).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        what: String,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<T, ApiError> {
        let permit = self.permits.acquire().await;
        let _permit = permit.expect("nobody closes the permits");
        if let Some(failed) = self.outage.get() {
            return Err(failed.again(what));
        }
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                let message = error.to_string();
                return Err(ApiError::Refused { what, message });
            }
        };
        self.client.request(request).await.map_err(|error| {
            let error = ApiError::classify(what, error);
            if let Some(failed) = FailedOnce::of(&error) {
                self.outage.get_or_init(|| failed);
            }
            error
        })
    }
}

impl FailedOnce {
    /// None for an error of one call alone.
    fn of(error: &ApiError) -> Option<Self> {
        match error {
            ApiError::Unreachable { message, .. } => Some(Self {
                is_login: false,
                message: message.clone(),
            }),
            ApiError::Answer { message, .. } if is_login_refused(error) => Some(Self {
                is_login: true,
                message: message.clone(),
            }),
            ApiError::Answer { .. }
            | ApiError::Unreadable { .. }
            | ApiError::Stale { .. }
            | ApiError::Refused { .. }
            | ApiError::Deposed { .. } => None,
        }
    }

    fn again(&self, what: String) -> ApiError {
        let message = self.message.clone();
        if self.is_login {
            let reason = "Unauthorized".to_owned();
            return ApiError::Answer {
                what,
                code: UNAUTHORIZED,
                reason,
                message,
            };
        }
        ApiError::Unreachable { what, message }
    }
}

/// None instead of the error that something does not exist.
fn existing<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn parsed<K: DeserializeOwned>(of: &Collection, object: Value) -> Option<K> {
    let name = object["metadata"]["name"].as_str().map(str::to_owned);
    match serde_json::from_value(object) {
        Ok(object) => Some(object),
        Err(error) => {
            let name = name.unwrap_or_default();
            tracing::warn!(objects = %of, name, %error, "an object does not fit its type and is not checked");
            None
        }
    }
}
