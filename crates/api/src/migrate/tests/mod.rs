//! The kind as it reads, writes and describes itself, without a server.

mod definition;
mod record;
mod spec;

use serde_json::Value;

const LEGACY: &str = include_str!("../../../tests/fixtures/migrate/objects.yaml");
const WHOLE: &str = include_str!("../../../tests/fixtures/migrate/whole.yaml");

fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_str(yaml).expect("valid YAML")
}
