//! A spec for every rule that a stored object may break: refused when new, forgiven when stored.

use api::tenants::{ConnectionGroup, DistributionTenant, Invalidation, TenantPolicy, TenantSource};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::Result;

use super::server::{
    GROUP, INVALIDATION, POLICY, SOURCE, TENANT, api, object, offered, served, spec,
};

/// A spec that breaks one rule.
pub(crate) struct Offender {
    rule: &'static str,
    pub(crate) kind: &'static str,
    /// From the smallest spec of the kind. Made when asked for: some are big.
    change: fn() -> Value,
    /// What the API server says.
    words: &'static str,
}

impl Offender {
    /// The name of the stored one.
    pub(crate) fn name(&self) -> String {
        self.rule.replace('_', "-")
    }

    pub(crate) fn spec(&self) -> Value {
        spec(self.kind, &(self.change)())
    }

    async fn is_refused(&self) -> Result<()> {
        let answer = offered(self.kind, &self.spec()).await?;
        let message = answer.expect_err("the API server accepts it");
        assert!(message.contains(self.words), "{message}");
        Ok(())
    }

    /// The end of an object that was stored before the rule: deleted, told so, let go.
    async fn takes_status_and_loses_its_finalizer(&self) -> Result<()> {
        let (name, api) = (self.name(), api(&served().await?, self.kind));
        api.delete(&name, &DeleteParams::default()).await?;

        let condition = json!({"type": "Ready", "status": "False", "reason": "Deleting",
            "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let told = api
            .patch_status(&name, &PatchParams::default(), &status)
            .await?;
        assert_eq!(told.data["status"]["conditions"][0]["reason"], "Deleting");

        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(&name, &PatchParams::default(), &free).await?;
        assert!(api.get_opt(&name).await?.is_none(), "{name} is still there");
        Ok(())
    }
}

/// A table of offenders, and for each row the two tests it stands for.
macro_rules! offenders {
    ($($rule:ident: $kind:expr, $change:expr, $words:expr;)*) => {
        pub(crate) fn offenders() -> Vec<Offender> {
            vec![$(Offender {
                rule: stringify!($rule), kind: $kind, change: || $change, words: $words,
            }),*]
        }

        mod is_refused {
            $(#[tokio::test]
            async fn $rule() -> testkit::Result<()> {
                super::offender(stringify!($rule)).is_refused().await
            })*
        }

        mod once_stored_takes_status_and_loses_its_finalizer {
            $(#[tokio::test]
            async fn $rule() -> testkit::Result<()> {
                let stored = super::offender(stringify!($rule));
                stored.takes_status_and_loses_its_finalizer().await
            })*
        }
    };
}

const NO_ZONE: &str =
    "hostedZoneId, hostedZoneIds or discoverZones is required when provider is route53";
const NOT_A_DOMAIN: &str = "primaryDomainName must be one of domains";
const LOCATIONS: &str = "whitelist and blacklist need a location, none has none";
const RESERVED: &str = "keys that begin with aws: or pontoon.io/ are reserved";
const AT_LEAST_30S: &str = "pollInterval must be a length of time such as 5m, at least 30s";
const ONE_CHOICE: &str = "set exactly one of namespaces and namespaceSelector";

offenders! {
    // What the reference refuses too.
    no_domains: TENANT, json!({"domains": []}), "spec.domains: Invalid value";
    no_distribution: TENANT, json!({"distributionId": ""}), "spec.distributionId: Invalid value";
    parameter_name: TENANT, parameters(&["a b"]), "spec.parameters[0].name";
    long_parameter_name: TENANT, parameters(&[&"a".repeat(129)]), "spec.parameters[0].name: Too long";
    empty_parameter: TENANT, json!({"parameters": [{"name": "a", "value": ""}]}), "spec.parameters[0].value";
    long_parameter: TENANT, json!({"parameters": [{"name": "a", "value": "a".repeat(257)}]}), "spec.parameters[0].value: Too long";
    override_without_arn: TENANT, custom(json!({"webAcl": {"action": "override"}})), "arn is required when action is override";
    override_with_empty_arn: TENANT, custom(json!({"webAcl": {"action": "override", "arn": ""}})), "arn is required when action is override";
    web_acl_action: TENANT, custom(json!({"webAcl": {"action": "allow"}})), "Unsupported value: \"allow\"";
    certificate_elsewhere: TENANT, custom(json!({"certificate": {"arn": "arn:aws:acm:eu-west-1:111122223333:certificate/c"}})), "certificate must be in us-east-1";
    restriction_type: TENANT, custom(json!({"geoRestrictions": {"restrictionType": "some"}})), "Unsupported value: \"some\"";
    token_host: TENANT, request(json!({"validationTokenHost": "elsewhere"})), "Unsupported value: \"elsewhere\"";
    transparency: TENANT, request(json!({"certificateTransparencyLoggingPreference": "maybe"})), "Unsupported value: \"maybe\"";
    empty_tag_key: TENANT, tags(&[""]), "spec.tags[0].key: Invalid value";
    long_tag_key: TENANT, tags(&[&"a".repeat(129)]), "spec.tags[0].key: Too long";
    long_tag_value: TENANT, json!({"tags": [{"key": "a", "value": "a".repeat(257)}]}), "spec.tags[0].value: Too long";
    provider_azure: TENANT, dns(json!({"provider": "azure"})), "Unsupported value: \"azure\"";
    no_zone: TENANT, dns(json!({"hostedZoneId": null})), NO_ZONE;
    empty_zone: TENANT, dns(json!({"hostedZoneId": "", "hostedZoneIds": [], "discoverZones": false})), NO_ZONE;
    ttl_59: TENANT, dns(json!({"ttl": 59})), "spec.dns.ttl: Invalid value: 59";
    ttl_172801: TENANT, dns(json!({"ttl": 172_801})), "spec.dns.ttl: Invalid value: 172801";
    source_without_postgres: SOURCE, json!({"provider": "postgres"}), "postgres is required when provider is postgres";
    source_without_dynamodb: SOURCE, json!({"provider": "dynamodb"}), "dynamodb is required when provider is dynamodb";
    source_provider: SOURCE, json!({"provider": "mysql"}), "Unsupported value: \"mysql\"";
    source_distribution: SOURCE, json!({"distributionId": ""}), "spec.distributionId: Invalid value";

    // What it takes, on its own fields.
    too_many_domains: TENANT, domains(&["a.example.com"; 501]), "spec.domains: Too many";
    long_domain: TENANT, domains(&[&long_domain()]), "spec.domains[0].domain: Too long";
    domain_of_one_label: TENANT, domains(&["localhost"]), "spec.domains[0].domain";
    domain_with_space: TENANT, domains(&["a b.example.com"]), "spec.domains[0].domain";
    domain_with_empty_label: TENANT, domains(&["a..example.com"]), "spec.domains[0].domain";
    domain_with_inner_star: TENANT, domains(&["a.*.example.com"]), "spec.domains[0].domain";
    star_above_one_label: TENANT, domains(&["*.com"]), "spec.domains[0].domain";
    domain_with_scheme: TENANT, domains(&["https://a.example.com"]), "spec.domains[0].domain";
    same_parameter_twice: TENANT, parameters(&["a", "b", "a"]), "names of parameters must be unique";
    too_many_parameters: TENANT, parameters(&strs(&numbered(51))), "spec.parameters: Too many";
    country_in_small_letters: TENANT, countries("whitelist", &["de"]), "locations[0]";
    country_of_three_letters: TENANT, countries("blacklist", &["DEU"]), "locations[0]";
    whitelist_of_nothing: TENANT, countries("whitelist", &[]), LOCATIONS;
    blacklist_without_list: TENANT, custom(json!({"geoRestrictions": {"restrictionType": "blacklist"}})), LOCATIONS;
    none_with_a_location: TENANT, countries("none", &["DE"]), LOCATIONS;
    long_primary_domain: TENANT, request(json!({"primaryDomainName": long_domain()})), "primaryDomainName: Too long";
    primary_not_in_domains: TENANT, request(json!({"primaryDomainName": "b.example.com"})), NOT_A_DOMAIN;
    primary_only_below: TENANT, request(json!({"primaryDomainName": "example.com"})), NOT_A_DOMAIN;
    too_many_tags: TENANT, tags(&strs(&numbered(49))), "spec.tags: Too many";
    same_tag_twice: TENANT, tags(&["a", "b", "a"]), "keys of tags must be unique";
    tag_of_aws: TENANT, tags(&["aws:x"]), RESERVED;
    tag_of_aws_in_capitals: TENANT, tags(&["AWS:x"]), RESERVED;
    tag_of_ours: TENANT, tags(&["pontoon.io/cluster"]), RESERVED;
    role_of_no_account: TENANT, dns(json!({"assumeRoleArn": "arn:aws:iam::12:role/r"})), "spec.dns.assumeRoleArn";
    role_that_is_a_user: TENANT, dns(json!({"assumeRoleArn": "arn:aws:iam::111122223333:user/r"})), "spec.dns.assumeRoleArn";
    polled_too_often: SOURCE, json!({"pollInterval": "29s"}), AT_LEAST_30S;
    polled_at_no_time: SOURCE, json!({"pollInterval": "soon"}), AT_LEAST_30S;
    polled_too_rarely_to_count: SOURCE, json!({"pollInterval": "9999999999h"}), AT_LEAST_30S;
    polled_backwards: SOURCE, json!({"pollInterval": "-5m"}), AT_LEAST_30S;

    // So much of it that to walk it would cost the API server more than it pays.
    masses_of_domains: TENANT, both(request(json!({})), domains(&vec!["b.example.com"; 20_000])), "spec.domains: Too many";
    masses_of_text_in_the_primary: TENANT, both(request(json!({"primaryDomainName": "a".repeat(500_000)})), domains(&["b.example.com"; 500])), "primaryDomainName: Too long";
    masses_of_parameters: TENANT, parameters(&strs(&numbered(5000))), "spec.parameters: Too many";
    masses_of_tags: TENANT, tags(&strs(&numbered(5000))), "spec.tags: Too many";

    // Fields it does not have.
    both_groups: TENANT, json!({"connectionGroupId": "cg_1", "connectionGroupRef": {"name": "edge"}}), "connectionGroupId and connectionGroupRef are mutually exclusive";
    group_without_name: TENANT, json!({"connectionGroupRef": {"name": ""}}), "spec.connectionGroupRef.name";
    too_many_zones: TENANT, dns(json!({"hostedZoneIds": vec!["Z1"; 21]})), "spec.dns.hostedZoneIds: Too many";
    zone_that_is_a_name: TENANT, dns(json!({"hostedZoneIds": ["example.com"]})), "spec.dns.hostedZoneIds[0]";
    alias_policy: TENANT, dns(json!({"aliasPolicy": "Sometimes"})), "Unsupported value: \"Sometimes\"";
    record_adoption: TENANT, dns(json!({"recordAdoption": "Always"})), "Unsupported value: \"Always\"";
    short_tenant_name: TENANT, json!({"tenantName": "ab"}), "spec.tenantName";
    long_tenant_name: TENANT, json!({"tenantName": "a".repeat(129)}), "spec.tenantName: Too long";
    tenant_name_with_final_dot: TENANT, json!({"tenantName": "acme."}), "spec.tenantName";
    tenant_name_with_underscore: TENANT, json!({"tenantName": "ac_me"}), "spec.tenantName";
    drift_policy: TENANT, json!({"driftPolicy": "Enforce"}), "Unsupported value: \"Enforce\"";
    deletion_policy: TENANT, json!({"deletionPolicy": "Orphan"}), "Unsupported value: \"Orphan\"";
    adopted_by_id: TENANT, json!({"adoption": {"by": "Id"}}), "Unsupported value: \"Id\"";
    owner_of_two_parts: TENANT, json!({"adoption": {"by": "Name", "fromOwner": "ns/name"}}), "spec.adoption.fromOwner";
    source_without_config_map: SOURCE, json!({"configMap": null}), "configMap is required when provider is configMap";
    role_of_a_source: SOURCE, json!({"dynamodb": {"tableName": "t", "assumeRoleArn": "reader"}}), "spec.dynamodb.assumeRoleArn";
    template_with_both_groups: SOURCE, template(json!({"connectionGroupId": "cg_1", "connectionGroupRef": {"name": "edge"}})), "connectionGroupId and connectionGroupRef are mutually exclusive";
    template_without_zone: SOURCE, template(json!({"dns": {"provider": "route53"}})), NO_ZONE;
    template_with_reserved_tag: SOURCE, template(tags(&["aws:x"])), RESERVED;
    template_with_certificate_elsewhere: SOURCE, template(custom(json!({"certificate": {"arn": "c"}}))), "certificate must be in us-east-1";
    pruned_beyond_all: SOURCE, json!({"prune": {"maxDeletePercent": 101}}), "spec.prune.maxDeletePercent";
    pruned_at_once: SOURCE, json!({"prune": {"confirmPolls": 0}}), "spec.prune.confirmPolls";
    no_rows: SOURCE, json!({"maxRows": 0}), "spec.maxRows";

    // Kinds it does not have.
    short_group_name: GROUP, json!({"groupName": "ab"}), "spec.groupName";
    group_with_reserved_tag: GROUP, tags(&["pontoon.io/object"]), RESERVED;
    group_with_same_tag_twice: GROUP, tags(&["a", "a"]), "keys of tags must be unique";
    group_adopted_by_domain: GROUP, json!({"adoption": {"by": "Domain"}}), "Unsupported value: \"Domain\"";
    no_paths: INVALIDATION, json!({"paths": []}), "spec.paths: Invalid value";
    too_many_paths: INVALIDATION, json!({"paths": vec!["/"; 3001]}), "spec.paths: Too many";
    path_without_slash: INVALIDATION, json!({"paths": ["index.html"]}), "spec.paths[0]";
    negative_ttl: INVALIDATION, json!({"ttlSecondsAfterFinished": -1}), "spec.ttlSecondsAfterFinished";
    policy_for_nobody: POLICY, json!({"namespaces": null}), ONE_CHOICE;
    policy_by_name_and_label: POLICY, json!({"namespaceSelector": {}}), ONE_CHOICE;
    zone_of_a_policy: POLICY, json!({"hostedZones": ["example.com"]}), "spec.hostedZones[0]";
    role_of_a_policy: POLICY, json!({"roles": [{"arn": "writer"}]}), "spec.roles[0].arn";
    domain_of_a_policy: POLICY, json!({"domains": ["*"]}), "spec.domains[0]";
}

fn offender(rule: &str) -> Offender {
    let found = offenders().into_iter().find(|one| one.rule == rule);
    found.expect("a row of the table")
}

/// Only a word that no release knew is not understood.
#[test]
fn an_offender_can_still_be_read() {
    let known = |one: &Offender| !one.words.starts_with("Unsupported value");
    for one in offenders().into_iter().filter(known) {
        let stored = object(one.kind, &one.name(), &one.spec());
        let stored = serde_json::to_value(stored).expect("JSON");
        let read = match one.kind {
            TENANT => serde_json::from_value::<DistributionTenant>(stored).err(),
            SOURCE => serde_json::from_value::<TenantSource>(stored).err(),
            GROUP => serde_json::from_value::<ConnectionGroup>(stored).err(),
            INVALIDATION => serde_json::from_value::<Invalidation>(stored).err(),
            POLICY => serde_json::from_value::<TenantPolicy>(stored).err(),
            other => panic!("no kind of ours: {other}"),
        };
        assert!(read.is_none(), "{}: {read:?}", one.rule);
    }
}

fn domains(names: &[&str]) -> Value {
    let domains: Vec<_> = names.iter().map(|name| json!({"domain": name})).collect();
    json!({"domains": domains})
}

/// 255 characters, each label of a good length.
fn long_domain() -> String {
    format!(
        "{}{}",
        format!("{}.", "a".repeat(59)).repeat(4),
        "b".repeat(15)
    )
}

fn parameters(names: &[&str]) -> Value {
    let each = names.iter().map(|name| json!({"name": name, "value": "v"}));
    json!({"parameters": each.collect::<Vec<_>>()})
}

fn tags(keys: &[&str]) -> Value {
    let each = keys.iter().map(|key| json!({"key": key, "value": "v"}));
    json!({"tags": each.collect::<Vec<_>>()})
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

fn strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn custom(customizations: Value) -> Value {
    json!({"customizations": customizations})
}

fn countries(restriction: &str, locations: &[&str]) -> Value {
    custom(json!({"geoRestrictions": {"restrictionType": restriction, "locations": locations}}))
}

/// A good request, changed.
fn request(change: Value) -> Value {
    let mut request =
        json!({"validationTokenHost": "cloudfront", "primaryDomainName": "a.example.com"});
    super::server::merge(&mut request, &change);
    json!({"managedCertificateRequest": request})
}

/// Good settings of DNS, changed.
fn dns(change: Value) -> Value {
    let mut dns = json!({"provider": "route53", "hostedZoneId": "Z1"});
    super::server::merge(&mut dns, &change);
    json!({"dns": dns})
}

fn both(mut one: Value, other: Value) -> Value {
    super::server::merge(&mut one, &other);
    one
}

fn template(template: Value) -> Value {
    json!({"template": template})
}
