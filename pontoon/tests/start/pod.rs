//! The pod of a release: security settings, probes, and additions by values; and the notes.

use serde_json::{Value, json};
use testkit::Result;

use crate::chart_files::{
    Chart,
    rendered::{args, deployment, everything, the},
};

#[tokio::test]
async fn by_default_a_pod_has_no_privileges_on_its_node() -> Result<()> {
    let manifest = Chart::released()?.rendered(&[]).await?;
    let pod = deployment(&manifest)?["spec"]["template"]["spec"].take();
    let expected = json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
    assert_eq!(pod["securityContext"], expected);
    let expected = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    assert_eq!(pod["containers"][0]["securityContext"], expected);
    Ok(())
}

#[tokio::test]
async fn probes_use_the_port_of_the_operator() -> Result<()> {
    let manifest = Chart::released()?.rendered(&[]).await?;
    let container = deployment(&manifest)?["spec"]["template"]["spec"]["containers"][0].take();
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let expected = json!({ "path": path, "port": "probes" });
        assert_eq!(container[probe]["httpGet"], expected);
    }
    let ports = container["ports"].as_array().expect("it has ports");
    let probes = ports.iter().find(|port| port["name"] == "probes");
    let number = &probes.expect("it has the port")["containerPort"];
    let flag = format!("--health-probe-bind-address=:{number}");
    assert!(args(&manifest)?.contains(&flag), "{flag}");
    Ok(())
}

#[tokio::test]
async fn additions_by_values_are_in_the_pod() -> Result<()> {
    let manifest = everything(&Chart::with_probe().await?).await?;
    let pod = deployment(&manifest)?["spec"]["template"]["spec"].take();
    let container = &pod["containers"][0];
    let proxy = json!({ "name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128" });
    assert_contains(&container["env"], &proxy);
    assert_contains(&container["args"], &json!("--concurrency=32"));
    assert_contains(
        &pod["volumes"],
        &json!({ "name": "scratch", "emptyDir": {} }),
    );
    let mount = json!({ "name": "scratch", "mountPath": "/scratch" });
    assert_contains(&container["volumeMounts"], &mount);
    Ok(())
}

#[tokio::test]
async fn pods_use_the_service_account_with_their_aws_role() -> Result<()> {
    let manifest = everything(&Chart::with_probe().await?).await?;
    let account = the(&manifest, "ServiceAccount")?["metadata"].take();
    let role = json!({ "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/pontoon" });
    assert_eq!(account["annotations"], role);
    let pod = deployment(&manifest)?["spec"]["template"]["spec"].take();
    assert_eq!(pod["serviceAccountName"], account["name"]);
    Ok(())
}

#[tokio::test]
async fn notes_name_the_features_and_the_next_command() -> Result<()> {
    let values = "networkPolicy.enabled=true,vault.controllers={policy,role}";
    let notes = Chart::released()?.notes(&["--set", values]).await?;
    for text in [
        "features: migrate, tenants, vault",
        "-n pontoon-system rollout status deployment/pontoon",
        "/pontoon doctor --namespace=pontoon-system",
        " --vault-controllers=policy,role --migrate-legacy-lease=none --feature=",
        "needs the ClusterRole pontoon-metrics-reader",
        "networkPolicy.egress.vault has no rules",
        "`helm uninstall` keeps the CRDs",
    ] {
        assert!(notes.contains(text), "no {text:?} in {notes}");
    }
    Ok(())
}

fn assert_contains(list: &Value, wanted: &Value) {
    let list = list.as_array().expect("it is a list");
    assert!(list.contains(wanted), "no {wanted} in {list:?}");
}
