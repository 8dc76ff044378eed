//! What the engine is told of the feature.

use std::sync::Arc;
use std::time::Duration;

use api::vault::{
    PolicyKind, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole, names as words,
};
use clap::{Arg, ArgMatches};
use engine::cli::Verbs;
use engine::{
    Check, ControllerSpec, Deck, Feature, Kind, LegacyLease, Rbac, Reconcile, SharedValues, Usage,
    WatchKey,
};
use futures::future::LocalBoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kernel::Backoff;
use kube::Client;

use crate::connection::Connections;
use crate::controllers::{Controllers, Part};
use crate::ctx::{Ctx, Wakers, namespaces};
use crate::kv::Seeds;
use crate::links::Dependent;
use crate::settings::{self, Settings};
use crate::sync::Synced;
use crate::{cleanup, cli, discovery, follow};

/// The longest wait after a failure.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// Each pass over a connection says when the next one is due: its interval counts, and no resync.
const CONNECTION_RESYNC: Duration = Duration::from_secs(24 * 60 * 60);

/// The feature.
#[derive(Debug, Default)]
pub struct VaultFeature;

impl Feature for VaultFeature {
    fn name(&self) -> &'static str {
        "vault"
    }

    fn about(&self) -> &'static str {
        "policies, roles and seeds in Vault, declared per namespace"
    }

    fn crds(&self) -> Vec<CustomResourceDefinition> {
        api::vault::crds()
    }

    fn rbac(&self) -> Rbac {
        Controllers::all().rbac()
    }

    fn rbac_with(&self, args: &ArgMatches) -> Result<Rbac, Usage> {
        Ok(settings::controllers(args)?.rbac())
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
        Some(words::SENTINEL)
    }

    fn examine<'a>(
        &'a self,
        args: &'a ArgMatches,
        client: &'a Client,
        shared: &'a SharedValues,
    ) -> LocalBoxFuture<'a, Vec<Check>> {
        Box::pin(async move {
            match settings::read(args) {
                Ok(settings) => cli::doctor_checks(client, settings, shared).await,
                Err(usage) => vec![Check::wrong("vault: settings", usage.to_string())],
            }
        })
    }

    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage> {
        let settings = settings::read(args)?;
        let ctx = Arc::new(Ctx::new(deck, settings));
        let links = ctx.links.clone();
        deck.on_shutdown(async move { links.end().await });
        ctx.started(start(&ctx, deck));
        cleanup::start(&ctx, deck);
        if ctx.settings.controllers.has(Part::Discovery) {
            discovery::start_orphans(&ctx, deck);
        }
        Ok(())
    }

    fn verbs(&self) -> Option<Verbs> {
        Some(cli::verbs())
    }
}

fn start(ctx: &Arc<Ctx>, deck: &Deck) -> Wakers {
    let settings = &ctx.settings;
    let connections = controller(
        WatchKey::all(Kind::of::<VaultConnection>()),
        Connections::new(ctx.clone()),
        settings,
    )
    .resync(CONNECTION_RESYNC)
    .follow(
        namespaces(),
        follow::pickers(&ctx.caches.connections, &ctx.caches.namespaces, |spec| {
            spec["tenancy"]["templates"].is_array()
        }),
    )
    .follow(ctx.leftovers.watch_key(), follow::nobody);
    let connections = Dependent::ALL.into_iter().fold(connections, |spec, kind| {
        spec.follow(ctx.caches.of(kind).key().clone(), follow::nobody)
    });
    let caches = &ctx.caches;
    // The keys of the caches: another projection would be a second watch.
    let roles_key = || caches.roles.key().clone();
    let cluster_roles_key = || caches.cluster_roles.key().clone();
    let policies_key = || caches.policies.key().clone();
    let cluster_policies_key = || caches.cluster_policies.key().clone();
    let policies = {
        let kind = PolicyKind::VaultPolicy;
        controller(
            policies_key(),
            Synced::<VaultPolicy>::new(ctx.clone()),
            settings,
        )
        .follow(
            roles_key(),
            follow::policies_of_role(&caches.roles, &caches.policies, kind),
        )
        .follow(
            cluster_roles_key(),
            follow::policies_of_role(&caches.cluster_roles, &caches.policies, kind),
        )
        .follow(
            namespaces(),
            follow::objects_in_namespace(ctx, Dependent::Policy),
        )
    };
    let cluster_policies = {
        let kind = PolicyKind::VaultClusterPolicy;
        let synced = Synced::<VaultClusterPolicy>::new(ctx.clone());
        controller(cluster_policies_key(), synced, settings)
            .follow(
                roles_key(),
                follow::policies_of_role(&caches.roles, &caches.cluster_policies, kind),
            )
            .follow(
                cluster_roles_key(),
                follow::policies_of_role(&caches.cluster_roles, &caches.cluster_policies, kind),
            )
    };
    let of_policy = |kind, wanted| follow::roles_of_policy(ctx, kind, wanted);
    let with_policies = |spec: ControllerSpec, wanted| {
        spec.follow(policies_key(), of_policy(PolicyKind::VaultPolicy, wanted))
            .follow(
                cluster_policies_key(),
                of_policy(PolicyKind::VaultClusterPolicy, wanted),
            )
    };
    let roles = controller(roles_key(), Synced::<VaultRole>::new(ctx.clone()), settings);
    let roles = with_policies(roles, Dependent::Role).follow(
        namespaces(),
        follow::objects_in_namespace(ctx, Dependent::Role),
    );
    let synced = Synced::<VaultClusterRole>::new(ctx.clone());
    let cluster_roles = controller(cluster_roles_key(), synced, settings);
    let cluster_roles = with_policies(cluster_roles, Dependent::ClusterRole).follow(
        namespaces(),
        follow::pickers(&caches.cluster_roles, &caches.namespaces, |spec| {
            spec["selectedServiceAccounts"].is_object()
        }),
    );
    let seeds = ControllerSpec::of_core(
        WatchKey::all(Kind::of::<VaultKVSecret>()),
        Seeds::new(ctx.clone()),
    );
    let seeds = paced(seeds, settings).follow(
        namespaces(),
        follow::objects_in_namespace(ctx, Dependent::Seed),
    );
    let control = |part: Part, dependents: ControllerSpec| {
        let connections = caches.connections.key().clone();
        let spec = dependents.follow(connections, follow::nobody);
        settings.controllers.has(part).then(|| deck.control(spec))
    };
    Wakers {
        connections: deck.control(connections),
        policies: control(Part::Policy, policies),
        cluster_policies: control(Part::Policy, cluster_policies),
        roles: control(Part::Role, roles),
        cluster_roles: control(Part::Role, cluster_roles),
        seeds: control(Part::Kv, seeds),
    }
}

fn controller(key: WatchKey, reconcile: impl Reconcile, settings: &Settings) -> ControllerSpec {
    paced(ControllerSpec::new(key, reconcile), settings)
}

fn paced(spec: ControllerSpec, settings: &Settings) -> ControllerSpec {
    spec.resync(settings.resync)
        .blocked_pace(settings.resync, settings.resync) // what conflicts is read at each resync
        .backoff(Backoff {
            first: settings.error_interval,
            cap: LONGEST_BACKOFF,
            jitter: 0.1,
        })
        .also_reconcile_now(words::RECONCILE_NOW)
}
