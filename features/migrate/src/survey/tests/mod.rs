//! Whole surveys of fake clusters, and of the emulator's EC2.

mod api_server;

use std::sync::Arc;
use std::time::Duration;

use aws::ec2::Ec2;
use aws::{Aws, Caller, Keys, Observer, Operation, Parts, Priority, Secret, Settings};
use aws_emulator::Emulator;
use http::Method;
use kernel::{Class, Guard, TestClock};
use serde_json::{Value, json};

use super::fixture::{DISK, RUN, spec};
use super::*;
use crate::preflight::access::{Ec2Call, needed};
use crate::preflight::reading::Outage;
use crate::preflight::survey::{DryRun, LockHolder};
use api_server::{ApiServer, Sent};

const REGION: &str = "eu-west-1";
const SOURCE_INSTANCE: &str = "i-0000000a";
const DESTINATION_INSTANCE: &str = "i-0000000b";

#[derive(Debug)]
struct Unobserved;

impl Observer for Unobserved {
    fn called(&self, _: Operation, _: Duration, _: Option<Class>) {}
}

/// EC2 with the disk of the set, on an instance of the source.
struct Region {
    emulator: Emulator,
    ec2: Ec2,
}

impl Region {
    async fn start() -> Self {
        let emulator = Emulator::builder().every_service().start().await.unwrap();
        let clock = Arc::new(TestClock::new());
        clock.set_factor(100);
        let settings = Settings {
            region: Some(REGION.to_owned()),
            keys: Some(Keys {
                access_key_id: "test".to_owned(),
                secret_access_key: Secret::new("s3cret-of-the-test".to_owned()),
                session_token: None,
            }),
            endpoint: Some(emulator.url()),
            ..Settings::default()
        };
        let parts = Parts {
            clock,
            guards: vec![Guard::always()],
            observer: Arc::new(Unobserved),
        };
        let aws = Aws::load(settings, parts).await;
        let ec2 = aws.own().ec2(&Caller::new(Priority::Edit, "web"), REGION);
        let region = Self { emulator, ec2 };
        for instance in [SOURCE_INSTANCE, DESTINATION_INSTANCE] {
            region.put(
                &format!("instances/{instance}"),
                json!({"az": fixture::ZONE}),
            );
        }
        region.put(
            &format!("volumes/{DISK}"),
            json!({"az": fixture::ZONE, "size": 8}),
        );
        let attach = format!("ec2/volumes/{DISK}/attach");
        region.control(Method::POST, &attach, json!({"instance": SOURCE_INSTANCE}));
        region.control(Method::POST, "clock", json!({"advance": 60}));
        region
    }

    fn put(&self, path: &str, body: Value) {
        self.control(Method::PUT, &format!("ec2/{path}"), body);
    }

    fn control(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.emulator.control(method, path, body);
        answer.unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    /// The calls to AWS, by their names.
    fn calls(&self) -> Vec<String> {
        let log = self.control(Method::GET, "log", Value::Null);
        let entries = log["entries"].as_array().unwrap().iter();
        let calls = entries.filter_map(|entry| entry["operation"].as_str());
        calls.map(str::to_owned).collect()
    }
}

/// The cluster of the source, with the set.
fn source() -> ApiServer {
    let mut server = ApiServer::new();
    server.add("/api/v1/namespaces", json!({"metadata": {"name": "shop"}}));
    server.add("/apis/apps/v1/namespaces/shop/statefulsets", fixture::set());
    server.add(
        "/api/v1/namespaces/shop/persistentvolumeclaims",
        fixture::claim(),
    );
    server.add("/api/v1/persistentvolumes", fixture::volume());
    server.add("/api/v1/nodes", fixture::node("src-a", SOURCE_INSTANCE));
    server.add(
        "/api/v1/namespaces/shop/configmaps",
        json!({"metadata": {"name": "stsm-web"}, "data": {
            "holder": "other", "object": "ops/other", "managementCluster": "uid", "state": "Released"}}),
    );
    server
}

/// The cluster of the destination, which has neither Secret nor ServiceAccount.
fn destination() -> ApiServer {
    let mut server = ApiServer::new();
    server.add("/api/v1/namespaces", json!({"metadata": {"name": "store"}}));
    server.add(
        "/api/v1/nodes",
        fixture::node("dst-a", DESTINATION_INSTANCE),
    );
    server.add(
        "/api/v1/namespaces/store/configmaps",
        json!({"metadata": {"name": "settings"}}),
    );
    server.add(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"metadata": {"name": "gp3"}}),
    );
    server.add(
        "/apis/storage.k8s.io/v1/csidrivers",
        json!({"metadata": {"name": "ebs.csi.aws.com"}}),
    );
    server
}

fn connected(client: Option<Client>, uid: &str) -> SurveyedCluster {
    SurveyedCluster {
        client,
        kubeconfig: Reading::Read(KubeconfigState::Accepted),
        uid: Reading::Read(uid.to_owned()),
    }
}

