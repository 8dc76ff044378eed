//! The rendered objects, as values.

use serde_json::Value;
use testkit::{Result, manifests};

use super::{Chart, path};

/// Every switch on, every list and map filled.
const EVERYTHING: &str = include_str!("everything.yaml");

/// The rendered manifest with every value set.
pub(crate) async fn everything(chart: &Chart) -> Result<String> {
    let values = chart.scratch().write("values.yaml", EVERYTHING)?;
    chart.rendered(&["-f", path(&values)]).await
}

/// The rendered objects of a kind.
pub(crate) fn all(manifest: &str, kind: &str) -> Result<Vec<Value>> {
    let objects = manifests::parse(manifest)?.into_iter();
    let values = objects.map(|object| serde_json::to_value(object).expect("it was JSON"));
    Ok(values.filter(|object| object["kind"] == kind).collect())
}

/// The only one of a kind.
pub(crate) fn the(manifest: &str, kind: &str) -> Result<Value> {
    let mut found = all(manifest, kind)?;
    assert_eq!(found.len(), 1, "{kind}: {found:#?}");
    Ok(found.remove(0))
}

pub(crate) fn deployment(manifest: &str) -> Result<Value> {
    the(manifest, "Deployment")
}

/// The operator's command line.
pub(crate) fn args(manifest: &str) -> Result<Vec<String>> {
    let args = &deployment(manifest)?["spec"]["template"]["spec"]["containers"][0]["args"];
    Ok(serde_json::from_value(args.clone())?)
}
