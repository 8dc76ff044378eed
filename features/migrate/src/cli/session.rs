//! The session of a verb: the cluster of the kubeconfig, and its migrations.

use std::sync::Arc;

use api::migrate::StatefulSetMigration;
use clap::ArgMatches;
use engine::cli::flags::{self, value};
use engine::cli::{Failure, Kinds, ObjectKind, Session};
use engine::{ApiError, Cache, Kind, Stored, WatchKey};
use kernel::ObjectKey;
use kube::{Api, Client};

/// What a verb works with.
pub(super) struct MigrateSession {
    pub(super) cluster: Session,
    pub(super) migrations: Cache,
    /// The migration that the arguments name.
    named: Option<ObjectKey>,
}

/// The kind of migrations.
pub(super) fn kind() -> Kind {
    Kind::of::<StatefulSetMigration>()
}

impl MigrateSession {
    /// Reads the migrations of the namespace, or of all with `-A`.
    pub(super) async fn open(args: &ArgMatches) -> Result<Self, Failure> {
        let named: Option<ObjectKey> = value(args, flags::OBJECT).map(str::parse).transpose()?;
        let cluster = Session::open("migrate", args).await?;
        let named = named.map(|key| in_namespace(&key, &cluster.scope.namespace));
        let namespace = named.as_ref().and_then(|key| key.namespace.as_deref());
        let namespace = namespace.or(cluster.scope.only());
        let watched = WatchKey {
            namespace: namespace.map(Into::into),
            ..WatchKey::all(kind())
        };
        let migrations = cluster.deck.hub.cache(watched);
        let session = Self {
            cluster,
            migrations,
            named,
        };
        session.cluster.settle(&[&session.migrations]).await?;
        Ok(session)
    }

    /// The migration that the arguments name, if they name one.
    pub(super) fn named(&self) -> Option<&ObjectKey> {
        self.named.as_ref()
    }

    /// The migration that the arguments name.
    pub(super) fn required_name(&self) -> Result<&ObjectKey, Failure> {
        let named = self.named.as_ref();
        named.ok_or_else(|| "no migration is named; write [<namespace>/]<name>".into())
    }

    /// All migrations that were read, by namespace and name.
    pub(super) fn all(&self) -> Vec<Arc<Stored>> {
        let mut all = self.migrations.store().all();
        all.sort_by(|one, other| one.key().cmp(other.key()));
        all
    }

    /// A migration as it was last seen; none if it does not exist or cannot be parsed.
    pub(super) fn seen(&self, key: &ObjectKey) -> Option<StatefulSetMigration> {
        self.migrations.store().get(key)?.parse(&kind()).ok()
    }

    /// A migration as the API server has it now.
    pub(super) async fn live(&self, key: &ObjectKey) -> Result<StatefulSetMigration, Failure> {
        let found = self.find(key).await?;
        found.ok_or_else(|| {
            format!("there is no StatefulSetMigration {key}; check the name, or give its namespace with -n").into()
        })
    }

    /// The same; none if it does not exist.
    pub(super) async fn find(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<StatefulSetMigration>, Failure> {
        let api = migrations(self.cluster.client(), key);
        let found = api.get_opt(&key.name).await;
        Ok(found.map_err(|error| {
            ApiError::classify(format!("get StatefulSetMigration {key}"), error)
        })?)
    }

    /// The client for writes. It refuses them before [`Session::allow_writes`].
    pub(super) fn writer(&self) -> Client {
        self.cluster.deck.client.clone()
    }

    /// The kinds of objects in a file.
    pub(super) fn kinds(&self) -> Kinds<()> {
        let migrations = &self.migrations;
        let all = ObjectKind::of::<StatefulSetMigration>((), migrations, &["stsm", "stsmigration"]);
        Kinds::new(vec![all], &[]).with_default_kind()
    }
}

/// The migrations of the namespace of `key`.
pub(super) fn migrations(client: Client, key: &ObjectKey) -> Api<StatefulSetMigration> {
    Api::namespaced(client, key.namespace.as_deref().unwrap_or("default"))
}

/// The key with its own namespace, or else with this one.
pub(super) fn in_namespace(key: &ObjectKey, namespace: &str) -> ObjectKey {
    let own = key.namespace.as_deref();
    ObjectKey::namespaced(own.unwrap_or(namespace), &*key.name)
}
