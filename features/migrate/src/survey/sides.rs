//! The reads that are made of either cluster, and need nothing that was read before.

use std::collections::BTreeSet;

use engine::ApiError;
use futures::future::join_all;
use futures::join;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::Value;

use super::classify::of_cluster;
use super::reader::{Collection, Reader};
use crate::migration::observation::Side;
use crate::preflight::access::{Access, needed};
use crate::preflight::reading::Reading;
use crate::preflight::survey::{Autoscaler, ClusterSurvey, LockHolder, Snapshot};
use crate::record::lock::{LockPhase, StoredLock};
use crate::record::names::lock_name;

/// A kind of autoscaler, and where it names its target.
struct AutoscalerKind {
    kind: &'static str,
    version: &'static str,
    resource: &'static str,
    target: &'static str,
    /// The kind of a target that names none.
    default_target: &'static str,
}

const AUTOSCALERS: [AutoscalerKind; 3] = [
    AutoscalerKind {
        kind: "HorizontalPodAutoscaler",
        version: "autoscaling/v2",
        resource: "horizontalpodautoscalers",
        target: "/spec/scaleTargetRef",
        default_target: "",
    },
    AutoscalerKind {
        kind: "VerticalPodAutoscaler",
        version: "autoscaling.k8s.io/v1",
        resource: "verticalpodautoscalers",
        target: "/spec/targetRef",
        default_target: "",
    },
    AutoscalerKind {
        kind: "ScaledObject",
        version: "keda.sh/v1alpha1",
        resource: "scaledobjects",
        target: "/spec/scaleTargetRef",
        default_target: "Deployment",
    },
];

/// Reads what does not depend on other reads.
pub(super) async fn cluster(
    reader: &Reader,
    side: Side,
    namespace: &str,
    set: &str,
) -> ClusterSurvey {
    let own = Some(namespace);
    let pods = match side {
        Side::Source => own,
        Side::Destination => None,
    };
    let accesses = needed(side, namespace);
    let (sets, pods) = (
        Collection::of::<StatefulSet>(own),
        Collection::of::<Pod>(pods),
    );
    let claims = Collection::of::<PersistentVolumeClaim>(own);
    let volumes = Collection::of::<PersistentVolume>(None);
    let nodes = Collection::of::<Node>(None);
    let budgets = Collection::of::<PodDisruptionBudget>(own);
    let namespaces = Collection::of::<Namespace>(None);
    let (allowed, namespace, lock, set, pods, claims, volumes, nodes, budgets, autoscalers) = join!(
        allowed(reader, &accesses),
        reader.find(&namespaces, namespace),
        lock(reader, namespace, set),
        reader.find(&sets, set),
        reader.list(&pods),
        reader.list(&claims),
        reader.list(&volumes),
        reader.list(&nodes),
        reader.list(&budgets),
        autoscalers(reader, namespace),
    );
    ClusterSurvey {
        allowed: of_cluster(allowed),
        namespace: of_cluster(namespace),
        lock: of_cluster(lock),
        set: of_cluster(set),
        pods: of_cluster(pods),
        claims: of_cluster(claims),
        volumes: of_cluster(volumes),
        nodes: of_cluster(nodes),
        budgets: of_cluster(budgets),
        autoscalers: of_cluster(autoscalers),
        ..ClusterSurvey::default()
    }
}

async fn allowed(reader: &Reader, accesses: &[Access]) -> Result<BTreeSet<Access>, ApiError> {
    let reviews = accesses.iter().map(async |access| {
        let is_allowed = reader.may(access).await?;
        Ok(is_allowed.then(|| access.clone()))
    });
    let reviews: Result<Vec<Option<Access>>, ApiError> =
        join_all(reviews).await.into_iter().collect();
    Ok(reviews?.into_iter().flatten().collect())
}

async fn lock(reader: &Reader, namespace: &str, set: &str) -> Result<Option<LockHolder>, ApiError> {
    let maps = Collection::of::<ConfigMap>(Some(namespace));
    let map: Option<ConfigMap> = reader.find(&maps, &lock_name(set)).await?;
    Ok(map.map(|map| lock_holder(StoredLock::parse(&map))))
}

