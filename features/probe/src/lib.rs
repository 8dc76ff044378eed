//! The test feature: the smallest that uses all of the engine. Only builds for tests carry it.
//!
//! ```text
//! Probe ──▶ ConfigMap
//!       ──▶ a thing in the emulator's service `probe`
//! Lookout ──▶ a controller over a kind known only at run time
//! Mirror ──▶ a ConfigMap in another cluster
//! ```
//! # Watches
//! Its kinds, its own ConfigMaps here and in other clusters, and what Lookouts name. Secrets never: Probes
//! and Mirrors read theirs by name.
//! # Owns
//! Here: ConfigMaps labelled as owned. Outside: things that carry our marker.
//! # Promises
//! - What is not ours is neither written nor deleted.
//! - A thing outside is made once, whatever crashes.
//! - A finalizer goes when the thing is gone, or when the policy is `Retain`.

mod lookout;
mod mirror;
mod outside;
mod probe;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use api::probe::{Lookout, Mirror, OWNED_LABEL, Probe};
use clap::{Arg, ArgMatches};
use engine::{
    ControllerSpec, Deck, Feature, Kind, LegacyLease, Projection, Rbac, Usage, WatchKey, rule,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The feature.
#[derive(Debug, Default)]
pub struct ProbeFeature;

/// What both kinds stand on.
pub(crate) struct Ctx {
    pub(crate) deck: Deck,
    pub(crate) applier: engine::Applier,
    pub(crate) outside: Option<outside::Outside>,
}

impl Feature for ProbeFeature {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn about(&self) -> &'static str {
        "the engine's own test kinds"
    }

    fn crds(&self) -> Vec<CustomResourceDefinition> {
        vec![Probe::crd(), Lookout::crd(), Mirror::crd()]
    }

    fn rbac(&self) -> Rbac {
        Rbac {
            cluster: vec![
                rule(
                    "probe.pontoon.io",
                    &["probes", "lookouts", "mirrors"],
                    &["get", "list", "watch", "patch"],
                ),
                rule(
                    "probe.pontoon.io",
                    &["probes/status", "lookouts/status", "mirrors/status"],
                    &["patch"],
                ),
                rule(
                    "probe.pontoon.io",
                    &["probes/finalizers", "mirrors/finalizers"],
                    &["update"],
                ),
                rule(
                    "probe.pontoon.io",
                    &["sightings"],
                    &["get", "list", "watch"],
                ),
                rule(
                    "",
                    &["configmaps"],
                    &["get", "list", "watch", "create", "patch", "delete"],
                ),
                rule("", &["secrets"], &["get"]),
            ],
            ..Rbac::default()
        }
    }

    fn args(&self) -> Vec<Arg> {
        vec![
            Arg::new("probe-outside")
                .long("probe-outside")
                .value_name("URL")
                .help("Where the emulator is"),
            Arg::new("probe-resync")
                .long("probe-resync")
                .value_name("SECONDS")
                .default_value("300")
                .help("Periodic look"),
            Arg::new("probe-deadline")
                .long("probe-deadline")
                .value_name("SECONDS")
                .default_value("60")
                .help("Limit of a pass"),
            Arg::new("probe-sweep")
                .long("probe-sweep")
                .value_name("SECONDS")
                .default_value("0")
                .help("How often to look for things that went missing outside; 0 for never"),
            Arg::new("probe-legacy-lease")
                .long("probe-legacy-lease")
                .value_name("NAMESPACE/NAME|none")
                .default_value("none")
                .help("Lease of the controller this one replaces"),
        ]
    }

    fn legacy_lease(&self, args: &ArgMatches) -> Option<LegacyLease> {
        args.get_one::<String>("probe-legacy-lease")
            .filter(|text| *text != "none")?
            .parse()
            .ok()
    }

    fn start(&self, args: &ArgMatches, deck: &Deck) -> Result<(), Usage> {
        let text = |name: &str| args.get_one::<String>(name).cloned();
        let seconds = |name: &str| {
            let given = text(name).unwrap_or_default();
            let parsed: Result<u64, _> = given.parse();
            parsed.map(Duration::from_secs).map_err(|_| {
                Usage(format!(
                    "--{name}={given}: write a number of seconds, such as 300"
                ))
            })
        };
        if let Some(lease) = text("probe-legacy-lease").filter(|lease| lease != "none") {
            lease.parse::<LegacyLease>()?;
        }
        let ctx = Arc::new(Ctx {
            applier: deck.applier("pontoon-probe"),
            outside: text("probe-outside")
                .map(|url| outside::Outside::new(url, deck.guards.clone())),
            deck: deck.clone(),
        });
        let owned = WatchKey {
            labels: Some(format!("{OWNED_LABEL}=true")),
            ..WatchKey::all(Kind::of::<ConfigMap>())
        };
        let owned = owned.with_projection(Projection::Metadata);
        let resync = seconds("probe-resync")?;
        let probes = ControllerSpec::of_core(
            WatchKey::all(Kind::of::<Probe>()),
            probe::Probes::new(ctx.clone(), owned.clone()),
        )
        .owns(owned)
        .resync(resync)
        .blocked_pace(resync, resync)
        .deadline(seconds("probe-deadline")?)
        .also_reconcile_now("probe.pontoon.io/refresh");
        let probes = deck.control(probes);
        if let (Some(outside), every @ 1..) =
            (ctx.outside.clone(), seconds("probe-sweep")?.as_secs())
        {
            sweep::start(deck, outside, probes, Duration::from_secs(every));
        }
        let (mirrors, slot) = mirror::Mirrors::new(ctx.clone());
        let mirrors = ControllerSpec::of_core(WatchKey::all(Kind::of::<Mirror>()), mirrors)
            .resync(resync)
            .blocked_pace(resync, resync);
        slot.set(deck.control(mirrors));
        deck.control(ControllerSpec::new(
            WatchKey::all(Kind::of::<Lookout>()),
            lookout::Lookouts::new(ctx),
        ));
        Ok(())
    }
}
