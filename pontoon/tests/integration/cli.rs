//! The command line as users call it, including wrong input.

use std::process::{Command, Output};
use std::time::Duration;

use crate::outside::probe_world;
use testkit::{ControlPlane, Result, eventually};

fn pontoon(args: &[&str]) -> Result<Output> {
    pontoon_with(&[], args)
}

fn pontoon_with(variables: &[(&str, &str)], args: &[&str]) -> Result<Output> {
    let mut command = Command::new(testkit::binary(None)?);
    command
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .envs(variables.iter().copied());
    Ok(command.output()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_unknown_feature_is_refused_with_the_valid_names() -> Result<()> {
    for verb in [
        vec!["run", "--features", "nope"],
        vec!["crds", "--feature", "nope"],
        vec!["rbac", "--feature", "nope"],
    ] {
        let output = pontoon(&verb)?;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {stderr}");
        assert!(
            stderr.contains("\"nope\"") && stderr.contains("probe"),
            "{stderr}"
        );
    }
    Ok(())
}

#[test]
fn a_wrong_value_is_refused_with_what_to_write() -> Result<()> {
    for (args, hint) in [
        (vec!["run", "--lease-duration=soon"], "such as 15s"),
        (vec!["run", "--lease-duration=5s"], "--lease-renew-deadline"),
        (vec!["run", "--metrics-bind-address=here"], ":<port>"),
        (vec!["run", "--cluster-id=a b"], "--cluster-id"),
        (vec!["run", "--log-format=xml"], "json"),
        (vec!["run", "--cluster-name=a.b"], "--cluster-name=a.b"),
        (vec!["run", "--vault-resync=5"], "such as 5m"),
        (vec!["run", "--watch-namespaces=A"], "team-a,team-b"),
        (vec!["run", "--zap-log-level=loud"], "debug"),
        (vec!["run", "--zap-time-encoding=sundial"], "rfc3339"),
        (vec!["run", "--max-api-calls=0"], "1.."),
        (vec!["run", "--leader-elect=maybe"], "true"),
        (vec!["run", "--no-such-flag"], "--no-such-flag"),
        (vec!["crds", "-o", "xml"], "table"),
        (vec!["completions", "tcsh"], "bash"),
        (vec!["dance"], "dance"),
    ] {
        let output = pontoon(&args)?;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(hint), "{args:?}: {stderr}");
    }
    Ok(())
}

#[test]
fn without_a_cluster_run_says_what_to_set() -> Result<()> {
    let output = pontoon(&["run", "--features", "probe"])?;
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("set KUBECONFIG"),
        "{}",
        text(&output.stderr)
    );
    Ok(())
}

#[test]
fn a_predecessors_flags_are_accepted_and_ineffective_ones_named() -> Result<()> {
    let help = text(&pontoon(&["run", "--help"])?.stdout);
    assert!(!help.contains("zap") && !help.contains("webhook"), "{help}");

    // Logs start before the connection to the cluster, and here there is none.
    let output = pontoon(&[
        "run",
        "--features=probe",
        "--enable-http2",
        "--webhook-cert-path=/certs",
        "--managed-markers=false",
        "--zap-time-encoding=epoch",
    ])?;
    let stderr = text(&output.stderr);
    assert!(stderr.contains("set KUBECONFIG"), "{stderr}");
    let lines = stderr.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<serde_json::Value> = lines
        .map(serde_json::from_str)
        .collect::<std::result::Result<_, _>>()?;
    let flags: Vec<_> = lines.iter().map(|line| line["flag"].as_str()).collect();
    assert_eq!(
        flags,
        [
            Some("--enable-http2"),
            Some("--managed-markers"),
            Some("--webhook-cert-path")
        ],
        "{stderr}"
    );
    assert!(lines.iter().all(|line| line["ts"].is_f64()), "{stderr}");

    let output = pontoon(&["run", "--features=probe", "--zap-devel", "--enable-http2"])?;
    let stderr = text(&output.stderr);
    assert!(stderr.contains("--enable-http2"), "{stderr}");
    assert!(!stderr.starts_with('{'), "text for people: {stderr}");
    Ok(())
}

