//! The kinds as they read, write and describe themselves, without a server.

use assert_json_diff::assert_json_eq;
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::schema::unused;

const LEGACY: &str = include_str!("../../tests/fixtures/tenants/objects.yaml");
const WHOLE: &str = include_str!("../../tests/fixtures/tenants/whole.yaml");

fn whole() -> Vec<Value> {
    serde_saphyr::from_str(WHOLE).expect("valid YAML")
}

fn read_and_written(object: &Value) -> Value {
    fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let read: K = serde_json::from_value(object.clone()).expect("it is understood");
        serde_json::to_value(read).expect("JSON")
    }
    match object["kind"].as_str().expect("a kind") {
        "DistributionTenant" => through::<DistributionTenant>(object),
        "TenantSource" => through::<TenantSource>(object),
        "ConnectionGroup" => through::<ConnectionGroup>(object),
        "Invalidation" => through::<Invalidation>(object),
        "TenantPolicy" => through::<TenantPolicy>(object),
        other => panic!("no kind of ours: {other}"),
    }
}

#[test]
fn objects_of_the_reference_read_and_write_back_equal() {
    let list: Value = serde_saphyr::from_str(LEGACY).expect("valid YAML");
    for legacy in list["items"].as_array().expect("a list") {
        assert_json_eq!(read_and_written(legacy), legacy);
    }
}

#[test]
fn every_field_reads_and_writes_back_equal() {
    for object in whole() {
        assert_json_eq!(read_and_written(&object), object);
    }
}

#[test]
fn the_whole_objects_have_every_field() {
    for crd in crds() {
        let kind = &crd.spec.names.kind;
        let objects: Vec<_> = whole()
            .into_iter()
            .filter(|one| one["kind"] == **kind)
            .collect();
        let schema = schema(&crd);
        for part in ["spec", "status"] {
            let values = objects.iter().map(|one| &one[part]).collect();
            assert_eq!(
                unused(&schema["properties"][part], values),
                [""; 0],
                "{kind}.{part}"
            );
        }
    }
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    let schema = serde_json::to_value(&crd.spec.versions[0].schema).expect("JSON");
    schema["openAPIV3Schema"].clone()
}

#[rstest]
#[case::tenant("DistributionTenant",
    json!({"distributionId": "E1", "domains": [], "dns": {"provider": "none"}}),
    json!({"distributionId": "E1", "domains": [], "enabled": true, "dns": {"provider": "none", "ttl": 300}}))]
#[case::source("TenantSource",
    json!({"provider": "dynamodb", "distributionId": "E1", "dynamodb": {"tableName": "t"}, "configMap": {"name": "c"}, "prune": {}}),
    json!({"provider": "dynamodb", "distributionId": "E1", "pollInterval": "5m", "dryRun": false, "maxRows": 20_000,
        "dynamodb": {"tableName": "t", "nameAttribute": "name", "domainAttribute": "domain"},
        "configMap": {"name": "c", "key": "tenants.csv"}, "prune": {"enabled": false, "maxDeletePercent": 10, "confirmPolls": 2}}))]
#[case::group("ConnectionGroup", json!({}), json!({"ipv6Enabled": true, "enabled": true}))]
#[case::invalidation("Invalidation",
    json!({"tenantRef": {"name": "a"}, "paths": []}),
    json!({"tenantRef": {"name": "a"}, "paths": [], "ttlSecondsAfterFinished": 3600}))]
#[case::policy("TenantPolicy", json!({}), json!({}))]
fn what_is_left_out_means(#[case] kind: &str, #[case] spec: Value, #[case] completed: Value) {
    let object = json!({"apiVersion": "cloudfront-tenant-operator.io/v1alpha1", "kind": kind,
        "metadata": {}, "spec": spec});
    assert_json_eq!(read_and_written(&object)["spec"], completed);
}

#[test]
fn a_word_is_the_same_wherever_it_is_said() {
    fn same<T: Serialize + Copy>(word: fn(T) -> &'static str, values: &[T]) {
        for value in values {
            assert_eq!(serde_json::to_value(value).expect("JSON"), word(*value));
        }
    }
    use CertificateTransparency::{Disabled, Enabled};
    use RestrictionType::{Blacklist, None, Whitelist};
    same(
        DriftPolicy::as_str,
        &[
            DriftPolicy::Enforce,
            DriftPolicy::Report,
            DriftPolicy::Suspend,
        ],
    );
    same(
        WebAclAction::as_str,
        &[WebAclAction::Disable, WebAclAction::Override],
    );
    same(RestrictionType::as_str, &[None, Whitelist, Blacklist]);
    same(
        ValidationTokenHost::as_str,
        &[
            ValidationTokenHost::Cloudfront,
            ValidationTokenHost::SelfHosted,
        ],
    );
    same(CertificateTransparency::as_str, &[Enabled, Disabled]);
    same(
        RecordType::as_str,
        &[RecordType::Cname, RecordType::A, RecordType::Aaaa],
    );
    same(
        RequiredRecordType::as_str,
        &[RequiredRecordType::Cname, RequiredRecordType::Alias],
    );
}