async fn surveyed(source: &ApiServer, destination: &ApiServer, region: &Region) -> Box<Survey> {
    let spec = spec(json!({}));
    let request = Request {
        spec: &spec,
        namespace: "ops",
        run: RUN,
        pinned: [Some("src-uid".to_owned()), None],
        source: connected(Some(source.client()), "src-uid"),
        destination: connected(Some(destination.client()), "dst-uid"),
        ec2: &region.ec2,
        region: REGION,
    };
    survey(request).await
}

fn read<T>(reading: &Reading<T>) -> &T {
    reading.get("the part").unwrap()
}

#[tokio::test]
async fn a_survey_has_every_part() {
    let region = Region::start().await;
    let survey = surveyed(&source(), &destination(), &region).await;
    assert_eq!(survey.source.pinned_uid.as_deref(), Some("src-uid"));
    for side in Side::BOTH {
        let cluster = survey.cluster(side);
        let namespace = survey.namespace_at(side);
        let accesses = needed(side, namespace).into_iter().collect();
        assert_eq!(*read(&cluster.allowed), accesses);
        assert!(read(&cluster.namespace).is_some());
        assert_eq!(read(&cluster.nodes).len(), 1);
        assert_eq!(read(&cluster.autoscalers).len(), 0);
        assert_eq!(read(&cluster.budgets).len(), 0);
    }
    assert_eq!(read(&survey.source.claims).len(), 1);
    assert_eq!(read(&survey.source.volumes).len(), 1);
    assert_eq!(*read(&survey.source.ordinals), OrdinalsSupport::Echoed);
    let lock = LockHolder {
        run: "other".to_owned(),
        migration: "ops/other".to_owned(),
        cluster: "uid".to_owned(),
        is_released: true,
    };
    assert_eq!(*read(&survey.source.lock), Some(lock));
    assert_eq!(*read(&survey.destination.lock), None);
    assert_eq!(*read(&survey.snapshots), []);
    let volumes = read(&survey.ec2.volumes);
    assert_eq!(volumes[DISK].attachments[0].instance, SOURCE_INSTANCE);
    assert_eq!(volumes[DISK].state, "in-use");
    assert_eq!(
        *read(&survey.ec2.allowed),
        [Ec2Call::DescribeVolumes].into()
    );
    let [root_disk] = &**read(&survey.ec2.at_destination) else {
        panic!("{:?}", survey.ec2.at_destination);
    };
    assert_eq!(root_disk.attachments[0].instance, DESTINATION_INSTANCE);
    assert!(read(&survey.ec2.modifications).is_empty());
    assert!(read(&survey.records).journal > 0);
}

#[tokio::test]
async fn the_destination_is_read_by_what_the_set_names() {
    let region = Region::start().await;
    let destination = destination();
    destination.refuse("POST", "/pods", 403, "violates PodSecurity");
    let survey = surveyed(&source(), &destination, &region).await;
    let arrival = &survey.arrival;
    let existing = |(dependency, exists): (&Dependency, &Reading<bool>)| {
        (dependency.name.clone(), *read(exists))
    };
    let dependencies: Vec<_> = arrival.dependencies.iter().map(existing).collect();
    let expected = [("settings", true), ("password", false), ("web", false)];
    assert_eq!(
        dependencies,
        expected.map(|(name, exists)| (name.to_owned(), exists))
    );
    assert!(read(&arrival.driver).is_some());
    assert!(read(&arrival.service).is_none());
    assert_eq!(*read(&arrival.storage_classes), ["gp3".to_owned()].into());
    assert!(read(&arrival.attributes_classes).is_empty());
    let dry_run = |subject: &str, refusal: Option<&str>| DryRun {
        subject: subject.to_owned(),
        refusal: refusal.map(str::to_owned),
    };
    let expected = [
        dry_run("PersistentVolume pv-0", None),
        dry_run("PersistentVolumeClaim store/data-web-0", None),
        dry_run("StatefulSet store/web", None),
        dry_run("Pod store/web-0", Some("violates PodSecurity")),
    ];
    assert_eq!(*read(&arrival.dry_runs), expected);
    assert_eq!(arrival.admitted_pod, None);
}

#[tokio::test]
async fn an_admitted_pod_is_kept() {
    let region = Region::start().await;
    let survey = surveyed(&source(), &destination(), &region).await;
    let pod = survey.arrival.admitted_pod.unwrap();
    assert_eq!(pod.metadata.namespace.as_deref(), Some("store"));
    // The destination has no such ServiceAccount, which is the finding of another check.
    assert_eq!(pod.spec.unwrap().service_account_name, None);
}

