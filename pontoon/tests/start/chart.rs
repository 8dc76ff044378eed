//! The chart: rendered by the real Helm, checked against the API server's schemas, installed.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use crate::chart_files::{
    Chart, Cluster, NAMESPACE, expect, operator,
    rendered::{all, args, deployment, everything, the},
    schemas, source, text,
};
use api::probe::Probe;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::Namespace,
        rbac::v1::{ClusterRole, PolicyRule},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::api::{Api, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Operator, OperatorOptions, Result, Story, manifests, scratch::Scratch};

const PROBES: &str = "probes.probe.pontoon.io";
const HELLO: &str = "{apiVersion: probe.pontoon.io/v1alpha1, kind: Probe, metadata: {name: hello}, spec: {text: good morning}}";

#[tokio::test]
async fn default_values_render_valid_objects() -> Result<()> {
    let manifest = Chart::released()?.rendered(&[]).await?;
    schemas::expect_valid(&manifest).await
}

#[tokio::test]
async fn each_feature_alone_renders_valid_objects_and_runs_alone() -> Result<()> {
    let chart = Chart::with_probe().await?;
    for feature in chart.features()? {
        let switch = format!("features.{feature}.enabled=true");
        let manifest = chart.rendered(&["--set", &switch]).await?;
        schemas::expect_valid(&manifest).await?;
        let flag = format!("--features={feature}");
        assert!(args(&manifest)?.contains(&flag), "{manifest}");
    }
    Ok(())
}

#[tokio::test]
async fn all_values_set_render_valid_objects() -> Result<()> {
    let chart = Chart::with_probe().await?;
    let manifest = everything(&chart).await?;
    schemas::expect_valid(&manifest).await?;
    let kinds: BTreeSet<_> = manifests::parse(&manifest)?
        .into_iter()
        .filter_map(|object| Some(object.types?.kind))
        .collect();
    for kind in [
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PrometheusRule",
        "ServiceMonitor",
    ] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    Ok(())
}

/// The chart for only the feature tenants, with a Prometheus.
async fn for_tenants() -> Result<String> {
    let switches = "features.tenants.enabled=true,metrics.serviceMonitor.enabled=true";
    Chart::released()?.rendered(&["--set", switches]).await
}

#[tokio::test]
async fn metrics_service_and_disruption_budget_select_the_pods() -> Result<()> {
    let manifest = for_tenants().await?;
    let pod = deployment(&manifest)?["spec"]["template"].take();
    let service = the(&manifest, "Service")?;
    let monitor = the(&manifest, "ServiceMonitor")?["spec"].take();
    let budget = the(&manifest, "PodDisruptionBudget")?["spec"].take();
    let labels = &pod["metadata"]["labels"];
    expect_selected(&service["spec"]["selector"], labels);
    expect_selected(&budget["selector"]["matchLabels"], labels);
    assert_eq!(budget["maxUnavailable"], 1);
    let found = &service["metadata"]["labels"];
    expect_selected(&monitor["selector"]["matchLabels"], found);

    // Monitor, Service and container mean the same port.
    let port = &service["spec"]["ports"][0];
    let endpoint = &monitor["endpoints"][0];
    assert_eq!(endpoint["port"], port["name"]);
    assert_eq!(endpoint["scheme"], "https");
    let container = &pod["spec"]["containers"][0];
    let ports = container["ports"].as_array().expect("it has ports");
    let named = ports.iter().find(|one| one["name"] == port["targetPort"]);
    let number = &named.expect("it has the port")["containerPort"];
    let flag = format!("--metrics-bind-address=:{number}");
    assert!(args(&manifest)?.contains(&flag), "{flag}");
    Ok(())
}

