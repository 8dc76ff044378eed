//! The session of a verb: the cluster of the kubeconfig, and Vault behind its connections.

use std::sync::Arc;

use api::vault::{
    Auth, KubernetesAuth, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret,
    VaultPolicy, VaultRole,
};
use clap::{Arg, ArgMatches};
use engine::Cache;
use engine::cli::flags::{self, flag, value};
use engine::cli::{Failure, Kinds, ObjectKind, ObjectRef, Session};
use kernel::{ObjectKey, RealClock};
use serde_json::{Value, json};
use vault_client::{Client, Login, Parts, Secret, Source};

use crate::connection::prepare;
use crate::ctx::Ctx;
use crate::links::{Dependent, Standing};
use crate::settings;

/// The variable that holds a token of one's own.
const TOKEN: &str = "PONTOON_VAULT_TOKEN";

/// The flags of every verb beside those of all features.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    let all = [
        flag(
            "service-account",
            "NAME",
            "The operator's service account, whose tokens log in to Vault",
        ),
        flag(
            "cluster-name",
            "NAME",
            "This cluster's name in Vault, if the operator has been given one",
        )
        .env("PONTOON_CLUSTER_NAME"),
        flag(
            "token-file",
            "FILE",
            "Use the Vault token in this file instead of the connection's login; also PONTOON_VAULT_TOKEN",
        ),
    ];
    all.into_iter().map(|arg| arg.global(true))
}

/// What a verb works with.
pub(super) struct VaultSession {
    pub(super) ctx: Arc<Ctx>,
    pub(super) cluster: Session,
    token: Option<Secret>,
}

impl VaultSession {
    /// Reads all objects of the feature.
    pub(super) async fn open(args: &ArgMatches) -> Result<Self, Failure> {
        let token = token(args)?;
        let settings = settings(args)?;
        let cluster = Session::open("vault", args).await?;
        let session = Self {
            ctx: Arc::new(Ctx::new(&cluster.deck, settings)),
            cluster,
            token,
        };
        session.cluster.settle(&session.caches()).await?;
        Ok(session)
    }

    /// The caches that verbs read; connections first.
    pub(super) fn caches(&self) -> Vec<&Cache> {
        let caches = &self.ctx.caches;
        let dependents = Dependent::ALL.into_iter().map(|kind| caches.of(kind));
        [&caches.connections, &caches.namespaces]
            .into_iter()
            .chain(dependents)
            .collect()
    }

    /// The kinds behind connections.
    pub(super) fn kinds(&self) -> Kinds<Dependent> {
        let caches = &self.ctx.caches;
        let all = vec![
            ObjectKind::of::<VaultPolicy>(Dependent::Policy, &caches.policies, &["vp", "policy"]),
            ObjectKind::of::<VaultClusterPolicy>(
                Dependent::ClusterPolicy,
                &caches.cluster_policies,
                &["vcp", "clusterpolicy"],
            ),
            ObjectKind::of::<VaultRole>(Dependent::Role, &caches.roles, &["vr", "role"]),
            ObjectKind::of::<VaultClusterRole>(
                Dependent::ClusterRole,
                &caches.cluster_roles,
                &["vcr", "clusterrole"],
            ),
            ObjectKind::of::<VaultKVSecret>(Dependent::Seed, &caches.seeds, &["vks", "kvsecret"]),
        ];
        Kinds::new(all, &["VaultConnection"])
    }

    /// The object that the verb's argument names.
    pub(super) fn target(&self, args: &ArgMatches) -> Result<ObjectRef<Dependent>, Failure> {
        let named = value(args, flags::OBJECT).unwrap_or_default();
        self.kinds().parse(named, &self.cluster.scope.namespace)
    }

    /// The connection of this name.
    pub(super) fn connection(&self, name: &str) -> Result<VaultConnection, Failure> {
        self.ctx.connection(name).ok_or_else(|| {
            format!(
                "there is no VaultConnection {name}; there are: {}",
                listed(&self.connections())
            )
            .into()
        })
    }

    /// The names of all connections, sorted.
    pub(super) fn connections(&self) -> Vec<String> {
        let all = self.ctx.caches.connections.store().all();
        let mut names: Vec<_> = all.iter().map(|one| one.key().name.to_string()).collect();
        names.sort();
        names
    }

    /// Logs in to Vault as the operator does, once a connection. What comes of it is also what
    /// passes over its objects will find.
    pub(super) async fn vault(&self, name: &str) -> Result<Client, Failure> {
        if let Some(client) = self.ctx.links.client(name) {
            return Ok(client);
        }
        let connection = self.connection(name)?;
        match self.login(&connection, name).await {
            Ok((client, health)) => {
                self.ctx.links.set_client(name, client.clone());
                drop(self.ctx.links.found(name, Standing::Up(health)));
                Ok(client)
            }
            Err(error) => {
                drop(self.ctx.links.found(name, Standing::Down));
                Err(format!("Vault cannot be asked through VaultConnection {name}: {error}").into())
            }
        }
    }

