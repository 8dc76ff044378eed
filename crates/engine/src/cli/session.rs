//! The cluster of the kubeconfig, as a verb sees it.

use std::time::Duration;

use clap::ArgMatches;
use k8s_openapi::api::core::v1::Namespace;
use kernel::{ClusterId, ObjectKey};
use kube::{Api, Client};

use super::{Failure, flags};
use crate::{Cache, Clients, Deck, Health, Metrics, Tasks};

/// Calls to the Kubernetes API at once.
const API_CALLS: usize = 16;
/// A watch that has no answer after this time counts as broken.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// A broken watch is reported after this time: it will not recover by itself.
const BROKEN_AFTER: Duration = Duration::from_secs(2);
/// How often the caches are checked.
const POLL: Duration = Duration::from_millis(20);

/// What a verb runs on: the cluster of the kubeconfig, with the permissions of its user.
///
/// Its deck never leads, so nothing can be written before [`allow_writes`](Self::allow_writes).
pub struct Session {
    /// For the feature's own code.
    pub deck: Deck,
    /// The namespaces that the verb covers.
    pub scope: Scope,
    clients: Clients,
    tasks: Tasks,
}

/// The namespaces that a verb covers: `-n`, `-A`, else that of the kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The namespace of objects whose argument has none.
    pub namespace: String,
    /// The verb covers all namespaces, and objects without a namespace.
    pub covers_all: bool,
}

impl Scope {
    /// The scope of these arguments; `default` is the namespace of the kubeconfig.
    pub fn of(args: &ArgMatches, default: &str) -> Self {
        let given = flags::value(args, flags::NAMESPACE);
        Self {
            namespace: given.unwrap_or(default).to_owned(),
            covers_all: flags::is_set(args, flags::ALL_NAMESPACES),
        }
    }

    /// The namespace that is covered; none if all are.
    pub fn only(&self) -> Option<&str> {
        (!self.covers_all).then_some(&*self.namespace)
    }

    /// Whether an object is covered.
    pub fn includes(&self, key: &ObjectKey) -> bool {
        self.covers_all || key.namespace.as_deref() == Some(&*self.namespace)
    }

    /// The remark if no object is covered. `noun` is such as `object`.
    pub fn empty_remark(&self, noun: &str) -> String {
        match self.only() {
            None => format!("There is no {noun}."),
            Some(namespace) => format!(
                "There is no {noun} in namespace {namespace}; -n names another, -A shows all."
            ),
        }
    }
}

impl Session {
    /// Opens the cluster of the kubeconfig for a verb of `feature` with these arguments. Objects are
    /// read later, by [`settle`](Self::settle).
    ///
    /// # Errors
    /// The kubeconfig, the cluster or a permission is wrong; what to do.
    pub async fn open(feature: &str, args: &ArgMatches) -> Result<Self, Failure> {
        let config = kube::Config::infer().await.map_err(|error| {
            format!("no cluster is configured: {error}; set KUBECONFIG and run again")
        })?;
        let scope = Scope::of(args, &config.default_namespace);
        let metrics = Metrics::default();
        let clients = Clients::new(config, API_CALLS, metrics.clone())
            .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
        let cluster = match flags::value(args, flags::CLUSTER_ID) {
            Some(given) => ClusterId::new(given)?,
            None => cluster_uid(clients.unguarded(feature)).await?,
        };
        let operator_namespace = flags::value(args, flags::OPERATOR_NAMESPACE);
        let operator_namespace = operator_namespace.unwrap_or_default().to_owned();
        let tasks = Tasks::default();
        let deck = Deck::for_reading(
            feature,
            &clients,
            metrics,
            cluster,
            operator_namespace,
            &tasks,
        );
        Ok(Self {
            deck,
            scope,
            clients,
            tasks,
        })
    }

