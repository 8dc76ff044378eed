//! `status`: how tenants are, as the operator last reported.

use api::tenants::{DistributionTenantStatus, conditions};
use clap::ArgMatches;
use engine::Stored;
use engine::cli::{Answer, Failure, Finding, ReadyCondition, StatusRow, StatusTable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::find;
use serde::Deserialize;
use serde_json::json;

use super::session::TenantsSession;

const COLUMNS: &[&str] = &[
    "namespace",
    "name",
    "ready",
    "synced",
    "dns",
    "certificate",
    "id",
    "message",
];

pub(super) async fn status(session: &TenantsSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let scope = &session.cluster.scope;
    let rows = || -> Vec<StatusRow> {
        let all = session.all().into_iter();
        let covered = all.filter(|one| scope.includes(one.key()));
        covered.map(|one| row(&one)).collect()
    };
    let table = StatusTable {
        columns: COLUMNS,
        name_columns: 2,
        noun: "tenant",
        empty_remark: scope.empty_remark("DistributionTenant"),
        rows: Box::new(rows),
        caches: vec![&session.ctx.caches.tenants],
    };
    table.answer(&session.cluster, args).await
}

/// As much of a tenant as is shown.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Reported {
    metadata: ObjectMeta,
    status: DistributionTenantStatus,
}

fn row(object: &Stored) -> StatusRow {
    let parsed = serde_json::from_str::<Reported>(object.json());
    let Reported { metadata, status } = parsed.unwrap_or_default();
    let ReadyCondition {
        is_ready,
        reason,
        message,
    } = ReadyCondition::new(&status.conditions, metadata.generation);
    let reason_of = |kind: &str| {
        let condition = find(&status.conditions, kind);
        condition.map_or_else(String::new, |one| one.reason.clone())
    };
    let synced = reason_of(conditions::SYNCED);
    let dns = reason_of(conditions::DNS_READY);
    let certificate = reason_of(conditions::CERTIFICATE_READY);
    let key = object.key();
    let full = json!({
        "ready": is_ready,
        "reason": reason,
        "message": message,
        "synced": synced,
        "dns": dns,
        "certificate": certificate,
        "id": status.id,
        "dnsTarget": status.dns_target,
    });
    let cells = vec![
        key.namespace.as_deref().unwrap_or_default().to_owned(),
        key.name.to_string(),
        reason,
        synced,
        dns,
        certificate,
        status.id.unwrap_or_default(),
        // Of one that is ready there is no more to say.
        if is_ready { String::new() } else { message },
    ];
    StatusRow {
        is_ready,
        finding: Finding::about("DistributionTenant", key, cells, full),
    }
}

#[cfg(test)]
mod tests {
    use engine::Projection;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cli::session::kind;

    fn shown(status: &Value) -> StatusRow {
        let object = json!({
            "metadata": {"name": "acme", "namespace": "web", "generation": 2},
            "status": status,
        });
        let stored = Stored::read(&kind(), &object.to_string(), &Projection::Full);
        row(&stored.unwrap())
    }

    fn ready(status: &str) -> Value {
        json!({"id": "dt_1", "conditions": [{
            "type": "Ready", "status": status, "reason": "Deployed", "message": "it is there",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
        }]})
    }

    #[rstest]
    #[case::ready("True", ["web", "acme", "Deployed", "", "", "", "dt_1", ""])]
    #[case::not_ready("False", ["web", "acme", "Deployed", "", "", "", "dt_1", "it is there"])]
    fn a_tenant_is_a_row_of_reasons(#[case] status: &str, #[case] cells: [&str; 8]) {
        let row = shown(&ready(status));
        assert_eq!(row.is_ready, status == "True");
        assert_eq!(row.finding.cells, cells);
        assert_eq!(row.finding.name, "DistributionTenant/web/acme");
    }

    #[test]
    fn a_tenant_that_was_never_reconciled_says_so() {
        let row = shown(&json!({}));
        assert!(!row.is_ready);
        assert_eq!(row.finding.cells[2], "NotLookedAt");
    }
}
