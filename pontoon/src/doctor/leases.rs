//! The holders of our Lease and of the Leases of controllers that a feature replaces.

use clap::ArgMatches;
use engine::{Check, Feature, LegacyLease};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Namespace;
use kernel::{Clock, RealClock};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

/// Our own Lease.
pub(super) async fn own(client: &Client, namespace: &str) -> Check {
    let what = format!("lease {namespace}/pontoon");
    match holder(client, namespace, "pontoon").await {
        Ok(Some(holder)) => Check::fine(what, format!("held by {holder}")),
        Ok(None) => Check::fine(what, "free: no operator runs here"),
        Err(error) => Check::wrong(what, error.to_string()),
    }
}

/// Whether the controller that `feature` replaces runs, and whether it would wait for us.
pub(super) async fn predecessor(
    client: &Client,
    feature: &dyn Feature,
    namespace: &str,
    run: &ArgMatches,
) -> Option<Check> {
    let name = feature.predecessor()?;
    let what = format!("{}: predecessor {name}", feature.name());
    let Ok(running) = running(client, name).await else {
        let finding = "whether it runs is not known: Deployments may not be listed; ask as \
                       somebody who may";
        return Some(Check::doubtful(what, finding));
    };
    let lease = feature.legacy_lease(run);
    let Some(running) = running else {
        return Some(idle(client, what, lease, namespace).await);
    };
    let Some(lease) = lease else {
        let finding = format!(
            "runs as Deployment {running}, and no Lease keeps us apart: both write; scale it to 0"
        );
        return Some(Check::doubtful(what, finding));
    };
    let home = lease.namespace.as_deref().unwrap_or(namespace);
    let at = format!("{home}/{}", lease.name);
    let finding = match holder(client, home, &lease.name).await {
        Err(error) => format!("runs as Deployment {running}; its Lease {at} is not known: {error}"),
        Ok(Some(holder)) if holder.starts_with("pontoon/") => format!(
            "runs as Deployment {running} while we hold its Lease {at}: it waits, unless it runs \
             without --leader-elect; scale it to 0"
        ),
        Ok(Some(_)) => format!(
            "runs as Deployment {running} and holds Lease {at}: this feature waits; scale it to 0 \
             to go on here"
        ),
        Ok(None) => format!(
            "runs as Deployment {running} without its Lease {at}: both would write; scale it to \
             0, have it run with --leader-elect, or name its Lease by \
             --{}-legacy-lease",
            feature.name()
        ),
    };
    Some(Check::doubtful(what, finding))
}

/// A predecessor does not run. We still need its Lease, unless nobody can hold it.
async fn idle(client: &Client, what: String, lease: Option<LegacyLease>, own: &str) -> Check {
    let home = lease.as_ref().and_then(|lease| lease.namespace.as_deref());
    let (Some(lease), Some(home)) = (&lease, home.filter(|home| *home != own)) else {
        return Check::fine(what, "does not run");
    };
    let at = format!("{home}/{}", lease.name);
    let known = async {
        let namespaces = Api::<Namespace>::all(client.clone());
        if namespaces.get_metadata_opt(home).await?.is_none() {
            return Ok(format!(
                "does not run, and there is no namespace {home}: nobody can hold its Lease {at}"
            ));
        }
        let holder = holder(client, home, &lease.name).await?;
        let state = holder.map_or_else(|| "free".to_owned(), |holder| format!("held by {holder}"));
        Ok::<_, kube::Error>(format!("does not run; its Lease {at} is {state}"))
    };
    match known.await {
        Ok(finding) => Check::fine(what, finding),
        Err(error) => {
            let finding = format!(
                "does not run; its Lease {at} is not known: {error}; the operator needs get, create and update \
                 of it"
            );
            Check::doubtful(what, finding)
        }
    }
}

async fn holder(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, kube::Error> {
    let api = Api::<Lease>::namespaced(client.clone(), namespace);
    let lease = api.get_opt(name).await?;
    let lease = lease.and_then(|lease| lease.spec);
    let holder = lease
        .filter(is_renewed)
        .and_then(|lease| lease.holder_identity);
    Ok(holder.filter(|holder| !holder.is_empty()))
}

/// Allows for a difference between our clock and the holder's.
fn is_renewed(lease: &LeaseSpec) -> bool {
    let seconds = i64::from(lease.lease_duration_seconds.unwrap_or_default());
    lease.renew_time.as_ref().is_some_and(|renewed| {
        RealClock::new().now().duration_since(renewed.0).as_secs() <= 2 * seconds
    })
}

/// The first Deployment that runs an image of this name.
async fn running(client: &Client, name: &str) -> Result<Option<String>, kube::Error> {
    let api = Api::<Deployment>::all(client.clone());
    let all = api.list(&ListParams::default()).await?;
    Ok(all
        .into_iter()
        .find(|one| is_of(one, name) && has_pods(one))
        .map(|one| format!("{}/{}", one.namespace().unwrap_or_default(), one.name_any())))
}

fn is_of(deployment: &Deployment, name: &str) -> bool {
    let pod = deployment
        .spec
        .as_ref()
        .and_then(|s| s.template.spec.as_ref());
    let images = pod.into_iter().flat_map(|pod| &pod.containers);
    let mut images = images.filter_map(|container| container.image.as_deref());
    images.any(|image| image.contains(name))
}

fn has_pods(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    wanted != Some(0)
}