#[tokio::test]
async fn a_survey_changes_nothing() {
    let region = Region::start().await;
    let (source, destination) = (source(), destination());
    surveyed(&source, &destination, &region).await;
    for server in [&source, &destination] {
        for sent in server.sent() {
            let is_review = sent.path.ends_with("/selfsubjectaccessreviews");
            let changes_nothing = sent.method == "GET" || is_review || sent.is_dry_run();
            assert!(changes_nothing, "{sent:?}");
        }
    }
    let dry_runs = |server: &ApiServer| {
        server
            .sent()
            .iter()
            .filter(|sent| sent.is_dry_run())
            .count()
    };
    assert_eq!(dry_runs(&source), 1);
    assert_eq!(dry_runs(&destination), 4);
    for call in region.calls() {
        let is_read = call.starts_with("Describe") || call == "GetCallerIdentity";
        assert!(is_read, "{call}");
    }
}

#[tokio::test]
async fn secrets_and_config_maps_are_read_by_name() {
    let region = Region::start().await;
    let (source, destination) = (source(), destination());
    surveyed(&source, &destination, &region).await;
    let is_sensitive =
        |sent: &Sent| sent.path.contains("/secrets") || sent.path.contains("/configmaps");
    let sensitive = |server: &ApiServer| {
        let sent = server.sent().into_iter().filter(is_sensitive);
        let mut sent: Vec<_> = sent
            .map(|sent| (sent.path, sent.has_metadata_alone))
            .collect();
        sent.sort();
        sent
    };
    let path = |below: &str, has_metadata_alone| {
        (format!("/api/v1/namespaces/{below}"), has_metadata_alone)
    };
    assert_eq!(
        sensitive(&source),
        [path("shop/configmaps/stsm-web", false)]
    );
    assert_eq!(
        sensitive(&destination),
        [
            path("store/configmaps/settings", true),
            path("store/configmaps/stsm-web", false),
            path("store/secrets/password", true),
        ]
    );
}

#[tokio::test]
async fn a_list_has_every_page_and_loses_one_object_alone() {
    let region = Region::start().await;
    let mut destination = destination();
    for name in ["a", "b", "c"] {
        destination.add(
            "/api/v1/pods",
            json!({"metadata": {"name": name, "namespace": "n"}}),
        );
    }
    destination.add(
        "/api/v1/pods",
        json!({"metadata": {"name": "d"}, "spec": "none"}),
    );
    let survey = surveyed(&source(), &destination, &region).await;
    let names: Vec<_> = read(&survey.destination.pods)
        .iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let lists = destination
        .sent()
        .into_iter()
        .filter(|sent| sent.path == "/api/v1/pods");
    let pages: Vec<String> = lists.map(|sent| sent.query).collect();
    assert_eq!(pages.len(), 2, "{pages:?}");
    assert!(
        pages.iter().all(|query| query.contains("limit=500")),
        "{pages:?}"
    );
}

#[tokio::test]
async fn a_part_that_is_denied_loses_no_other_part() {
    let region = Region::start().await;
    let destination = destination();
    destination.refuse("GET", "/nodes", 403, "no nodes for you");
    let survey = surveyed(&source(), &destination, &region).await;
    assert!(
        matches!(&survey.destination.nodes, Reading::Denied(why) if why.contains("no nodes for you"))
    );
    assert_eq!(survey.ec2.at_destination, Reading::NotRead);
    assert_eq!(read(&survey.arrival.dry_runs).len(), 4);
    assert!(read(&survey.records).capture > 0);
}

#[tokio::test]
async fn a_refused_login_ends_the_reads_of_its_cluster() {
    let region = Region::start().await;
    let (source, destination) = (source(), destination());
    source.refuse("", "", 401, "token expired");
    let survey = surveyed(&source, &destination, &region).await;
    let is_login =
        |reading: &Reading<Vec<_>>| matches!(reading, Reading::Unreachable(Outage::Login(_)));
    assert!(
        is_login(&survey.source.claims),
        "{:?}",
        survey.source.claims
    );
    assert!(source.sent().len() <= 8, "{:?}", source.sent());
    assert_eq!(read(&survey.destination.nodes).len(), 1);
    assert_eq!(survey.arrival.dry_runs, Reading::NotRead);
    assert_eq!(survey.records, Reading::NotRead);
}

#[tokio::test]
async fn a_cluster_without_connection_is_not_read() {
    let region = Region::start().await;
    let destination = destination();
    let spec = spec(json!({}));
    let request = Request {
        spec: &spec,
        namespace: "ops",
        run: RUN,
        pinned: [None, None],
        source: SurveyedCluster {
            client: None,
            kubeconfig: Reading::Read(KubeconfigState::NoSecret),
            uid: Reading::NotRead,
        },
        destination: connected(Some(destination.client()), "dst-uid"),
        ec2: &region.ec2,
        region: REGION,
    };
    let survey = survey(request).await;
    let expected = ClusterSurvey {
        kubeconfig: Reading::Read(KubeconfigState::NoSecret),
        ..ClusterSurvey::default()
    };
    assert_eq!(survey.source, expected);
    assert_eq!(read(&survey.destination.nodes).len(), 1);
}

#[test]
fn a_survey_may_run_on_any_thread() {
    fn is_send<T: Send>(_: fn(Request<'static>) -> T) {}
    is_send(survey);
}
