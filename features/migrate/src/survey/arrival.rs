//! The reads that are made of the destination alone.

use std::collections::{BTreeMap, BTreeSet};

use engine::ApiError;
use futures::future::join_all;
use futures::join;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, Secret, Service, ServiceAccount};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use serde_json::Value;

use super::classify::of_cluster;
use super::reader::{Collection, Reader};
use crate::preflight::dependencies::{Dependency, DependencyKind, named_by};
use crate::preflight::reading::Reading;
use crate::preflight::survey::ArrivalSurvey;
use crate::translate::volume_id::DRIVER;

/// The versions in which servers have VolumeAttributesClasses, the newest first.
const ATTRIBUTES_CLASS_VERSIONS: [&str; 2] = ["storage.k8s.io/v1", "storage.k8s.io/v1beta1"];

/// Reads what does not depend on other reads.
pub(super) async fn arrival(reader: &Reader, namespace: &str) -> ArrivalSurvey {
    let drivers = Collection::of::<CSIDriver>(None);
    let csi_nodes = Collection::of::<CSINode>(None);
    let attachments = Collection::of::<VolumeAttachment>(None);
    let quotas = Collection::of::<ResourceQuota>(Some(namespace));
    let storage_classes = Collection::of::<StorageClass>(None);
    let (driver, csi_nodes, attachments, quotas, storage_classes, attributes_classes) = join!(
        reader.find(&drivers, DRIVER),
        reader.list(&csi_nodes),
        reader.list(&attachments),
        reader.list(&quotas),
        reader.list(&storage_classes),
        attributes_classes(reader),
    );
    ArrivalSurvey {
        driver: of_cluster(driver),
        csi_nodes: of_cluster(csi_nodes),
        attachments: of_cluster(attachments),
        quotas: of_cluster(quotas),
        storage_classes: of_cluster(storage_classes.map(|classes| names(&classes))),
        attributes_classes: of_cluster(attributes_classes),
        ..ArrivalSurvey::default()
    }
}

async fn attributes_classes(reader: &Reader) -> Result<BTreeSet<String>, ApiError> {
    for version in ATTRIBUTES_CLASS_VERSIONS {
        let of = Collection::named(version, "volumeattributesclasses", None);
        if let Some(classes) = reader.list_optional(&of).await? {
            return Ok(names(&classes));
        }
    }
    Ok(BTreeSet::new())
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    let names = objects
        .iter()
        .filter_map(|object| object["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Whether each object that the template of the StatefulSet names exists.
pub(super) async fn dependencies(
    reader: &Reader,
    set: &StatefulSet,
    namespace: &str,
) -> BTreeMap<Dependency, Reading<bool>> {
    let template = set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let named = template.map(named_by).unwrap_or_default();
    let reads = named.into_iter().map(async |dependency| {
        let of = collection(dependency.kind, namespace);
        let exists = reader.exists(&of, &dependency.name).await;
        (dependency, of_cluster(exists))
    });
    join_all(reads).await.into_iter().collect()
}

fn collection(kind: DependencyKind, namespace: &str) -> Collection {
    match kind {
        DependencyKind::ConfigMap => Collection::of::<ConfigMap>(Some(namespace)),
        DependencyKind::Secret => Collection::of::<Secret>(Some(namespace)),
        DependencyKind::ServiceAccount => Collection::of::<ServiceAccount>(Some(namespace)),
        DependencyKind::PriorityClass => Collection::of::<PriorityClass>(None),
        DependencyKind::RuntimeClass => Collection::of::<RuntimeClass>(None),
    }
}

/// The Service of the StatefulSet's `serviceName`; not read if it names none.
pub(super) async fn service(
    reader: &Reader,
    set: &StatefulSet,
    namespace: &str,
) -> Reading<Option<Service>> {
    let name = set
        .spec
        .as_ref()
        .and_then(|spec| spec.service_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Reading::NotRead;
    };
    let of = Collection::of::<Service>(Some(namespace));
    of_cluster(reader.find(&of, name).await)
}