#[tokio::test]
async fn a_pod_has_no_writable_disk_and_may_review_metrics_access() -> Result<()> {
    let manifest = for_tenants().await?;
    let pod = deployment(&manifest)?["spec"]["template"]["spec"].take();
    let guard = &pod["containers"][0]["securityContext"];
    assert_eq!(guard["readOnlyRootFilesystem"], true);
    let seccomp = &pod["securityContext"]["seccompProfile"];
    assert_eq!(seccomp["type"], "RuntimeDefault");

    let who = json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]});
    let grants = |role: &Value| {
        role["rules"]
            .as_array()
            .is_some_and(|all| all.contains(&who))
    };
    let roles = all(&manifest, "ClusterRole")?;
    let role = roles.iter().find(|role| grants(role));
    let name = &role.expect("a role grants it")["metadata"]["name"];
    let bindings = all(&manifest, "ClusterRoleBinding")?;
    let bound = bindings.iter().find(|one| one["roleRef"]["name"] == *name);
    let subject = &bound.expect("the role is bound")["subjects"][0];
    assert_eq!(subject["name"], pod["serviceAccountName"]);
    assert_eq!(subject["namespace"], NAMESPACE);
    Ok(())
}

#[rstest]
#[case::one("policy")]
#[case::several("role,kv")]
#[case::discovery_creates_objects("discovery,role")]
#[case::connection_alone("connection")]
#[tokio::test]
async fn chosen_controllers_get_the_permissions_that_they_need(#[case] chosen: &str) -> Result<()> {
    let values = format!("features.vault.enabled=true,vault.controllers={{{chosen}}}");
    let manifest = Chart::released()?.rendered(&["--set", &values]).await?;
    let flag = format!("--vault-controllers={chosen}");
    let printed = expect(operator(&["rbac", "--feature", "vault", &flag]).await?)?;
    assert_eq!(vault_permissions(&manifest)?, vault_permissions(&printed)?);
    assert!(args(&manifest)?.contains(&flag), "{manifest}");
    Ok(())
}

/// Group, resource and verb of all that the ClusterRole of the feature allows.
fn vault_permissions(manifest: &str) -> Result<BTreeSet<[String; 3]>> {
    let mut roles = all(manifest, "ClusterRole")?;
    roles.retain(|role| role["metadata"]["name"] == "pontoon-vault");
    assert_eq!(roles.len(), 1, "{manifest}");
    let rules: Vec<PolicyRule> = serde_json::from_value(roles[0]["rules"].take())?;
    let mut found = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.iter().flatten() {
                let verbs = rule.verbs.iter();
                found.extend(verbs.map(|verb| [group.clone(), resource.clone(), verb.clone()]));
            }
        }
    }
    Ok(found)
}

/// Helm upgrades the objects of a release, but not those in a chart's `crds`.
#[tokio::test]
async fn crds_are_part_of_the_release() -> Result<()> {
    let crds = all(&for_tenants().await?, "CustomResourceDefinition")?;
    let kinds: BTreeSet<_> = crds
        .iter()
        .filter_map(|crd| crd["spec"]["names"]["kind"].as_str())
        .collect();
    let wanted = [
        "ConnectionGroup",
        "DistributionTenant",
        "Invalidation",
        "TenantPolicy",
        "TenantSource",
    ];
    assert_eq!(kinds, wanted.into());
    Ok(())
}

/// The template that `cargo xtask chart` writes for a feature with every kind of permission.
const MADE_UP: &str = include_str!("../../../xtask/src/generate/made_up.yaml");

/// The released chart with that feature alone.
fn chart_of_a_made_up_feature() -> Result<Chart> {
    let chart = Chart::released()?;
    let folder = chart.folder();
    fs::create_dir_all(folder.join("generated/harbour"))?;
    fs::write(folder.join("generated/harbour/crds.yaml"), "# none\n")?;
    fs::write(folder.join("generated/harbour/rbac.yaml"), MADE_UP)?;
    fs::remove_file(folder.join("values.schema.json"))?; // it does not know the feature's values
    Ok(chart)
}

