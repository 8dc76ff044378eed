//! The writer of zones, with clients of two features.

use std::sync::Arc;
use std::time::Duration;

use aws::route53::zone_writer::{
    Answer, ChangeSet, ZoneAccess, ZoneClient, ZoneRole, ZoneUser, ZoneWriter,
};
use aws::route53::{self, Action, Change, Record};
use aws::{Account, Aws, Error, Role};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join};
use kernel::{Guard, ObjectKey};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{Result, Seen, World};

/// A feature that records its answers.
struct Feature {
    aws: Aws,
    answers: Mutex<Vec<(String, Answer)>>,
    propagated: Mutex<usize>,
    news: Notify,
    sending: Notify,
}

impl Feature {
    fn new(world: &World) -> Arc<Self> {
        Self::guarded(world, Guard::always())
    }

    fn guarded(world: &World, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            aws: world.aws.for_feature(vec![guard], Arc::<Seen>::default()),
            answers: Mutex::default(),
            propagated: Mutex::default(),
            news: Notify::new(),
            sending: Notify::new(),
        })
    }

    /// Waits until so many answers are there.
    async fn answered(&self, count: usize) -> Vec<(String, Answer)> {
        let enough = async {
            while self.answers.lock().len() < count {
                self.news.notified().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(30), enough).await;
        in_time.expect("each change set is answered");
        self.answers.lock().clone()
    }
}

impl ZoneUser for Feature {
    fn account(&self, role: Option<Role>) -> BoxFuture<'_, Account> {
        let account = match role {
            Some(role) => self.aws.role(&role),
            None => self.aws.own().clone(),
        };
        std::future::ready(account).boxed()
    }

    fn answered(&self, _object: &ObjectKey, set: &ChangeSet, answer: Answer) {
        self.answers.lock().push((set.name.clone(), answer));
        self.news.notify_one();
    }

    fn delayed(&self, _object: &ObjectKey, _set: &ChangeSet) {}

    fn propagated(&self, _object: &ObjectKey) {
        *self.propagated.lock() += 1;
        self.news.notify_one();
    }

    fn failed(&self, _error: &Error) {}

    fn sending(&self, _records: usize) {
        self.sending.notify_one();
    }
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("web", "acme")
}

fn set(name: &str) -> ChangeSet {
    let name = format!("{name}.example.com");
    ChangeSet {
        access: ZoneAccess {
            zone: "Z1".to_owned(),
            login: ZoneRole::default(),
        },
        changes: vec![Change {
            action: Action::Create,
            record: Record {
                name: name.clone(),
                kind: "CNAME".to_owned(),
                answer: route53::Answer::Values {
                    ttl: 300,
                    values: vec!["d0.cloudfront.net".to_owned()],
                },
                set_identifier: None,
            },
        }],
        name,
    }
}

fn clients(world: &World) -> (ZoneClient, ZoneClient) {
    let writer = ZoneWriter::new(world.clock.clone());
    (writer.client(), writer.client())
}

fn is_accepted(answers: &[(String, Answer)]) -> bool {
    answers
        .iter()
        .all(|(_, answer)| matches!(answer, Answer::Accepted { .. }))
}

