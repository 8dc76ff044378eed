//! EC2 in the account and region of the process, as this feature uses it.

use std::sync::Arc;

use aws::ec2::Ec2;
use aws::{Aws, Caller, Observer, Priority};
use engine::{Deck, Shared};
use kernel::{Guard, SharedClock};
use tokio::sync::OnceCell;

/// EC2, loaded on first use.
pub(crate) struct ProcessEc2 {
    shared: Shared<Aws>,
    /// The region of the command line.
    region: Option<String>,
    clock: SharedClock,
    guards: Vec<Guard>,
    namespace: String,
    observer: Arc<dyn Observer>,
    loaded: OnceCell<Ec2>,
}

impl ProcessEc2 {
    /// Loads nothing. Writes need the guards of `deck`. `observer` counts the calls.
    pub(crate) fn new(deck: &Deck, region: Option<String>, observer: Arc<dyn Observer>) -> Self {
        Self {
            shared: deck.shared(),
            region,
            clock: deck.clock.clone(),
            guards: deck.guards.clone(),
            namespace: deck.namespace.clone(),
            observer,
            loaded: OnceCell::new(),
        }
    }

    /// EC2 in the region of the process. The settings are read from the environment the first time.
    pub(crate) async fn get(&self) -> &Ec2 {
        self.loaded.get_or_init(|| self.load()).await
    }

    async fn load(&self) -> Ec2 {
        let (region, clock) = (self.region.clone(), self.clock.clone());
        let aws = self.shared.get_or_init(|| Aws::for_process(region, clock));
        let aws = aws.await;
        let view = aws.for_feature(self.guards.clone(), self.observer.clone());
        let caller = Caller::new(Priority::Edit, self.namespace.as_str());
        view.own().ec2(&caller, aws.region())
    }
}
