//! The operator dies where a story says, and lives again.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use api::vault::VaultConnection;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams};
use testkit::Result;
use tokio::sync::{Mutex, MutexGuard};

use crate::stories::{Crew, Site};

/// SIGABRT, by which a kill point ends the process.
const ABORTED: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A world has one operator: stories in which it dies are told one after another.
static TURN: Mutex<()> = Mutex::const_new(());

/// This story's turn. A story that failed may have left a dead operator to the next.
pub(crate) async fn turn(site: &Site) -> Result<MutexGuard<'static, ()>> {
    let turn = TURN.lock().await;
    if site.world.operator().exit_status().is_some() {
        site.start_living().await?;
    }
    Ok(turn)
}

impl Site {
    /// Puts an operator in place of the running one that dies when it comes to `point`.
    pub(crate) async fn doom(&self, point: &str) -> Result<()> {
        self.world.operator().kill();
        self.bury().await?;
        let point = Some(point.to_owned());
        let doomed = self
            .world
            .operator()
            .restart(|options| options.kill_point = point);
        doomed.await
    }

    /// Waits until it has died.
    pub(crate) async fn died(&self) -> Result<()> {
        let status = self.world.operator().ended(PATIENCE).await?;
        assert_eq!(status.signal(), Some(ABORTED), "{status}");
        Ok(())
    }

    /// Waits until it has died, and starts it again as one that lives.
    pub(crate) async fn revive(&self) -> Result<()> {
        self.died().await?;
        self.start_living().await
    }

    async fn start_living(&self) -> Result<()> {
        self.bury().await?;
        let living = self
            .world
            .operator()
            .restart(|options| options.kill_point = None);
        living.await
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
