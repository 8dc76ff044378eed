//! The StatefulSet of the migrate example. No container runs here, so its users are us: we see in which
//! cluster its pods are Ready, and whether EC2 has seen a disk used as it must not be.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::examples::ExampleState;
use crate::verdict::{Error, While};

const NAMESPACE: &str = "shop";
const NAME: &str = "web";
const REPLICAS: usize = 3;

const PATIENCE: Duration = Duration::from_secs(10);

/// The set `shop/web`, wherever its pods are.
pub(crate) struct MovingSet {
    old: Api<Pod>,
    new: Api<Pod>,
    http: reqwest::Client,
    /// What the emulator's oracle reports.
    violations_url: String,
}

impl MovingSet {
    /// The set that begins in the cluster `old`, with disks in the AWS emulator at `url`.
    pub(crate) fn new(old: Client, new: Client, url: &str) -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(PATIENCE).build();
        Ok(Self {
            old: Api::namespaced(old, NAMESPACE),
            new: Api::namespaced(new, NAMESPACE),
            http: http.doing("making an HTTP client")?,
            violations_url: format!("{url}/_emu/violations"),
        })
    }

    pub(crate) fn name() -> String {
        format!("{NAMESPACE}/{NAME}")
    }

    /// Whether all of its pods are Ready in one cluster, and every disk was used by one pod alone.
    pub(crate) async fn state(&self) -> ExampleState {
        let seen = async {
            let violation = first_violation(&self.violations().await?);
            let (old, new) = (ready_pods(&self.old).await?, ready_pods(&self.new).await?);
            Ok::<_, Error>(state(violation, &old, &new))
        };
        seen.await
            .unwrap_or_else(|error| not_ready("NotSeen", error.to_string()))
    }

    async fn violations(&self) -> Result<Value, Error> {
        let answer = self.http.get(&self.violations_url).send().await;
        let violations = answer.doing("asking the AWS emulator")?.json().await;
        violations.doing("reading what the AWS emulator reports")
    }
}

async fn ready_pods(pods: &Api<Pod>) -> Result<Vec<String>, Error> {
    let of_set = ListParams::default().labels(&format!("app={NAME}"));
    let listed = pods.list(&of_set).await.doing("listing the pods")?;
    let ready = listed.iter().filter(|pod| is_ready(pod));
    Ok(ready.map(ResourceExt::name_any).collect())
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|all| {
            all.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        })
}

/// What EC2 has reported first; `None` if every disk was used as it must be.
fn first_violation(violations: &Value) -> Option<String> {
    let mut all = violations["violations"].as_array().into_iter().flatten();
    let first = all.find(|one| one["service"] == "ec2")?;
    let text = |field: &str| first[field].as_str().unwrap_or_default();
    Some(format!("{}: {}", text("rule"), text("detail")))
}

/// | violation | Ready in old | Ready in new | state                     |
/// |-----------|--------------|--------------|---------------------------|
/// | some      | any          | any          | not Ready, DiskViolation  |
/// | none      | all          | none         | Ready, InOldCluster       |
/// | none      | none         | all          | Ready, InNewCluster       |
/// | none      | some         | some         | not Ready, InBothClusters |
/// | none      | other        | other        | not Ready, PodsNotReady   |
fn state(violation: Option<String>, old: &[String], new: &[String]) -> ExampleState {
    let ready = |reason: &str| ExampleState::Ready {
        reason: reason.to_owned(),
    };
    let list = |pods: &[String]| match pods {
        [] => "none".to_owned(),
        pods => pods.join(", "),
    };
    let places = format!("Ready in old: {}; in new: {}", list(old), list(new));
    match (violation, old.len(), new.len()) {
        (Some(violation), ..) => not_ready("DiskViolation", violation),
        (None, REPLICAS, 0) => ready("InOldCluster"),
        (None, 0, REPLICAS) => ready("InNewCluster"),
        (None, 1.., 1..) => not_ready("InBothClusters", places),
        (None, ..) => not_ready("PodsNotReady", places),
    }
}

fn not_ready(reason: &str, message: String) -> ExampleState {
    ExampleState::NotReady {
        reason: reason.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::{ExampleState, first_violation, state};

    #[rstest]
    #[case::before(&["web-0", "web-1", "web-2"], &[], "InOldCluster", true)]
    #[case::after(&[], &["web-0", "web-1", "web-2"], "InNewCluster", true)]
    #[case::between(&["web-1", "web-2"], &["web-0"], "InBothClusters", false)]
    #[case::one_is_down(&["web-1", "web-2"], &[], "PodsNotReady", false)]
    #[case::all_are_down(&[], &[], "PodsNotReady", false)]
    fn the_reason_names_the_cluster_of_the_pods(
        #[case] old: &[&str],
        #[case] new: &[&str],
        #[case] expected: &str,
        #[case] is_fine: bool,
    ) {
        let names = |pods: &[&str]| pods.iter().map(|&pod| pod.to_owned()).collect::<Vec<_>>();
        let state = state(None, &names(old), &names(new));
        assert_eq!(state.is_fine(), is_fine);
        let (ExampleState::Ready { reason } | ExampleState::NotReady { reason, .. }) = state else {
            panic!("{state:?}");
        };
        assert_eq!(reason, expected);
    }

    #[test]
    fn a_violation_of_ec2_is_reported_and_no_other() {
        let of = |service: &str| json!({"service": service, "rule": "twoAttachments", "detail": "vol-1"});
        let seen = |services: &[&str]| {
            let all: Vec<_> = services.iter().map(|service| of(service)).collect();
            first_violation(&json!({"violations": all}))
        };
        assert_eq!(seen(&["route53"]), None);
        let violation = seen(&["route53", "ec2"]);
        assert_eq!(violation.as_deref(), Some("twoAttachments: vol-1"));
        let names = ["web-0", "web-1", "web-2"].map(str::to_owned);
        assert!(!state(violation, &names, &[]).is_fine());
    }
}