#[rstest]
#[case::tenant(
    "DistributionTenant",
    "Status Ready Synced ID Age",
    "Distribution DNS Certificate"
)]
#[case::source("TenantSource", "Provider Discovered DryRun LastPoll Age", "")]
#[case::group(
    "ConnectionGroup",
    "State Ready Synced Endpoint Tenants Age",
    "ID Default"
)]
#[case::invalidation("Invalidation", "Tenant Phase Age", "ID")]
#[case::policy("TenantPolicy", "Namespaces Ready Age", "")]
fn columns_are(#[case] kind: &str, #[case] always: &str, #[case] wide: &str) {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind);
    let version = crd.expect("one of ours").spec.versions.remove(0);
    let columns = version.additional_printer_columns.expect("columns");
    let of = |priority| {
        let shown = columns
            .iter()
            .filter(|one| one.priority.unwrap_or(0) == priority);
        shown.map(|one| &*one.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((&*of(0), &*of(1)), (always, wide));
}

#[rstest]
#[case::tenant("DistributionTenant", "Namespaced", "distributiontenants")]
#[case::source("TenantSource", "Namespaced", "tenantsources")]
#[case::group("ConnectionGroup", "Cluster", "connectiongroups")]
#[case::invalidation("Invalidation", "Namespaced", "invalidations")]
#[case::policy("TenantPolicy", "Cluster", "tenantpolicies")]
fn kinds_are_served_with_a_status(#[case] kind: &str, #[case] scope: &str, #[case] plural: &str) {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind);
    let spec = crd.expect("one of ours").spec;
    assert_eq!(
        (&*spec.group, &*spec.scope, &*spec.names.plural),
        (names::GROUP, scope, plural)
    );
    let [version] = &*spec.versions else {
        panic!("one version")
    };
    assert_eq!(
        (&*version.name, version.served, version.storage),
        ("v1alpha1", true, true)
    );
    let subresources = version.subresources.as_ref().expect("subresources");
    assert!(subresources.status.is_some());
}

/// `required` is not forgiven to stored objects, so on the reference's fields there is no more of
/// it than the reference has.
#[rstest]
#[case::tenant("DistributionTenant", &[
    "adoption.by", "connectionGroupRef.name", "customizations.certificate.arn",
    "customizations.geoRestrictions.restrictionType", "customizations.webAcl.action",
    "distributionId", "dns.provider", "domains", "domains.domain",
    "managedCertificateRequest.primaryDomainName", "managedCertificateRequest.validationTokenHost",
    "parameters.name", "parameters.value", "tags.key",
])]
#[case::source("TenantSource", &[
    "configMap.name", "distributionId", "dynamodb.tableName", "postgres.connectionSecretRef",
    "postgres.connectionSecretRef.name", "postgres.query", "provider",
    "template.connectionGroupRef.name", "template.customizations.certificate.arn",
    "template.customizations.geoRestrictions.restrictionType",
    "template.customizations.webAcl.action", "template.dns.provider",
    "template.managedCertificateRequest.validationTokenHost", "template.parameters.name",
    "template.parameters.value", "template.tags.key",
])]
fn exactly_these_fields_are_required(#[case] kind: &str, #[case] expected: &[&str]) {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind);
    let schema = schema(&crd.expect("one of ours"));
    let mut found = required(&schema["properties"]["spec"]);
    found.sort();
    assert_eq!(found, expected);
}

/// The fields that `schema` requires of what is there.
fn required(schema: &Value) -> Vec<String> {
    if schema["items"].is_object() {
        return required(&schema["items"]);
    }
    let own = schema["required"].as_array().into_iter().flatten();
    let own = own.map(|name| name.as_str().expect("a name").to_owned());
    let fields = schema["properties"].as_object().into_iter().flatten();
    let below = fields.flat_map(|(name, field)| {
        let paths = required(field).into_iter();
        paths.map(move |path| format!("{name}.{path}"))
    });
    own.chain(below).collect()
}

#[test]
fn no_field_accepts_null_has_a_list_type_or_an_unknown_format() {
    for crd in crds() {
        let schema = schema(&crd);
        for part in ["spec", "status"] {
            let text = schema["properties"][part]["properties"].to_string();
            for word in [
                "nullable",
                "anyOf",
                "oneOf",
                "\"uint",
                "list-type",
                "uniqueItems",
            ] {
                let kind = &crd.spec.names.kind;
                assert!(!text.contains(word), "{word} in the {part} of {kind}");
            }
        }
    }
}