#[tokio::test]
async fn every_kind_of_permission_has_the_names_of_its_release() -> Result<()> {
    let chart = chart_of_a_made_up_feature()?;
    let values = "fullnameOverride=quay,features.harbour.enabled=true,\
                  harbour.pilotNamespaces={east,west,east}";
    let manifest = chart.rendered(&["--set", values]).await?;
    let objects = manifests::parse(&manifest)?.into_iter();
    let objects = objects.map(|object| serde_json::to_value(object).expect("it was JSON"));
    let objects: Vec<Value> = objects
        .filter(|object| {
            object["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.contains("harbour"))
        })
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeSet<_> = objects
        .iter()
        .map(|object| {
            let metadata = &object["metadata"];
            let refers_to = [&object["roleRef"]["name"], &object["spec"]["policyName"]];
            let refers_to = refers_to.map(text).concat();
            [
                text(&object["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"]),
                refers_to,
            ]
            .join(" ")
        })
        .collect();
    let expected = [
        "ClusterRole  quay-harbour ",
        "ClusterRole  quay-harbour-cargo ",
        "ClusterRole  quay-harbour-view ",
        "ClusterRoleBinding  quay-harbour quay-harbour",
        "ClusterRoleBinding  quay-harbour-cargo quay-harbour-cargo",
        "Role east quay-harbour-pilots ",
        "Role pontoon-system quay-harbour ",
        "Role west quay-harbour-pilots ",
        "RoleBinding east quay-harbour-pilots quay-harbour-pilots",
        "RoleBinding pontoon-system quay-harbour quay-harbour",
        "RoleBinding west quay-harbour-pilots quay-harbour-pilots",
        "ValidatingAdmissionPolicy  quay-harbour-guard ",
        "ValidatingAdmissionPolicyBinding  quay-harbour-guard quay-harbour-guard",
    ];
    assert_eq!(names, expected.map(str::to_owned).into(), "{manifest}");
    assert_eq!(
        objects.len(),
        expected.len(),
        "a namespace that is listed twice has one role"
    );

    let view = objects
        .iter()
        .find(|one| one["metadata"]["name"] == "quay-harbour-view");
    let labels = &view.expect("it was rendered")["metadata"]["labels"];
    assert_eq!(
        labels["rbac.authorization.k8s.io/aggregate-to-view"],
        "true"
    );
    assert_eq!(labels["app.kubernetes.io/instance"], "pontoon");
    let subjects = objects.iter().filter_map(|one| one.get("subjects"));
    let account = json!([{"kind": "ServiceAccount", "name": "quay", "namespace": NAMESPACE}]);
    assert!(
        subjects.into_iter().all(|one| *one == account),
        "{manifest}"
    );
    Ok(())
}

#[tokio::test]
async fn without_listed_namespaces_there_is_no_role_in_them() -> Result<()> {
    let chart = chart_of_a_made_up_feature()?;
    let values = r#"features.harbour.enabled=true,harbour={"pilotNamespaces": []}"#;
    let manifest = chart.rendered(&["--set-json", values]).await?;
    let roles = all(&manifest, "Role")?;
    let namespaces: BTreeSet<_> = roles
        .iter()
        .map(|role| role["metadata"]["namespace"].as_str())
        .collect();
    assert_eq!(namespaces, [Some(NAMESPACE)].into());
    assert_eq!(
        all(&manifest, "ValidatingAdmissionPolicyBinding")?.len(),
        1,
        "{manifest}"
    );
    Ok(())
}

#[tokio::test]
async fn a_predecessors_lease_and_listed_namespaces_have_roles() -> Result<()> {
    let chart = Chart::released()?;
    let values = "tenants.legacyLease=old/lease,tenants.sourceNamespaces={old,new},\
                  vault.legacyLease=old/other,vault.secretNamespaces={new}";
    let manifest = chart.rendered(&["--set", values]).await?;
    let roles = all(&manifest, "Role")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let elsewhere = roles
        .iter()
        .filter(|role| role["metadata"]["namespace"] != NAMESPACE);
    let grants: BTreeSet<_> = elsewhere
        .map(|role| {
            let rules = role["rules"].as_array().into_iter().flatten();
            let resources = rules
                .map(|rule| rule["resources"].to_string())
                .collect::<String>();
            let metadata = &role["metadata"];
            [
                text(&metadata["namespace"]),
                text(&metadata["name"]),
                resources,
            ]
            .join(" ")
        })
        .collect();
    let expected = [
        r#"new pontoon-tenants-sources ["secrets","configmaps"]"#,
        r#"new pontoon-vault-secrets ["secrets"]"#,
        r#"old pontoon-tenants-legacy-lease ["leases"]"#,
        r#"old pontoon-tenants-sources ["secrets","configmaps"]"#,
        r#"old pontoon-vault-legacy-lease ["leases"]["configmaps"]"#,
    ];
    assert_eq!(grants, expected.map(str::to_owned).into(), "{manifest}");
    Ok(())
}

#[rstest]
#[case::all("migrate.concurrency=0", &["ClusterRole "])]
#[case::listed("migrate.namespaces={east,west}", &["Role east", "Role west"])]
#[tokio::test]
async fn migrations_may_read_secrets_where_the_values_list_them(
    #[case] values: &str,
    #[case] expected: &[&str],
) -> Result<()> {
    let values = format!("features.migrate.enabled=true,{values}");
    let manifest = Chart::released()?.rendered(&["--set", &values]).await?;
    let secrets = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]});
    let mut found = Vec::new();
    for kind in ["ClusterRole", "Role"] {
        let roles = all(&manifest, kind)?.into_iter();
        let granting = roles.filter(|role| {
            let mut rules = role["rules"].as_array().into_iter().flatten();
            rules.any(|rule| *rule == secrets)
        });
        found.extend(granting.map(|role| {
            let namespace = role["metadata"]["namespace"].as_str();
            format!("{kind} {}", namespace.unwrap_or_default())
        }));
    }
    assert_eq!(found, expected, "{manifest}");
    let bindings = all(&manifest, "ClusterRoleBinding")?.into_iter();
    let bindings = bindings.chain(all(&manifest, "RoleBinding")?);
    let bound = bindings.filter(|one| one["roleRef"]["name"] == "pontoon-migrate-secrets");
    assert_eq!(bound.count(), expected.len(), "{manifest}");
    Ok(())
}