#[test]
fn flags_override_our_variables_and_those_the_predecessors() -> Result<()> {
    let (ours, theirs) = ("PONTOON_CLUSTER_NAME", "CLUSTER_NAME");
    let flag = "--cluster-name=flag";
    for (variables, flags, hint) in [
        (vec![(theirs, "a.b")], vec![], "CLUSTER_NAME=a.b"),
        (
            vec![(theirs, "a.b"), (ours, "ours")],
            vec![],
            "set KUBECONFIG",
        ),
        (
            vec![(theirs, "theirs"), (ours, "c.d")],
            vec![],
            "--cluster-name=c.d",
        ),
        (
            vec![(theirs, "a.b"), (ours, "c.d")],
            vec![flag],
            "set KUBECONFIG",
        ),
        // Not checked while the feature does not run.
        (
            vec![(theirs, "a.b")],
            vec!["--features=probe"],
            "set KUBECONFIG",
        ),
    ] {
        let args: Vec<_> = ["run"].into_iter().chain(flags).collect();
        let output = pontoon_with(&variables, &args)?;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {stderr}");
        assert!(stderr.contains(hint), "{variables:?} {args:?}: {stderr}");
    }
    Ok(())
}

#[test]
fn doctor_without_a_cluster_says_so() -> Result<()> {
    let output = pontoon(&["doctor"])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("set KUBECONFIG"),
        "{}",
        text(&output.stdout)
    );
    Ok(())
}

#[test]
fn every_command_prints_in_every_format() -> Result<()> {
    for verb in ["crds", "rbac", "version"] {
        for form in ["table", "json", "yaml", "name"] {
            let output = pontoon(&[verb, "-o", form])?;
            assert!(
                output.status.success() && !output.stdout.is_empty(),
                "{verb} -o {form}"
            );
            if form == "json" {
                serde_json::from_slice::<serde_json::Value>(&output.stdout)?;
            }
        }
    }
    assert!(text(&pontoon(&["completions", "bash"])?.stdout).contains("pontoon"));
    Ok(())
}

#[tokio::test]
async fn doctor_names_what_is_missing_and_succeeds_without_findings() -> Result<()> {
    let world = probe_world().start().await?;
    let doctor = |kubeconfig: std::path::PathBuf| -> Result<Output> {
        let mut command = Command::new(testkit::binary(None)?);
        let namespace = format!("--namespace={}", world.operator_namespace());
        command
            .args(["doctor", "--feature=probe", &namespace])
            .env("KUBECONFIG", kubeconfig);
        Ok(command.output()?)
    };
    let account = world
        .control_plane()
        .as_service_account(world.operator_namespace(), "pontoon")
        .await?;
    let output = doctor(account)?;
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(
        text(&output.stdout).contains("Kubernetes v1.36.3"),
        "{}",
        text(&output.stdout)
    );

    let stranger = world
        .control_plane()
        .as_service_account("default", "stranger")
        .await?;
    let output = doctor(stranger)?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("pontoon rbac --feature probe"),
        "{}",
        text(&output.stdout)
    );

    let bare = ControlPlane::shared().await?;
    let output = doctor(bare.kubeconfig())?;
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("pontoon crds --feature probe"),
        "{}",
        text(&output.stdout)
    );
    Ok(())
}

#[tokio::test]
async fn secure_metrics_need_a_permission_in_the_cluster() -> Result<()> {
    let port = testkit::port::Port::free()?;
    let world = probe_world().start().await?;
    let address = port.address();
    world.operator().terminate(Duration::from_secs(25)).await?;
    world
        .operator()
        .restart(|options| {
            options.args.push("--metrics-secure=true".into());
            options
                .args
                .push(format!("--metrics-bind-address={address}"));
        })
        .await?;
    world.cluster().apply("
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: scraper}, rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: scraper},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper},
 subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]}").await?;
    let token = async |name: &str| -> Result<String> {
        let path = world
            .control_plane()
            .as_service_account("default", name)
            .await?;
        let config: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(path)?)?;
        Ok(config["users"][0]["user"]["token"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    };
    let http = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()?;
    let scrape = async |token: Option<String>| -> Result<u16> {
        let request = http.get(format!("https://{address}/metrics"));
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        Ok(request.send().await?.status().as_u16())
    };
    let granted = token("scraper").await?;
    eventually("served", async || {
        Ok(scrape(Some(granted.clone()))
            .await
            .ok()
            .filter(|code| *code == 200))
    })
    .await?;
    assert_eq!(scrape(None).await?, 401);
    assert_eq!(scrape(Some("nonsense".into())).await?, 401);
    assert_eq!(scrape(Some(token("nobody").await?)).await?, 403);
    Ok(())
}
