//! What must be done, as data.

use std::time::Duration;

use api::probe::{ACCEPT_CLUSTER, reasons};
use cluster_client::{ClusterIdentity, Verdict};
use engine::{Next, Object, Stop};
use kernel::{CallError, Class, Ownership, Reason, Touch, may_touch};

use super::{Connection, Copy, MirrorCore, Read, Seen, Step, World};

/// A Secret that is missing is read again after this time.
const SECRET_PAUSE: Duration = Duration::from_secs(30);

/// The first row that fits:
///
/// | world                                      | next                           |
/// |--------------------------------------------|--------------------------------|
/// | deleted, and nothing was ever written      | done                           |
/// | a call failed                              | failed, with its error         |
/// | the connection is not read                 | read it                        |
/// | the Secret is missing                      | wait                           |
/// | the kubeconfig is refused                  | blocked: names the field       |
/// | the server has become another cluster      | blocked: names both            |
/// | another cluster than pinned and accepted   | blocked: names both            |
/// | the copy is not read                       | read it                        |
/// | any other                                  | [`copy`]                       |
pub(super) fn next(world: &World) -> Result<Next<Read, Step>, Stop> {
    let (object, observed) = (&world.object, &world.observed);
    if object.is_deleting() && object.status.cluster.is_none() {
        return Ok(Next::done());
    }
    if let Some(error) = &observed.error {
        let reason = Reason::new(reasons::FAILED, error.message.clone());
        let class = error.class;
        return Err(Stop::Failed { reason, class });
    }
    let spec = &object.resource.spec;
    let cluster = match &observed.connection {
        None => {
            return Ok(Next::read(Read::Connection {
                kubeconfig: spec.kubeconfig.clone(),
                pinned: object.status.cluster.clone(),
                accepted: unused_acceptance(object).map(str::to_owned),
            }));
        }
        Some(Connection::NoKubeconfig) => {
            let (name, key) = (&spec.kubeconfig.name, &spec.kubeconfig.key);
            let message = format!("there is no Secret {name} with key {key}; create it");
            let reason = Reason::new(reasons::SECRET_NOT_READABLE, message);
            return Err(Stop::waiting(reason, SECRET_PAUSE));
        }
        Some(Connection::Refused(message)) => {
            let reason = Reason::new(reasons::KUBECONFIG_REFUSED, message.clone());
            return Err(Stop::blocked(reason));
        }
        Some(Connection::Moved(message)) => {
            let used = object.status.accepted_cluster.as_ref();
            let remove = used.map_or_else(String::new, |used| {
                format!("; remove {ACCEPT_CLUSTER}={used} first, because it was used before")
            });
            let message = format!(
                "{message}; annotate {ACCEPT_CLUSTER} with the UID of the right one{remove}"
            );
            let reason = Reason::new(reasons::IDENTITY_CHANGED, message);
            return Err(Stop::blocked(reason));
        }
        Some(Connection::Cluster(cluster)) => cluster,
    };
    if let Some(pinned) = &object.status.cluster
        && pinned != cluster
        && unused_acceptance(object) != Some(cluster)
    {
        let message = format!(
            "the kubeconfig leads to cluster {cluster}, and the copy is in cluster {pinned}; restore the \
             kubeconfig of that cluster, or annotate {ACCEPT_CLUSTER}={cluster}"
        );
        let reason = Reason::new(reasons::IDENTITY_CHANGED, message);
        return Err(Stop::blocked(reason));
    }
    match &observed.copy {
        Seen::Unread => Ok(Next::read(Read::Copy(spec.namespace.clone()))),
        Seen::Absent => copy(world, cluster, None),
        Seen::Present(live) => copy(world, cluster, Some(live)),
    }
}

/// The cluster that a person has accepted, unless this acceptance was used before.
///
/// | annotation | used | result |
/// |------------|------|--------|
/// | none       | any  | none   |
/// | a          | a    | none   |
/// | a          | not a| a      |
fn unused_acceptance(object: &Object<MirrorCore>) -> Option<&str> {
    let accepted = object.annotation(ACCEPT_CLUSTER);
    accepted.filter(|accepted| object.status.accepted_cluster.as_deref() != Some(accepted))
}

