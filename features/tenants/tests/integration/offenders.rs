//! Objects that were stored before today's rules: they still get their status, and still go.

use crate::stories::objects::{change, in_z1, requesting, serving, with};
use crate::stories::{Site, USUAL, tell};
use api::tenants::{DistributionTenant, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use testkit::{Result, eventually};

/// What rules say that the reference did not have.
const RULES: [&str; 7] = [
    "x-kubernetes-validations",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "enum",
];

/// Specs that break a rule each, by the name of their object.
fn offenders() -> Vec<(&'static str, Value)> {
    let tags = |keys: &[&str]| {
        let each = keys.iter().map(|key| json!({"key": key, "value": "1"}));
        json!({"tags": each.collect::<Vec<_>>()})
    };
    let geo = json!({"restrictionType": "whitelist", "locations": ["germany"]});
    let parameters = json!([{"name": "p", "value": "1"}, {"name": "p", "value": "2"}]);
    let stranger = json!({"managedCertificateRequest": {"primaryDomainName": "x.example.org"}});
    let role = json!({"dns": {"assumeRoleArn": "reader"}});
    let both = json!({"connectionGroupId": "cg0", "connectionGroupRef": {"name": "edge"}});
    let changes = [
        ("reserved-tag", tags(&["aws:x"])),
        ("same-tag", tags(&["x", "x"])),
        (
            "country",
            json!({"customizations": {"geoRestrictions": geo}}),
        ),
        ("same-parameter", json!({"parameters": parameters})),
        ("primary", with(requesting("self-hosted"), stranger)),
        ("role", with(in_z1(), role)),
        ("both-groups", both),
    ];
    // Each has a domain of its own, for no other reason to be left alone.
    let named = changes.map(|(name, change)| {
        let spec = serving(&[&format!("{name}.example.com")]);
        (name, with(spec, change))
    });
    let lonely = ("one-label", serving(&["localhost"]));
    [lonely].into_iter().chain(named).collect()
}

/// A schema without these rules.
fn lenient(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !RULES.contains(&name.as_str()));
            fields.values_mut().for_each(lenient);
        }
        Value::Array(all) => all.iter_mut().for_each(lenient),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts a definition in place, and waits until the API server judges by it.
async fn define(site: &Site, definition: &Value, lets_in: bool) -> Result<()> {
    let client = site.world.control_plane().admin();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let name = DistributionTenant::crd().name_any();
    let how = PatchParams::default();
    let schema = json!({"spec": definition["spec"]});
    definitions
        .patch(&name, &how, &Patch::Merge(schema))
        .await?;
    let kind = DistributionTenant::api_resource();
    let tenants = Api::<DynamicObject>::namespaced_with(client, site.name(), &kind);
    let (_, spec) = offenders().swap_remove(0);
    let probe = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": "probe"}, "spec": spec,
    });
    let probe: DynamicObject = serde_json::from_value(probe)?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the API server has the definition", async || {
        let taken = tenants.create(&dry, &probe).await.is_ok();
        Ok((taken == lets_in).then_some(()))
    })
    .await
}

#[test]
fn what_no_rule_would_let_in_today_gets_its_status_and_goes() -> Result<()> {
    tell(USUAL, async |site| {
        let strict = serde_json::to_value(DistributionTenant::crd())?;
        let mut loose = strict.clone();
        lenient(&mut loose["spec"]["versions"]);
        define(site, &loose, true).await?;
        site.stop().await?;
        let held = json!({"metadata": {"finalizers": [names::FINALIZER]}});
        for (name, spec) in offenders() {
            site.declare(name, spec).await?;
            change::<DistributionTenant>(site, name, &held).await?;
        }
        define(site, &strict, false).await?;

        site.start().await?;
        for (name, _) in offenders() {
            let told = |one: &DistributionTenant| {
                let status = one.status.clone().unwrap_or_default();
                status.conditions.iter().any(|one| one.type_ == "Ready")
            };
            site.until::<DistributionTenant>(name, told).await?;
        }
        for (name, _) in offenders() {
            site.removes(name).await?;
        }
        Ok(())
    })
}
