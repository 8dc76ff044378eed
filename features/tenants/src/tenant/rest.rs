//! Whether a tenant can be left alone: its status says all that there is to say of this very spec.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{
    DistributionTenant, DistributionTenantStatus, DriftPolicy, RecordState, RecordType, conditions,
    reasons,
};
use kernel::{find, is_true};

use super::byhand::is_by_hand;
use super::create::PROGRESS;
use super::dns::route53;
use super::draft::Draft;
use super::ground::Ground;
use crate::body::DEPLOYED;
use crate::certificate;
use crate::dns::names::canonical;
use crate::memory::Memory;

/// Nothing has to be asked for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    /// Whether CloudFront has deployed it.
    pub(super) ready: bool,
    /// When something is due; none: only the daily look.
    pub(super) after: Option<Duration>,
}

/// Whether CloudFront has something else from us than the spec says.
pub(super) fn is_edited(ground: &Ground, draft: &Draft) -> bool {
    let status = &draft.status;
    let Some(given) = &status.last_applied else {
        return true;
    };
    let wanted = ground.declared.connection_group_id.as_ref();
    let moved = wanted.is_some() && wanted != given.connection_group_id.as_ref();
    status.observed_generation != ground.generation || moved || given.tags != ground.declared.tags
}

/// Whether the tenant can be left alone until something wakes it.
pub(super) fn rest(
    object: &DistributionTenant,
    ground: &Ground,
    memory: &Memory,
    draft: &Draft,
    now: Duration,
) -> Option<Rest> {
    let status = &draft.status;
    let is_in_effect = memory.ineffective.is_none();
    if is_edited(ground, draft) || !is_synced(ground, status) || !is_in_effect {
        return None;
    }
    if lacks_address(ground, status) {
        return None;
    }
    let ready = find(&status.conditions, conditions::READY)?;
    let current = ready.observed_generation == ground.generation;
    // One that is deployed and not said to be has to be looked at: no poll does that.
    let is_deployed = status.distribution_tenant_status.as_deref() == Some(DEPLOYED);
    let in_progress =
        [reasons::CREATING, reasons::DEPLOYING].contains(&ready.reason.as_str()) && !is_deployed;
    let is_ready = ready.status == "True";
    if !current || (!is_ready && !in_progress) {
        return None;
    }
    let left = |due: Option<Duration>| due.and_then(|due| due.checked_sub(now));
    let certificate = if certificate::is_settled(&ground.declared, ground.generation, status) {
        None
    } else {
        Some(left(memory.certificate_due)?)
    };
    let by_hand = is_by_hand(object);
    let are_left = is_ready && are_records_left(object, ground, status);
    let records = if !are_left && are_records_in_place(by_hand, ground, status) {
        None
    } else if by_hand && status.dns_records.is_empty() {
        Some(left(memory.records_due)?)
    } else {
        return None;
    };
    let progress = (!is_ready).then_some(PROGRESS);
    Some(Rest {
        ready: is_ready,
        after: [certificate, records, progress].into_iter().flatten().min(),
    })
}

/// Whether the group took up IPv6 or gave it up since the aliases were made.
fn lacks_address(ground: &Ground, status: &DistributionTenantStatus) -> bool {
    let has = |kind| status.dns_records.iter().any(|one| one.kind == kind);
    let referred = ground.referred.as_ref();
    referred.is_some_and(|group| has(RecordType::A) && has(RecordType::Aaaa) != group.target.ipv6)
}

/// Whether CloudFront has what it should, or drift is left as it is.
fn is_synced(ground: &Ground, status: &DistributionTenantStatus) -> bool {
    let kinds = [conditions::SYNCED, conditions::CERTIFICATE_READY];
    let are_current = kinds.into_iter().all(|kind| {
        let told = find(&status.conditions, kind);
        told.is_some_and(|told| told.observed_generation == ground.generation)
    });
    let is_synced = is_true(&status.conditions, conditions::SYNCED);
    let is_told = || {
        let synced = find(&status.conditions, conditions::SYNCED);
        synced.is_some_and(|told| told.reason == reasons::DRIFT_DETECTED)
    };
    let synced = match (status.drift_detected == Some(true), ground.drift) {
        (false, _) | (true, DriftPolicy::Suspend) => is_synced,
        (true, DriftPolicy::Report) => is_told(),
        (true, DriftPolicy::Enforce) => false,
    };
    are_current && synced
}

