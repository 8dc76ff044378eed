//! `kubeconfig`: an inline kubeconfig of a cluster that the operator accepts.
//!
//! The login is a ServiceAccount with the rights of a run. Its token is that of a Secret of type
//! `kubernetes.io/service-account-token`, which does not expire: API servers cut the time of a requested token,
//! EKS to 24 hours, and a run may take longer. Deleting the Secret revokes the token.

mod login;
mod rendered;

use std::time::Duration;

use clap::{ArgMatches, Command};
use engine::ApiError;
use engine::cli::flags::{self, flag, is_set, switch, value, yes};
use engine::cli::{Answer, Failure, Finding, Outcome, confirm};
use k8s_openapi::api::core::v1::Secret;
use kernel::ObjectKey;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use self::login::{LoginObject, TOKEN_SECRET, login_objects};
use self::rendered::{ServerAddress, Token};
use super::clusters::UserCluster;

/// How long Kubernetes may take to write a token.
const TOKEN_WAIT: Duration = Duration::from_secs(30);
/// How often the Secret of the token is read.
const POLL: Duration = Duration::from_millis(250);
/// Owns the fields of what the verb makes.
const FIELD_MANAGER: &str = "pontoon-migrate";

pub(super) fn command() -> Command {
    Command::new("kubeconfig")
        .about("Make a login for runs in a cluster, and print it as a kubeconfig, or store it in a Secret")
        .arg(flag("context", "NAME", "The cluster, by a context of your kubeconfig").required(true))
        .arg(flag(
            "only-namespace",
            "NAME",
            "Rights on objects of this namespace only; default: of every namespace",
        ))
        .arg(switch("apply", "Store it in a Secret of the current context instead of printing it"))
        .arg(flag("secret", "NAME", "The Secret; default: <context>-kubeconfig").requires("apply"))
        .arg(yes())
}

/// Makes the login, and prints or stores its kubeconfig.
pub(super) async fn kubeconfig(args: &ArgMatches) -> Result<Answer, Failure> {
    let context = value(args, "context").expect("clap requires it");
    let user = Kubeconfig::read()
        .map_err(|error| format!("your kubeconfig cannot be read: {error}; set KUBECONFIG"))?;
    let server = ServerAddress::of(&user, context)?;
    let cluster = UserCluster::from_context(user, context).await?;
    let namespace = value(args, flags::OPERATOR_NAMESPACE).unwrap_or_default();
    let objects = login_objects(namespace, value(args, "only-namespace"));
    eprintln!("In the cluster of context {context}, these are created or corrected:");
    for object in &objects {
        eprintln!("  {object}");
    }
    let stored = if is_set(args, "apply") {
        Some(KubeconfigSecret::open(args, context).await?)
    } else {
        None
    };
    if let Some(stored) = &stored {
        eprintln!(
            "In the cluster of the current context:\n  Secret {} with the kubeconfig",
            stored.key
        );
    }
    confirm(args, "Make this login?")?;
    cluster.allow_writes();
    for object in &objects {
        apply(&cluster, object).await?;
    }
    let token = token(&cluster, namespace).await?;
    let kubeconfig = rendered::kubeconfig(context, &server, &token)?;
    match stored {
        None => Ok(printed(context, kubeconfig)),
        Some(stored) => stored.store(&kubeconfig).await,
    }
}

async fn apply(cluster: &UserCluster, object: &LoginObject) -> Result<(), ApiError> {
    let namespace = object.body["metadata"]["namespace"].as_str();
    let client = cluster.writer.clone();
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &object.resource),
        None => Api::all_with(client, &object.resource),
    };
    let name = object.body["metadata"]["name"].as_str().unwrap_or_default();
    let how = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(name, &how, &Patch::Apply(&object.body)).await;
    applied
        .map(drop)
        .map_err(|error| ApiError::classify(format!("apply {object}"), error))
}

/// The token, once Kubernetes has written it.
async fn token(cluster: &UserCluster, namespace: &str) -> Result<Token, Failure> {
    let secrets = Api::<Secret>::namespaced(cluster.reader.clone(), namespace);
    let mut waited = Duration::ZERO;
    loop {
        let secret = secrets.get(TOKEN_SECRET).await;
        let secret = secret.map_err(|error| {
            ApiError::classify(format!("get Secret {namespace}/{TOKEN_SECRET}"), error)
        })?;
        if let Some(token) = Token::of(&secret) {
            return Ok(token);
        }
        if waited >= TOKEN_WAIT {
            return Err(format!(
                "Secret {namespace}/{TOKEN_SECRET} has no token after {} s; see that kube-controller-manager runs, \
                 and run the command again",
                TOKEN_WAIT.as_secs()
            )
            .into());
        }
        tokio::time::sleep(POLL).await;
        waited += POLL;
    }
}

fn printed(context: &str, kubeconfig: Value) -> Answer {
    let finding = Finding {
        name: context.to_owned(),
        cells: vec![context.to_owned()],
        full: kubeconfig,
    };
    let remark = "It contains a token: store it as a secret.".to_owned();
    Answer::manifests(&["context"], vec![finding]).with_remark(remark)
}

/// The Secret that the kubeconfig is stored in.
struct KubeconfigSecret {
    cluster: UserCluster,
    key: ObjectKey,
}

impl KubeconfigSecret {
    async fn open(args: &ArgMatches, context: &str) -> Result<Self, Failure> {
        let cluster = UserCluster::current().await?;
        let namespace = value(args, flags::NAMESPACE).unwrap_or(&cluster.namespace);
        let name = value(args, "secret").map(str::to_owned);
        let name = name.unwrap_or_else(|| rendered::secret_name(context));
        let key = ObjectKey::namespaced(namespace, name);
        Ok(Self { cluster, key })
    }

    /// Creates the Secret, or changes its one key. Other keys stay.
    async fn store(self, kubeconfig: &Value) -> Result<Answer, Failure> {
        let Self { cluster, key } = self;
        cluster.allow_writes();
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let secrets = Api::<Secret>::namespaced(cluster.writer.clone(), namespace);
        let text = rendered::text(kubeconfig)?;
        let body = json!({"stringData": {api::migrate::names::KUBECONFIG_KEY: text}});
        let classified = |error| ApiError::classify(format!("store Secret {key}"), error);
        let found = secrets
            .get_metadata_opt(&key.name)
            .await
            .map_err(classified)?;
        let state = if found.is_some() {
            let how = PatchParams::default();
            let patched = secrets.patch(&key.name, &how, &Patch::Merge(body)).await;
            patched.map_err(classified)?;
            "changed"
        } else {
            let mut body = body;
            body["metadata"] = json!({"name": &*key.name, "namespace": namespace});
            let secret: Secret = serde_json::from_value(body)?;
            let created = secrets.create(&PostParams::default(), &secret).await;
            created.map_err(classified)?;
            "created"
        };
        let cells = [namespace, &*key.name, state].map(str::to_owned).into();
        let finding = Finding::about("Secret", &key, cells, json!({"state": state}));
        let columns = &["namespace", "name", "state"];
        let remark = format!(
            "Name it in a migration of namespace {namespace}: kubeConfigSecret: {}",
            key.name
        );
        Ok(Answer::table(columns, vec![finding], Outcome::Holds).with_remark(remark))
    }
}
