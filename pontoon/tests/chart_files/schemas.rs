//! kubeconform with the schemas of the API server itself: nothing is downloaded, and an unknown field
//! is an error.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::{
    ControlPlane, Result, manifests,
    scratch::Scratch,
    tools::{self, Tool},
};
use tokio::process::Command;

use super::{path, run, text};

/// Kinds of the Prometheus operator, for which the API server has no schemas.
const FOREIGN: [&str; 2] = ["PrometheusRule", "ServiceMonitor"];

/// Every object in `manifest` must match its schema, and only foreign kinds may be skipped.
pub(crate) async fn expect_valid(manifest: &str) -> Result<()> {
    let scratch = Scratch::new("schemas")?;
    let definitions = definitions().await?;
    let objects = manifests::parse(manifest)?;
    let mut foreign = 0;
    for types in objects.iter().filter_map(|object| object.types.as_ref()) {
        if FOREIGN.contains(&types.kind.as_str()) {
            foreign += 1;
            continue;
        }
        let (group, version) = types
            .api_version
            .split_once('/')
            .unwrap_or(("", &types.api_version));
        let gvk = json!([{ "group": group, "kind": types.kind, "version": version }]);
        let schema = standalone(&definitions, &gvk);
        let schema = schema.unwrap_or_else(|| panic!("the API server has no schema of {types:?}"));
        // For the core group kubeconform uses the version as the name of the group.
        let group = if group.is_empty() { version } else { group };
        let file = format!("{}-{group}-{version}.json", types.kind.to_lowercase());
        scratch.write(&file, schema.to_string())?;
    }
    let file = scratch.write("manifest.yaml", manifest)?;
    let report = kubeconform(&scratch, path(&file)).await?;
    let counted = &report["summary"];
    let valid = objects.len() - foreign;
    assert!(valid > 0, "nothing was rendered");
    let wanted = json!({ "valid": valid, "invalid": 0, "errors": 0, "skipped": foreign });
    assert_eq!(*counted, wanted, "{report:#}");
    Ok(())
}

async fn kubeconform(scratch: &Scratch, file: &str) -> Result<Value> {
    let location = format!(
        "{}/{{{{ .ResourceKind }}}}-{{{{ .Group }}}}-{{{{ .ResourceAPIVersion }}}}.json",
        path(scratch.path())
    );
    let mut kubeconform = Command::new(tools::find(Tool::Kubeconform)?);
    kubeconform.args(["-strict", "-summary", "-output", "json"]);
    kubeconform.args(["-skip", &FOREIGN.join(",")]);
    kubeconform.args(["-schema-location", &location, file]);
    let output = run(kubeconform).await?;
    let printed = text(output.stdout);
    let report = serde_json::from_str(&printed);
    Ok(report.unwrap_or_else(|error| panic!("{error}: {printed}{}", text(output.stderr))))
}

/// The API server's schemas by name, made strict.
async fn definitions() -> Result<BTreeMap<String, Value>> {
    let plane = ControlPlane::shared().await?;
    let request = http::Request::get("/openapi/v2").body(Vec::new())?;
    let mut document: Value = plane.admin().request(request).await?;
    let mut definitions: BTreeMap<String, Value> =
        serde_json::from_value(document["definitions"].take())?;
    definitions.values_mut().for_each(strict);
    // It is declared as text, but the server accepts numbers, too.
    definitions.insert(
        "io.k8s.apimachinery.pkg.api.resource.Quantity".into(),
        json!({ "type": ["string", "number"] }),
    );
    Ok(definitions)
}

/// Refuses unknown fields, and defines `int-or-string`.
fn strict(schema: &mut Value) {
    if schema.get("properties").is_some() {
        schema["additionalProperties"] = json!(false);
    }
    if schema["format"] == "int-or-string" {
        schema["type"] = json!(["integer", "string"]);
    }
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    fields
        .into_iter()
        .flatten()
        .for_each(|(_, field)| strict(field));
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(below).filter(|below| below.is_object()) {
            strict(below);
        }
    }
}

/// The schema of one kind with all that it refers to.
fn standalone(definitions: &BTreeMap<String, Value>, gvk: &Value) -> Option<Value> {
    let is_it = |schema: &Value| schema["x-kubernetes-group-version-kind"] == *gvk;
    let (root, _) = definitions.iter().find(|(_, schema)| is_it(schema))?;
    let mut reached: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut open = vec![root.as_str()];
    while let Some(name) = open.pop() {
        if reached.insert(name, &definitions[name]).is_none() {
            references(&definitions[name], &mut open);
        }
    }
    Some(json!({ "$ref": format!("#/definitions/{root}"), "definitions": reached }))
}

fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.strip_prefix("#/definitions/")));
            fields.values().for_each(|each| references(each, found));
        }
        Value::Array(items) => items.iter().for_each(|each| references(each, found)),
        _ => {}
    }
}
