//! How many passes of a controller run at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Passes that may wait outside their slot, for each slot.
const PARKED_PER_SLOT: usize = 16;

/// One slot in so many is kept for what people wait for: a crowd that comes back from outside at once
/// stands in nobody's way.
const ONE_IN: usize = 4;

/// The slots of one controller.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    kept: Arc<Semaphore>,
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
    held: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let kept = count / ONE_IN;
        Self {
            free: Arc::new(Semaphore::new(count - kept)),
            kept: Arc::new(Semaphore::new(kept)),
            parking: Arc::new(Semaphore::new(count * PARKED_PER_SLOT)),
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
            held: held.ok(),
        }
    }
}

impl Slot {
    /// Waits without holding the slot, unless too many do so already.
    pub(crate) async fn outside<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let Ok(parked) = self.slots.parking.clone().try_acquire_owned() else {
            return wait.await;
        };
        self.held = None;
        let value = wait.await;
        let is_urgent = self.urgent;
        let urgent = async move {
            if !is_urgent {
                std::future::pending::<()>().await;
            }
        };
        self.held = self.slots.take(urgent).await.held.take();
        drop(parked);
        value
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
        for _ in 0..3 {
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
}
