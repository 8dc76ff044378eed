//! The one AWS of a process.

use std::sync::Arc;

use kernel::{Guard, SharedClock};

use crate::{Aws, Parts, Settings, Unobserved};

impl Aws {
    /// The AWS that all features of a process share: each uses a [view](Self::for_feature) of it. It
    /// writes nothing itself, because its own guard is closed. `region` is that of the command line.
    ///
    /// Like [`Aws::load`], it uses no network.
    pub async fn for_process(region: Option<String>, clock: SharedClock) -> Self {
        let settings = Settings {
            region,
            ..Settings::default()
        };
        let parts = Parts {
            clock,
            guards: vec![Guard::closed()],
            observer: Arc::new(Unobserved),
        };
        Self::load(settings, parts).await
    }
}
