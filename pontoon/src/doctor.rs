//! `pontoon doctor`: what stands between this operator and its work, and what to do about it.

use clap::ArgMatches;
use engine::{Feature, engine_rbac};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::output::{Listing, Row};
use crate::print::{format, named};

/// The oldest minor version of Kubernetes that serves all we use.
const OLDEST_MINOR: u32 = 30;

/// One thing looked at.
struct Check {
    what: String,
    holds: bool,
    finding: String,
}

/// Prints every check; whether all hold.
pub(crate) fn doctor(
    all: &[Box<dyn Feature>],
    args: &ArgMatches,
) -> Result<bool, Box<dyn std::error::Error>> {
    let features = named(all, args)?;
    let namespace = args
        .get_one::<String>("namespace")
        .cloned()
        .unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checks = runtime.block_on(examine(&features, &namespace));
    let holds = checks.iter().all(|check| check.holds);
    let rows = checks.into_iter().map(|check| {
        let word = if check.holds { "ok" } else { "PROBLEM" };
        Row {
            name: check.what.clone(),
            full: json!({"check": check.what, "holds": check.holds, "finding": check.finding}),
            cells: vec![check.what, word.to_owned(), check.finding],
        }
    });
    Listing {
        columns: &["check", "state", "finding"],
        rows: rows.collect(),
    }
    .print(format(args))?;
    Ok(holds)
}

async fn examine(features: &[&dyn Feature], namespace: &str) -> Vec<Check> {
    let client = match connect().await {
        Ok(client) => client,
        Err(finding) => {
            return vec![Check {
                what: "cluster".into(),
                holds: false,
                finding,
            }];
        }
    };
    let mut checks = vec![version(&client).await];
    if !checks[0].holds {
        return checks;
    }
    for feature in features {
        for crd in feature.crds() {
            checks.push(served(&client, feature.name(), &crd.name_any()).await);
        }
    }
    let parts = features
        .iter()
        .map(|feature| (feature.name(), feature.rbac()))
        .chain([("engine", engine_rbac())]);
    for (part, rbac) in parts {
        let cluster = rbac.cluster.iter().map(|rule| (rule, None));
        let own = rbac
            .own_namespace
            .iter()
            .map(|rule| (rule, Some(namespace)));
        checks.push(allowed(&client, part, namespace, cluster.chain(own)).await);
    }
    checks.push(lease(&client, namespace).await);
    checks
}

#[allow(clippy::disallowed_methods)] // reads only, and no lease to guard
async fn connect() -> Result<Client, String> {
    let mut config = kube::Config::infer().await.map_err(|error| {
        format!("no cluster is configured: {error}; set KUBECONFIG and run again")
    })?;
    config.connect_timeout = Some(std::time::Duration::from_secs(5));
    Client::try_from(config).map_err(|error| format!("the kubeconfig cannot be used: {error}"))
}

async fn version(client: &Client) -> Check {
    let what = "cluster".to_owned();
    match client.apiserver_version().await {
        Ok(info) => {
            let minor: u32 = info.minor.trim_end_matches('+').parse().unwrap_or(0);
            let holds = minor >= OLDEST_MINOR;
            let finding = if holds {
                format!("Kubernetes {}", info.git_version)
            } else {
                format!(
                    "Kubernetes {} is older than 1.{OLDEST_MINOR}; upgrade the cluster",
                    info.git_version
                )
            };
            Check {
                what,
                holds,
                finding,
            }
        }
        Err(error) => Check {
            what,
            holds: false,
            finding: format!(
                "the API server does not answer: {error}; check KUBECONFIG and the network"
            ),
        },
    }
}

async fn served(client: &Client, feature: &str, crd: &str) -> Check {
    let what = format!("{feature}: CRD {crd}");
    match Api::<CustomResourceDefinition>::all(client.clone())
        .get_opt(crd)
        .await
    {
        Ok(Some(_)) => Check {
            what,
            holds: true,
            finding: "served".into(),
        },
        Ok(None) => Check {
            what,
            holds: false,
            finding: format!(
                "missing; run: pontoon crds --feature {feature} | kubectl apply --server-side -f -"
            ),
        },
        Err(error) => Check {
            what,
            holds: false,
            finding: error.to_string(),
        },
    }
}

/// One check per part: the first thing it may not do, or that it may do all.
async fn allowed(
    client: &Client,
    part: &str,
    namespace: &str,
    rules: impl Iterator<Item = (&PolicyRule, Option<&str>)>,
) -> Check {
    let what = format!("{part}: permissions");
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut missing = Vec::new();
    for attributes in rules.flat_map(|(rule, namespace)| asked(rule, namespace)) {
        let words = format!(
            "{} {}",
            attributes.verb.as_deref().unwrap_or_default(),
            attributes.resource.as_deref().unwrap_or_default()
        );
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..Default::default()
            },
            ..Default::default()
        };
        match api.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(words),
            Err(error) => {
                return Check {
                    what,
                    holds: false,
                    finding: error.to_string(),
                };
            }
        }
    }
    let holds = missing.is_empty();
    let finding = if holds {
        "all granted".to_owned()
    } else {
        let of = if part == "engine" {
            String::new()
        } else {
            format!(" --feature {part}")
        };
        format!(
            "not granted: {}; run: pontoon rbac{of} --namespace {namespace} | kubectl apply -f -",
            missing.join(", ")
        )
    };
    Check {
        what,
        holds,
        finding,
    }
}

fn asked(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, subresource) = resource
                .split_once('/')
                .map_or((resource.as_str(), None), |(r, s)| (r, Some(s)));
            for verb in &rule.verbs {
                all.push(ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    verb: Some(verb.clone()),
                    name: rule.resource_names.iter().flatten().next().cloned(),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

async fn lease(client: &Client, namespace: &str) -> Check {
    let what = format!("lease {namespace}/pontoon");
    match Api::<Lease>::namespaced(client.clone(), namespace)
        .get_opt("pontoon")
        .await
    {
        Ok(lease) => {
            let holder = lease
                .and_then(|lease| lease.spec?.holder_identity)
                .filter(|holder| !holder.is_empty());
            let finding = holder.map_or_else(
                || "free: no operator runs here".to_owned(),
                |holder| format!("held by {holder}"),
            );
            Check {
                what,
                holds: true,
                finding,
            }
        }
        Err(error) => Check {
            what,
            holds: false,
            finding: error.to_string(),
        },
    }
}