/// The acceptance that is used after a pass whose status names `pinned` as the cluster of the copy.
///
/// | annotation | used | connected to | pinned | used then |
/// |------------|------|--------------|--------|-----------|
/// | none       | any  | any          | any    | none      |
/// | a          | a    | any          | any    | a         |
/// | a          | not a| a            | a      | a         |
/// | a          | not a| any other    | any    | none      |
/// | a          | not a| a            | not a  | none      |
pub(super) fn used_acceptance(world: &World, pinned: Option<&str>) -> Option<String> {
    let object = &world.object;
    let accepted = object.annotation(ACCEPT_CLUSTER)?;
    let is_in_use = matches!(
        &world.observed.connection,
        Some(Connection::Cluster(cluster)) if cluster == accepted && pinned == Some(accepted)
    );
    let is_used = is_in_use || unused_acceptance(object).is_none();
    is_used.then(|| accepted.to_owned())
}

/// Whether a person has accepted the cluster that answers now.
///
/// | verdict       | seen | accepted | result |
/// |---------------|------|----------|--------|
/// | Another       | a    | a        | yes    |
/// | Another       | a    | not a    | no     |
/// | any other     | any  | any      | no     |
pub(super) fn is_accepted(
    verdict: &Verdict,
    seen: &ClusterIdentity,
    accepted: Option<&str>,
) -> bool {
    match verdict {
        Verdict::Another { .. } => Some(seen.as_str()) == accepted,
        Verdict::First(_) | Verdict::Same | Verdict::Unverified(_) => false,
    }
}

/// Refuses a step that was decided for another cluster than the one that the connection may write to.
pub(super) fn same_cluster(
    decided_for: &str,
    pinned: Option<&ClusterIdentity>,
) -> Result<(), CallError> {
    let pinned = pinned.map_or("no cluster", ClusterIdentity::as_str);
    if pinned == decided_for {
        return Ok(());
    }
    let message = format!(
        "the connection now writes to {pinned}, and this step was decided for cluster {decided_for}"
    );
    Err(CallError::new(Class::Stale, message))
}

/// | copy              | object  | next                       |
/// |-------------------|---------|----------------------------|
/// | none              | deleted | done                       |
/// | ours              | deleted | remove it                  |
/// | not ours          | deleted | done                       |
/// | none              | any     | write it                   |
/// | not ours          | any     | blocked: names the owner   |
/// | ours, other text  | any     | write it                   |
/// | ours, same text   | any     | done, once it is on record |
fn copy(world: &World, cluster: &str, live: Option<&Copy>) -> Result<Next<Read, Step>, Stop> {
    let spec = &world.object.resource.spec;
    let namespace = spec.namespace.clone();
    let Some(live) = live else {
        if world.object.is_deleting() {
            return Ok(Next::done());
        }
        return Ok(Next::step(Step::Write {
            cluster: cluster.to_owned(),
            namespace,
            text: spec.text.clone(),
            over: None,
        }));
    };
    let touch = may_touch(live.ownership.clone(), false, None);
    match (touch, world.object.is_deleting()) {
        (Touch::Ours, true) => Ok(Next::step(Step::Remove {
            cluster: cluster.to_owned(),
            namespace,
            uid: live.uid.clone(),
        })),
        (_, true) => Ok(Next::done()),
        (Touch::Ours, false)
            if live.text.as_ref() == Some(&spec.text)
                && world.object.status.cluster.as_deref() == Some(cluster) =>
        {
            Ok(Next::done())
        }
        (Touch::Ours, false) => Ok(Next::step(Step::Write {
            cluster: cluster.to_owned(),
            namespace,
            text: spec.text.clone(),
            over: Some(live.uid.clone()),
        })),
        (Touch::Refuse(Ownership::Foreign(owner)), false) => {
            let message = format!("the ConfigMap in namespace {namespace} is a copy of {owner}");
            Err(Stop::blocked(Reason::new(reasons::NAME_TAKEN, message)))
        }
        (Touch::Refuse(_) | Touch::Adopt { .. }, false) => {
            let message = format!(
                "namespace {namespace} has a ConfigMap of this name that is no copy; delete or rename it"
            );
            Err(Stop::blocked(Reason::new(reasons::NAME_TAKEN, message)))
        }
    }
}