#[rstest]
#[case::unknown_value("replica=3", "additional properties 'replica' not allowed")]
#[case::wrong_type("replicas=two", "at '/replicas': got string, want integer")]
#[case::unknown_choice("log.format=xml", "value must be one of 'json', 'text'")]
#[case::unknown_switch("features.probe.on=true", "additional properties 'on' not allowed")]
#[case::broken_digest("image.digest=latest", "at '/image/digest'")]
#[case::flag_without_dashes("extraArgs[0]=concurrency", "at '/extraArgs/0'")]
#[case::unknown_feature(
    "features.nope.enabled=true",
    "features.nope: there is no such feature; the features are: probe"
)]
#[case::no_feature("features.probe.enabled=false", "leave features empty to run all")]
#[case::taken_port("metrics.port=8081", "8081 serves the probes")]
#[tokio::test]
async fn a_wrong_value_is_refused_with_what_is_wrong(
    #[case] set: &str,
    #[case] message: &str,
) -> Result<()> {
    let chart = Chart::with_probe().await?;
    for feature in chart.features()?.iter().filter(|name| *name != "probe") {
        fs::remove_dir_all(chart.folder().join("generated").join(feature))?;
    }
    let refused = chart.render(&["--set", set]).await?.unwrap_err();
    assert!(refused.contains(message), "{refused}");
    Ok(())
}

#[test]
fn each_value_is_read_by_a_template_and_each_that_is_read_has_a_default() -> Result<()> {
    let values: Value = serde_saphyr::from_str(&fs::read_to_string(source().join("values.yaml"))?)?;
    let mut declared = BTreeSet::new();
    leaves(&values, "", &mut declared);
    // The contents of these belong to Kubernetes and are read as a whole.
    declared.retain(|path| !path.starts_with("resources."));
    declared.insert("resources".to_owned());
    assert_eq!(read_values(&source().join("templates"))?, declared);
    Ok(())
}

