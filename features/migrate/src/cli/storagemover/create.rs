//! Creates a pair at the destination, and removes it again if that fails.

use std::time::Duration;

use engine::cli::Failure;
use engine::{ApiError, Classified as _};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kernel::Class;
use kube::api::ApiResource;
use serde_json::Value;

use super::Mover;
use super::pair::TranslatedPair;
use super::zone::text;
use crate::cli::clusters::{UserCluster, calls};
use crate::migration::decision::{ObjectKind, Target};
use crate::migration::observation::Version;

/// How often the claim is read until it is bound.
const PERIOD: Duration = Duration::from_millis(500);

/// Creates volume and claim, and waits until they are bound to each other. The inner error says why they are
/// not there; what was made is removed. Neither existed before.
pub(super) async fn create(
    mover: &Mover<'_>,
    cluster: &UserCluster,
    translated: &TranslatedPair,
) -> Result<Result<(), String>, Failure> {
    let mut created = Vec::new();
    let why = match made(mover, cluster, translated, &mut created).await {
        Ok(None) => return Ok(Ok(())),
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    let left = undo(cluster, created).await;
    Ok(Err(match left {
        Ok(()) => format!("{why}; what was made at the destination is removed again"),
        Err(error) => format!(
            "{why}; what was made at the destination could not be removed: {error}; remove {} and {} there",
            translated.pair.claim.title(),
            translated.pair.volume.title()
        ),
    }))
}

async fn made(
    mover: &Mover<'_>,
    cluster: &UserCluster,
    translated: &TranslatedPair,
    created: &mut Vec<(ApiResource, Target)>,
) -> Result<Option<String>, ApiError> {
    let pair = &translated.pair;
    // The volume first: a claim without its volume might be bound to another one.
    let both = [
        (
            ObjectKind::Volume,
            calls::resource::<PersistentVolume>(),
            pair.volume.value(),
        ),
        (
            ObjectKind::Claim,
            calls::resource::<PersistentVolumeClaim>(),
            pair.claim.value(),
        ),
    ];
    for (kind, resource, body) in both {
        let answer = calls::create(cluster, &resource, body).await?;
        created.push((resource, target(kind, &answer)));
    }
    let started = mover.clock.elapsed();
    loop {
        let namespace = pair.claim.namespace();
        let live =
            calls::get::<PersistentVolumeClaim>(cluster, namespace, pair.claim.name()).await?;
        let phase = live.as_ref().map(|live| text(live, "/status/phase"));
        if phase.as_deref() == Some("Bound") {
            return Ok(None);
        }
        let title = pair.claim.title();
        mover.progress(&format!("{title} is not bound yet"));
        if mover.clock.elapsed().saturating_sub(started) >= mover.limit() {
            return Ok(Some(format!("{title} was not bound in time")));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Deletes what was created, the claim first. Their policy keeps the disk.
async fn undo(cluster: &UserCluster, created: Vec<(ApiResource, Target)>) -> Result<(), ApiError> {
    for (resource, target) in created.into_iter().rev() {
        match calls::delete(cluster, &resource, &target).await {
            Err(error) if !matches!(error.class(), Class::NotFound | Class::Stale) => {
                return Err(error);
            }
            Ok(()) | Err(_) => {} // deleted, or no longer the one that was created
        }
    }
    Ok(())
}

/// A created object as the target of a deletion. Its version changes while Kubernetes binds it, so its UID alone
/// counts; an object of that name that somebody else has created has another one.
fn target(kind: ObjectKind, created: &Value) -> Target {
    let metadata = &created["metadata"];
    let own = |field: &str| metadata[field].as_str().map(str::to_owned);
    Target {
        kind,
        namespace: own("namespace"),
        name: own("name").unwrap_or_default(),
        version: Version {
            uid: own("uid").unwrap_or_default(),
            version: String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_created_is_removed_by_its_uid() {
        let created = json!({"metadata": {
            "namespace": "shop", "name": "data", "uid": "u", "resourceVersion": "7",
        }});
        let target = target(ObjectKind::Claim, &created);
        assert_eq!(
            (target.namespace.as_deref(), &*target.name),
            (Some("shop"), "data")
        );
        let expected = Version {
            uid: "u".to_owned(),
            version: String::new(),
        };
        assert_eq!(target.version, expected);
    }
}
