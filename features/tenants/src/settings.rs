//! What the feature is told at start.

use std::time::Duration;

use api::tenants::{DriftPolicy, names};
use clap::{Arg, ArgMatches};
use engine::flags::{self, flag, text};
use engine::{LegacyLease, Usage};

const DRIFT: &str = "drift-policy";
const SWEEP: &str = "tenants-sweep-interval";
const POLICY: &str = "tenants-policy";
const LEGACY_LEASE: &str = "tenants-legacy-lease";

/// What the feature was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The region of calls that have one; none: as the SDK finds it.
    pub(crate) region: Option<String>,
    /// What is done about drift where the object does not say.
    pub(crate) drift: DriftPolicy,
    /// Passes at once.
    pub(crate) workers: usize,
    /// How often every tenant of a distribution is looked at.
    pub(crate) sweep: Duration,
    /// Whether an object is allowed what it names while there is no TenantPolicy.
    pub(crate) open: bool,
    /// The Lease of the predecessor, held too; none to run without.
    pub(crate) legacy_lease: Option<LegacyLease>,
}

/// The flags.
pub(crate) fn args() -> Vec<Arg> {
    vec![
        flag(
            DRIFT,
            "POLICY",
            "What is done about tenants that others changed in AWS, where an object does not say: enforce, report or suspend",
        )
        .default_value(DriftPolicy::Enforce.as_str()),
        flag(
            SWEEP,
            "TIME",
            "How often all tenants of a distribution are compared with AWS, give or take a tenth",
        )
        .default_value("5m"),
        flag(
            POLICY,
            "open|required",
            "While there is no TenantPolicy: allow all that objects name, or nothing",
        )
        .default_value("open"),
        flag(
            LEGACY_LEASE,
            "[NAMESPACE/]NAME|none",
            "Lease of cloudfront-tenant-operator, held too, so that both never write together",
        )
        .default_value(names::LEGACY_LEASE),
    ]
}

/// What `args` say, the flags of the process included.
pub(crate) fn read(args: &ArgMatches) -> Result<Settings, Usage> {
    Ok(Settings {
        region: flags::given_aws_region(args).map(str::to_owned),
        drift: drift(text(args, DRIFT))?,
        workers: flags::workers(args)?,
        sweep: flags::time(args, SWEEP, &format!("--{SWEEP}"), "5m")?,
        open: open(text(args, POLICY))?,
        legacy_lease: flags::legacy_lease(args, LEGACY_LEASE)?,
    })
}

fn drift(word: &str) -> Result<DriftPolicy, Usage> {
    let all = [
        DriftPolicy::Enforce,
        DriftPolicy::Report,
        DriftPolicy::Suspend,
    ];
    all.into_iter()
        .find(|policy| policy.as_str() == word)
        .ok_or_else(|| {
            Usage(format!(
                "--{DRIFT}={word}: write enforce, report or suspend"
            ))
        })
}

fn open(word: &str) -> Result<bool, Usage> {
    match word {
        "open" => Ok(true),
        "required" => Ok(false),
        _ => Err(Usage(format!("--{POLICY}={word}: write open or required"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use rstest::rstest;

    use super::*;

    fn told(given: &[&str]) -> Result<Settings, String> {
        let matches = Command::new("run")
            .no_binary_name(true)
            .args(args())
            .args(flags::of_process())
            .try_get_matches_from(given)
            .unwrap();
        read(&matches).map_err(|Usage(why)| why)
    }

    #[test]
    fn unsaid_it_is_as_the_predecessors_users_expect() {
        let settings = told(&[]).unwrap();
        assert_eq!(
            settings,
            Settings {
                region: None,
                drift: DriftPolicy::Enforce,
                workers: 8,
                sweep: Duration::from_secs(300),
                open: true,
                legacy_lease: Some("dd008127.cloudfront-tenant-operator.io".parse().unwrap()),
            }
        );
    }

    #[rstest]
    #[case::drift("--drift-policy=ignore", "write enforce, report or suspend")]
    #[case::workers("--max-concurrent-reconciles=0", "write a number above 0")]
    #[case::sweep("--tenants-sweep-interval=0s", "such as 5m")]
    #[case::policy("--tenants-policy=closed", "write open or required")]
    #[case::lease("--tenants-legacy-lease=a/b/c", "names no Lease")]
    fn a_wrong_value_is_refused_with_a_right_one(#[case] given: &str, #[case] said: &str) {
        let why = told(&[given]).unwrap_err();
        assert!(why.contains(said), "{why}");
    }

    #[test]
    fn what_is_said_counts() {
        let given = [
            "--aws-region=eu-west-1",
            "--drift-policy=report",
            "--tenants-policy=required",
            "--tenants-legacy-lease=none",
        ];
        let settings = told(&given).unwrap();
        assert_eq!(settings.region.as_deref(), Some("eu-west-1"));
        assert_eq!(settings.drift, DriftPolicy::Report);
        assert!(!settings.open);
        assert_eq!(settings.legacy_lease, None);
    }
}
