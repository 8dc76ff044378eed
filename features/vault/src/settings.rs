//! What the feature is told at start: flags, and the environment its predecessor was given.
//!
//! A flag counts before `PONTOON_…`, that before the predecessor's variable, that before the default.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use engine::flags::{self, duration, flag, text};
use engine::{LegacyLease, Usage};

use crate::connection::ServiceAccountRef;
use crate::controllers::{self, Controllers};

const CLUSTER_NAME: &str = "cluster-name";
const CLUSTER_NAME_BEFORE: &str = "CLUSTER_NAME";
const WATCH_NAMESPACES: &str = "watch-namespaces";
const DELETION_DEADLINE: &str = "vault-deletion-deadline";
const LEGACY_LEASE: &str = "vault-legacy-lease";

/// The longest name of a namespace.
const LONGEST_NAMESPACE: usize = 63;

/// A flag whose value could be given to the predecessor, too.
struct Inherited {
    flag: &'static str,
    /// The predecessor's variable.
    before: &'static str,
    default: &'static str,
    value: &'static str,
    help: &'static str,
}

const RESYNC: Inherited = Inherited {
    flag: "vault-resync",
    before: "OPERATOR_REQUEUE_SUCCESS_INTERVAL",
    default: "5m",
    value: "TIME",
    help: "How often a quiet object is compared with Vault, give or take a tenth",
};
const ERROR_INTERVAL: Inherited = Inherited {
    flag: "vault-error-interval",
    before: "OPERATOR_REQUEUE_ERROR_INTERVAL",
    default: "30s",
    value: "TIME",
    help: "Wait after a first failure; it doubles with each further one, up to 5m",
};
const MIN_SCAN_INTERVAL: Inherited = Inherited {
    flag: "vault-min-scan-interval",
    before: "OPERATOR_MIN_SCAN_INTERVAL",
    default: "5m",
    value: "TIME",
    help: "Discovery scans are at least this far apart, whatever a connection says",
};
const CLEANUP_RETRY: Inherited = Inherited {
    flag: "vault-cleanup-retry",
    before: "OPERATOR_CLEANUP_RETRY_INTERVAL",
    default: "5m",
    value: "TIME",
    help: "Wait before a leftover in Vault is tried again; it doubles, up to 1h",
};
const SERVICE_ACCOUNT: Inherited = Inherited {
    flag: "vault-service-account",
    before: "OPERATOR_SERVICE_ACCOUNT",
    default: "pontoon",
    value: "NAME",
    help: "The operator's own service account, whose tokens log in to Vault",
};

/// What the feature was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// What this cluster is called in Vault; none: the login mount stands for it.
    pub(crate) cluster_name: Option<String>,
    /// Objects of these namespaces alone are reconciled, sorted; empty for all.
    pub(crate) watch_namespaces: Vec<String>,
    /// How often a quiet object is compared with Vault.
    pub(crate) resync: Duration,
    /// The first back-off.
    pub(crate) error_interval: Duration,
    /// The least time between two scans of a connection.
    pub(crate) min_scan_interval: Duration,
    /// The first wait between two tries to delete a leftover.
    pub(crate) cleanup_retry: Duration,
    /// When a deletion becomes a record of a leftover.
    pub(crate) deletion_deadline: Deadline,
    /// Whose tokens log in.
    pub(crate) service_account: ServiceAccountRef,
    /// The region of AWS calls that have one; none: as the SDK finds it.
    pub(crate) aws_region: Option<String>,
    /// The Lease of the predecessor, held too; none to run without.
    pub(crate) legacy_lease: Option<LegacyLease>,
    /// The controllers that run.
    pub(crate) controllers: Controllers,
}

/// How long an object waits for Vault to delete what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// This long after it was asked to go; then a record stands for it.
    After(Duration),
    /// As long as it takes.
    Never,
}

/// The flags.
pub(crate) fn args() -> Vec<Arg> {
    args_beside(|name| std::env::var(name).ok())
}

