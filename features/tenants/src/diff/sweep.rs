//! Whether a list tells anything of a tenant that its status does not know.

use std::collections::BTreeMap;

use api::tenants::{DistributionTenantStatus, DriftedField};

use crate::body::{Body, Field, Summary, domain, side_by_side};

/// What `summary` says otherwise than `status`; nothing to look at if empty.
///
/// The ETag tells of every write, parameters included; the fields tell of what changes without
/// one, such as a certificate that attached itself. Drift that the status lists is no news.
pub(crate) fn news(summary: &Summary, status: &DistributionTenantStatus) -> Vec<&'static str> {
    let Some(applied) = &status.last_applied else {
        return vec!["lastApplied"];
    };
    let facts = [
        ("id", status.id.as_deref() == Some(&summary.id)),
        ("eTag", status.e_tag.as_deref() == Some(&summary.etag)),
        (
            "status",
            status.distribution_tenant_status.as_deref() == Some(&summary.status),
        ),
        ("domainResults", knows_domains(summary, status)),
    ];
    let facts = facts.into_iter().filter(|(_, known)| !known);
    let (ours, live) = (Body::from(applied), summary.body());
    let fields = Field::ALL.into_iter().filter(|field| match field {
        // A list does not tell them.
        Field::Parameters => false,
        Field::ConnectionGroupId => {
            let known = ours
                .connection_group_id
                .as_ref()
                .or(status.connection_group_id.as_ref());
            known != live.connection_group_id.as_ref()
                && !is_known_drift(*field, &ours, &live, status)
        }
        Field::Certificate => {
            live.certificate_arn != status.certificate_arn && is_news(*field, &ours, &live, status)
        }
        Field::Enabled
        | Field::DistributionId
        | Field::Domains
        | Field::WebAcl
        | Field::GeoRestrictions => is_news(*field, &ours, &live, status),
    });
    facts
        .map(|(word, _)| word)
        .chain(fields.map(Field::word))
        .collect()
}

fn is_news(field: Field, ours: &Body, live: &Body, status: &DistributionTenantStatus) -> bool {
    field.of(ours) != field.of(live) && !is_known_drift(field, ours, live, status)
}

fn is_known_drift(
    field: Field,
    ours: &Body,
    live: &Body,
    status: &DistributionTenantStatus,
) -> bool {
    let (want, live) = side_by_side(Some(&field.of(ours)), Some(&field.of(live)));
    status.drift.contains(&DriftedField {
        field: field.word().to_owned(),
        want,
        live,
    })
}

fn knows_domains(summary: &Summary, status: &DistributionTenantStatus) -> bool {
    let live = summary.domains.iter();
    let live: BTreeMap<_, _> = live
        .map(|one| (domain(&one.domain), one.status.as_deref()))
        .collect();
    let known = status.domain_results.iter();
    let known: BTreeMap<_, _> = known
        .map(|one| (domain(&one.domain), one.status.as_deref()))
        .collect();
    live == known
}

#[cfg(test)]
mod tests {
    use api::tenants::DomainResult;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::body::tests::spec;
    use crate::body::{LiveDomain, declared};

    fn listed() -> (Summary, DistributionTenantStatus) {
        let summary = Summary {
            id: "dt_1".to_owned(),
            etag: "E1".to_owned(),
            status: "Deployed".to_owned(),
            enabled: true,
            distribution_id: "E1".to_owned(),
            connection_group_id: Some("cg0".to_owned()),
            domains: vec![LiveDomain {
                domain: "a.example.com".to_owned(),
                status: Some("active".to_owned()),
            }],
            ..Summary::default()
        };
        let status = DistributionTenantStatus {
            e_tag: Some("E1".to_owned()),
            distribution_tenant_status: Some("Deployed".to_owned()),
            connection_group_id: Some("cg0".to_owned()),
            domain_results: vec![DomainResult {
                domain: "a.example.com".to_owned(),
                status: Some("active".to_owned()),
            }],
            last_applied: Some(declared(
                &spec(json!({"parameters": [{"name": "p", "value": "1"}]})),
                None,
            )),
            id: Some("dt_1".to_owned()),
            ..DistributionTenantStatus::default()
        };
        (summary, status)
    }

    #[test]
    fn a_steady_tenant_is_no_news() {
        let (summary, status) = listed();
        assert_eq!(news(&summary, &status), Vec::<&str>::new());
    }

    #[rstest]
    #[case::another_version(|one: &mut Summary| one.etag = "E2".to_owned(), &["eTag"])]
    #[case::deployed_by_now(|one: &mut Summary| one.status = "InProgress".to_owned(), &["status"])]
    #[case::another_tenant(|one: &mut Summary| one.id = "dt_2".to_owned(), &["id"])]
    #[case::a_domain_went_out(|one: &mut Summary| one.domains[0].status = None, &["domainResults"])]
    #[case::a_domain_is_gone(|one: &mut Summary| one.domains.clear(), &["domainResults", "domains"])]
    #[case::switched_off(|one: &mut Summary| one.enabled = false, &["enabled"])]
    #[case::moved(|one: &mut Summary| one.connection_group_id = Some("cg7".to_owned()), &["connectionGroupId"])]
    #[case::attached(|one: &mut Summary| one.certificate_arn = Some("M".to_owned()), &["certificate"])]
    fn news_are(#[case] change: fn(&mut Summary), #[case] words: &[&str]) {
        let (mut summary, status) = listed();
        change(&mut summary);
        assert_eq!(news(&summary, &status), words);
    }

    #[test]
    fn drift_on_record_and_a_certificate_in_use_are_no_news() {
        let (mut summary, mut status) = listed();
        summary.enabled = false;
        summary.certificate_arn = Some("X".to_owned());
        status.certificate_arn = Some("X".to_owned());
        status.drift = vec![DriftedField {
            field: "enabled".to_owned(),
            want: Some("true".to_owned()),
            live: Some("false".to_owned()),
        }];
        assert_eq!(news(&summary, &status), Vec::<&str>::new());
    }

    #[test]
    fn a_tenant_without_a_record_is_looked_at() {
        let (summary, _) = listed();
        assert_eq!(
            news(&summary, &DistributionTenantStatus::default()),
            ["lastApplied"]
        );
    }
}
