//! `pontoon run`: the operator itself.

mod inherited;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use engine::{Certificate, Engine, Feature, LeaseSettings, Settings, Usage, parse_address};
use kernel::{ClusterId, RealClock, SharedClock};

use crate::cli::flag;
use crate::{features, logging};

/// The flags of the operator itself.
pub(crate) fn args() -> Vec<Arg> {
    let own = vec![
        flag(
            "features",
            "NAMES",
            "Features to run, separated by commas; default: all",
        )
        .value_delimiter(',')
        .action(ArgAction::Append),
        flag(
            "cluster-id",
            "NAME",
            "This cluster's name to the outside; default: the UID of namespace kube-system",
        ),
        flag("namespace", "NAME", "The operator's own namespace").default_value(namespace()),
        switch("leader-elect", "Let one replica at a time act", "true"),
        flag(
            "lease-namespace",
            "NAME",
            "Where the Lease is; default: the operator's namespace",
        ),
        flag(
            "lease-duration",
            "TIME",
            "After this long without a renewal another replica takes over",
        )
        .default_value("15s"),
        flag(
            "lease-renew-deadline",
            "TIME",
            "After this long without a renewal this replica stops writing",
        )
        .default_value("10s"),
        flag(
            "lease-retry-period",
            "TIME",
            "How often the Lease is renewed or looked at",
        )
        .default_value("2s"),
        flag("max-api-calls", "N", "Kubernetes API calls at once")
            .value_parser(value_parser!(u16).range(1..))
            .default_value("64"),
        flag(
            "concurrency",
            "N",
            "Passes at once per kind; a quarter more for edits and slow ones",
        )
        .value_parser(value_parser!(u16).range(1..))
        .default_value("16"),
        flag(
            "shutdown-deadline",
            "TIME",
            "How long passes may take to end at shutdown",
        )
        .default_value("20s"),
        flag(
            "health-probe-bind-address",
            "ADDRESS",
            "Where /healthz and /readyz are served; 0 for none",
        )
        .default_value(":8081"),
        flag(
            "metrics-bind-address",
            "ADDRESS",
            "Where /metrics is served; 0 for none",
        )
        .default_value("0"),
        switch(
            "metrics-secure",
            "Serve metrics over HTTPS to those the cluster lets read them",
            "true",
        ),
        flag(
            "metrics-cert-path",
            "FOLDER",
            "Folder of the serving certificate; default: a self-signed one",
        ),
        flag("metrics-cert-name", "FILE", "Certificate in that folder").default_value("tls.crt"),
        flag("metrics-cert-key", "FILE", "Key in that folder").default_value("tls.key"),
        flag("log-format", "FORMAT", "json or text")
            .value_parser(["json", "text"])
            .default_value("json"),
        flag(
            "log-level",
            "LEVEL",
            "error, warn, info, debug, trace or a filter",
        )
        .default_value("info"),
    ];
    let of_process = engine::flags::of_process();
    let all = own.into_iter().chain(of_process);
    all.chain(inherited::args()).collect()
}

/// The namespace of this pod, from the variable of predecessors; else the chart's default.
fn namespace() -> String {
    std::env::var("OPERATOR_NAMESPACE").unwrap_or_else(|_| "pontoon-system".to_owned())
}

/// A flag that is true without a value, as in other controllers.
fn switch(name: &'static str, help: &'static str, default: &'static str) -> Arg {
    flag(name, "BOOL", help)
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value(default)
        .value_parser(value_parser!(bool))
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(
    all: Vec<Box<dyn Feature>>,
    args: &ArgMatches,
) -> Result<bool, Box<dyn std::error::Error>> {
    let names: Vec<String> = args
        .get_many("features")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    features::check(&all, &names)?;
    let chosen: Vec<_> = all
        .into_iter()
        .filter(|f| names.is_empty() || names.iter().any(|name| name == f.name()))
        .collect();
    for feature in &chosen {
        feature.check(args)?; // report wrong usage also without a cluster
    }
    let settings = settings(args)?;
    let traces = logging::start(&inherited::log(args)).map_err(Usage)?;
    inherited::warn_ineffective(args);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = kube::Config::infer().await.map_err(|error| {
            Usage(format!("no cluster is configured: {error}; set KUBECONFIG, or run in a pod with a service account"))
        })?;
        let stop = stop_signal()?;
        Engine::new(settings, config).await?.run(&chosen, args, stop).await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1)); // a DNS lookup may block for longer
    traces.finish(); // outside the runtime: a blocking thread sends the last traces
    Ok(true)
}