#[tokio::test]
async fn clients_share_a_zone_and_not_a_batch() -> Result {
    let world = World::start().await?;
    let (one, other) = clients(&world);
    let users = [Feature::new(&world), Feature::new(&world)];
    let sessions = [one.begin(users[0].clone()), other.begin(users[1].clone())];
    one.submit(&key(), [set("a"), set("b")]);
    other.submit(&key(), [set("c")]);
    let write = join(sessions[0].write(), sessions[1].write());
    let answers = join(users[0].answered(2), users[1].answered(1));
    let (first, second) = tokio::select! {
        _ = write => unreachable!("it goes on for ever"),
        answers = answers => answers,
    };
    assert!(is_accepted(&first) && is_accepted(&second));
    assert_eq!(world.sent("ChangeResourceRecordSets").len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_client_that_may_not_write_does_not_delay_another() -> Result {
    let world = World::start().await?;
    let (one, other) = clients(&world);
    let deposed = Feature::guarded(&world, Guard::closed());
    let user = Feature::new(&world);
    let sessions = [one.begin(deposed.clone()), other.begin(user.clone())];
    one.submit(&key(), [set("a")]);
    other.submit(&key(), [set("b")]);
    let answers = tokio::select! {
        () = sessions[0].write() => unreachable!("it goes on for ever"),
        answers = user.answered(1) => answers,
    };
    assert!(is_accepted(&answers));
    assert!(deposed.answers.lock().is_empty(), "it waits");
    assert_eq!(world.sent("ChangeResourceRecordSets").len(), 1);
    Ok(())
}

#[tokio::test]
async fn another_session_continues_and_what_was_in_flight_is_lost() -> Result {
    let world = World::start().await?;
    let slow = json!({ "delay": "1s" });
    world.fault(json!({ "operation": "ChangeResourceRecordSets", "times": 1, "effect": slow }));
    let (one, other) = clients(&world);
    let user = Feature::new(&world);
    let first = one.begin(Feature::new(&world));
    let second = other.begin(user.clone());
    other.submit(&key(), [set("a")]);
    tokio::select! {
        () = first.write() => unreachable!("it goes on for ever"),
        () = user.sending.notified() => {}
    }
    drop(first);
    other.submit(&key(), [set("b")]);
    let answers = tokio::select! {
        () = second.write() => unreachable!("it goes on for ever"),
        answers = user.answered(2) => answers,
    };
    assert_eq!(answers[0], ("a.example.com".to_owned(), Answer::Lost));
    assert_eq!(answers[1].0, "b.example.com");
    assert!(is_accepted(&answers[1..]));
    Ok(())
}

#[tokio::test]
async fn a_new_session_gets_no_answer_to_what_was_in_flight_before() -> Result {
    let world = World::start().await?;
    let slow = json!({ "delay": "1s" });
    world.fault(json!({ "operation": "ChangeResourceRecordSets", "times": 1, "effect": slow }));
    let (one, other) = clients(&world);
    let users = [Feature::new(&world), Feature::new(&world)];
    let first = one.begin(Feature::new(&world));
    let earlier = other.begin(users[0].clone());
    other.submit(&key(), [set("a")]);
    let session = tokio::select! {
        () = first.write() => unreachable!("it goes on for ever"),
        session = async {
            users[0].sending.notified().await;
            other.begin(users[1].clone())
        } => session,
    };
    drop((first, earlier));
    other.submit(&key(), [set("b")]);
    let answers = tokio::select! {
        () = session.write() => unreachable!("it goes on for ever"),
        answers = users[1].answered(1) => answers,
    };
    assert_eq!(answers[0].0, "b.example.com");
    assert!(is_accepted(&answers), "{answers:?}");
    assert!(users[0].answers.lock().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_new_session_forgets_what_was_submitted_before() -> Result {
    let world = World::start().await?;
    let (one, _) = clients(&world);
    one.submit(&key(), [set("a")]);
    let user = Feature::new(&world);
    let session = one.begin(user.clone());
    one.submit(&key(), [set("b")]);
    let answers = tokio::select! {
        () = session.write() => unreachable!("it goes on for ever"),
        answers = user.answered(1) => answers,
    };
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, "b.example.com");
    Ok(())
}

#[tokio::test]
async fn an_accepted_change_is_followed_until_it_is_in_sync() -> Result {
    let world = World::start().await?;
    let (one, _) = clients(&world);
    let user = Feature::new(&world);
    let session = one.begin(user.clone());
    one.submit(&key(), [set("a")]);
    let answers = tokio::select! {
        () = session.write() => unreachable!("it goes on for ever"),
        answers = user.answered(1) => answers,
    };
    let Answer::Accepted { change } = &answers[0].1 else {
        panic!("{answers:?}")
    };
    assert!(!one.follow(change, &ZoneRole::default(), &key()));
    world.later(5);
    let propagated = async {
        while *user.propagated.lock() == 0 {
            user.news.notified().await;
        }
    };
    let propagated = tokio::time::timeout(Duration::from_secs(30), propagated);
    tokio::select! {
        () = one.poll(&*user) => unreachable!("it goes on for ever"),
        in_time = propagated => in_time?,
    }
    assert!(one.propagated([change.as_str()]).insync.contains(change));
    Ok(())
}

#[tokio::test]
async fn all_records_of_a_zone_are_listed() -> Result {
    let world = World::start().await?;
    let (one, _) = clients(&world);
    let user = Feature::new(&world);
    let changes = set("a").changes;
    world.route53().change_batch("Z1", &changes).await?;
    world.fail("ListResourceRecordSets", 500, "InternalError", Some(1));
    let records = one.records(&*user, &set("a").access).await?;
    assert!(records.contains(&changes[0].record), "{records:?}");
    Ok(())
}
