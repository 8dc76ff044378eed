//! The kinds of objects that a run watches in both clusters.

use engine::{Kind, Projection, WatchKey};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;

/// A kind of objects that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    StatefulSets,
    Pods,
    Claims,
    Budgets,
    Volumes,
    Attachments,
    Nodes,
}

impl Watched {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::StatefulSets => Kind::of::<StatefulSet>(),
            Self::Pods => Kind::of::<Pod>(),
            Self::Claims => Kind::of::<PersistentVolumeClaim>(),
            Self::Budgets => Kind::of::<PodDisruptionBudget>(),
            Self::Volumes => Kind::of::<PersistentVolume>(),
            Self::Attachments => Kind::of::<VolumeAttachment>(),
            Self::Nodes => Kind::of::<Node>(),
        }
    }

    /// Its objects of one namespace, or of the whole cluster. A node names its images in kilobytes.
    pub(super) fn watch_key(self, namespace: Option<&str>) -> WatchKey {
        let fields: &[&str] = match self {
            Self::Nodes => &[
                "spec",
                "status.conditions",
                "status.nodeInfo",
                "status.volumesInUse",
                "status.volumesAttached",
            ],
            Self::StatefulSets
            | Self::Pods
            | Self::Claims
            | Self::Budgets
            | Self::Volumes
            | Self::Attachments => &["spec", "status"],
        };
        let fields = fields.iter().map(|&field| field.to_owned());
        WatchKey {
            namespace: namespace.map(str::to_owned),
            ..WatchKey::all(self.kind())
        }
        .with_projection(Projection::Fields(fields.collect()))
    }
}

/// Revisions are read for a capture and at the end of a run, and not watched: no wait needs them.
pub(super) fn revision_kind() -> Kind {
    Kind::of::<ControllerRevision>()
}
