//! What a feature is to the engine: a name, its kinds, its permissions, and how it starts.

use clap::{Arg, ArgMatches};
use futures::future::LocalBoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;

use crate::cli::Verbs;
use crate::{Check, Deck};

/// One part of the product, switchable alone. Features never know one another.
pub trait Feature: Send + Sync + 'static {
    /// Its name, as in `--features`, flags and metrics.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn about(&self) -> &'static str;

    /// Its kinds.
    fn crds(&self) -> Vec<CustomResourceDefinition>;

    /// What it must be allowed to do, and no more.
    fn rbac(&self) -> Rbac;

    /// The same when it is started with these flags of [`Feature::args`]: a part that they leave out
    /// needs nothing.
    fn rbac_with(&self, args: &ArgMatches) -> Result<Rbac, Usage> {
        let _ = args;
        Ok(self.rbac())
    }

    /// Flags of its own; their names begin with the feature's.
    fn args(&self) -> Vec<Arg> {
        Vec::new()
    }

    /// Refuses flags that cannot be used, before anything is waited for.
    fn check(&self, args: &ArgMatches) -> Result<(), Usage> {
        let _ = args;
        Ok(())
    }

    /// The Lease of the controller it replaces, so that both never write together.
    fn legacy_lease(&self, args: &ArgMatches) -> Option<LegacyLease> {
        let _ = args;
        None
    }

    /// The controller it replaces: a part of its image's name.
    fn predecessor(&self) -> Option<&'static str> {
        None
    }

    /// What `pontoon doctor` looks at beyond the cluster itself. It reads, and changes nothing.
    fn examine<'a>(
        &'a self,
        args: &'a ArgMatches,
        client: &'a Client,
    ) -> LocalBoxFuture<'a, Vec<Check>> {
        let _ = (args, client);
        Box::pin(async { Vec::new() })
    }

    /// Hands its controllers and tasks to the engine. Must not wait for anything outside.
    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage>;

    /// Verbs of its own on the command line, for people: `pontoon <feature> <verb>`.
    fn verbs(&self) -> Option<Verbs> {
        None
    }
}

/// A predecessor's Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyLease {
    /// Its namespace; none for the operator's own.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl std::str::FromStr for LegacyLease {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [name] if !name.is_empty() => Ok(Self {
                namespace: None,
                name: name.to_owned(),
            }),
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(Self {
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            }),
            _ => Err(Usage(format!(
                "{text:?} names no Lease; write <namespace>/<name>, <name> or none"
            ))),
        }
    }
}

/// A flag's value that cannot be used; says what can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Permissions: everywhere, and in the operator's own namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rbac {
    /// Rules of a ClusterRole.
    pub cluster: Vec<PolicyRule>,
    /// Rules of a Role in the operator's namespace.
    pub own_namespace: Vec<PolicyRule>,
}

/// Stands for the operator's own ServiceAccount among the names of a rule.
pub const OWN_ACCOUNT: &str = "(own)";

impl Rbac {
    /// The same for an operator that runs as `account`.
    #[must_use]
    pub fn for_account(mut self, account: &str) -> Self {
        let rules = self.cluster.iter_mut().chain(&mut self.own_namespace);
        let names = rules.flat_map(|rule| rule.resource_names.iter_mut().flatten());
        for name in names.filter(|name| *name == OWN_ACCOUNT) {
            account.clone_into(name);
        }
        self
    }
}

/// One rule, in words: `verbs` on `resources` of `group`.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// What the engine itself needs, whatever runs on it.
pub fn engine_rbac() -> Rbac {
    let mut home = rule("", &["namespaces"], &["get"]);
    home.resource_names = Some(vec!["kube-system".to_owned()]); // its UID is the cluster's identity
    Rbac {
        cluster: vec![
            rule(
                "apiextensions.k8s.io",
                &["customresourcedefinitions"],
                &["get", "list", "watch"],
            ),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
            home,
            rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
            rule(
                "authorization.k8s.io",
                &["subjectaccessreviews"],
                &["create"],
            ),
        ],
        own_namespace: vec![rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "create", "update"],
        )],
    }
}
