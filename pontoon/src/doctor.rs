//! `pontoon doctor`: what prevents the operator from working, and what to do about it.

mod leases;
mod permissions;

use clap::ArgMatches;
use engine::cli::{Answer, Finding, Outcome};
use engine::{Check, Feature, SharedValues, State, engine_rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::cli;
use crate::listed::ListedByUser;
use crate::print::named;

/// The oldest minor version of Kubernetes that serves all we use.
const OLDEST_MINOR: u32 = 30;

/// Prints every check; returns whether all are fine.
pub(crate) fn doctor(
    all: &[Box<dyn Feature>],
    args: &ArgMatches,
) -> Result<bool, Box<dyn std::error::Error>> {
    let features = named(all, args)?;
    let value = |name: &str| args.get_one::<String>(name).cloned().unwrap_or_default();
    let (namespace, account) = (value("namespace"), value("service-account"));
    // What the operator would read from the same flags and environment.
    let run = cli::as_run(all, args)?;
    let listed = ListedByUser::read(all, args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checks = runtime.block_on(examine(&features, (&namespace, &account), &run, &listed));
    let holds = checks.iter().all(|check| check.state != State::Wrong);
    let findings = checks.into_iter().map(row).collect();
    Answer::table(&["check", "state", "finding"], findings, Outcome::of(holds)).print(args)?;
    Ok(holds)
}

fn row(check: Check) -> Finding {
    let Check {
        what,
        state,
        finding,
    } = check;
    let label = match state {
        State::Fine => "ok",
        State::Doubtful => "warning",
        State::Wrong => "PROBLEM",
    };
    let holds = state != State::Wrong;
    Finding {
        name: what.clone(),
        full: json!({"check": what, "state": label, "holds": holds, "finding": finding}),
        cells: vec![what, label.to_owned(), finding],
    }
}

async fn examine(
    features: &[&dyn Feature],
    (namespace, account): (&str, &str),
    run: &ArgMatches,
    listed: &ListedByUser,
) -> Vec<Check> {
    let client = match connect().await {
        Ok(client) => client,
        Err(finding) => return vec![Check::wrong("cluster", finding)],
    };
    let mut checks = vec![version(&client).await];
    if checks[0].state == State::Wrong {
        return checks;
    }
    for feature in features {
        for crd in feature.crds() {
            checks.push(served(&client, feature.name(), &crd.name_any()).await);
        }
    }
    // The feature itself reports invalid flags as a finding.
    let needs = |feature: &dyn Feature| feature.rbac_with(run).unwrap_or_else(|_| feature.rbac());
    let parts = features
        .iter()
        .map(|feature| (feature.name(), needs(*feature)))
        .chain([("engine", engine_rbac())]);
    for (part, rbac) in parts {
        let rbac = listed.added_to(rbac.for_account(account));
        checks.push(permissions::allowed(&client, part, namespace, &rbac, listed).await);
    }
    checks.push(leases::own(&client, namespace).await);
    let shared = SharedValues::default();
    for feature in features {
        checks.extend(leases::predecessor(&client, *feature, namespace, run).await);
        checks.extend(feature.examine(run, &client, &shared).await);
    }
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
    let info = match client.apiserver_version().await {
        Ok(info) => info,
        Err(error) => {
            let finding = format!(
                "the API server does not answer: {error}; check KUBECONFIG and the network"
            );
            return Check::wrong("cluster", finding);
        }
    };
    let minor: u32 = info.minor.trim_end_matches('+').parse().unwrap_or(0);
    let version = info.git_version;
    if minor >= OLDEST_MINOR {
        return Check::fine("cluster", format!("Kubernetes {version}"));
    }
    Check::wrong(
        "cluster",
        format!("Kubernetes {version} is older than 1.{OLDEST_MINOR}; upgrade the cluster"),
    )
}

async fn served(client: &Client, feature: &str, crd: &str) -> Check {
    let what = format!("{feature}: CRD {crd}");
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    match api.get_opt(crd).await {
        Ok(Some(_)) => Check::fine(what, "served"),
        Ok(None) => Check::wrong(
            what,
            format!(
                "missing; run: pontoon crds --feature {feature} | kubectl apply --server-side -f -"
            ),
        ),
        Err(error) => Check::wrong(what, error.to_string()),
    }
}