fn lock_holder(lock: StoredLock) -> LockHolder {
    LockHolder {
        is_released: lock.phase() == LockPhase::Released,
        run: lock.holder,
        migration: lock.object,
        cluster: lock.cluster,
    }
}

async fn autoscalers(reader: &Reader, namespace: &str) -> Result<Vec<Autoscaler>, ApiError> {
    let lists = AUTOSCALERS.iter().map(async |kind| {
        let of = Collection::named(kind.version, kind.resource, Some(namespace));
        let objects = reader.list_optional::<Value>(&of).await?;
        let objects = objects.unwrap_or_default();
        Ok(objects.iter().map(|one| autoscaler(kind, one)).collect())
    });
    let lists: Result<Vec<Vec<Autoscaler>>, ApiError> = join_all(lists).await.into_iter().collect();
    Ok(lists?.into_iter().flatten().collect())
}

fn autoscaler(kind: &AutoscalerKind, object: &Value) -> Autoscaler {
    let target = |field: &str| object.pointer(kind.target)?.get(field)?.as_str();
    let target_kind = target("kind").unwrap_or(kind.default_target);
    Autoscaler {
        kind: kind.kind,
        name: text(object, "/metadata/name"),
        target_kind: target_kind.to_owned(),
        target_name: target("name").unwrap_or_default().to_owned(),
    }
}

/// The VolumeSnapshots of a namespace; none where the server has no such kind.
pub(super) async fn snapshots(reader: &Reader, namespace: &str) -> Reading<Vec<Snapshot>> {
    let of = Collection::named(
        "snapshot.storage.k8s.io/v1",
        "volumesnapshots",
        Some(namespace),
    );
    let objects = reader.list_optional::<Value>(&of).await;
    of_cluster(objects.map(|objects| objects.iter().flatten().map(snapshot).collect()))
}

fn snapshot(object: &Value) -> Snapshot {
    Snapshot {
        name: text(object, "/metadata/name"),
        claim: text(object, "/spec/source/persistentVolumeClaimName"),
    }
}

fn text(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::horizontal(0, json!({"scaleTargetRef": {"kind": "StatefulSet", "name": "web"}}), "StatefulSet", "web")]
    #[case::vertical(1, json!({"targetRef": {"kind": "StatefulSet", "name": "web"}}), "StatefulSet", "web")]
    #[case::keda(2, json!({"scaleTargetRef": {"kind": "StatefulSet", "name": "web"}}), "StatefulSet", "web")]
    #[case::keda_without_kind(2, json!({"scaleTargetRef": {"name": "web"}}), "Deployment", "web")]
    #[case::no_target(1, json!({}), "", "")]
    fn an_autoscaler_names_its_target(
        #[case] index: usize,
        #[case] spec: Value,
        #[case] kind: &str,
        #[case] name: &str,
    ) {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let autoscaler = autoscaler(&AUTOSCALERS[index], &object);
        assert_eq!(autoscaler.name, "a");
        assert_eq!(
            (&*autoscaler.target_kind, &*autoscaler.target_name),
            (kind, name)
        );
    }

    #[rstest]
    #[case::of_a_claim(json!({"persistentVolumeClaimName": "data-web-0"}), "data-web-0")]
    #[case::of_a_content(json!({"volumeSnapshotContentName": "c"}), "")]
    fn a_snapshot_names_its_claim(#[case] source: Value, #[case] claim: &str) {
        let object = json!({"metadata": {"name": "s"}, "spec": {"source": source}});
        let expected = Snapshot {
            name: "s".to_owned(),
            claim: claim.to_owned(),
        };
        assert_eq!(snapshot(&object), expected);
    }

    #[rstest]
    #[case::active("Active", false)]
    #[case::released("Released", true)]
    #[case::edited("released", false)]
    fn a_lock_has_a_holder(#[case] state: &str, #[case] is_released: bool) {
        let map: ConfigMap = serde_json::from_value(json!({"data": {
            "holder": "run", "object": "ops/web", "managementCluster": "uid", "state": state}}))
        .unwrap();
        let expected = LockHolder {
            run: "run".to_owned(),
            migration: "ops/web".to_owned(),
            cluster: "uid".to_owned(),
            is_released,
        };
        assert_eq!(lock_holder(StoredLock::parse(&map)), expected);
    }
}
