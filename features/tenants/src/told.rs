//! What AWS told a while ago, asked once for all who want to know at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Mutex as Alone;

/// How long an answer serves.
pub(crate) const KEPT: Duration = Duration::from_secs(5 * 60);
/// How long a refusal serves: whoever asks with others is answered with them, and who comes later
/// may find it cured.
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

/// An answer, and how old it is.
#[derive(Debug, Clone)]
pub(crate) struct Answer<V> {
    at: Duration,
    pub(crate) told: Result<Arc<V>, aws::Error>,
}

impl<V> Answer<V> {
    fn age(&self, clock: &SharedClock) -> Duration {
        clock.elapsed().saturating_sub(self.at)
    }

    fn serves(&self, clock: &SharedClock, longest: Duration) -> bool {
        let longest = if self.told.is_ok() {
            longest
        } else {
            longest.min(FRESH)
        };
        self.age(clock) < longest
    }
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
        if let Some(told) = self.known(&place, longest) {
            return told;
        }
        let began = self.clock.elapsed();
        let _asking = place.asking.lock().await;
        // An answer that came while we waited is as good as one of our own.
        let since = self.clock.elapsed().saturating_sub(began);
        if let Some(told) = self.known(&place, longest.max(since)) {
            return told;
        }
        let told = ask().await.map(Arc::new);
        *place.last.lock() = Some(Answer {
            at: self.clock.elapsed(),
            told: told.clone(),
        });
        told
    }

    /// Forgets the answer for `key`: we have just changed what it tells of.
    pub(crate) fn forget(&self, key: &K) {
        self.answers.lock().remove(key);
    }

    fn known(&self, place: &Place<V>, longest: Duration) -> Option<Result<Arc<V>, aws::Error>> {
        let last = place.last.lock();
        let answer = last.as_ref()?;
        answer
            .serves(&self.clock, longest)
            .then(|| answer.told.clone())
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

        async fn refused(&self) {
            let ask = async || {
                self.asked.fetch_add(1, Ordering::SeqCst);
                Err(aws::Error::Credentials {
                    reason: "none".into(),
                    passing: false,
                })
            };
            self.told.get("a", KEPT, ask).await.unwrap_err();
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
    async fn who_doubts_an_old_answer_gets_a_new_one() {
        let desk = Desk::new();
        desk.ask(KEPT).await.unwrap();
        desk.clock.advance(Duration::from_secs(31));
        assert_eq!(*desk.ask(FRESH).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_refusal_serves_half_a_minute() {
        let desk = Desk::new();
        desk.refused().await;
        desk.clock.advance(Duration::from_secs(29));
        desk.refused().await;
        assert_eq!(desk.asked.load(Ordering::SeqCst), 1);
        desk.clock.advance(Duration::from_secs(1));
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
        let never = desk.told.get("a", KEPT, || std::future::pending());
        assert!(futures::FutureExt::now_or_never(never).is_none());
        assert_eq!(*desk.ask(KEPT).await.unwrap(), 1);
    }
}
