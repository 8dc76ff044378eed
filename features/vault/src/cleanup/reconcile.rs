//! What the caches and Vault show of a leftover, and its deletion.

use std::sync::Arc;
use std::time::Duration;

use api::vault::{VaultConnection, reasons};
use engine::leftovers::{Claimant, Judgement, Remover};
use engine::{Stop, kill_point};
use kernel::{Class, ObjectKey, Reason};
use vault_client::{Client, Error};

use super::claims::claimant;
use super::decide::{self, Evidence};
use super::leftover::{VaultLeftover, VaultPath};
use crate::ctx::Ctx;
use crate::kv::KvPath;
use crate::place;
use crate::realm::namespace;
use crate::sync::doubts_connection;

/// How often a record looks whether its connection is up: that costs no call.
const RECHECK: Duration = Duration::from_secs(10);
/// The same of a connection that does not exist; a new one wakes its records anyway.
const RECHECK_MISSING: Duration = Duration::from_secs(300);

/// Removes leftovers from Vault.
pub(super) struct VaultRemover {
    ctx: Arc<Ctx>,
}

impl VaultRemover {
    pub(super) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx }
    }

    /// What a failed call means for the record. It is no try if the connection is to blame.
    fn stop(&self, leftover: &VaultLeftover, error: &Error) -> Stop {
        let reason = |code: &'static str| Reason::new(code, error.to_string());
        if doubts_connection(error) {
            self.ctx.doubt(&leftover.connection);
            return Stop::waiting(reason(reasons::CONNECTION_NOT_READY), RECHECK);
        }
        let (reason, class) = (reason(reasons::FAILED), error.class());
        if matches!(class, Class::Deposed | Class::Throttled) {
            return Stop::waiting(reason, error.retry_after().unwrap_or(RECHECK));
        }
        Stop::Failed { reason, class }
    }
}

impl Remover for VaultRemover {
    type Leftover = VaultLeftover;
    type Target = VaultConnection;
    type Client = Client;
    type Evidence = Option<Evidence>;

    fn first_pause(&self) -> Duration {
        self.ctx.settings.cleanup_retry
    }

    fn log_span(&self, leftover: &VaultLeftover) -> tracing::Span {
        self.ctx.log_span(&leftover.connection)
    }

    fn target(&self, leftover: &VaultLeftover) -> Result<VaultConnection, Stop> {
        let name = &leftover.connection;
        self.ctx.connection(name).ok_or_else(|| {
            let message = format!("there is no VaultConnection {name}");
            not_ready(message, RECHECK_MISSING)
        })
    }

    fn claimant(&self, leftover: &VaultLeftover, connection: &VaultConnection) -> Claimant {
        claimant(&self.ctx, leftover, connection)
    }

    fn client(
        &self,
        leftover: &VaultLeftover,
        connection: &VaultConnection,
    ) -> Result<Client, Stop> {
        let (name, links) = (&leftover.connection, &self.ctx.links);
        if !leftover.is_behind(connection) {
            return Err(Stop::blocked(Reason::new(
                reasons::CONNECTION_NOT_READY,
                format!(
                    "{leftover} is at {}, and VaultConnection {name} leads to {} now; make one that \
                     leads there, or remove it by hand and delete this record",
                    leftover.address.as_deref().unwrap_or_default(),
                    connection.spec.address
                ),
            )));
        }
        let (Some(health), Some(vault)) = (links.health(name), links.client(name)) else {
            let message = format!("VaultConnection {name} is not ready");
            return Err(not_ready(message, RECHECK));
        };
        let there = leftover.namespace(connection);
        if let Some(namespace) = &there {
            health.takes_namespace(namespace).map_err(|missing| {
                let code = reasons::UNSUPPORTED_BY_SERVER;
                Stop::blocked(Reason::new(code, missing.to_string()))
            })?;
        }
        let usual = namespace(connection.spec.vault_namespace.as_deref(), None);
        Ok(if there == usual {
            vault
        } else {
            vault.in_namespace(&there.unwrap_or_default())
        })
    }

    async fn read(
        &self,
        leftover: &VaultLeftover,
        vault: &Client,
    ) -> Result<Option<Evidence>, Stop> {
        let found = match &leftover.path {
            VaultPath::Place(place) => {
                let found = place::read(vault, place).await;
                found.map(|found| found.as_ref().map(Evidence::from))
            }
            VaultPath::Seed(KvPath { mount, path }) => {
                let found = vault.read_metadata(mount, path).await;
                found.map(|found| found.as_ref().map(Evidence::from))
            }
        };
        found.map_err(|error| self.stop(leftover, &error))
    }

    fn judge(
        &self,
        leftover: &VaultLeftover,
        connection: &VaultConnection,
        found: Option<Evidence>,
    ) -> Judgement {
        let resource = &*leftover.resource;
        let key = resource.parse();
        let key = key.unwrap_or_else(|_| ObjectKey::cluster(resource));
        let today = self.ctx.header(connection, &leftover.kind, &key);
        decide::judge(leftover, found.as_ref(), &today)
    }

    async fn remove(&self, leftover: &VaultLeftover, vault: &Client) -> Result<(), Stop> {
        let deleted = match &leftover.path {
            VaultPath::Place(place) => place::delete(vault, place).await,
            VaultPath::Seed(KvPath { mount, path }) => {
                kill_point("vault-before-delete");
                let deleted = vault.delete_metadata(mount, path).await;
                if deleted.is_ok() {
                    kill_point("vault-after-delete");
                }
                deleted
            }
        };
        deleted.map_err(|error| self.stop(leftover, &error))
    }

    fn count_attempt(&self, leftover: &VaultLeftover, is_success: bool) {
        let resource_type = leftover.path.resource_type();
        self.ctx.metrics.cleanup_tried(resource_type, is_success);
    }

    fn count_records(&self, count: usize) {
        self.ctx.metrics.cleanup_records(count);
    }
}

fn not_ready(message: String, after: Duration) -> Stop {
    Stop::waiting(Reason::new(reasons::CONNECTION_NOT_READY, message), after)
}