fn settings(args: &ArgMatches) -> Result<Settings, Usage> {
    let namespace = text(args, "namespace");
    let on = |name: &str| args.get_one::<bool>(name).copied().unwrap_or_default();
    let number = |name: &str| args.get_one::<u16>(name).copied().unwrap_or(1).into();
    let address = |name: &str| {
        parse_address(&text(args, name)).map_err(|why| Usage(format!("--{name}: {why}")))
    };
    let cluster = args
        .get_one::<String>("cluster-id")
        .map(ClusterId::new)
        .transpose();
    Ok(Settings {
        cluster: cluster.map_err(|error| Usage(format!("--cluster-id: {error}")))?,
        lease: if on("leader-elect") {
            Some(lease(args, &namespace)?)
        } else {
            None
        },
        namespace,
        api_calls: number("max-api-calls"),
        concurrency: number("concurrency"),
        drain: time(args, "shutdown-deadline")?,
        probes: address("health-probe-bind-address")?,
        metrics: address("metrics-bind-address")?,
        metrics_certificate: on("metrics-secure").then(|| certificate(args)),
        clock: clock(),
    })
}

fn lease(args: &ArgMatches, namespace: &str) -> Result<LeaseSettings, Usage> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap_or_else(|_| "pontoon".to_owned());
    let lease = LeaseSettings {
        namespace: args
            .get_one::<String>("lease-namespace")
            .cloned()
            .unwrap_or_else(|| namespace.to_owned()),
        name: "pontoon".to_owned(),
        identity: format!("{}_{:08x}", host.trim(), fastrand::u32(..)),
        duration: time(args, "lease-duration")?,
        deadline: time(args, "lease-renew-deadline")?,
        retry: time(args, "lease-retry-period")?,
    };
    if lease.duration.subsec_nanos() != 0 || lease.retry.is_zero() {
        let hint = "--lease-duration takes whole seconds, and --lease-retry-period is more than 0s";
        return Err(Usage(hint.to_owned()));
    }
    if lease.duration <= lease.deadline || lease.deadline <= lease.retry {
        return Err(Usage("--lease-duration must be longer than --lease-renew-deadline, and that longer than --lease-retry-period".into()));
    }
    Ok(lease)
}

fn certificate(args: &ArgMatches) -> Certificate {
    match args.get_one::<String>("metrics-cert-path") {
        None => Certificate::SelfSigned,
        Some(folder) => Certificate::Files {
            certificate: Path::new(folder).join(text(args, "metrics-cert-name")),
            key: Path::new(folder).join(text(args, "metrics-cert-key")),
        },
    }
}

/// Real time; in the chaos build a test may run it N times as fast.
fn clock() -> SharedClock {
    #[cfg(feature = "chaos")]
    if let Some(factor) = std::env::var("PONTOON_TEST_TIME_FACTOR")
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
    {
        return Arc::new(kernel::ScaledClock::new(factor));
    }
    Arc::new(RealClock::new())
}

fn text(args: &ArgMatches, name: &str) -> String {
    args.get_one::<String>(name).cloned().unwrap_or_default()
}

fn time(args: &ArgMatches, name: &str) -> Result<Duration, Usage> {
    let text = text(args, name);
    let parsed = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|time| Duration::try_from(time).ok());
    parsed.ok_or_else(|| {
        Usage(format!(
            "--{name}={text}: write a time with its unit, such as 15s or 2m"
        ))
    })
}

/// Resolves at the first SIGTERM or SIGINT.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
