use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response};
use kernel::{Class, ClusterId};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::leftovers::record::tests::{Disk, disk};
use crate::{Clients, Hub, Metrics, OtherClusterOptions, Stored, Tasks};

/// The answer to each call. The object that claims the disk appears after `claimed_after_reads` reads.
#[derive(Clone)]
struct Answers {
    claimant: Claimant,
    claimed_after_reads: usize,
    client: Result<(), Stop>,
    judgement: Judgement,
    removed: Result<(), Stop>,
}

/// Answers for a disk that no object claims and that may be removed.
fn answers() -> Answers {
    Answers {
        claimant: Claimant::Nobody,
        claimed_after_reads: 0,
        client: Ok(()),
        judgement: Judgement::Remove,
        removed: Ok(()),
    }
}

fn claimed(claimant: Claimant, claimed_after_reads: usize) -> Answers {
    Answers {
        claimant,
        claimed_after_reads,
        ..answers()
    }
}

fn reason() -> Reason {
    Reason::new("Refused", "no")
}

/// Returns `answers`, and logs calls and counts.
struct Disks {
    answers: Answers,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Remover for Disks {
    type Leftover = Disk;
    type Target = ();
    type Client = ();
    type Evidence = ();

    fn first_pause(&self) -> Duration {
        Duration::from_secs(300)
    }

    fn target(&self, _: &Disk) -> Result<(), Stop> {
        Ok(())
    }

    fn claimant(&self, _: &Disk, (): &()) -> Claimant {
        let log = self.log.lock();
        let reads = log.iter().filter(|call| **call == "read").count();
        if reads < self.answers.claimed_after_reads {
            Claimant::Nobody
        } else {
            self.answers.claimant.clone()
        }
    }

    fn client(&self, _: &Disk, (): &()) -> Result<(), Stop> {
        self.answers.client.clone()
    }

    async fn read(&self, _: &Disk, (): &()) -> Result<(), Stop> {
        self.log.lock().push("read");
        Ok(())
    }

    fn judge(&self, _: &Disk, (): &(), (): ()) -> Judgement {
        self.answers.judgement.clone()
    }

    async fn remove(&self, _: &Disk, (): &()) -> Result<(), Stop> {
        self.log.lock().push("remove");
        self.answers.removed.clone()
    }

    fn count_attempt(&self, _: &Disk, is_success: bool) {
        let outcome = if is_success { "success" } else { "failure" };
        self.log.lock().push(outcome);
    }

    fn count_records(&self, _: usize) {}
}

type Writes = Arc<Mutex<Vec<Method>>>;

/// An API server that accepts every write of the record. Its watches have no events.
fn api_server(writes: Writes) -> Client {
    let server = tower::service_fn(move |request: Request<Body>| {
        let writes = writes.clone();
        async move {
            let method = request.method().clone();
            if method == Method::GET {
                std::future::pending::<()>().await;
            }
            writes.lock().push(method.clone());
            let response = if method == Method::DELETE {
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            } else {
                json!({"metadata": {"name": "disk-d", "namespace": "n", "uid": "u",
                    "resourceVersion": "8"}})
            };
            let body = Body::from(response.to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(server, "n")
}

fn deck(client: Client, tasks: &Tasks) -> Deck {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .ok();
    let unused = "http://127.0.0.1:9".parse().unwrap();
    let metrics = Metrics::default();
    let clients = Clients::new(kube::Config::new(unused), 1, metrics.clone()).unwrap();
    let cluster = ClusterId::new("c").unwrap();
    let deck = Deck::for_reading("f", &clients, metrics, cluster, "n".into(), tasks);
    Deck {
        hub: Hub::new(client.clone(), tasks.child(), deck.metrics.clone()),
        client,
        ..deck
    }
}

/// How a pass over a new record ends, with its calls and writes.
async fn pass(answers: Answers) -> (Progress, Vec<&'static str>, Vec<Method>) {
    let (tasks, log, writes) = (Tasks::default(), Arc::default(), Writes::default());
    let deck = deck(api_server(writes.clone()), &tasks);
    let disks = Disks {
        answers,
        log: Arc::clone(&log),
    };
    let store = LeftoverStore::<Disk>::new(&deck);
    let mut map = Record::new(disk(), store.now()).config_map("n");
    map.metadata.uid = Some("u".to_owned());
    map.metadata.resource_version = Some("7".to_owned());
    let worker = Worker::new(disks, store);
    let key = worker.cache.key();
    let text = serde_json::to_string(&map).unwrap();
    let stored = Stored::read(&key.kind, &text, &key.projection).unwrap();
    let mut pass = deck.reading_pass(&worker.cache, Arc::new(stored)).await;
    let progress = worker.reconcile(&map, &mut pass).await.unwrap();
    tasks.kill().await;
    let (log, writes) = (log.lock().clone(), writes.lock().clone());
    (progress, log, writes)
}

#[rstest]
#[case::ours(answers(), &["read", "remove", "success"])]
#[case::gone(Answers { judgement: Judgement::Gone, ..answers() }, &["read", "success"])]
#[case::not_ours(Answers { judgement: Judgement::Leave(reason()), ..answers() }, &["read"])]
#[case::claimed(claimed(Claimant::Somebody("o".to_owned()), 0), &[])]
#[case::claimed_during_the_read(claimed(Claimant::Somebody("o".to_owned()), 1), &["read"])]
#[tokio::test]
async fn a_finished_record_is_deleted(#[case] answers: Answers, #[case] expected: &[&str]) {
    let (progress, log, writes) = pass(answers).await;
    assert_eq!(progress, Progress::done());
    assert_eq!(log, expected);
    assert_eq!(writes, [Method::DELETE]);
}

#[rstest]
#[case::target_is_not_ready(
    Answers { client: Err(Stop::waiting(reason(), RECHECK)), ..answers() }, &[])]
#[case::claim_is_undecided(claimed(Claimant::Undecided("o".to_owned()), 0), &[])]
#[case::not_all_is_read(claimed(Claimant::Unread, 0), &[])]
#[case::too_many_calls(
    Answers { removed: Err(Stop::waiting(reason(), RECHECK)), ..answers() }, &["read", "remove"])]
#[tokio::test]
async fn waiting_is_no_attempt_and_writes_nothing(
    #[case] answers: Answers,
    #[case] expected: &[&str],
) {
    let (progress, log, writes) = pass(answers).await;
    assert!(matches!(progress, Progress::Waiting { .. }), "{progress:?}");
    assert_eq!(log, expected);
    assert_eq!(writes, Vec::<Method>::new());
}

#[tokio::test]
async fn a_failed_attempt_is_saved_and_followed_by_a_pause() {
    let failed = Stop::Failed {
        reason: reason(),
        class: Class::Transient,
    };
    let removed = Err(failed);
    let (progress, log, writes) = pass(Answers {
        removed,
        ..answers()
    })
    .await;
    let (reason, after) = (reason(), Duration::from_secs(300));
    assert_eq!(progress, Progress::Waiting { reason, after });
    assert_eq!(log, ["read", "remove", "failure"]);
    assert_eq!(writes, [Method::PATCH]);
}

#[tokio::test]
async fn a_blocked_record_is_saved_and_makes_no_call() {
    let client = Err(Stop::blocked(reason()));
    let (progress, log, writes) = pass(Answers {
        client,
        ..answers()
    })
    .await;
    assert_eq!(progress, Progress::Blocked { reason: reason() });
    assert_eq!(log, Vec::<&str>::new());
    assert_eq!(writes, [Method::PATCH]);
}

#[tokio::test]
async fn records_of_another_cluster_are_in_the_own_one() {
    let (tasks, writes) = (Tasks::default(), Writes::default());
    let own = deck(api_server(writes.clone()), &tasks);
    let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
    let other = own.other_cluster("other", nowhere, OtherClusterOptions::default());
    let store = LeftoverStore::<Disk>::new(other.unwrap().deck());
    store.record(&disk()).await.unwrap();
    assert_eq!(*writes.lock(), [Method::POST]);
    assert_eq!(own.hub.health().len(), 0);
    let _cache = store.cache();
    assert_eq!(own.hub.health().len(), 1, "the watch is in the own cluster");
    tasks.kill().await;
}
