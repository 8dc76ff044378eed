//! The interface between a feature and the engine: name, kinds, permissions, start.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches};
use futures::future::LocalBoxFuture;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use serde_json::Value;

use crate::cli::Verbs;
use crate::{Check, Deck, SharedValues};

/// A part of the product that users can enable separately. Features do not depend on one another.
pub trait Feature: Send + Sync + 'static {
    /// The name in `--features`, flags and metrics.
    fn name(&self) -> &'static str;

    /// A description of one line.
    fn about(&self) -> &'static str;

    /// The CRDs of its kinds.
    fn crds(&self) -> Vec<CustomResourceDefinition>;

    /// The permissions that it needs.
    fn rbac(&self) -> Rbac;

    /// The same for these flags of [`Feature::args`]. A part that they disable needs no permission.
    fn rbac_with(&self, args: &ArgMatches) -> Result<Rbac, Usage> {
        let _ = args;
        Ok(self.rbac())
    }

    /// Its flags. Their names begin with the feature's name.
    fn args(&self) -> Vec<Arg> {
        Vec::new()
    }

    /// Refuses invalid flags. The engine calls this before it waits for anything.
    fn check(&self, args: &ArgMatches) -> Result<(), Usage> {
        let _ = args;
        Ok(())
    }

    /// The Lease of the controller that it replaces, so that both never write at the same time.
    fn legacy_lease(&self, args: &ArgMatches) -> Option<LegacyLease> {
        let _ = args;
        None
    }

    /// A part of the image name of the controller that it replaces.
    fn predecessor(&self) -> Option<&'static str> {
        None
    }

    /// The feature's own checks for `pontoon doctor`. They only read. `shared` has the values that the
    /// checks of all features share.
    fn examine<'a>(
        &'a self,
        args: &'a ArgMatches,
        client: &'a Client,
        shared: &'a SharedValues,
    ) -> LocalBoxFuture<'a, Vec<Check>> {
        let _ = (args, client, shared);
        Box::pin(async { Vec::new() })
    }

    /// Starts its controllers and tasks on the engine. Must not wait for external systems.
    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage>;

    /// Its verbs on the command line: `pontoon <feature> <verb>`.
    fn verbs(&self) -> Option<Verbs> {
        None
    }

    /// The programs that it replaces, each with its own verbs: `pontoon <program> <verb>`, or
    /// `<program> <verb>` where the executable is called by that name.
    fn programs(&self) -> Vec<Verbs> {
        Vec::new()
    }
}

/// The Lease of a predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyLease {
    /// The namespace; none for the operator's own.
    pub namespace: Option<String>,
    /// The name.
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

/// An invalid value of a flag. The message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What a feature may do, and what it defines for the permissions of others.
///
/// In the chart, the prefix `pontoon-<feature>-` of names is that of the release.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rbac {
    /// Rules of a ClusterRole.
    pub cluster: Vec<PolicyRule>,
    /// Rules of a Role in the operator's namespace.
    pub own_namespace: Vec<PolicyRule>,
    /// Roles in namespaces that the user lists.
    pub listed_namespaces: Vec<ListedNamespaces>,
    /// Further ClusterRoles.
    pub cluster_roles: Vec<AggregatedRole>,
    /// Further objects, such as a ValidatingAdmissionPolicy and its binding. Each name begins with
    /// `pontoon-<feature>-`, also where one names another.
    pub objects: Vec<Value>,
}

/// A Role in each namespace of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedNamespaces {
    /// The value of the chart that lists them, such as `tenants.sourceNamespaces`.
    pub value: &'static str,
    /// The Roles are named `pontoon-<feature>-<purpose>`.
    pub purpose: &'static str,
    /// Listed namespaces that the feature knows from its flags.
    pub namespaces: Vec<String>,
    /// What it may do there.
    pub rules: Vec<PolicyRule>,
    /// Whether it may do that in every namespace while none is listed.
    pub everywhere_if_empty: bool,
}

/// A ClusterRole that is aggregated: its rules become part of other ClusterRoles, or come from them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AggregatedRole {
    /// It is named `pontoon-<feature>-<purpose>`.
    pub purpose: &'static str,
    /// Its labels, such as `rbac.authorization.k8s.io/aggregate-to-view` with the value `true`.
    pub labels: BTreeMap<String, String>,
    /// Its rules. Kubernetes replaces them if the role has `aggregates`.
    pub rules: Vec<PolicyRule>,
    /// It has the rules of all ClusterRoles with all labels of one of these sets.
    pub aggregates: Vec<BTreeMap<String, String>>,
    /// Whether the operator's account has the role in the whole cluster.
    pub is_bound: bool,
}

/// Placeholder for the name of the operator's ServiceAccount in a rule's resource names.
pub const OWN_ACCOUNT: &str = "(own)";

impl Rbac {
    /// The same for an operator that runs as `account`.
    #[must_use]
    pub fn for_account(mut self, account: &str) -> Self {
        let listed = &mut self.listed_namespaces;
        let rules = self
            .cluster
            .iter_mut()
            .chain(&mut self.own_namespace)
            .chain(listed.iter_mut().flat_map(|list| &mut list.rules));
        let names = rules.flat_map(|rule| rule.resource_names.iter_mut().flatten());
        for name in names.filter(|name| *name == OWN_ACCOUNT) {
            account.clone_into(name);
        }
        self
    }

    /// The rules that the operator's account has, and their namespaces; none means the whole cluster. The
    /// rules that an aggregated role gets from others are not known here.
    pub fn own_rules<'a>(
        &'a self,
        own_namespace: &'a str,
    ) -> impl Iterator<Item = (&'a PolicyRule, Option<&'a str>)> {
        let bound = self.cluster_roles.iter().filter(|role| role.is_bound);
        let cluster = self
            .cluster
            .iter()
            .chain(bound.flat_map(|role| &role.rules))
            .map(|rule| (rule, None));
        let own = self.own_namespace.iter();
        let own = own.map(move |rule| (rule, Some(own_namespace)));
        let listed = self.listed_namespaces.iter().flat_map(|list| {
            let is_everywhere = list.everywhere_if_empty && list.namespaces.is_empty();
            let namespaces = list.namespaces.iter().map(|namespace| Some(&**namespace));
            let namespaces = namespaces.chain(is_everywhere.then_some(None));
            namespaces.flat_map(|namespace| {
                let rules = list.rules.iter();
                rules.map(move |rule| (rule, namespace))
            })
        });
        cluster.chain(own).chain(listed)
    }
}

/// A rule that allows `verbs` on `resources` of `group`.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// The permissions that the engine needs with any feature.
pub fn engine_rbac() -> Rbac {
    let mut kube_system = rule("", &["namespaces"], &["get"]);
    // The UID of this namespace is the cluster's identity.
    kube_system.resource_names = Some(vec!["kube-system".to_owned()]);
    Rbac {
        cluster: vec![
            rule(
                "apiextensions.k8s.io",
                &["customresourcedefinitions"],
                &["get", "list", "watch"],
            ),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
            kube_system,
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
        ..Rbac::default()
    }
}
