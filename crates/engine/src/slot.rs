//! How many passes of a controller run at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Passes that may wait outside their slot, for each slot.
const PARKED_PER_SLOT: usize = 16;

/// The slots of one controller.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    parking: Arc<Semaphore>,
}

/// A place among the running passes. Free again when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    held: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        let parking = Arc::new(Semaphore::new(count * PARKED_PER_SLOT));
        Self {
            free: Arc::new(Semaphore::new(count)),
            parking,
        }
    }

    /// Waits for a free slot.
    pub(crate) async fn take(&self) -> Slot {
        let held = self.free.clone().acquire_owned().await.ok();
        Slot {
            slots: self.clone(),
            held,
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
        *self = self.slots.take().await;
        drop(parked);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn a_pass_that_waits_outside_gives_its_slot_back_and_takes_it_again() {
        let slots = Slots::new(1);
        let mut waiting = slots.take().await;
        let (limiter, turn) = oneshot::channel();
        let mut outside = Box::pin(waiting.outside(turn));
        assert!((&mut outside).now_or_never().is_none());

        let other = slots
            .take()
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
            slots.take().now_or_never().is_none(),
            "the slot is held again"
        );
    }

    #[tokio::test]
    async fn parking_is_bounded() {
        let slots = Slots::new(1);
        let mut parked = Vec::new();
        for _ in 0..PARKED_PER_SLOT {
            let mut slot = slots.take().await;
            let mut wait =
                Box::pin(async move { slot.outside(std::future::pending::<()>()).await });
            assert!((&mut wait).now_or_never().is_none());
            parked.push(wait);
        }
        let mut last = slots.take().await;
        let mut wait = Box::pin(last.outside(std::future::pending::<()>()));
        assert!((&mut wait).now_or_never().is_none());
        assert!(slots.take().now_or_never().is_none(), "it keeps its slot");
    }
}
