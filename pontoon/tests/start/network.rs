//! The NetworkPolicy: pods may connect only to what the enabled features declare.

use std::{collections::BTreeSet, fs};

use rstest::rstest;
use serde_json::{Value, json};
use testkit::Result;

use crate::chart_files::{
    Chart,
    rendered::{everything, the},
    schemas, source,
};

const DNS: &str = "anywhere UDP/53 TCP/53";
const API_SERVER: &str = "anywhere TCP/443 TCP/6443";
const AWS: &str = "0.0.0.0/0 ::/0 TCP/443";
const ENABLED: &str = "networkPolicy.enabled=true";
/// One rule for each destination that has none by default.
const GIVEN: &str = r#"networkPolicy.egress={
    "vault": [{"to": [{"ipBlock": {"cidr": "10.0.3.0/24"}}], "ports": [{"protocol": "TCP", "port": 8200}]}],
    "databases": [{"to": [{"ipBlock": {"cidr": "10.0.4.0/24"}}], "ports": [{"protocol": "TCP", "port": 5432}]}],
    "clusters": [{"to": [{"ipBlock": {"cidr": "10.0.5.0/24"}}], "ports": [{"protocol": "TCP", "port": 6443}]}],
    "extra": [{"to": [{"ipBlock": {"cidr": "10.0.6.0/24"}}], "ports": [{"protocol": "TCP", "port": 3128}]}]
}"#;
const NOTHING: &str = r#"networkPolicy.egress={
    "dns": [], "apiServer": [], "aws": [], "vault": [], "databases": [], "clusters": [], "extra": []
}"#;

#[rstest]
#[case::all_features("", &[DNS, API_SERVER, AWS])]
#[case::vault_alone("vault", &[DNS, API_SERVER])]
#[case::tenants_alone("tenants", &[DNS, API_SERVER, AWS])]
#[case::migrate_alone("migrate", &[DNS, API_SERVER, AWS])]
#[case::feature_that_declares_nothing("probe", &[DNS, API_SERVER])]
#[tokio::test]
async fn egress_is_what_the_enabled_features_declare(
    #[case] feature: &str,
    #[case] expected: &[&str],
) -> Result<()> {
    let policy = policy(feature, &[]).await?;
    assert_eq!(egress(&policy), expected);
    Ok(())
}

#[rstest]
#[case::all_features("", &[DNS, API_SERVER, AWS, "10.0.5.0/24 TCP/6443", "10.0.4.0/24 TCP/5432", "10.0.3.0/24 TCP/8200", "10.0.6.0/24 TCP/3128"])]
#[case::migrate_alone("migrate", &[DNS, API_SERVER, AWS, "10.0.5.0/24 TCP/6443", "10.0.6.0/24 TCP/3128"])]
#[case::vault_alone("vault", &[DNS, API_SERVER, "10.0.3.0/24 TCP/8200", "10.0.6.0/24 TCP/3128"])]
#[case::tenants_alone("tenants", &[DNS, API_SERVER, AWS, "10.0.4.0/24 TCP/5432", "10.0.6.0/24 TCP/3128"])]
#[case::feature_that_declares_nothing("probe", &[DNS, API_SERVER, "10.0.6.0/24 TCP/3128"])]
#[tokio::test]
async fn a_rule_applies_only_if_an_enabled_feature_needs_it(
    #[case] feature: &str,
    #[case] expected: &[&str],
) -> Result<()> {
    let policy = policy(feature, &["--set-json", GIVEN]).await?;
    assert_eq!(egress(&policy), expected);
    Ok(())
}

#[rstest]
#[case::all_features("")]
#[case::vault_alone("vault")]
#[case::tenants_alone("tenants")]
#[tokio::test]
async fn empty_lists_allow_no_egress_and_no_ingress(#[case] feature: &str) -> Result<()> {
    let nobody = "networkPolicy.metricsFrom=[]";
    let policy = policy(feature, &["--set-json", NOTHING, "--set-json", nobody]).await?;
    // An absent policy type or an absent list of rules would allow everything.
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["egress"], json!([]));
    let probes = json!([{ "ports": [{ "port": "probes" }] }]);
    assert_eq!(policy["ingress"], probes);
    Ok(())
}

