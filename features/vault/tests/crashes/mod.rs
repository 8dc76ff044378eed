//! The operator dies where a story says, and lives again.
#![allow(dead_code)] // each file uses its part

pub(crate) mod front;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use api::vault::VaultConnection;
use testkit::Result;

use crate::stories::{Crew, Site};

/// Puts a living operator in place if a story that failed has left one that is to die.
pub(crate) async fn ensure_living_operator(site: &Site) -> Result<()> {
    if site.has_doomed_operator.load(Ordering::SeqCst) {
        site.world.operator().kill();
        site.start_living().await?;
    }
    Ok(())
}

impl Site {
    /// Puts an operator in place of the running one that dies when it comes to `point`.
    pub(crate) async fn doom(&self, point: &str) -> Result<()> {
        self.begin(Some(point), self.kubeconfig()).await
    }

    /// Waits until it has died.
    pub(crate) async fn died(&self) -> Result<()> {
        self.world.operator().died().await
    }

    /// Waits until it has died, and starts it again as one that lives.
    pub(crate) async fn revive(&self) -> Result<()> {
        self.died().await?;
        self.start_living().await
    }

    async fn start_living(&self) -> Result<()> {
        self.begin(None, self.kubeconfig()).await?;
        self.has_doomed_operator.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Starts the operator anew, dead or alive. One that is to die may do so before it is ready.
    async fn begin(&self, point: Option<&str>, kubeconfig: PathBuf) -> Result<()> {
        self.has_doomed_operator.store(true, Ordering::SeqCst);
        let kill_point = point.map(str::to_owned);
        let started = self.world.restart_operator(|options| {
            options.kill_point = kill_point;
            options.kubeconfig = kubeconfig;
        });
        started.await
    }

    /// How the operator reaches the API server when nothing is between.
    fn kubeconfig(&self) -> PathBuf {
        self.world.operator_options().kubeconfig.clone()
    }
}

impl Crew {
    /// Takes the crew's connection out of the world, whose operator would else write about it
    /// whenever it starts.
    pub(crate) async fn leave(self) -> Result<()> {
        let cluster = self.cluster();
        cluster.delete::<VaultConnection>(&self.connection).await?;
        cluster.gone::<VaultConnection>(&self.connection).await
    }
}
