//! How many passes of a controller run at once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Passes that may wait outside their slot, for each slot.
const PARKED_PER_SLOT: usize = 16;

/// For so many slots there is one more for what people wait for, and one more for slow passes: a crowd
/// that comes back from outside at once, or an object that hangs, stands in nobody's way.
const SLOTS_PER_EXTRA: usize = 4;

/// A pass that runs longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The slots of one controller.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    parking: Arc<Semaphore>,
}

/// A place among the running passes. Free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    /// A person waits for the pass.
    pub(crate) urgent: bool,
    /// One of those that are kept for such passes.
    pub(crate) kept: bool,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            free: semaphore(count),
            kept: semaphore(count / SLOTS_PER_EXTRA),
            slow: semaphore(count / SLOTS_PER_EXTRA),
            parking: semaphore(count * PARKED_PER_SLOT),
        }
    }

    /// Waits for a free slot; for one that is kept, too, once `urgent` has come true.
    pub(crate) async fn take(&self, urgent: impl Future<Output = ()>) -> Slot {
        let kept = async {
            urgent.await;
            self.kept.clone().acquire_owned().await
        };
        let held = tokio::select! {
            biased;
            held = self.free.clone().acquire_owned() => (held, false),
            held = kept => (held, true),
        };
        let (held, kept) = held;
        Slot {
            slots: self.clone(),
            urgent: false,
            kept,
            held: Arc::new(Mutex::new(held.ok())),
        }
    }
}

impl Slot {
    /// Waits without holding the slot, unless too many do so already.
    pub(crate) async fn outside<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let Ok(parked) = self.slots.parking.clone().try_acquire_owned() else {
            return wait.await;
        };
        *self.held.lock() = None;
        let value = wait.await;
        let is_urgent = self.urgent;
        let urgent = async move {
            if !is_urgent {
                std::future::pending::<()>().await;
            }
        };
        let taken = self.slots.take(urgent).await.held.lock().take();
        *self.held.lock() = taken;
        drop(parked);
        value
    }

    /// Gives the slot back when the pass has become slow, unless too many slow ones run already.
    pub(crate) fn give_back_when_slow(&self) -> impl Future<Output = Infallible> + use<> {
        let (slow, held) = (self.slots.slow.clone(), self.held.clone());
        async move {
            loop {
                tokio::time::sleep(SLOW).await;
                let slow = slow.clone().acquire_owned().await;
                let mut held = held.lock();
                // One that waits outside has given its slot back already.
                if held.is_some() {
                    *held = slow.ok();
                    break;
                }
            }
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::future::{pending, ready};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_pass_that_waits_outside_gives_its_slot_back_and_takes_it_again() {
        let slots = Slots::new(1);
        let mut waiting = slots.take(pending()).await;
        let (limiter, turn) = oneshot::channel();
        let mut outside = Box::pin(waiting.outside(turn));
        assert!((&mut outside).now_or_never().is_none());

        let other = slots
            .take(pending())
            .now_or_never()
            .expect("the slot is free meanwhile");
        limiter.send(7).unwrap();
        assert!(
            (&mut outside).now_or_never().is_none(),
            "two passes would run"
        );
        drop(other);
        assert_eq!(outside.await, Ok(7));
        assert!(
            slots.take(pending()).now_or_never().is_none(),
            "the slot is held again"
        );
    }

    #[tokio::test]
    async fn parking_is_bounded() {
        let slots = Slots::new(1);
        let mut parked = Vec::new();
        for _ in 0..PARKED_PER_SLOT {
            let mut slot = slots.take(pending()).await;
            let mut wait = Box::pin(async move { slot.outside(pending::<()>()).await });
            assert!((&mut wait).now_or_never().is_none());
            parked.push(wait);
        }
        let mut last = slots.take(pending()).await;
        let mut wait = Box::pin(last.outside(pending::<()>()));
        assert!((&mut wait).now_or_never().is_none());
        assert!(
            slots.take(pending()).now_or_never().is_none(),
            "it keeps its slot"
        );
    }

    #[tokio::test]
    async fn a_slot_is_kept_for_what_people_wait_for() {
        let slots = Slots::new(4);
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(slots.take(pending()).await);
        }
        assert!(slots.take(pending()).now_or_never().is_none());
        let mut user = slots.take(ready(())).await;
        user.urgent = true;
        assert!(slots.take(ready(())).now_or_never().is_none());

        // Back from outside, it is still somebody's who waits.
        let (limiter, turn) = oneshot::channel();
        let mut outside = Box::pin(user.outside(turn));
        assert!((&mut outside).now_or_never().is_none());
        assert!(slots.take(pending()).now_or_never().is_none());
        limiter.send(7).unwrap();
        assert_eq!(outside.await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_pass_gives_its_slot_back_and_only_so_many_do() {
        let slots = Slots::new(4);
        let mut slow = Vec::new();
        for _ in 0..4 {
            let slot = slots.take(pending()).await;
            slow.push((slot.give_back_when_slow().boxed(), slot));
        }
        for (giving_back, _) in &mut slow {
            assert!(giving_back.now_or_never().is_none());
        }
        assert!(slots.take(pending()).now_or_never().is_none());

        tokio::time::advance(SLOW).await;
        for (giving_back, _) in &mut slow {
            assert!(giving_back.now_or_never().is_none());
        }
        let other = slots.take(pending()).now_or_never();
        assert!(other.is_some(), "the first one's is free");
        assert!(
            slots.take(pending()).now_or_never().is_none(),
            "the others keep theirs"
        );
    }
}