    async fn login(
        &self,
        connection: &VaultConnection,
        name: &str,
    ) -> Result<(Client, vault_client::Health), Failure> {
        let (account, aws) = (&self.ctx.settings.service_account, &self.ctx.aws);
        // Logging in makes a token of the operator's account: no write of ours, so not guarded.
        let kube = self.cluster.client();
        let config = match &self.token {
            None => prepare(connection, &kube, account, aws).await?,
            Some(token) => {
                let mut config = prepare(&without_login(connection), &kube, account, aws).await?;
                config.login = Login::Token {
                    token: Source::given(token.clone()),
                };
                config
            }
        };
        let parts = Parts {
            clock: Arc::new(RealClock::new()),
            guards: self.ctx.deck.guards.clone(),
            observer: self.ctx.metrics.observer(name),
        };
        let client = Client::new(config, parts)?;
        let health = client.health().await?;
        health.usable(&connection.spec.address)?;
        let asked = [
            &connection.spec.vault_namespace,
            &connection.spec.auth.vault_namespace,
        ];
        for namespace in asked.into_iter().flatten() {
            health.takes_namespace(namespace)?;
        }
        client.login().await?;
        Ok((client, health))
    }

    /// Whether the operator was given another cluster name than this verb: then what is its own would
    /// look foreign to us, and the other way round.
    pub(super) fn doubt(&self) -> Option<String> {
        let kinds = Dependent::ALL.into_iter();
        let mut objects = kinds.flat_map(|kind| self.ctx.caches.of(kind).store().all());
        objects.find_map(|object| {
            let whole: Value = serde_json::from_str(object.json()).ok()?;
            let owner = whole["status"]["binding"]["owner"].as_str()?;
            let connection = self
                .ctx
                .connection(whole["spec"]["connectionRef"].as_str()?)?;
            let today = self.ctx.header(&connection, "", object.key()).cluster;
            let then = owner
                .split_once("cluster ")
                .map(|(_, rest)| rest.trim_end_matches(')'));
            let marked = then.unwrap_or("none");
            (then != today.as_deref()).then(|| {
                format!(
                    "the operator has marked {} for {marked} as its cluster name, and here it would \
                     be {}; give --cluster-name as the operator has it",
                    object.key(),
                    today.as_deref().unwrap_or("none")
                )
            })
        })
    }

    /// Ends logins and watches.
    pub(super) async fn close(self) {
        self.ctx.links.end().await;
        self.cluster.close();
    }
}

/// Names for people.
pub(super) fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn token(args: &ArgMatches) -> Result<Option<Secret>, Failure> {
    let given = match value(args, "token-file") {
        Some(file) => {
            let read = std::fs::read_to_string(file);
            Some(read.map_err(|error| format!("--token-file {file} cannot be read: {error}"))?)
        }
        None => std::env::var(TOKEN).ok(),
    };
    let token = given.map(|token| token.trim().to_owned());
    match token {
        Some(token) if token.is_empty() => {
            Err(format!("--token-file or {TOKEN} is empty; put a Vault token there").into())
        }
        token => Ok(token.map(Secret::new)),
    }
}

/// The operator's settings, as far as a verb is given them.
fn settings(args: &ArgMatches) -> Result<settings::Settings, Failure> {
    let given = [
        ("vault-service-account", value(args, "service-account")),
        ("cluster-name", value(args, "cluster-name")),
    ];
    let run = flags::as_run(args, settings::args(), given)?;
    Ok(settings::read(&run)?)
}

/// The same connection, but nothing is read to log in with.
pub(super) fn without_login(connection: &VaultConnection) -> VaultConnection {
    let mut bare = connection.clone();
    // A kubernetes login asks for its token only when it is used, and this one never is.
    let unused: Option<KubernetesAuth> = serde_json::from_value(json!({"role": "-"})).ok();
    bare.spec.auth = Auth {
        bootstrap: None,
        kubernetes: unused,
        token: None,
        app_role: None,
        jwt: None,
        oidc: None,
        aws: None,
        gcp: None,
        vault_namespace: connection.spec.auth.vault_namespace.clone(),
    };
    bare
}

/// `namespace/name`, or why a text is not that.
pub(super) fn pair(text: &str, example: &str) -> Result<ObjectKey, Failure> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(ObjectKey::namespaced(namespace, name))
        }
        _ => Err(format!("{text:?} is not <namespace>/<name>; write for example {example}").into()),
    }
}
