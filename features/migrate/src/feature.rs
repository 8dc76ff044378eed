//! The feature, for the engine.

use std::sync::Arc;
use std::time::Duration;

use api::migrate::{StatefulSetMigration, names};
use clap::{Arg, ArgMatches};
use engine::cli::Verbs;
use engine::{
    ControllerSpec, Deck, Feature, Kind, LegacyLease, ListedNamespaces, Rbac, Usage, WatchKey, rule,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::cli;
use crate::controller::MigrationController;
use crate::io::Migrations;
use crate::settings;

/// The least time between two passes over a migration. One evidence is often two events, and each step
/// should begin soon after its evidence.
const PASS_INTERVAL: Duration = Duration::from_millis(20);
/// The time between two passes over an unchanged migration.
const RESYNC: Duration = Duration::from_secs(5 * 60);
/// The longest pass: a few calls to clusters that may be slow.
const DEADLINE: Duration = Duration::from_secs(60);

/// The feature.
#[derive(Debug, Default)]
pub struct MigrateFeature;

impl Feature for MigrateFeature {
    fn name(&self) -> &'static str {
        "migrate"
    }

    fn about(&self) -> &'static str {
        "StatefulSets with their EBS disks, moved to another cluster"
    }

    fn crds(&self) -> Vec<CustomResourceDefinition> {
        api::migrate::crds()
    }

    /// In its own cluster only: what it may do in the clusters of a migration, their kubeconfigs say.
    fn rbac(&self) -> Rbac {
        let of_kind = |resource: &str, verbs: &[&str]| {
            let resource = format!("statefulsetmigrations{resource}");
            rule(names::GROUP, &[resource.as_str()], verbs)
        };
        Rbac {
            cluster: vec![
                of_kind("", &["get", "list", "watch", "patch"]),
                of_kind("/status", &["patch"]),
                of_kind("/finalizers", &["update"]),
            ],
            listed_namespaces: vec![ListedNamespaces {
                value: "migrate.namespaces",
                purpose: "secrets",
                namespaces: Vec::new(), // those of migrations
                // Kubeconfigs are read by name. A capture is created beside its migration.
                rules: vec![rule("", &["secrets"], &["get", "create"])],
                everywhere_if_empty: true,
            }],
            ..Rbac::default()
        }
    }

    /// It reads whether the namespace of the predecessor's Lease exists.
    fn rbac_with(&self, args: &ArgMatches) -> Result<Rbac, Usage> {
        let mut rbac = self.rbac();
        let lease = settings::read(args)?.legacy_lease;
        if let Some(namespace) = lease.and_then(|lease| lease.namespace) {
            rbac.cluster.push(PolicyRule {
                resource_names: Some(vec![namespace]),
                ..rule("", &["namespaces"], &["get"])
            });
        }
        Ok(rbac)
    }

    fn args(&self) -> Vec<Arg> {
        settings::args()
    }

    fn check(&self, args: &ArgMatches) -> Result<(), Usage> {
        settings::read(args).map(drop)
    }

    fn legacy_lease(&self, args: &ArgMatches) -> Option<LegacyLease> {
        settings::read(args).ok()?.legacy_lease
    }

    fn predecessor(&self) -> Option<&'static str> {
        Some("aqua-service-controller")
    }

    fn verbs(&self) -> Option<Verbs> {
        Some(cli::verbs())
    }

    fn programs(&self) -> Vec<Verbs> {
        vec![cli::storagemover_verbs()]
    }

    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage> {
        let settings = settings::read(args)?;
        let controller = Arc::<MigrationController>::default();
        let migrations = Migrations::new(deck, &settings, controller.clone());
        let kind = Kind::of::<StatefulSetMigration>();
        let spec = ControllerSpec::of_core(WatchKey::all(kind), migrations)
            .pauses_by_itself()
            .pass_interval(PASS_INTERVAL)
            .concurrency(settings.concurrency)
            .resync(RESYNC)
            .deadline(DEADLINE);
        controller.set(deck.control(spec));
        Ok(())
    }
}
