//! Invalidations of a tenant's paths.

use jiff::Timestamp;

use super::error::{invalid, not_found};
use super::judge::Touched;
use super::store::Invalidation;
use super::{At, CloudFront, NAMESPACE, answered};
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::wire::{Request, Response};
use crate::xml::Element;
use crate::xml::read::{self, Node};

/// The most paths in one batch, and in progress at once.
const MOST_PATHS: usize = 3000;
/// The most paths with a wildcard in progress at once.
const MOST_WILDCARDS: usize = 15;

fn batch(root: Node<'_, '_>) -> Result<(String, Vec<String>), ApiError> {
    root.only(&["Paths", "CallerReference"])?;
    let paths = root
        .child("Paths")
        .ok_or_else(|| invalid("Paths is required."))?;
    let all = paths.list("Items", &["Path"])?.unwrap_or_default();
    let all: Vec<_> = all.into_iter().map(Node::text).collect();
    if paths.number("Quantity")? != u64::try_from(all.len()).ok() {
        let told = "The value of Quantity and the size of Items don't match.";
        return Err(ApiError::new(400, "InconsistentQuantities", told));
    }
    Ok((root.needed("CallerReference")?, all))
}

impl CloudFront {
    pub(super) fn create_invalidation(
        &mut self,
        at: &At<'_>,
        named: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let now = at.moment.now;
        if request.body.is_empty() {
            let told = "This operation requires a body. Ensure that the body is present.";
            return Err(ApiError::new(400, "MissingBody", told));
        }
        let (reference, paths) =
            read::document(&request.body, "InvalidationBatch", NAMESPACE, batch)?;
        if paths.len() > MOST_PATHS {
            let told = "Invalidation batch specified is too large.";
            return Err(ApiError::new(413, "BatchTooLarge", told));
        }
        if paths.is_empty() || paths.iter().any(|path| !path.starts_with('/')) {
            let told = "Your request contains one or more invalid invalidation paths.";
            return Err(invalid(told));
        }
        let tenant = self
            .store
            .tenant(at.account, named, View::Live)
            .ok_or_else(|| not_found("distribution tenant", named))?
            .clone();
        let held = self.store.account(at.account);
        let all = held.invalidations.entry(tenant.id.clone()).or_default();
        if let Some(there) = all.iter().find(|one| one.reference == reference) {
            if there.paths != paths {
                let told = "The CallerReference was used before with other paths.";
                return Err(invalid(told));
            }
            return Ok(created(&tenant.id, there, now));
        }
        let running = all.iter().filter(|one| one.completed_at > now);
        let running: Vec<_> = running.flat_map(|one| &one.paths).collect();
        let wild = |path: &&String| path.ends_with('*');
        let wildcards = running.iter().copied().chain(&paths).filter(wild).count();
        if running.len() + paths.len() > MOST_PATHS || wildcards > MOST_WILDCARDS {
            let told = "Processing your request will cause you to exceed the maximum number of in-progress invalidations.";
            return Err(ApiError::new(400, "TooManyInvalidationsInProgress", told));
        }
        let touched = Touched {
            account: at.account,
            id: &tenant.id,
            name: &tenant.name,
            tags: &tenant.tags,
        };
        self.judge.foreign("foreignChanged", &touched, &at.moment);
        let made = Invalidation {
            id: format!("I{:013X}", self.store.next()),
            reference,
            paths,
            created: now,
            completed_at: at.deployed_at(),
        };
        let answer = created(&tenant.id, &made, now);
        let held = self.store.account(at.account);
        held.invalidations.entry(tenant.id).or_default().push(made);
        Ok(answer)
    }

    pub(super) fn get_invalidation(
        &self,
        at: &At<'_>,
        named: &str,
        id: &str,
    ) -> Result<Response, ApiError> {
        let tenant = self
            .store
            .tenant(at.account, named, at.view)
            .ok_or_else(|| not_found("distribution tenant", named))?;
        let held = self.store.accounts.get(at.account);
        let mut all = held
            .and_then(|held| held.invalidations.get(&tenant.id))
            .into_iter()
            .flatten();
        let found = all.find(|one| one.id == id).ok_or_else(|| {
            let told = "The specified invalidation does not exist.";
            ApiError::new(404, "NoSuchInvalidation", told)
        })?;
        Ok(answered(200, told(found, at.seen()), None))
    }
}

fn created(tenant: &str, invalidation: &Invalidation, now: Timestamp) -> Response {
    let id = &invalidation.id;
    let place = format!("/2020-05-31/distribution-tenant/{tenant}/invalidation/{id}");
    answered(201, told(invalidation, now), None).with("location", place)
}

fn told(invalidation: &Invalidation, at: Timestamp) -> Element {
    let done = invalidation.completed_at <= at;
    let paths = invalidation
        .paths
        .iter()
        .fold(Element::new("Items"), |all, one| all.leaf("Path", one));
    let paths = Element::new("Paths")
        .leaf("Quantity", &invalidation.paths.len().to_string())
        .child(paths);
    let batch = Element::new("InvalidationBatch")
        .child(paths)
        .leaf("CallerReference", &invalidation.reference);
    Element::new("Invalidation")
        .leaf("Id", &invalidation.id)
        .leaf("Status", if done { "Completed" } else { "InProgress" })
        .leaf("CreateTime", &invalidation.created.to_string())
        .child(batch)
}