/// Whether there are records of names that the spec no longer has.
fn are_records_left(
    object: &DistributionTenant,
    ground: &Ground,
    status: &DistributionTenantStatus,
) -> bool {
    let domains = ground.declared.domains.iter();
    let wanted: BTreeSet<_> = domains.map(|domain| canonical(domain)).collect();
    let mut records = status.dns_records.iter();
    records.any(|one| route53(object).is_none() || !wanted.contains(&one.name))
}

fn are_records_in_place(by_hand: bool, ground: &Ground, status: &DistributionTenantStatus) -> bool {
    let told = find(&status.conditions, conditions::DNS_READY);
    let mut records = status.dns_records.iter();
    told.is_some_and(|told| told.status == "True" && told.observed_generation == ground.generation)
        && status.dns_change_id.is_none()
        && records.all(|one| one.state == RecordState::Applied)
        && (by_hand || status.required_records.is_empty())
}

#[cfg(test)]
mod tests {
    use kernel::{ClusterId, Marker, ObjectKey};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::allowed::Leave;
    use crate::body;

    fn condition(kind: &str, status: &str, reason: &str) -> serde_json::Value {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    /// A tenant as its last pass left it: in sync, without records.
    fn tenant(state: &str, ready: (&str, &str)) -> DistributionTenant {
        let object = json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
            "kind": "DistributionTenant",
            "metadata": {"name": "acme", "namespace": "web", "generation": 1},
            "spec": {"distributionId": "E1", "domains": [{"domain": "a.example.com"}]},
            "status": {
                "id": "dt_1", "observedGeneration": 1, "distributionTenantStatus": state,
                "conditions": [
                    condition("Ready", ready.0, ready.1),
                    condition("Synced", "True", "InSync"),
                    condition("CertificateReady", "True", "NotConfigured"),
                    condition("DNSReady", "True", "DNSNotConfigured"),
                ],
            },
        });
        let mut object: DistributionTenant = serde_json::from_value(object).unwrap();
        let declared = body::declared(&object.spec, None);
        object.status.as_mut().unwrap().last_applied = Some(declared);
        object
    }

    fn ground(object: &DistributionTenant) -> Ground {
        let key = ObjectKey::namespaced("web", "acme");
        Ground {
            name: "acme".to_owned(),
            generation: object.metadata.generation,
            declared: body::declared(&object.spec, None),
            drift: DriftPolicy::Enforce,
            marker: Marker::new(&ClusterId::new("c1").unwrap(), &key),
            adopts: false,
            leave: Leave::default(),
            referred: None,
            key,
        }
    }

    const READY: Option<Rest> = Some(Rest {
        ready: true,
        after: None,
    });
    const POLLED: Option<Rest> = Some(Rest {
        ready: false,
        after: Some(PROGRESS),
    });

    #[rstest]
    #[case::deployed("Deployed", ("True", "Deployed"), READY)]
    #[case::being_made("InProgress", ("False", "Creating"), POLLED)]
    #[case::being_changed("InProgress", ("False", "Deploying"), POLLED)]
    #[case::deployed_and_said_to_be_made("Deployed", ("False", "Creating"), None)]
    #[case::deployed_and_said_to_be_changed("Deployed", ("False", "Deploying"), None)]
    #[case::refused("Deployed", ("False", "AccessDenied"), None)]
    fn a_tenant_is_left_alone_while_its_status_says_all(
        #[case] state: &str,
        #[case] ready: (&str, &str),
        #[case] expected: Option<Rest>,
    ) {
        let object = tenant(state, ready);
        let (ground, draft) = (ground(&object), Draft::new(&object));
        let rest = rest(&object, &ground, &Memory::default(), &draft, Duration::ZERO);
        assert_eq!(rest, expected);
    }
}
