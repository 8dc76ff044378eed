//! Creates a pair at the destination, and removes it again if that fails.

use std::time::Duration;

use api::migrate::names::VOLUME_ID;
use engine::ApiError;
use engine::cli::Failure;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
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
    let why = match made(mover, cluster, translated).await {
        Ok(None) => return Ok(Ok(())),
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    let left = undo(cluster, translated).await;
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
) -> Result<Option<String>, ApiError> {
    let pair = &translated.pair;
    let (volume, claim) = (pair.volume.value(), pair.claim.value());
    // The volume first: a claim without its volume might be bound to another one.
    calls::create(cluster, &calls::resource::<PersistentVolume>(), volume).await?;
    calls::create(cluster, &calls::resource::<PersistentVolumeClaim>(), claim).await?;
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

/// Deletes the claim, then the volume. Their policy keeps the disk.
async fn undo(cluster: &UserCluster, translated: &TranslatedPair) -> Result<(), ApiError> {
    let pair = &translated.pair;
    let (namespace, name) = (pair.claim.namespace(), pair.claim.name());
    let claim = calls::get::<PersistentVolumeClaim>(cluster, namespace, name).await?;
    if let Some(target) = ours(ObjectKind::Claim, claim.as_ref(), translated) {
        let resource = calls::resource::<PersistentVolumeClaim>();
        calls::delete(cluster, &resource, &target).await?;
    }
    let volume = calls::get::<PersistentVolume>(cluster, None, pair.volume.name()).await?;
    if let Some(target) = ours(ObjectKind::Volume, volume.as_ref(), translated) {
        calls::delete(cluster, &calls::resource::<PersistentVolume>(), &target).await?;
    }
    Ok(())
}

/// The object as the target of a deletion, if it is what we made: it names our disk. Its version may change
/// while Kubernetes binds it, so the UID alone counts.
fn ours(kind: ObjectKind, live: Option<&Value>, translated: &TranslatedPair) -> Option<Target> {
    let metadata = &live?["metadata"];
    let is_ours = metadata["annotations"][VOLUME_ID] == translated.id.as_str();
    let own = |field: &str| metadata[field].as_str().map(str::to_owned);
    is_ours.then(|| Target {
        kind,
        namespace: own("namespace"),
        name: own("name").unwrap_or_default(),
        version: Version {
            uid: own("uid").unwrap_or_default(),
            version: String::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::translate::Document;
    use crate::translate::pair::Pair;
    use crate::translate::volume_id::VolumeId;

    #[rstest]
    #[case::what_we_made(Some(json!({VOLUME_ID: "vol-0a1b2c3d"})), true)]
    #[case::of_another_disk(Some(json!({VOLUME_ID: "vol-0a1b2c3e"})), false)]
    #[case::of_somebody_else(Some(json!({})), false)]
    #[case::nothing(None, false)]
    fn only_what_was_made_is_removed(#[case] annotations: Option<Value>, #[case] expected: bool) {
        let metadata = json!({"metadata": {"name": "a"}});
        let translated = TranslatedPair {
            pair: Pair {
                volume: Document::read(metadata.clone()).unwrap(),
                claim: Document::read(metadata).unwrap(),
            },
            id: VolumeId::parse("vol-0a1b2c3d").unwrap(),
        };
        let live = annotations.map(|annotations| json!({"metadata": {"name": "a", "uid": "u", "annotations": annotations}}));
        let target = ours(ObjectKind::Volume, live.as_ref(), &translated);
        assert_eq!(target.is_some(), expected);
    }
}