#[test]
fn the_chart_installs_the_version_it_is_released_with() -> Result<()> {
    let text = fs::read_to_string(source().join("Chart.yaml"))?;
    let chart: Value = serde_saphyr::from_str(&text)?;
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[tokio::test]
async fn the_operator_understands_the_flags_that_the_chart_passes() -> Result<()> {
    let chart = Chart::with_probe().await?;
    let manifest = everything(&chart).await?;
    let args = args(&manifest)?;
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    // It accepts its flags, and then finds no cluster.
    let stderr = text(operator(&args).await?.stderr);
    assert!(stderr.contains("no cluster is configured"), "{stderr}");
    Ok(())
}

#[tokio::test]
async fn default_values_install_all_that_is_rendered() -> Result<()> {
    installs(&Chart::released()?, &[]).await
}

#[tokio::test]
async fn each_feature_alone_installs_all_that_is_rendered() -> Result<()> {
    let chart = Chart::with_probe().await?;
    for feature in chart.features()? {
        let switch = format!("features.{feature}.enabled=true");
        installs(&chart, &["--set", &switch]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_for_restricted_pods_accepts_the_operators() -> Result<()> {
    let (cluster, chart) = (Cluster::start().await?, Chart::released()?);
    let label =
        json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    Api::<Namespace>::all(cluster.plane.admin())
        .patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(label))
        .await?;

    // The pod as the Deployment's controller would create it.
    let deployment = deployment(&chart.rendered(&[]).await?)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pontoon" },
        "spec": deployment["spec"]["template"]["spec"],
    });
    let create = ["create", "--dry-run=server", "-n", NAMESPACE];
    cluster.kubectl_file(&create, &pod.to_string()).await?;

    // The same pod with its capabilities would be refused.
    let mut careless = pod;
    careless["spec"]["containers"][0]["securityContext"] = Value::Null;
    let refused = cluster.kubectl_file(&create, &careless.to_string()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("violates PodSecurity"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn an_upgrade_changes_a_crd() -> Result<()> {
    let (cluster, chart) = (Cluster::start().await?, Chart::with_probe().await?);
    cluster.helm("install", &chart, &[]).await?;
    assert_eq!(short_names(&cluster).await?, ["prb"]);

    chart.edit_probe_crds("- prb\n", "- prb\n    - prbs\n")?;
    cluster.helm("upgrade", &chart, &[]).await?;
    assert_eq!(short_names(&cluster).await?, ["prb", "prbs"]);
    Ok(())
}

#[tokio::test]
async fn an_uninstall_deletes_all_but_crds_and_their_objects() -> Result<()> {
    let (cluster, chart) = (Cluster::start().await?, Chart::with_probe().await?);
    cluster.helm("install", &chart, &[]).await?;
    let client = cluster.plane.admin();
    manifests::apply(&client, Some(NAMESPACE), HELLO).await?;

    cluster.helm("uninstall", &chart, &[]).await?;
    // A CRD that is being deleted still serves its objects for a while.
    let crd = Api::<CustomResourceDefinition>::all(client.clone())
        .get(PROBES)
        .await?;
    assert_eq!(crd.metadata.deletion_timestamp, None);
    Api::<Probe>::namespaced(client.clone(), NAMESPACE)
        .get("hello")
        .await?;
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    assert_eq!(deployments.get_opt("pontoon").await?, None);
    let roles = Api::<ClusterRole>::all(client);
    assert_eq!(roles.get_opt("pontoon-engine").await?, None);

    // The kept CRDs do not prevent a new installation.
    cluster.helm("install", &chart, &[]).await?;
    Ok(())
}

#[tokio::test]
async fn a_predecessors_crds_are_adopted_on_request() -> Result<()> {
    let (cluster, chart) = (Cluster::start().await?, Chart::with_probe().await?);
    // The predecessor's CRDs differ slightly, and there is an object.
    let ours = fs::read_to_string(chart.folder().join("generated/probe/crds.yaml"))?;
    let theirs = ours.replace("- prb\n", "- older\n");
    assert_ne!(ours, theirs);
    cluster.kubectl_file(&["apply"], &theirs).await?;
    let client = cluster.plane.admin();
    let hello = manifests::apply(&client, Some(NAMESPACE), HELLO).await?;

    let refused = text(cluster.try_helm("install", &chart, &[]).await?.stderr);
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
    assert_eq!(short_names(&cluster).await?, ["older"]);

    let flags = ["--take-ownership", "--force-conflicts"];
    cluster.helm("install", &chart, &flags).await?;
    assert_eq!(short_names(&cluster).await?, ["prb"]);
    let kept = Api::<Probe>::namespaced(client, NAMESPACE)
        .get("hello")
        .await?;
    assert_eq!(kept.metadata.uid, hello[0].metadata.uid);

    // The predecessor's field manager still owns equal fields; an upgrade may change them, too.
    chart.edit_probe_crds("name: Reason\n", "name: Why\n")?;
    cluster
        .helm("upgrade", &chart, &["--force-conflicts"])
        .await?;
    assert!(columns(&cluster).await?.contains(&"Why".to_owned()));
    Ok(())
}

#[tokio::test]
async fn the_roles_of_a_release_suffice_for_the_operator() -> Result<()> {
    let (cluster, chart) = (Cluster::start().await?, Chart::with_probe().await?);
    cluster.helm("install", &chart, &[]).await?;
    let scratch: &Arc<Scratch> = cluster.plane.scratch();
    let options = OperatorOptions {
        kubeconfig: cluster
            .plane
            .as_service_account(NAMESPACE, "pontoon")
            .await?,
        features: vec!["probe".into()],
        lease_namespace: NAMESPACE.into(),
        ..OperatorOptions::default()
    };
    let running = Operator::start("operator", scratch, options).await?;

    let team = Some(NAMESPACE.to_owned());
    let log = Some(running.log_path());
    let story = Story::new(cluster.plane.admin(), team, log, Arc::clone(scratch));
    story.apply(HELLO).await?;
    story
        .until::<Probe>("hello", testkit::is("Ready", "Succeeded"))
        .await?;
    assert!(!running.log().contains("forbidden"), "{}", running.log());
    Ok(())
}

/// Installs the chart on a separate cluster; all rendered objects must exist there.
async fn installs(chart: &Chart, flags: &[&str]) -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.helm("install", chart, flags).await?;

    let manifest = chart.rendered(flags).await?;
    let found = cluster
        .kubectl_file(&["get", "-o", "name"], &manifest)
        .await?;
    let rendered = manifests::parse(&manifest)?.len();
    assert_eq!(found.lines().count(), rendered, "{found}");
    Ok(())
}

async fn short_names(cluster: &Cluster) -> Result<Vec<String>> {
    let crds = Api::<CustomResourceDefinition>::all(cluster.plane.admin());
    Ok(crds
        .get(PROBES)
        .await?
        .spec
        .names
        .short_names
        .unwrap_or_default())
}

async fn columns(cluster: &Cluster) -> Result<Vec<String>> {
    let crds = Api::<CustomResourceDefinition>::all(cluster.plane.admin());
    let versions = crds.get(PROBES).await?.spec.versions.into_iter();
    let columns = versions.filter_map(|version| version.additional_printer_columns);
    Ok(columns.flatten().map(|column| column.name).collect())
}

fn expect_selected(selector: &Value, labels: &Value) {
    let wanted = selector.as_object().expect("a selector is a map");
    assert!(!wanted.is_empty(), "it selects everything");
    for (key, value) in wanted {
        assert_eq!(labels[key], *value, "{key} of {labels}");
    }
}

/// The paths of all values that are not maps with keys.
fn leaves(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (key, value) in map {
                let path = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                leaves(value, &path, found);
            }
        }
        None => drop(found.insert(at.to_owned())),
    }
}

/// The paths behind `.Values.` in the templates.
fn read_values(templates: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(templates)? {
        let text = fs::read_to_string(entry?.path())?;
        for after in text.split(".Values.").skip(1) {
            let path = after
                .split(|c: char| !c.is_alphanumeric() && c != '.')
                .next();
            found.extend(path.map(str::to_owned));
        }
    }
    Ok(found)
}
