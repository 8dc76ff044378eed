//! The operator dies where a story says, and lives again.
#![allow(dead_code)] // each file uses its part

pub(crate) mod front;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::vault::VaultConnection;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};
use testkit::Result;

use crate::stories::{Crew, Site};

/// SIGABRT, by which a kill point ends the process, and SIGKILL, by which a story does.
const DEATHS: [i32; 2] = [6, 9];
const PATIENCE: Duration = Duration::from_secs(60);

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
        let status = self.world.operator().ended(PATIENCE).await?;
        let signal = status.signal();
        assert!(signal.is_some_and(|one| DEATHS.contains(&one)), "{status}");
        Ok(())
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
        let operator = self.world.operator();
        operator.kill();
        self.bury().await?;
        self.has_doomed_operator.store(true, Ordering::SeqCst);
        let kill_point = point.map(str::to_owned);
        let started = operator.restart(|options| {
            options.kill_point = kill_point;
            options.kubeconfig = kubeconfig;
        });
        started.await
    }

    /// How the operator reaches the API server when nothing is between.
    fn kubeconfig(&self) -> PathBuf {
        let namespace = self.world.operator_namespace();
        let scratch = self.world.control_plane().scratch();
        let file = format!("{namespace}-pontoon.kubeconfig");
        scratch.path().join(file)
    }

    /// Ends a dead operator's leadership at once, so that a story need not wait until it runs out.
    async fn bury(&self) -> Result<()> {
        let client = self.world.control_plane().admin();
        let leases = Api::<Lease>::namespaced(client, self.world.operator_namespace());
        let (how, all) = (DeleteParams::default(), ListParams::default());
        leases.delete_collection(&how, &all).await?;
        Ok(())
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
