//! What AWS told a while ago, asked once for all who want to know at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use aws::Fault;
use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Mutex as Alone;

/// How long an answer serves.
pub(crate) const KEPT: Duration = Duration::from_secs(5 * 60);
/// How long a refusal serves: who comes later may find it cured.
pub(crate) const FRESH: Duration = Duration::from_secs(30);

/// Beyond so many answers those that serve no longer are dropped.
const MANY: usize = 1024;

/// Answers of AWS by what was asked for.
pub(crate) struct Told<K, V> {
    clock: SharedClock,
    answers: Mutex<HashMap<K, Arc<Place<V>>>>,
}

struct Place<V> {
    /// Held by the one who asks, so that the others wait for its answer.
    asking: Alone<()>,
    last: Mutex<Option<Answer<V>>>,
}

/// An answer, and when it came.
struct Answer<V> {
    at: Duration,
    /// Which one it is at its place.
    number: u64,
    told: Result<Arc<V>, aws::Error>,
}

impl<V> Answer<V> {
    /// Whether it serves those who come after it.
    ///
    /// | answer                                  | serves                       |
    /// |-----------------------------------------|------------------------------|
    /// | what was asked for                      | as long as who asks says     |
    /// | a refusal                               | [`FRESH`], or less           |
    /// | one of this moment: AWS is slow or away | only those who waited for it |
    fn serves(&self, clock: &SharedClock, longest: Duration) -> bool {
        let longest = match &self.told {
            Ok(_) => longest,
            Err(error) if is_of_the_moment(error.fault()) => return false,
            Err(_) => longest.min(FRESH),
        };
        clock.elapsed().saturating_sub(self.at) < longest
    }
}

/// Whether an error tells of how AWS was when asked, not of what was asked for.
fn is_of_the_moment(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Passing | Fault::Throttled | Fault::Credentials | Fault::Deposed
    )
}

