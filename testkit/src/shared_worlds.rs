//! Worlds that the stories of one test executable share.

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};

/// A pool of worlds. A story borrows one of its plan; an unused world is replaced by one of another
/// plan.
pub(crate) struct SharedWorlds<P, W> {
    worlds: usize,
    stories: usize,
    started: Mutex<Vec<SharedWorld<P, W>>>,
    freed: Notify,
}

struct SharedWorld<P, W> {
    plan: P,
    world: Arc<OnceCell<W>>,
    /// How many stories use it now.
    stories: usize,
}

impl<P: PartialEq, W> SharedWorlds<P, W> {
    /// A pool of at most `worlds` worlds, each used by at most `stories` stories at once.
    pub(crate) const fn new(worlds: usize, stories: usize) -> Self {
        Self {
            worlds,
            stories,
            started: Mutex::new(Vec::new()),
            freed: Notify::const_new(),
        }
    }

    /// A world of this plan, started if none has room; waits while all are in use.
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
        // Created first: if the start fails, dropping it gives the world back.
        let borrowed = Borrowed { pool: self, world };
        borrowed.world.get_or_try_init(|| start()).await?;
        Ok(borrowed)
    }

    /// A world with room for one more story; takes `plan` if a new world has to be started.
    fn try_claim(&self, plan: &mut Option<P>) -> Option<Arc<OnceCell<W>>> {
        let mut started = self.started.lock();
        let with_room = started
            .iter_mut()
            .filter(|shared| Some(&shared.plan) == plan.as_ref() && shared.stories < self.stories)
            .min_by_key(|shared| shared.stories);
        if let Some(shared) = with_room {
            shared.stories += 1;
            return Some(Arc::clone(&shared.world));
        }
        let mut unused = None;
        if started.len() == self.worlds {
            let at = started.iter().position(|shared| shared.stories == 0)?;
            unused = Some(started.remove(at));
        }
        let world = Arc::new(OnceCell::new());
        started.push(SharedWorld {
            plan: plan.take()?,
            world: Arc::clone(&world),
            stories: 1,
        });
        drop(started);
        // Without the lock, because ending a world takes time.
        drop(unused);
        Some(world)
    }
}

/// A world that a story uses; dropping this gives it back.
pub(crate) struct Borrowed<'a, P, W> {
    pool: &'a SharedWorlds<P, W>,
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
        let mut started = self.pool.started.lock();
        let used = started
            .iter_mut()
            .find(|shared| Arc::ptr_eq(&shared.world, &self.world));
        if let Some(shared) = used {
            shared.stories -= 1;
        }
        drop(started);
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Numbers the worlds that it starts.
    #[derive(Default)]
    struct Starts(AtomicU32);

    impl Starts {
        fn start(&self) -> std::future::Ready<Result<u32>> {
            std::future::ready(Ok(self.0.fetch_add(1, Ordering::SeqCst)))
        }
    }

    #[tokio::test]
    async fn stories_of_one_plan_share_a_world_up_to_its_limit() -> Result<()> {
        let (pool, starts) = (SharedWorlds::new(2, 2), Starts::default());
        let first = pool.borrow("a", || starts.start()).await?;
        let second = pool.borrow("a", || starts.start()).await?;
        let third = pool.borrow("a", || starts.start()).await?;
        assert_eq!((*first, *second, *third), (0, 0, 1));
        Ok(())
    }

    #[tokio::test]
    async fn an_unused_world_is_replaced_by_one_of_another_plan() -> Result<()> {
        let (pool, starts) = (SharedWorlds::new(1, 1), Starts::default());
        drop(pool.borrow("a", || starts.start()).await?);
        assert_eq!(*pool.borrow("a", || starts.start()).await?, 0);
        assert_eq!(*pool.borrow("b", || starts.start()).await?, 1);
        assert_eq!(*pool.borrow("a", || starts.start()).await?, 2);
        Ok(())
    }

    #[tokio::test]
    async fn a_story_without_room_waits_until_another_ends() -> Result<()> {
        let (pool, starts) = (SharedWorlds::new(1, 1), Starts::default());
        let first = pool.borrow("a", || starts.start()).await?;
        let mut second = std::pin::pin!(pool.borrow("b", || starts.start()));
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
    async fn a_failed_start_leaves_its_room_to_the_next_story() -> Result<()> {
        let (pool, starts) = (SharedWorlds::new(1, 1), Starts::default());
        let failed = pool.borrow("a", async || anyhow::bail!("no port")).await;
        assert!(failed.is_err());
        assert_eq!(*pool.borrow("a", || starts.start()).await?, 0);
        Ok(())
    }
}
