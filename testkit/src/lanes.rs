//! Worlds that the stories of one test executable share.

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};

/// A pool of worlds. A story borrows one that fits its plan; a world that nobody uses makes room for
/// one of another plan.
pub(crate) struct Lanes<P, W> {
    worlds: usize,
    stories: usize,
    started: Mutex<Vec<Lane<P, W>>>,
    freed: Notify,
}

struct Lane<P, W> {
    plan: P,
    world: Arc<OnceCell<W>>,
    /// How many stories use it now.
    stories: usize,
}

impl<P: PartialEq, W> Lanes<P, W> {
    /// A pool of at most `worlds` worlds, each used by at most `stories` stories at once.
    pub(crate) const fn new(worlds: usize, stories: usize) -> Self {
        Self {
            worlds,
            stories,
            started: Mutex::new(Vec::new()),
            freed: Notify::const_new(),
        }
    }

    /// A world of this plan, started if there is none with room; waits while all are in use.
    pub(crate) async fn borrow(
        &self,
        plan: P,
        start: impl AsyncFnOnce() -> Result<W>,
    ) -> Result<Borrowed<'_, P, W>> {
        let mut plan = Some(plan);
        let world = loop {
            let freed = self.freed.notified();
            if let Some(world) = self.try_claim(&mut plan) {
                break world;
            }
            freed.await;
        };
        // Made first: if the start fails, its drop gives the place back.
        let borrowed = Borrowed { lanes: self, world };
        borrowed.world.get_or_try_init(|| start()).await?;
        Ok(borrowed)
    }

    /// A place in a world; `plan` is taken when a new world is to be started.
    fn try_claim(&self, plan: &mut Option<P>) -> Option<Arc<OnceCell<W>>> {
        let mut lanes = self.started.lock();
        let with_room = lanes
            .iter_mut()
            .filter(|lane| Some(&lane.plan) == plan.as_ref() && lane.stories < self.stories)
            .min_by_key(|lane| lane.stories);
        if let Some(lane) = with_room {
            lane.stories += 1;
            return Some(Arc::clone(&lane.world));
        }
        let mut unused = None;
        if lanes.len() == self.worlds {
            let at = lanes.iter().position(|lane| lane.stories == 0)?;
            unused = Some(lanes.remove(at));
        }
        let world = Arc::new(OnceCell::new());
        lanes.push(Lane {
            plan: plan.take()?,
            world: Arc::clone(&world),
            stories: 1,
        });
        drop(lanes);
        // Ending a world takes a moment, in which nobody else should wait for the lock.
        drop(unused);
        Some(world)
    }
}

/// A world that a story uses; dropping this gives it back.
pub(crate) struct Borrowed<'a, P, W> {
    lanes: &'a Lanes<P, W>,
    world: Arc<OnceCell<W>>,
}

impl<P, W> std::ops::Deref for Borrowed<'_, P, W> {
    type Target = W;

    fn deref(&self) -> &W {
        self.world.get().expect("borrow returns started worlds")
    }
}

impl<P, W> Drop for Borrowed<'_, P, W> {
    fn drop(&mut self) {
        let mut lanes = self.lanes.started.lock();
        let used = lanes
            .iter_mut()
            .find(|lane| Arc::ptr_eq(&lane.world, &self.world));
        if let Some(lane) = used {
            lane.stories -= 1;
        }
        drop(lanes);
        self.lanes.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Numbers its worlds.
    #[derive(Default)]
    struct Starts(AtomicU32);

    impl Starts {
        fn start(&self) -> std::future::Ready<Result<u32>> {
            std::future::ready(Ok(self.0.fetch_add(1, Ordering::SeqCst)))
        }
    }

    #[tokio::test]
    async fn stories_of_one_plan_share_a_world_up_to_its_limit() -> Result<()> {
        let (lanes, starts) = (Lanes::new(2, 2), Starts::default());
        let first = lanes.borrow("a", || starts.start()).await?;
        let second = lanes.borrow("a", || starts.start()).await?;
        let third = lanes.borrow("a", || starts.start()).await?;
        assert_eq!((*first, *second, *third), (0, 0, 1));
        Ok(())
    }

    #[tokio::test]
    async fn a_world_that_nobody_uses_makes_room_for_another_plan() -> Result<()> {
        let (lanes, starts) = (Lanes::new(1, 1), Starts::default());
        drop(lanes.borrow("a", || starts.start()).await?);
        assert_eq!(*lanes.borrow("a", || starts.start()).await?, 0);
        assert_eq!(*lanes.borrow("b", || starts.start()).await?, 1);
        assert_eq!(*lanes.borrow("a", || starts.start()).await?, 2);
        Ok(())
    }

    #[tokio::test]
    async fn who_finds_no_room_waits_until_a_story_ends() -> Result<()> {
        let (lanes, starts) = (Lanes::new(1, 1), Starts::default());
        let first = lanes.borrow("a", || starts.start()).await?;
        let mut second = std::pin::pin!(lanes.borrow("b", || starts.start()));
        tokio::select! {
            biased;
            _ = &mut second => panic!("there was no room"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        assert_eq!(*second.await?, 1);
        Ok(())
    }

    #[tokio::test]
    async fn a_start_that_fails_leaves_its_place_to_the_next() -> Result<()> {
        let (lanes, starts) = (Lanes::new(1, 1), Starts::default());
        let failed = lanes.borrow("a", async || anyhow::bail!("no port")).await;
        assert!(failed.is_err());
        assert_eq!(*lanes.borrow("a", || starts.start()).await?, 0);
        Ok(())
    }
}
