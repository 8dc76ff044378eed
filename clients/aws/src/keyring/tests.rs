use futures::future::join_all;
use kernel::{Class, TestClock};
use parking_lot::Mutex;

use super::*;
use crate::Unobserved;

const HOUR: Duration = Duration::from_hours(1);
const SECOND: Duration = Duration::from_secs(1);
/// When keys that last an hour are renewed.
const RENEWAL: Duration = Duration::from_mins(55);

/// Returns the given answers in order and counts the fetches.
struct Script {
    answers: Mutex<Vec<Result<Fetched, Error>>>,
    fetched: Arc<AtomicU64>,
}

impl KeySource for Script {
    fn fetch<'a>(&'a self, _: &'a Arc<View>) -> Fetching<'a> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.fetched.fetch_add(1, Ordering::Relaxed);
            self.answers.lock().remove(0)
        })
    }
}

struct World {
    clock: Arc<TestClock>,
    keyring: Keyring,
    fetched: Arc<AtomicU64>,
}

impl World {
    fn new(answers: impl IntoIterator<Item = Result<Fetched, Error>>) -> Self {
        let clock = Arc::new(TestClock::at(Timestamp::UNIX_EPOCH));
        let script = Script {
            answers: Mutex::new(answers.into_iter().collect()),
            fetched: Arc::default(),
        };
        let fetched = Arc::clone(&script.fetched);
        let keyring = Keyring::new(Box::new(script), clock.clone());
        Self {
            clock,
            keyring,
            fetched,
        }
    }

    async fn key(&self) -> Result<String, Error> {
        let keys = self.keyring.fresh(&view()).await?;
        Ok(keys.access_key_id)
    }

    async fn new_key(&self) -> Result<String, Error> {
        let keys = self.keyring.anew(&view()).await?;
        Ok(keys.access_key_id)
    }

    fn fetches(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }
}

fn view() -> Arc<View> {
    Arc::new(View {
        guards: Vec::new(),
        observer: Arc::new(Unobserved),
    })
}

fn keys(id: &str) -> Keys {
    Keys {
        access_key_id: id.to_owned(),
        secret_access_key: Secret::new("s3cret-key".to_owned()),
        session_token: Some(Secret::new("s3cret-token".to_owned())),
    }
}

/// Keys that expire this long after the epoch.
fn until(id: &str, end: Duration) -> Fetched {
    Fetched {
        keys: keys(id),
        expires: Some(Timestamp::UNIX_EPOCH.saturating_add(end).unwrap()),
    }
}

fn failure() -> Error {
    Error::Credentials {
        reason: "no source".to_owned(),
        passing: true,
    }
}

#[tokio::test]
async fn keys_are_used_until_five_minutes_before_their_expiry() {
    let world = World::new([Ok(until("one", HOUR)), Ok(until("two", HOUR * 2))]);
    assert_eq!(world.key().await, Ok("one".to_owned()));
    world.clock.advance(Duration::from_secs(55 * 60 - 1));
    assert_eq!(world.key().await, Ok("one".to_owned()));
    world.clock.advance(SECOND);
    assert_eq!(world.key().await, Ok("two".to_owned()));
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn keys_without_an_expiry_are_not_renewed() {
    let forever = Fetched {
        keys: keys("one"),
        expires: None,
    };
    let world = World::new([Ok(forever)]);
    world.key().await.unwrap();
    world.clock.advance(HOUR * 24 * 365);
    world.key().await.unwrap();
    assert_eq!(world.fetches(), 1);
}

#[tokio::test]
async fn keys_that_expire_soon_are_not_fetched_at_every_call() {
    let soon = Duration::from_mins(4);
    let world = World::new([Ok(until("one", soon)), Ok(until("two", HOUR))]);
    world.key().await.unwrap();
    world.clock.advance(Duration::from_secs(119));
    assert_eq!(world.key().await, Ok("one".to_owned()));
    world.clock.advance(SECOND);
    assert_eq!(world.key().await, Ok("two".to_owned()));
}

#[tokio::test]
async fn concurrent_callers_share_one_fetch_and_its_error() {
    let world = World::new([Err(failure()), Ok(until("one", HOUR))]);
    let results = join_all((0..50).map(|_| world.key())).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(world.fetches(), 1);
    let results = join_all((0..50).map(|_| world.key())).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn a_failed_renewal_leaves_the_old_keys_in_use() {
    let world = World::new([
        Ok(until("one", HOUR)),
        Err(failure()),
        Ok(until("two", HOUR * 2)),
    ]);
    world.key().await.unwrap();
    world.clock.advance(RENEWAL);
    assert_eq!(world.key().await, Ok("one".to_owned()));
    assert_eq!(world.key().await, Ok("one".to_owned()));
    assert_eq!(world.fetches(), 2);
    world.clock.advance(AGAIN);
    assert_eq!(world.key().await, Ok("two".to_owned()));
}

#[tokio::test]
async fn expired_keys_are_not_used() {
    let world = World::new([Ok(until("one", HOUR)), Err(failure())]);
    world.key().await.unwrap();
    world.clock.advance(HOUR);
    let error = world.key().await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
}

#[tokio::test]
async fn refused_keys_are_replaced_but_newer_ones_are_not() {
    let world = World::new([Ok(until("one", HOUR)), Ok(until("two", HOUR))]);
    world.key().await.unwrap();
    world.keyring.refuse(&keys("one"));
    assert_eq!(world.key().await, Ok("two".to_owned()));
    world.keyring.refuse(&keys("one"));
    assert_eq!(world.key().await, Ok("two".to_owned()));
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn keys_can_be_fetched_anew_while_the_old_ones_are_valid() {
    let world = World::new([
        Ok(until("one", HOUR)),
        Ok(until("two", HOUR)),
        Ok(until("three", HOUR)),
    ]);
    assert_eq!(world.new_key().await, Ok("one".to_owned()));
    assert_eq!(world.new_key().await, Ok("two".to_owned()));
    let results = join_all((0..50).map(|_| world.new_key())).await;
    assert!(results.iter().all(|key| *key == Ok("three".to_owned())));
    assert_eq!(world.key().await, Ok("three".to_owned()));
    assert_eq!(world.fetches(), 3);
}

#[tokio::test]
async fn keys_that_cannot_be_fetched_anew_are_an_error() {
    let world = World::new([Ok(until("one", HOUR)), Err(failure())]);
    world.key().await.unwrap();
    let results = join_all((0..50).map(|_| world.new_key())).await;
    assert!(results.iter().all(|key| *key == Err(failure())));
    assert_eq!(world.fetches(), 2);
    // Calls to AWS still use the old keys.
    assert_eq!(world.key().await, Ok("one".to_owned()));
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn a_renewal_that_waits_for_a_failed_fetch_keeps_the_old_keys() {
    let world = World::new([Ok(until("one", HOUR)), Err(failure())]);
    world.key().await.unwrap();
    world.clock.advance(RENEWAL);
    let (anew, renewed) = futures::join!(world.new_key(), world.key());
    assert_eq!(anew, Err(failure()));
    assert_eq!(renewed, Ok("one".to_owned()));
    assert_eq!(world.fetches(), 2);
}

#[tokio::test]
async fn no_secret_is_printed() {
    let world = World::new([Ok(until("one", HOUR))]);
    world.key().await.unwrap();
    let printed = format!("{:?}", world.keyring);
    assert!(printed.contains("one"), "{printed}");
    assert!(!printed.contains("s3cret"), "{printed}");
}
