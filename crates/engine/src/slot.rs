//! Limits the concurrent passes of a controller.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For each slot, this many passes may wait without a slot.
const PARKED_PER_SLOT: usize = 16;

/// For this many slots there is one more for passes that users wait for, and one more for slow passes.
/// So neither many passes that return at once nor slow passes delay a user's change.
const SLOTS_PER_EXTRA: usize = 4;

/// A pass that runs longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// The slots of one controller.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    /// Only for passes that users wait for.
    reserved: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    parking: Arc<Semaphore>,
}

/// The permission to run a pass. A drop returns it.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    /// A user waits for the pass.
    pub(crate) urgent: bool,
    /// Whether it is one of the slots that are reserved for such passes.
    pub(crate) is_reserved: bool,
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            free: semaphore(count),
            reserved: semaphore(count / SLOTS_PER_EXTRA),
            slow: semaphore(count / SLOTS_PER_EXTRA),
            parking: semaphore(count * PARKED_PER_SLOT),
        }
    }

    /// Waits for a free slot. Once `urgent` resolves, a reserved slot is accepted too.
    pub(crate) async fn take(&self, urgent: impl Future<Output = ()>) -> Slot {
        let reserved = async {
            urgent.await;
            self.reserved.clone().acquire_owned().await
        };
        let (permit, is_reserved) = tokio::select! {
            biased;
            permit = self.free.clone().acquire_owned() => (permit, false),
            permit = reserved => (permit, true),
        };
        Slot {
            slots: self.clone(),
            urgent: false,
            is_reserved,
            permit: Arc::new(Mutex::new(permit.ok())),
        }
    }
}

impl Slot {
    /// Waits without a slot. Keeps the slot if too many passes wait without one.
    pub(crate) async fn outside<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let Ok(parked) = self.slots.parking.clone().try_acquire_owned() else {
            return wait.await;
        };
        *self.permit.lock() = None;
        let value = wait.await;
        let is_urgent = self.urgent;
        let urgent = async move {
            if !is_urgent {
                std::future::pending::<()>().await;
            }
        };
        let permit = self.slots.take(urgent).await.permit.lock().take();
        *self.permit.lock() = permit;
        drop(parked);
        value
    }

    /// Returns the slot when the pass becomes slow, unless too many slow passes run.
    pub(crate) fn give_back_when_slow(&self) -> impl Future<Output = Infallible> + use<> {
        let (slow, permit) = (self.slots.slow.clone(), self.permit.clone());
        async move {
            loop {
                tokio::time::sleep(SLOW).await;
                let slow = slow.clone().acquire_owned().await;
                let mut permit = permit.lock();
                // A pass that waits outside has already returned its slot.
                if permit.is_some() {
                    *permit = slow.ok();
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
    async fn a_pass_has_no_slot_while_it_waits_outside() {
        let slots = Slots::new(1);
        let mut waiting = slots.take(pending()).await;
        let (limiter, permitted) = oneshot::channel();
        let mut outside = Box::pin(waiting.outside(permitted));
        assert!((&mut outside).now_or_never().is_none());

        let other = slots
            .take(pending())
            .now_or_never()
            .expect("the slot is free");
        limiter.send(7).unwrap();
        assert!(
            (&mut outside).now_or_never().is_none(),
            "two passes would run"
        );
        drop(other);
        assert_eq!(outside.await, Ok(7));
        assert!(
            slots.take(pending()).now_or_never().is_none(),
            "the pass has its slot again"
        );
    }

    #[tokio::test]
    async fn the_passes_without_a_slot_are_limited() {
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
            "the last pass keeps its slot"
        );
    }

    #[tokio::test]
    async fn a_slot_is_reserved_for_passes_that_users_wait_for() {
        let slots = Slots::new(4);
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(slots.take(pending()).await);
        }
        assert!(slots.take(pending()).now_or_never().is_none());
        let mut user = slots.take(ready(())).await;
        user.urgent = true;
        assert!(slots.take(ready(())).now_or_never().is_none());

        // After the wait outside, the pass is still urgent.
        let (limiter, permitted) = oneshot::channel();
        let mut outside = Box::pin(user.outside(permitted));
        assert!((&mut outside).now_or_never().is_none());
        assert!(slots.take(pending()).now_or_never().is_none());
        limiter.send(7).unwrap();
        assert_eq!(outside.await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_slow_passes_return_their_slots() {
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
        assert!(other.is_some(), "the slot of the first pass is free");
        assert!(
            slots.take(pending()).now_or_never().is_none(),
            "the other passes keep their slots"
        );
    }
}