/// The flags beside what `before` says of the predecessor's variables. An empty one is none.
fn args_beside(before: impl Fn(&str) -> Option<String>) -> Vec<Arg> {
    let before = |name: &str| before(name).filter(|value| !value.is_empty());
    let inherited = |one: &Inherited| {
        let value = before(one.before).unwrap_or_else(|| one.default.to_owned());
        let help = format!("{}; also {}", one.help, one.before);
        flag(one.flag, one.value, help).default_value(value)
    };
    let cluster_name = flag(
        CLUSTER_NAME,
        "NAME",
        format!(
            "This cluster's name in names and markers in Vault; default: the login mount; also {CLUSTER_NAME_BEFORE}"
        ),
    );
    vec![
        match before(CLUSTER_NAME_BEFORE) {
            Some(name) => cluster_name.default_value(name),
            None => cluster_name,
        },
        flag(
            WATCH_NAMESPACES,
            "NAMES",
            "Reconcile objects of the vault feature in these namespaces alone, separated by commas; default: all",
        )
        .value_delimiter(',')
        .action(ArgAction::Append),
        inherited(&RESYNC),
        inherited(&ERROR_INTERVAL),
        inherited(&MIN_SCAN_INTERVAL),
        inherited(&CLEANUP_RETRY),
        flag(
            DELETION_DEADLINE,
            "TIME|0|never",
            "How long a deleted object waits for Vault before a record stands for it",
        )
        .default_value("1m"),
        inherited(&SERVICE_ACCOUNT),
        flag(
            LEGACY_LEASE,
            "[NAMESPACE/]NAME|none",
            "Lease of vault-access-operator, held too, so that both never write together",
        )
        .default_value("2bf9394e.platform.io"),
        flag(
            controllers::FLAG,
            "NAMES",
            "Controllers of the vault feature that run, separated by commas; connection always does",
        )
        .default_value(controllers::DEFAULT),
    ]
}

/// What `args` say; beside those of [`args`] they hold the process's `--namespace` and its other flags.
pub(crate) fn read(args: &ArgMatches) -> Result<Settings, Usage> {
    Ok(Settings {
        cluster_name: cluster_name(args)?,
        watch_namespaces: watch_namespaces(args)?,
        resync: time(args, &RESYNC)?,
        error_interval: time(args, &ERROR_INTERVAL)?,
        min_scan_interval: time(args, &MIN_SCAN_INTERVAL)?,
        cleanup_retry: time(args, &CLEANUP_RETRY)?,
        deletion_deadline: deadline(args)?,
        service_account: ServiceAccountRef {
            name: text(args, SERVICE_ACCOUNT.flag).to_owned(),
            namespace: text(args, "namespace").to_owned(),
        },
        aws_region: flags::given_aws_region(args).map(str::to_owned),
        legacy_lease: flags::legacy_lease(args, LEGACY_LEASE)?,
        controllers: controllers(args)?,
    })
}

/// The controllers that `args` choose.
pub(crate) fn controllers(args: &ArgMatches) -> Result<Controllers, Usage> {
    Controllers::parse(text(args, controllers::FLAG))
}

impl Settings {
    /// Whether objects there are ours to reconcile; what is in no namespace always is.
    pub(crate) fn watches(&self, namespace: Option<&str>) -> bool {
        let Some(namespace) = namespace else {
            return true;
        };
        let watched = &self.watch_namespaces;
        watched.is_empty() || watched.iter().any(|name| name == namespace)
    }
}

fn cluster_name(args: &ArgMatches) -> Result<Option<String>, Usage> {
    let name = text(args, CLUSTER_NAME);
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        let source = source(args, CLUSTER_NAME, CLUSTER_NAME_BEFORE);
        return Err(Usage(format!(
            "{source}={name}: write letters, digits and hyphens alone, such as prod-eu"
        )));
    }
    Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
}

fn watch_namespaces(args: &ArgMatches) -> Result<Vec<String>, Usage> {
    let given = args.get_many::<String>(WATCH_NAMESPACES);
    let names = given.into_iter().flatten().map(|name| name.trim());
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    if let Some(wrong) = names.iter().find(|name| !is_namespace(name)) {
        return Err(Usage(format!(
            "--{WATCH_NAMESPACES}: {wrong:?} cannot be a namespace; write names separated by commas, such as team-a,team-b"
        )));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn is_namespace(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= LONGEST_NAMESPACE
        && name.chars().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn deadline(args: &ArgMatches) -> Result<Deadline, Usage> {
    match text(args, DELETION_DEADLINE) {
        "never" => Ok(Deadline::Never),
        "0" => Ok(Deadline::After(Duration::ZERO)),
        text => duration(text).map(Deadline::After).ok_or_else(|| {
            Usage(format!(
                "--{DELETION_DEADLINE}={text}: write a time with its unit, such as 1m, or 0, or never"
            ))
        }),
    }
}

fn time(args: &ArgMatches, one: &Inherited) -> Result<Duration, Usage> {
    let source = source(args, one.flag, one.before);
    flags::time(args, one.flag, &source, one.default)
}

/// Whom to correct. Defaults of ours are fit, so an unfit one was the predecessor's variable.
fn source(args: &ArgMatches, flag: &str, before: &str) -> String {
    match args.value_source(flag) {
        Some(ValueSource::DefaultValue) => before.to_owned(),
        _ => format!("--{flag}"),
    }
}

#[cfg(test)]
mod tests;
