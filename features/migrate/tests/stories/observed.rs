//! What a story waits for, and what it reads of both clusters.

use api::migrate::{
    CheckId, FailReason, Phase, Severity, StallReason, StatefulSetMigration,
    StatefulSetMigrationStatus, conditions,
};
use http::Method;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::{Api, ListParams};
use serde_json::Value;
use testkit::{Result, Story, is};

use super::{NAME, Shop};

impl Shop {
    /// Waits until the run is paused for a reason, and the last edit was seen.
    pub(crate) async fn until_paused(&self, reason: &str) -> Result<StatefulSetMigrationStatus> {
        let paused = is(conditions::PAUSED, reason);
        self.ops
            .until_status::<StatefulSetMigration>(NAME, paused)
            .await
    }

    /// Waits until the run stalls for a reason.
    pub(crate) async fn until_stalled(
        &self,
        reason: StallReason,
    ) -> Result<StatefulSetMigrationStatus> {
        let stalled = is(conditions::STALLED, reason.as_str());
        self.ops
            .until_status::<StatefulSetMigration>(NAME, stalled)
            .await
    }

    /// Waits until the run fails for a reason.
    pub(crate) async fn until_failed(
        &self,
        reason: FailReason,
    ) -> Result<StatefulSetMigrationStatus> {
        let failed = is(conditions::READY, reason.as_str());
        self.ops
            .until_status::<StatefulSetMigration>(NAME, failed)
            .await
    }

    /// Waits until the checks stop a migration, and returns what they found, without mere information.
    pub(crate) async fn until_blocked(&self, name: &str) -> Result<Vec<(CheckId, String)>> {
        let blocked = is(conditions::READY, FailReason::PreflightBlocked.as_str());
        let status = self
            .ops
            .until_status::<StatefulSetMigration>(name, blocked)
            .await?;
        let checks = status.preflight.map(|preflight| preflight.checks);
        let findings = checks.unwrap_or_default().into_iter();
        let stopping = findings.filter(|finding| finding.severity != Severity::Info);
        Ok(stopping
            .map(|finding| (finding.id, finding.message))
            .collect())
    }

    /// Waits until the run is in a phase.
    pub(crate) async fn until_phase(&self, phase: Phase) -> Result<StatefulSetMigrationStatus> {
        let is_there = move |migration: &StatefulSetMigration| {
            let status = migration.status.as_ref();
            status.and_then(|status| status.phase) == Some(phase)
        };
        self.ops
            .until_status::<StatefulSetMigration>(NAME, is_there)
            .await
    }

    /// The disks of the set's claims in a namespace, by claim.
    pub(crate) async fn disks(&self, team: &Story) -> Result<Vec<(String, String)>> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(team.client(), team.name());
        let volumes = Api::<PersistentVolume>::all(team.client());
        let mut disks = Vec::new();
        for claim in claims.list(&ListParams::default()).await? {
            let volume = claim.spec.and_then(|spec| spec.volume_name);
            let volume = volumes.get(&volume.unwrap_or_default()).await?;
            let csi = volume.spec.and_then(|spec| spec.csi);
            let disk = csi.map(|csi| csi.volume_handle).unwrap_or_default();
            disks.push((claim.metadata.name.unwrap_or_default(), disk));
        }
        disks.sort();
        Ok(disks)
    }

    /// The disks of the set before the migration, by claim.
    pub(crate) fn own_disks(&self) -> Vec<(String, String)> {
        let ordinals = self.set.ordinals();
        let disks = ordinals.flat_map(|ordinal| {
            let templates = self.set.templates.iter();
            templates.map(move |template| {
                let claim = self.set.claim(template, ordinal);
                (claim, self.set.volume(template, ordinal))
            })
        });
        let mut disks: Vec<_> = disks.collect();
        disks.sort();
        disks
    }

    /// The pods of the set in a namespace that are Ready, by name.
    pub(crate) async fn ready_pods(&self, team: &Story) -> Result<Vec<String>> {
        let pods = Api::<Pod>::namespaced(team.client(), team.name());
        let pods = pods.list(&ListParams::default()).await?;
        let ready = pods.into_iter().filter(is_ready);
        let mut names: Vec<_> = ready.filter_map(|pod| pod.metadata.name).collect();
        names.sort();
        Ok(names)
    }

    /// The StatefulSet in a namespace.
    pub(crate) async fn stateful_set(&self, team: &Story) -> Result<Option<StatefulSet>> {
        let sets = Api::<StatefulSet>::namespaced(team.client(), team.name());
        Ok(sets.get_opt(&self.set.name).await?)
    }

    /// Whether the Service exists in a namespace.
    pub(crate) async fn has_service(&self, team: &Story) -> Result<bool> {
        let services = Api::<Service>::namespaced(team.client(), team.name());
        Ok(services.get_opt(&self.set.name).await?.is_some())
    }

    /// What EC2's oracle has to say against this story's disks.
    pub(crate) fn violations(&self) -> Result<Vec<Value>> {
        let oracle = self
            .site
            .world
            .aws()
            .control(Method::GET, "oracle", Value::Null)?;
        let violations = oracle["violations"].as_array().cloned().unwrap_or_default();
        let own = self.own_disks();
        let is_own = |violation: &Value| {
            let text = violation.to_string();
            own.iter().any(|(_, disk)| text.contains(disk.as_str()))
        };
        Ok(violations.into_iter().filter(is_own).collect())
    }
}

/// The ids of findings.
pub(crate) fn ids(findings: &[(CheckId, String)]) -> Vec<CheckId> {
    findings.iter().map(|(id, _)| *id).collect()
}

/// The message of the finding of a check; empty if it has none.
pub(crate) fn message(findings: &[(CheckId, String)], id: CheckId) -> &str {
    let finding = findings.iter().find(|(of, _)| *of == id);
    finding.map_or("", |(_, message)| message)
}

/// Whether a pod is Ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    has_condition(pod, "Ready", "True")
}

/// Whether a pod has a condition with this status.
pub(crate) fn has_condition(pod: &Pod, kind: &str, status: &str) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == kind && one.status == status)
}

/// The first ordinal of a StatefulSet.
pub(crate) fn first_ordinal(set: &StatefulSet) -> i32 {
    let ordinals = set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref());
    ordinals
        .and_then(|ordinals| ordinals.start)
        .unwrap_or_default()
}

/// How many pods a StatefulSet wants; none without one.
pub(crate) fn replicas_of(set: Option<&StatefulSet>) -> i32 {
    let spec = set.and_then(|set| set.spec.as_ref());
    spec.and_then(|spec| spec.replicas).unwrap_or_default()
}
