//! Facts about a seed from the caches, and its calls to Vault. This file decides nothing.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use api::vault::VaultConnection;
use engine::{CallContext, Ended, KindIo, Object};
use kernel::{CallError, Class, ObjectKey};
use vault_client::{Client, Error, Health};

use super::path::KvPath;
use super::{
    Answer, Compared, Connected, Facts, KIND, Location, Read, SeedCore, SeedIntent, Step, World,
    status,
};
use crate::cleanup::VaultLeftover;
use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::sync::{available, doubts_connection, is_away};
use crate::tenancy::{Guard, Namespace};

/// Reads and writes for seeds.
pub(crate) struct Seeds {
    core: SeedCore,
    ctx: Arc<Ctx>,
}

impl Seeds {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        let core = SeedCore::default();
        Self { core, ctx }
    }

    fn connected(
        &self,
        object: &Object<SeedCore>,
        connection: &VaultConnection,
        health: &Health,
    ) -> Connected {
        let ctx = &*self.ctx;
        let name = object.key.namespace.as_deref().unwrap_or_default();
        let guard = Guard {
            tenancy: connection.spec.tenancy.as_ref(),
            discovery: connection.spec.discovery.as_ref(),
            namespace: Namespace {
                name,
                labels: &ctx.labels(name),
            },
        };
        let refusal = guard.seed(&object.resource.spec.path).err();
        let mut inputs = DefaultHasher::new();
        health.version.hash(&mut inputs);
        connection.metadata.generation.hash(&mut inputs);
        object.metadata.generation.hash(&mut inputs);
        Connected {
            header: ctx.header(connection, KIND, &object.key),
            denial: refusal.map(|refusal| refusal.to_string()),
            write_inputs_hash: inputs.finish(),
        }
    }

    /// Makes one call over the connection of `at`.
    async fn call<T, F>(
        &self,
        at: &Location,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let connection = &*at.connection;
        let client = self.ctx.links.client(connection).ok_or_else(|| {
            let message = format!("VaultConnection {connection} is not in use any more");
            CallError::new(Class::Unreachable, message)
        })?;
        Box::pin(call(client)).await.map_err(|error| {
            // The connection is checked, so that the next pass sees whether it is down.
            if doubts_connection(&error) {
                self.ctx.doubt(connection);
            }
            call_error(&error)
        })
    }

    /// Whether Vault cannot be used. If so, the object has a pass when its connection is up again.
    async fn is_away(&self, connection: &str, key: &ObjectKey) -> bool {
        let Some(client) = self.ctx.links.client(connection) else {
            return false;
        };
        let is_down = self.ctx.links.health(connection).is_none();
        let is_away = is_down || is_away(Box::pin(client.health()).await);
        if is_away {
            self.ctx.wait_for(connection, (Dependent::Seed, key));
        }
        is_away
    }
}

/// An error of the Vault client as the error of a call.
///
/// | error                       | class                                                          |
/// |-----------------------------|----------------------------------------------------------------|
/// | sealed, not initialised     | sealed                                                         |
/// | no login, no credentials    | unreachable: it is about the connection, not about this call   |
/// | the client has ended        | throttled: nothing was sent, and the next pass has a new one   |
/// | any other                   | the class of the error                                         |
pub(super) fn call_error(error: &Error) -> CallError {
    let class = match error {
        Error::AuthFailed { .. } | Error::Credentials { .. } => Class::Unreachable,
        Error::Ended { .. } => Class::Throttled,
        _ => error.class(),
    };
    CallError {
        may_have_happened: error.may_have_happened(),
        retry_after: error.retry_after(),
        ..CallError::new(class, error.to_string())
    }
}

impl KindIo for Seeds {
    type Core = SeedCore;

    fn core(&self) -> &SeedCore {
        &self.core
    }

    fn is_in_scope(&self, key: &ObjectKey) -> bool {
        self.ctx.settings.watches(key.namespace.as_deref())
    }

    fn log_span(&self, object: &Object<SeedCore>) -> tracing::Span {
        self.ctx.log_span(&object.resource.spec.connection_ref)
    }

    fn gather(&self, object: &Object<SeedCore>) -> Facts {
        let ctx = &*self.ctx;
        let name = &object.resource.spec.connection_ref;
        let connection = available(ctx, name, (Dependent::Seed, &object.key));
        Facts {
            connection: connection
                .map(|(connection, _, health)| self.connected(object, &connection, &health)),
            leftover: object.is_deleting().then(|| {
                let connection = ctx.connection(name);
                VaultLeftover::of_seed(&object.resource, connection.as_ref())
            }),
            deletion_deadline: ctx.settings.deletion_deadline,
            error_interval: ctx.settings.error_interval,
        }
    }

    async fn read(&self, read: &Read, context: &CallContext<'_>) -> Result<Answer, CallError> {
        match read {
            Read::Engine(at) => {
                let mount = &*at.path.mount;
                let call = |vault: Client| async move { vault.secret_engine(mount).await };
                self.call(at, call).await.map(Answer::Engine)
            }
            Read::Metadata(at) => {
                let KvPath { mount, path } = &at.path;
                let call = |vault: Client| async move { vault.read_metadata(mount, path).await };
                self.call(at, call).await.map(Answer::Metadata)
            }
            Read::Values { at, expected } => {
                let KvPath { mount, path } = &at.path;
                let call = |vault: Client| async move { vault.read_secret(mount, path).await };
                let found = self.call(at, call).await?;
                Ok(Answer::Values(found.map(|found| Compared {
                    version: found.version,
                    is_equal: found.values == *expected,
                })))
            }
            Read::Health(connection) => {
                let is_away = self.is_away(connection, context.key).await;
                Ok(Answer::Health { is_away })
            }
        }
    }

    async fn apply(&self, step: &Step, _context: &CallContext<'_>) -> Result<u64, CallError> {
        match step {
            Step::Write {
                at, cas, values, ..
            } => {
                let (KvPath { mount, path }, cas) = (&at.path, *cas);
                let call = |vault: Client| async move {
                    vault.write_secret(mount, path, values, cas).await
                };
                self.call(at, call).await
            }
            Step::Mark { at, version, keys } => {
                let KvPath { mount, path } = &at.path;
                let call =
                    |vault: Client| async move { vault.patch_metadata(mount, path, keys).await };
                self.call(at, call).await.map(|()| *version)
            }
            Step::Delete(at) => {
                let KvPath { mount, path } = &at.path;
                let call = |vault: Client| async move { vault.delete_metadata(mount, path).await };
                self.call(at, call).await.map(|()| 0)
            }
            Step::HandOver(leftover) => {
                let recorded = self.ctx.leftovers.record(leftover).await;
                recorded
                    .map(|()| 0)
                    .map_err(|error| CallError::from(&error))
            }
        }
    }

    fn count(&self, world: &World, ended: &Ended<SeedIntent>, took: Duration) {
        let (metrics, key) = (&self.ctx.metrics, &world.object.key);
        let is_well = !matches!(ended, Ended::Stopped(_));
        metrics.reconciled(KIND, key, is_well, took);
        if let Some(is_denied) = status::is_tenancy_denied(world, ended) {
            metrics.tenancy(KIND, key, is_denied);
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.ctx.links.leave((Dependent::Seed, key));
        self.ctx.metrics.forget_object(KIND, key);
    }
}
