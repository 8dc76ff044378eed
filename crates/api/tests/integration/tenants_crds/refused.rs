//! What is refused new and old alike: what was required all along, and edits of what stays.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::Result;

use super::server::{
    GROUP, INVALIDATION, POLICY, SOURCE, TENANT, api, object, offered, served, spec,
};

#[rstest]
#[case::distribution(TENANT, json!({"distributionId": null}), "spec.distributionId: Required")]
#[case::domains(TENANT, json!({"domains": null}), "spec.domains: Required")]
#[case::domain(TENANT, json!({"domains": [{}]}), "spec.domains[0].domain: Required")]
#[case::token_host(TENANT, json!({"managedCertificateRequest": {"primaryDomainName": "a.example.com"}}), "validationTokenHost: Required")]
#[case::primary_domain(TENANT, json!({"managedCertificateRequest": {"validationTokenHost": "cloudfront"}}), "primaryDomainName: Required")]
#[case::dns_provider(TENANT, json!({"dns": {"hostedZoneId": "Z1"}}), "spec.dns.provider: Required")]
#[case::way_of_adoption(TENANT, json!({"adoption": {}}), "spec.adoption.by: Required")]
#[case::group_name(TENANT, json!({"connectionGroupRef": {}}), "spec.connectionGroupRef.name: Required")]
#[case::provider(SOURCE, json!({"provider": null}), "spec.provider: Required")]
#[case::distribution_of_a_source(SOURCE, json!({"distributionId": null}), "spec.distributionId: Required")]
#[case::config_map(SOURCE, json!({"configMap": {"name": null}}), "spec.configMap.name: Required")]
#[case::tenant(INVALIDATION, json!({"tenantRef": null}), "spec.tenantRef: Required")]
#[case::paths(INVALIDATION, json!({"paths": null}), "spec.paths: Required")]
#[case::role(POLICY, json!({"roles": [{"externalId": "ext"}]}), "spec.roles[0].arn: Required")]
#[tokio::test]
async fn is_required(#[case] kind: &str, #[case] change: Value, #[case] words: &str) -> Result<()> {
    let answer = offered(kind, &spec(kind, &change)).await?;
    let message = answer.expect_err("the API server accepts it");
    assert!(message.contains(words), "{message}");
    Ok(())
}

/// Edits an object that was made from `first`, and gives what the API server says.
async fn edited(kind: &str, first: &Value, edit: &Value) -> Result<Result<(), String>> {
    let api = api(&served().await?, kind);
    let mut named = object(kind, "x", &spec(kind, first));
    named.metadata.name = None;
    named.metadata.generate_name = Some("edited-".into());
    let name = api.create(&PostParams::default(), &named).await?.name_any();
    let patch = Patch::Merge(json!({"spec": edit}));
    Ok(
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message),
            Err(other) => return Err(other.into()),
        },
    )
}

#[rstest]
#[case::tenant_name_added(TENANT, json!({}), json!({"tenantName": "acme"}), "tenantName is immutable")]
#[case::tenant_name_changed(TENANT, json!({"tenantName": "acme"}), json!({"tenantName": "other"}), "tenantName is immutable")]
#[case::tenant_name_removed(TENANT, json!({"tenantName": "acme"}), json!({"tenantName": null}), "tenantName is immutable")]
#[case::group_name_added(GROUP, json!({}), json!({"groupName": "edge"}), "groupName is immutable")]
#[case::group_name_changed(GROUP, json!({"groupName": "edge"}), json!({"groupName": "other"}), "groupName is immutable")]
#[case::group_name_removed(GROUP, json!({"groupName": "edge"}), json!({"groupName": null}), "groupName is immutable")]
#[case::tenant_of_an_invalidation(INVALIDATION, json!({}), json!({"tenantRef": {"name": "other"}}), "an Invalidation is immutable")]
#[case::paths(INVALIDATION, json!({}), json!({"paths": ["/a"]}), "an Invalidation is immutable")]
#[case::time_to_live(INVALIDATION, json!({}), json!({"ttlSecondsAfterFinished": 1}), "an Invalidation is immutable")]
#[tokio::test]
async fn cannot_be_edited(
    #[case] kind: &str,
    #[case] first: Value,
    #[case] edit: Value,
    #[case] words: &str,
) -> Result<()> {
    let message = edited(kind, &first, &edit)
        .await?
        .expect_err("the edit is taken");
    assert!(message.contains(words), "{message}");
    Ok(())
}

#[rstest]
#[case::beside_a_tenant_name(TENANT, json!({"tenantName": "acme"}), json!({"enabled": false}))]
#[case::distribution(TENANT, json!({}), json!({"distributionId": "E2"}))]
#[case::dns_removed(TENANT, json!({"dns": {"provider": "none"}}), json!({"dns": null}))]
#[case::beside_a_group_name(GROUP, json!({"groupName": "edge"}), json!({"ipv6Enabled": false}))]
#[tokio::test]
async fn can_be_edited(
    #[case] kind: &str,
    #[case] first: Value,
    #[case] edit: Value,
) -> Result<()> {
    assert_eq!(edited(kind, &first, &edit).await?, Ok(()));
    Ok(())
}