impl<K: Hash + Eq, V> Told<K, V> {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            answers: Mutex::default(),
        }
    }

    /// The answer for `key` if it is younger than `longest`, else what `ask` gives.
    ///
    /// Who asks at the same time waits for the same answer; if whoever asks is dropped, the next
    /// one asks.
    pub(crate) async fn get<F>(
        &self,
        key: K,
        longest: Duration,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<V>, aws::Error>
    where
        F: Future<Output = Result<V, aws::Error>>,
    {
        let place = self.place(key);
        let before = match &*place.last.lock() {
            Some(last) if last.serves(&self.clock, longest) => return last.told.clone(),
            last => last.as_ref().map_or(0, |last| last.number),
        };
        let _asking = place.asking.lock().await;
        // An answer that came while we waited is as good as one of our own.
        let number = match &*place.last.lock() {
            Some(last) if last.number != before => return last.told.clone(),
            Some(_) | None => before + 1,
        };
        let told = ask().await.map(Arc::new);
        *place.last.lock() = Some(Answer {
            at: self.clock.elapsed(),
            number,
            told: told.clone(),
        });
        told
    }

    /// What [`get`](Self::get) gives without asking, refusals included; none if it would ask.
    pub(crate) fn cached(&self, key: &K) -> Option<Result<Arc<V>, aws::Error>> {
        let place = self.answers.lock().get(key).map(Arc::clone)?;
        let last = place.last.lock();
        let last = last.as_ref().filter(|last| last.serves(&self.clock, KEPT));
        last.map(|last| last.told.clone())
    }

    /// Forgets the answer for `key`: we have just changed what it tells of.
    pub(crate) fn forget(&self, key: &K) {
        self.answers.lock().remove(key);
    }

    fn place(&self, key: K) -> Arc<Place<V>> {
        let mut answers = self.answers.lock();
        if answers.len() >= MANY {
            // A place that somebody holds is in use, whatever it knows.
            answers.retain(|_, place| {
                let last = place.last.lock();
                let serves = last
                    .as_ref()
                    .is_some_and(|last| last.serves(&self.clock, KEPT));
                serves || Arc::strong_count(place) > 1
            });
        }
        let place = answers.entry(key).or_insert_with(|| {
            Arc::new(Place {
                asking: Alone::default(),
                last: Mutex::new(None),
            })
        });
        Arc::clone(place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;
    use kernel::TestClock;
    use rstest::rstest;

    use super::*;

    struct Desk {
        clock: Arc<TestClock>,
        told: Told<&'static str, u32>,
        asked: AtomicU32,
    }

    impl Desk {
        fn new() -> Self {
            let clock = Arc::new(TestClock::default());
            Self {
                told: Told::new(clock.clone()),
                clock,
                asked: AtomicU32::new(0),
            }
        }

        async fn ask(&self, longest: Duration) -> Result<Arc<u32>, aws::Error> {
            let ask = async || {
                tokio::task::yield_now().await;
                Ok(self.asked.fetch_add(1, Ordering::SeqCst) + 1)
            };
            self.told.get("a", longest, ask).await
        }

        async fn refused(&self, error: aws::Error) {
            let ask = async || {
                tokio::task::yield_now().await;
                self.asked.fetch_add(1, Ordering::SeqCst);
                Err(error)
            };
            self.told.get("a", KEPT, ask).await.unwrap_err();
        }

        fn asked(&self) -> u32 {
            self.asked.load(Ordering::SeqCst)
        }
    }

    fn refusal(status: u16, code: &str) -> aws::Error {
        aws::Error::Refused(Box::new(aws::Refusal {
            operation: aws::Operation::GetHostedZone,
            resource: "Z1".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            status,
            request_id: None,
        }))
    }

    fn without_credentials() -> aws::Error {
        aws::Error::Credentials {
            reason: "none".into(),
            passing: false,
        }
    }

    #[tokio::test]
    async fn who_asks_together_is_answered_together() {
        let desk = Desk::new();
        let all = join_all((0..20).map(|_| desk.ask(KEPT))).await;
        assert!(all.into_iter().all(|told| *told.unwrap() == 1));
    }

    #[tokio::test]
    async fn an_answer_serves_five_minutes() {
        let desk = Desk::new();
        desk.ask(KEPT).await.unwrap();
        desk.clock.advance(Duration::from_secs(299));
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 1);
        desk.clock.advance(Duration::from_secs(1));
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn an_answer_is_cached_as_long_as_it_serves() {
        let desk = Desk::new();
        let cached = || desk.told.cached(&"a");
        assert!(cached().is_none());
        desk.ask(KEPT).await.unwrap();
        desk.clock.advance(Duration::from_secs(299));
        assert_eq!(cached().map(Result::unwrap), Some(Arc::new(1)));
        desk.clock.advance(Duration::from_secs(1));
        assert!(cached().is_none());
    }

    #[tokio::test]
    async fn a_refusal_is_cached_as_long_as_it_serves() {
        let desk = Desk::new();
        let cached = || desk.told.cached(&"a");
        desk.refused(refusal(403, "AccessDenied")).await;
        desk.clock.advance(Duration::from_secs(29));
        let fault = cached().map(|told| told.unwrap_err().fault());
        assert_eq!(fault, Some(Fault::Denied));
        desk.clock.advance(Duration::from_secs(1));
        assert!(cached().is_none());
        desk.refused(refusal(400, "Throttling")).await;
        assert!(cached().is_none());
    }

    #[tokio::test]
    async fn who_doubts_an_old_answer_gets_a_new_one() {
        let desk = Desk::new();
        desk.ask(KEPT).await.unwrap();
        desk.clock.advance(Duration::from_secs(31));
        assert_eq!(*desk.ask(FRESH).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_refusal_serves_half_a_minute() {
        let desk = Desk::new();
        let missing = refusal(404, "NoSuchHostedZone");
        desk.refused(missing.clone()).await;
        desk.clock.advance(Duration::from_secs(29));
        desk.refused(missing).await;
        assert_eq!(desk.asked(), 1);
        desk.clock.advance(Duration::from_secs(1));
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 2);
    }

    #[rstest]
    #[case::broken(refusal(500, "InternalError"))]
    #[case::throttled(refusal(400, "Throttling"))]
    #[case::without_credentials(without_credentials())]
    #[tokio::test]
    async fn what_only_tells_of_a_moment_serves_those_who_waited(#[case] error: aws::Error) {
        let desk = Desk::new();
        join_all((0..5).map(|_| desk.refused(error.clone()))).await;
        assert_eq!(desk.asked(), 1, "they asked together");
        // At the same moment of the clock, and yet later.
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn what_we_changed_is_asked_anew() {
        let desk = Desk::new();
        desk.ask(KEPT).await.unwrap();
        desk.told.forget(&"a");
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn one_who_is_dropped_while_asking_leaves_it_to_the_next() {
        let desk = Desk::new();
        let never = desk.told.get("a", KEPT, std::future::pending);
        assert!(futures::FutureExt::now_or_never(never).is_none());
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 1);
    }
}
