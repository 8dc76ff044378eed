//! Worlds for the stories of one test executable, and the runtime that they run on.

use std::sync::LazyLock;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::{
    shared_worlds::SharedWorlds,
    world::{World, WorldPlan},
};

/// The requirements of a story for its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Time runs this many times as fast inside the operator.
    pub pace: u32,
    /// Flags of the operator.
    pub args: &'static [&'static str],
}

impl Plan {
    /// A world of this plan in which the operator runs `feature`.
    pub fn world(self, feature: &str) -> WorldPlan {
        let world = World::new().feature(feature).time(self.pace);
        self.args.iter().fold(world, |world, arg| world.arg(*arg))
    }
}

/// Worlds that the stories of an executable share. `W` is a world and what a feature adds to it.
///
/// A story borrows a world of its plan. An unused world is replaced by one of another plan.
///
/// # When not to use it
/// For a story that stops or freezes servers that other stories use, or changes what all namespaces
/// see: start a separate world, or allow one story per world.
pub struct WorldPool<P, W: AsRef<World> + 'static> {
    shared: SharedWorlds<P, Leaked<W>>,
}

impl<P: PartialEq, W: AsRef<World> + 'static> WorldPool<P, W> {
    /// A pool of at most `worlds` worlds, each used by at most `stories` stories at once.
    pub const fn new(worlds: usize, stories: usize) -> Self {
        Self {
            shared: SharedWorlds::new(worlds, stories),
        }
    }

    /// Runs `story` in a world of `plan`, which `start` starts if none has room.
    ///
    /// All stories of the process run on one runtime, because the connections of the worlds' clients
    /// belong to it.
    pub fn run(
        &self,
        plan: P,
        start: impl AsyncFnOnce() -> Result<W>,
        story: impl AsyncFnOnce(&'static W) -> Result<()>,
    ) -> Result<()> {
        static RUNTIME: LazyLock<Runtime> =
            LazyLock::new(|| Runtime::new().expect("the machine has room for a runtime"));
        RUNTIME.block_on(async {
            let borrowed = self.shared.borrow(plan, || Leaked::start(start)).await?;
            story(borrowed.0).await
        })
    }
}

/// A world whose memory is never freed, so that proxies and tasks of stories may refer to it. Its
/// servers end with this.
struct Leaked<W: AsRef<World> + 'static>(&'static W);

impl<W: AsRef<World> + 'static> Leaked<W> {
    async fn start(start: impl AsyncFnOnce() -> Result<W>) -> Result<Self> {
        Ok(Self(Box::leak(Box::new(start().await?))))
    }
}

impl<W: AsRef<World> + 'static> Drop for Leaked<W> {
    fn drop(&mut self) {
        self.0.as_ref().end();
    }
}
