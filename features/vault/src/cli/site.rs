//! Where a verb looks: the cluster of the kubeconfig, and Vault behind its connections.

use std::sync::Arc;

use api::vault::{Auth, KubernetesAuth, VaultConnection, names};
use clap::{Arg, ArgMatches, Command};
use engine::{Asked, Cache, Reading};
use kernel::{ObjectKey, RealClock};
use serde_json::{Value, json};
use vault_client::{Client, Login, Parts, Secret, Source};

use super::{Failure, flag, text};
use crate::connection::prepare;
use crate::ctx::Ctx;
use crate::links::{Dependent, Standing};
use crate::settings;

/// The variable that holds a token of one's own.
const TOKEN: &str = "PONTOON_VAULT_TOKEN";

/// The flags of every verb.
pub(super) fn args() -> Vec<Arg> {
    let all = [
        flag(
            "namespace",
            "NAME",
            "The namespace; default: that of the kubeconfig for one object, all for several",
        )
        .short('n'),
        flag("operator-namespace", "NAME", "The operator's namespace")
            .default_value("pontoon-system"),
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
    all.into_iter().map(|arg| arg.global(true)).collect()
}

/// What a verb sees.
pub(super) struct Site {
    pub(super) ctx: Ctx,
    reading: Reading,
    token: Option<Secret>,
}

impl Site {
    /// Reads all objects of the feature.
    pub(super) async fn open(args: &ArgMatches) -> Result<Self, Failure> {
        let token = token(args)?;
        let settings = settings(args)?;
        let asked = Asked {
            namespace: text(args, "namespace"),
            home: &settings.service_account.namespace,
            cluster: None,
        };
        let reading = Reading::open("vault", asked).await?;
        let ctx = Ctx::new(&reading.deck, settings);
        let site = Self {
            ctx,
            reading,
            token,
        };
        site.reading.settle(&site.caches(), names::GROUP).await?;
        Ok(site)
    }

    /// The namespace of what does not say its own.
    pub(super) fn namespace(&self) -> &str {
        &self.reading.namespace
    }

    fn caches(&self) -> [&Cache; 7] {
        let caches = &self.ctx.caches;
        [
            &caches.connections,
            &caches.policies,
            &caches.cluster_policies,
            &caches.roles,
            &caches.cluster_roles,
            &caches.seeds,
            &caches.namespaces,
        ]
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
        let account = &self.ctx.settings.service_account;
        // Logging in makes a token of the operator's account: no write of ours, so not guarded.
        let kube = self.kube();
        let config = match &self.token {
            None => prepare(connection, &kube, account).await?,
            Some(token) => {
                let mut config = prepare(&without_login(connection), &kube, account).await?;
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

    /// Whether the operator was told another cluster name than we were: then what is its own would
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
            let told = then.unwrap_or("none");
            (then != today.as_deref()).then(|| {
                format!(
                    "the operator has marked {} for {told} as its cluster name, and here it would \
                     be {}; give --cluster-name as the operator has it",
                    object.key(),
                    today.as_deref().unwrap_or("none")
                )
            })
        })
    }

    /// A client for what is asked of the API server directly.
    pub(super) fn kube(&self) -> kube::Client {
        self.reading.client()
    }

    /// Somebody has consented: from now on what a verb writes is sent.
    pub(super) fn allow_writes(&self) {
        self.reading.allow_writes();
    }

    /// Ends logins and watches.
    pub(super) async fn close(self) {
        self.ctx.links.end().await;
        self.reading.close();
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
    let told = match text(args, "token-file") {
        Some(file) => {
            let read = std::fs::read_to_string(file);
            Some(read.map_err(|error| format!("--token-file {file} cannot be read: {error}"))?)
        }
        None => std::env::var(TOKEN).ok(),
    };
    let token = told.map(|token| token.trim().to_owned());
    match token {
        Some(token) if token.is_empty() => {
            Err(format!("--token-file or {TOKEN} is empty; put a Vault token there").into())
        }
        token => Ok(token.map(Secret::new)),
    }
}

/// The operator's settings, as far as a verb is told of them.
fn settings(args: &ArgMatches) -> Result<settings::Settings, Failure> {
    let mut words = vec![format!(
        "--namespace={}",
        text(args, "operator-namespace").unwrap_or_default()
    )];
    if let Some(account) = text(args, "service-account") {
        words.push(format!("--vault-service-account={account}"));
    }
    if let Some(name) = text(args, "cluster-name") {
        words.push(format!("--cluster-name={name}"));
    }
    let command = Command::new("run")
        .no_binary_name(true)
        .args(settings::args())
        .arg(Arg::new("namespace").long("namespace"));
    Ok(settings::read(&command.try_get_matches_from(words)?)?)
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