    /// Waits until `caches` have all objects. The first cache is that of the feature's main kind.
    ///
    /// # Errors
    /// The objects cannot be read; which permissions are needed.
    pub async fn settle(&self, caches: &[&Cache]) -> Result<(), Failure> {
        let Some(main) = caches.first() else {
            return Ok(());
        };
        let began = self.deck.clock.elapsed();
        while !caches.iter().all(|cache| cache.is_settled()) {
            let waited = self.deck.clock.elapsed().saturating_sub(began);
            if waited > BROKEN_AFTER
                && let Some(why) = self.broken(waited)
            {
                let group = &main.key().kind.group;
                return Err(format!(
                    "the objects cannot be read ({why}); ask for the rights to list and watch \
                     namespaces and all of {group}, in the whole cluster"
                )
                .into());
            }
            tokio::time::sleep(POLL).await;
        }
        if main.health() == Health::Absent {
            let feature = &self.deck.feature;
            return Err(format!(
                "the cluster does not have the CRDs of the {feature} feature; run: \
                 pontoon crds --feature {feature} | kubectl apply --server-side -f -"
            )
            .into());
        }
        Ok(())
    }

    /// The first watch that does not work, and why.
    fn broken(&self, waited: Duration) -> Option<String> {
        let all = self.deck.hub.health().into_iter();
        let mut broken = all.filter_map(|(key, health)| {
            let why = match health {
                Health::Broken(why) => why,
                Health::Starting if waited > READ_TIMEOUT => "no answer in time".to_owned(),
                Health::Unserved => {
                    "the API server answers 404 and does not say that the kind is gone".to_owned()
                }
                Health::Starting | Health::Synced | Health::Absent => return None,
            };
            Some(format!("{}: {why}", key.kind.plural))
        });
        broken.next()
    }

    /// A client for direct reads from the API server. Do not write with it: its calls are not guarded.
    pub fn client(&self) -> Client {
        self.clients.unguarded(&self.deck.feature)
    }

    /// Allows writes. Call it after [`confirm`](super::confirm).
    pub fn allow_writes(&self) {
        for guard in &self.deck.guards {
            guard.allow_until(Duration::MAX);
        }
    }

    /// Ends the watches.
    pub fn close(self) {
        self.tasks.stop();
    }
}

/// The identity of the cluster that the operator writes into markers by default.
async fn cluster_uid(client: Client) -> Result<ClusterId, Failure> {
    let api = Api::<Namespace>::all(client);
    let namespace = api.get_metadata("kube-system").await.map_err(|error| {
        format!(
            "namespace kube-system, whose UID is the cluster's identity, cannot be read: {error}; \
             check KUBECONFIG, the network and your rights"
        )
    })?;
    Ok(ClusterId::new(namespace.metadata.uid.unwrap_or_default())?)
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use rstest::rstest;

    use super::*;

    fn scope(arguments: &[&str]) -> Scope {
        let verb = Command::new("status");
        let command = flags::command("ships", "").subcommand(verb);
        let matches = command
            .no_binary_name(true)
            .try_get_matches_from([arguments, &["status"]].concat())
            .unwrap();
        Scope::of(matches.subcommand().unwrap().1, "kubeconfig")
    }

    #[rstest]
    #[case::default(&[], Some("kubeconfig"))]
    #[case::named(&["-n", "a"], Some("a"))]
    #[case::all(&["-A"], None)]
    fn verbs_cover_one_namespace_or_all(#[case] arguments: &[&str], #[case] only: Option<&str>) {
        assert_eq!(scope(arguments).only(), only);
    }

    #[rstest]
    #[case::of_the_namespace(&["-n", "a"], ObjectKey::namespaced("a", "x"), true)]
    #[case::of_another(&["-n", "a"], ObjectKey::namespaced("b", "x"), false)]
    #[case::in_none(&["-n", "a"], ObjectKey::cluster("x"), false)]
    #[case::any_with_all(&["-A"], ObjectKey::namespaced("b", "x"), true)]
    #[case::in_none_with_all(&["-A"], ObjectKey::cluster("x"), true)]
    fn an_object_is_covered(
        #[case] arguments: &[&str],
        #[case] key: ObjectKey,
        #[case] expected: bool,
    ) {
        assert_eq!(scope(arguments).includes(&key), expected);
    }

    #[test]
    fn the_remark_about_no_objects_names_the_namespace() {
        let remark = scope(&["-n", "a"]).empty_remark("Ship");
        assert!(remark.contains("no Ship in namespace a"), "{remark}");
        assert_eq!(scope(&["-A"]).empty_remark("Ship"), "There is no Ship.");
    }
}
