//! The PrometheusRule: alerts of the enabled features, on series that exist.

use std::{collections::BTreeSet, fs};

use rstest::rstest;
use serde_json::Value;
use testkit::{Result, checkout};

use crate::chart_files::{
    Chart, NAMESPACE,
    rendered::{all, the},
};

const ENGINE: [&str; 4] = [
    "PontoonLeaderAbsent",
    "PontoonQueueStalled",
    "PontoonObjectsFailing",
    "PontoonObjectsBlocked",
];
const VAULT: [&str; 3] = [
    "PontoonVaultConnectionUnhealthy",
    "PontoonVaultDrift",
    "PontoonVaultLeftovers",
];
const MIGRATE: [&str; 4] = [
    "PontoonMigrateStalled",
    "PontoonMigrateHeld",
    "PontoonMigrateFailed",
    "PontoonMigrateOrdinalDown",
];
const TENANTS: [&str; 3] = [
    "PontoonTenantsDrift",
    "PontoonTenantsNotReady",
    "PontoonTenantsSweepOld",
];

/// Where series are registered: the prefix of their names, the source, and the page with their table.
const SERIES: [(&str, &str, &str); 4] = [
    ("", "crates/engine/src/metrics.rs", "docs/operating.md"),
    (
        "vault_access_operator_",
        "features/vault/src/metrics.rs",
        "docs/vault.md",
    ),
    (
        "cloudfront_tenant_operator_",
        "features/tenants/src/metrics.rs",
        "docs/tenants.md",
    ),
    (
        "pontoon_migrate_",
        "features/migrate/src/metrics.rs",
        "docs/migrate.md",
    ),
];

#[tokio::test]
async fn alerts_are_off_by_default_and_without_metrics() -> Result<()> {
    let chart = Chart::released()?;
    let default = chart.rendered(&[]).await?;
    assert!(all(&default, "PrometheusRule")?.is_empty());
    let switches = "metrics.enabled=false,metrics.prometheusRule.enabled=true";
    let unserved = chart.rendered(&["--set", switches]).await?;
    assert!(all(&unserved, "PrometheusRule")?.is_empty());
    Ok(())
}

#[rstest]
#[case::all_features("", &[&ENGINE[..], &MIGRATE, &TENANTS, &VAULT])]
#[case::migrate_alone("features.migrate.enabled=true", &[&ENGINE[..], &MIGRATE])]
#[case::vault_alone("features.vault.enabled=true", &[&ENGINE[..], &VAULT])]
#[case::tenants_alone("features.tenants.enabled=true", &[&ENGINE[..], &TENANTS])]
#[tokio::test]
async fn only_enabled_features_have_alerts(
    #[case] features: &str,
    #[case] expected: &[&[&str]],
) -> Result<()> {
    let rules = rules(features).await?;
    let names: Vec<_> = rules.iter().map(|rule| &rule["alert"]).collect();
    assert_eq!(names, expected.concat());
    Ok(())
}

#[tokio::test]
async fn each_alert_reads_series_of_this_release_that_exist() -> Result<()> {
    let known = documented()?;
    for rule in rules("").await? {
        let expression = rule["expr"].as_str().expect("an alert has an expression");
        let series = series(expression);
        assert!(!series.is_empty(), "{expression}");
        for name in &series {
            assert!(known.contains(*name), "{name}: no table in docs/ has it");
            assert!(is_registered(name)?, "{name}: no source registers it");
        }
        let matcher = format!("namespace=\"{NAMESPACE}\"");
        assert_eq!(expression.matches(&matcher).count(), series.len());
    }
    Ok(())
}

#[tokio::test]
async fn each_alert_has_a_severity_and_what_to_do() -> Result<()> {
    for rule in rules("").await? {
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{rule}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].is_string(), "{text}: {rule}");
        }
    }
    Ok(())
}

/// All alerts of a release; empty `features` means all released ones.
async fn rules(features: &str) -> Result<Vec<Value>> {
    let switches = format!("metrics.prometheusRule.enabled=true,{features}");
    let switches = switches.trim_end_matches(',');
    let manifest = Chart::released()?.rendered(&["--set", switches]).await?;
    let rule = the(&manifest, "PrometheusRule")?;
    let groups = rule["spec"]["groups"].as_array().expect("it has groups");
    let rules = groups.iter().filter_map(|group| group["rules"].as_array());
    Ok(rules.flatten().cloned().collect())
}

/// The names in front of a matcher.
fn series(expression: &str) -> Vec<&str> {
    let (named, _) = expression.rsplit_once('{').unwrap_or_default();
    let names = named.split('{');
    let names = names.filter_map(|before| before.rsplit(|c| !is_of_a_name(c)).next());
    names.collect()
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The series in the tables of docs/.
fn documented() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (_, _, page) in SERIES {
        let text = read(page)?;
        let cells = text.lines().filter(|row| row.starts_with("| `"));
        for quoted in cells.flat_map(|row| row.split('`').skip(1).step_by(2)) {
            names.insert(quoted.split('{').next().unwrap_or_default().to_owned());
        }
    }
    Ok(names)
}

/// Whether a source registers it. The encoder adds `_total` to counters; the name of a gauge may
/// already have it.
fn is_registered(name: &str) -> Result<bool> {
    let (prefix, source, _) = SERIES
        .into_iter()
        .rev()
        .find(|(prefix, ..)| name.starts_with(prefix))
        .expect("every name starts with the empty prefix");
    let (name, source) = (&name[prefix.len()..], read(source)?);
    let mut names = [name, name.trim_end_matches("_total")].into_iter();
    Ok(names.any(|name| source.contains(&format!("\"{name}\""))))
}

fn read(file: &str) -> Result<String> {
    Ok(fs::read_to_string(checkout().join(file))?)
}