#[rstest]
#[case::rule_without_limits(
    "networkPolicy.egress.extra=[{}]",
    "at '/networkPolicy/egress/extra/0'"
)]
#[case::no_ports(
    r#"networkPolicy.egress.aws=[{"ports": []}]"#,
    "at '/networkPolicy/egress/aws/0/ports'"
)]
#[case::no_peers(
    r#"networkPolicy.egress.vault=[{"to": []}]"#,
    "at '/networkPolicy/egress/vault/0/to'"
)]
#[case::peer_without_limits("networkPolicy.metricsFrom=[{}]", "at '/networkPolicy/metricsFrom/0'")]
#[case::unknown_destination(
    "networkPolicy.egress.vaults=[]",
    "additional properties 'vaults' not allowed"
)]
#[tokio::test]
async fn a_rule_that_would_allow_everything_is_refused(
    #[case] set: &str,
    #[case] message: &str,
) -> Result<()> {
    let refused = Chart::released()?.render(&["--set-json", set]).await?;
    let refused = refused.unwrap_err();
    assert!(refused.contains(message), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_policy_with_every_rule_is_valid() -> Result<()> {
    let manifest = everything(&Chart::with_probe().await?).await?;
    schemas::expect_valid(&manifest).await?;
    let policy = the(&manifest, "NetworkPolicy")?;
    assert_eq!(egress(&policy["spec"]).len(), 7);
    Ok(())
}

#[test]
fn each_feature_declares_destinations_that_have_values() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&fs::read_to_string(source().join("values.yaml"))?)?;
    let known: BTreeSet<_> = values["networkPolicy"]["egress"]
        .as_object()
        .expect("a key a destination")
        .keys()
        .collect();
    let mut parts = Chart::released()?.features()?;
    parts.push("engine".into());
    for part in parts {
        let file = source().join("features").join(&part).join("egress.yaml");
        let text = fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{part} does not declare its egress: {error}"));
        let declared: Vec<String> = serde_saphyr::from_str(&text)?;
        let unknown: Vec<_> = declared.iter().filter(|one| !known.contains(one)).collect();
        assert!(unknown.is_empty(), "{part} declares {unknown:?}");
    }
    Ok(())
}

/// The spec of the rendered policy; an empty `feature` means all released ones.
async fn policy(feature: &str, flags: &[&str]) -> Result<Value> {
    let chart = match feature {
        "probe" => Chart::with_probe().await?,
        _ => Chart::released()?,
    };
    let switch = format!("features.{feature}.enabled=true");
    let chosen: &[&str] = if feature.is_empty() {
        &[]
    } else {
        &["--set", &switch]
    };
    let manifest = chart
        .rendered(&[&["--set", ENABLED], chosen, flags].concat())
        .await?;
    Ok(the(&manifest, "NetworkPolicy")?["spec"].take())
}

/// Each rule as its peers and ports.
fn egress(policy: &Value) -> Vec<String> {
    let rules = policy["egress"].as_array().expect("the list is there");
    rules.iter().map(printed).collect()
}

fn printed(rule: &Value) -> String {
    let list = |name: &str| rule[name].as_array().cloned().unwrap_or_default();
    let peers = list("to").into_iter().map(|peer| match &peer["ipBlock"] {
        Value::Null => peer.to_string(),
        block => block["cidr"].as_str().unwrap_or_default().to_owned(),
    });
    let mut parts: Vec<String> = peers.collect();
    if parts.is_empty() {
        parts.push("anywhere".to_owned());
    }
    for port in list("ports") {
        let protocol = port["protocol"].as_str().expect("a port has a protocol");
        parts.push(format!("{protocol}/{}", port["port"]));
    }
    parts.join(" ")
}
