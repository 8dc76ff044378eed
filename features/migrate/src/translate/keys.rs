//! Labels and annotations that a translation reads or drops.

use api::migrate::names::GROUP;

pub(super) const LEGACY_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const IN_TREE_PROVISIONER: &str = "kubernetes.io/aws-ebs";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
const DELETION_SECRET: &str = "volume.kubernetes.io/provisioner-deletion-secret-";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether an annotation records that the volume controller has bound a claim.
pub(super) fn is_bind_annotation(key: &str) -> bool {
    matches!(key, BIND_COMPLETED | BOUND_BY_CONTROLLER)
}

/// Whether a label or annotation of a PersistentVolume is true at the source alone.
pub(super) fn is_dropped_from_volume(key: &str) -> bool {
    let is_local = matches!(key, BOUND_BY_CONTROLLER | MIGRATED_TO | LAST_APPLIED);
    is_local || key.starts_with(DELETION_SECRET) || is_of_a_run(key)
}

/// Whether a label or annotation of a PersistentVolumeClaim is true at the source alone.
pub(super) fn is_dropped_from_claim(key: &str) -> bool {
    let is_local = matches!(
        key,
        "volume.kubernetes.io/selected-node"
            | "volume.kubernetes.io/storage-provisioner"
            | "volume.beta.kubernetes.io/storage-provisioner"
            | "volume.kubernetes.io/storage-resizer"
            | LAST_APPLIED
    );
    is_local || is_bind_annotation(key) || is_of_a_run(key)
}

/// Whether a label or annotation of a StatefulSet is true at the source alone.
///
/// A mark of Argo CD or Flux would let it prune or revert the StatefulSet at the destination.
pub(super) fn is_dropped_from_stateful_set(key: &str) -> bool {
    key == LAST_APPLIED || is_of_a_run(key) || is_gitops_mark(key)
}

/// Whether an earlier run set it.
fn is_of_a_run(key: &str) -> bool {
    key.split_once('/')
        .is_some_and(|(domain, _)| domain == GROUP)
}

/// Whether Argo CD or Flux put the label or annotation on an object that it syncs.
///
/// `app.kubernetes.io/instance`, which Argo CD can be set to use, is not counted: Helm and others use it.
pub fn is_gitops_mark(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &str| {
        let below = domain.strip_suffix(parent);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    };
    is_in("argocd.argoproj.io") || is_in("fluxcd.io")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::argo_label("argocd.argoproj.io/instance", true)]
    #[case::argo_annotation("argocd.argoproj.io/tracking-id", true)]
    #[case::flux_kustomization("kustomize.toolkit.fluxcd.io/name", true)]
    #[case::flux_helm_release("helm.toolkit.fluxcd.io/namespace", true)]
    #[case::flux_one("fluxcd.io/sync-checksum", true)]
    #[case::helm("meta.helm.sh/release-name", false)]
    #[case::the_common_label("app.kubernetes.io/instance", false)]
    #[case::a_domain_that_ends_alike("notfluxcd.io/name", false)]
    #[case::no_domain("instance", false)]
    fn argo_cd_and_flux_are_recognised(#[case] key: &str, #[case] is_mark: bool) {
        assert_eq!(is_gitops_mark(key), is_mark);
    }
}
