//! What the engine is told of the feature.

use std::sync::Arc;
use std::time::Duration;

use api::tenants::names as words;
use clap::{Arg, ArgMatches};
use engine::cli::Verbs;
use engine::{
    Check, ControllerSpec, Deck, Feature, Index, LegacyLease, ListedNamespaces, Rbac, SharedValues,
    Usage, rule,
};
use futures::future::LocalBoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kernel::Backoff;
use kube::Client;

use crate::ctx::{Ctx, Wakers, namespaces};
use crate::dns::{listing, zones};
use crate::tenant::{self, Tenants};
use crate::{cli, follow, group, invalidation, policy, settings, source, sweep};

/// How long one pass over a tenant may take: a call may take half a minute, and there are a few.
const DEADLINE: Duration = Duration::from_secs(5 * 60);
/// A steady tenant is looked at by sweeps; passes over it are for daily looks.
const RESYNC: Duration = Duration::from_secs(24 * 60 * 60);
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_secs(5 * 60),
    jitter: 0.1,
};

/// The feature.
#[derive(Debug, Default)]
pub struct TenantsFeature;

impl Feature for TenantsFeature {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn about(&self) -> &'static str {
        "CloudFront distribution tenants with their DNS and certificates"
    }

    fn crds(&self) -> Vec<CustomResourceDefinition> {
        api::tenants::crds()
    }

    fn rbac(&self) -> Rbac {
        let group = words::GROUP;
        let read = ["get", "list", "watch"];
        let kinds = [
            "distributiontenants",
            "tenantsources",
            "connectiongroups",
            "invalidations",
            "tenantpolicies",
        ];
        let below = |kinds: &[&str], part: &str| -> Vec<String> {
            kinds.iter().map(|kind| format!("{kind}/{part}")).collect()
        };
        let status = below(&kinds, "status");
        let finalizers = below(&["distributiontenants", "connectiongroups"], "finalizers");
        let texts = |list: &[String], verbs: &[&str]| {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            rule(group, &list, verbs)
        };
        let sources = rule("", &["secrets", "configmaps"], &["get"]);
        Rbac {
            cluster: vec![
                rule(group, &kinds, &read),
                rule(group, &kinds, &["patch"]),
                // A source makes and prunes tenants; an invalidation goes when its time is over.
                rule(group, &kinds[..1], &["create", "delete"]),
                rule(group, &kinds[3..4], &["delete"]),
                texts(&status, &["patch"]),
                texts(&finalizers, &["update"]),
                rule("", &["namespaces"], &read),
            ],
            own_namespace: vec![sources.clone()],
            listed_namespaces: vec![ListedNamespaces {
                value: "tenants.sourceNamespaces",
                purpose: "sources",
                namespaces: Vec::new(), // sources name them
                rules: vec![sources],
                everywhere_if_empty: false,
            }],
            ..Rbac::default()
        }
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
        Some("cloudfront-tenant-operator")
    }

    fn examine<'a>(
        &'a self,
        args: &'a ArgMatches,
        client: &'a Client,
        shared: &'a SharedValues,
    ) -> LocalBoxFuture<'a, Vec<Check>> {
        Box::pin(async move {
            match settings::read(args) {
                Ok(settings) => cli::doctor_checks(client, settings.region, shared).await,
                Err(usage) => vec![Check::wrong("tenants: settings", usage.to_string())],
            }
        })
    }

    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage> {
        let ctx = Arc::new(Ctx::new(deck, settings::read(args)?));
        index(&ctx);
        ctx.started(start(&ctx, deck));
        let attending = Arc::clone(&ctx);
        deck.shared_task("aws", move || {
            let ctx = Arc::clone(&attending);
            async move { ctx.aws().await.attend().await }
        });
        task(&ctx, deck, "sweep", sweep::sweeps);
        task(&ctx, deck, "polls", sweep::polls);
        task(&ctx, deck, "zones", zones::write);
        task(&ctx, deck, "changes", zones::poll);
        task(&ctx, deck, "listings", listing::listings);
        Ok(())
    }

    fn verbs(&self) -> Option<Verbs> {
        Some(cli::verbs())
    }
}

/// Teaches the cache of tenants what passes ask it.
fn index(ctx: &Ctx) {
    let store = ctx.caches.tenants.store();
    store.index(Index::by(tenant::BY_NAME, tenant::name_of));
    store.index(Index::by(tenant::BY_DOMAIN, tenant::domains_of));
    sweep::index(ctx);
    listing::index(ctx);
}

/// Runs `work` while we lead.
fn task<F>(
    ctx: &Arc<Ctx>,
    deck: &Deck,
    name: &'static str,
    work: impl Fn(Arc<Ctx>) -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let ctx = Arc::clone(ctx);
    deck.task(name, move || work(Arc::clone(&ctx)));
}

fn start(ctx: &Arc<Ctx>, deck: &Deck) -> Wakers {
    let caches = &ctx.caches;
    let tenants = ControllerSpec::new(caches.tenants.key().clone(), Tenants::new(Arc::clone(ctx)))
        .concurrency(ctx.settings.workers)
        .deadline(DEADLINE)
        .resync(RESYNC)
        .backoff(BACKOFF)
        .follow(caches.tenants.key().clone(), follow::neighbours(ctx))
        .follow(caches.groups.key().clone(), follow::tenants_of_group(ctx))
        .follow(caches.policies.key().clone(), follow::all_tenants(ctx))
        .follow(namespaces(), follow::tenants_in_namespace(ctx));
    // Nobody asks for passes over these.
    deck.control(source::controller(ctx));
    deck.control(policy::controller(ctx));
    Wakers {
        tenants: deck.control(tenants),
        groups: deck.control(group::controller(ctx)),
        invalidations: deck.control(invalidation::controller(ctx)),
    }
}
