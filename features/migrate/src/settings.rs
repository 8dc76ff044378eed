//! The settings of the feature, from flags.

use api::migrate::names;
use clap::{Arg, ArgMatches};
use engine::flags::{self, flag, text};
use engine::{LegacyLease, Usage};

const CONCURRENCY: &str = "migrate-concurrency";
const LEGACY_LEASE: &str = "migrate-legacy-lease";

/// The settings of the feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The region of calls to EC2; none: as the SDK finds it.
    pub(crate) region: Option<String>,
    /// Passes at once.
    pub(crate) concurrency: usize,
    /// The Lease of aqua-service-controller; none to run without.
    pub(crate) legacy_lease: Option<LegacyLease>,
}

/// The flags.
pub(crate) fn args() -> Vec<Arg> {
    let lease = format!("{}/{}", names::LEGACY_LEASE_NAMESPACE, names::LEGACY_LEASE);
    vec![
        flag(
            CONCURRENCY,
            "N",
            "Passes at once over migrations; a migration that waits needs none",
        )
        .default_value("16"),
        flag(
            LEGACY_LEASE,
            "[NAMESPACE/]NAME|none",
            "Lease of aqua-service-controller, also acquired, so that both never write at the same time",
        )
        .default_value(lease),
    ]
}

/// The values of `args`, the flags of the process included.
///
/// # Errors
/// Names the flag, and what to write instead.
pub(crate) fn read(args: &ArgMatches) -> Result<Settings, Usage> {
    Ok(Settings {
        region: flags::given_aws_region(args).map(str::to_owned),
        concurrency: concurrency(text(args, CONCURRENCY))?,
        legacy_lease: flags::legacy_lease(args, LEGACY_LEASE)?,
    })
}

fn concurrency(given: &str) -> Result<usize, Usage> {
    let number = given.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Usage(format!("--{CONCURRENCY}={given}: write a number above 0")))
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use rstest::rstest;

    use super::*;

    fn settings(given: &[&str]) -> Result<Settings, String> {
        let matches = Command::new("run")
            .no_binary_name(true)
            .args(args())
            .args(flags::of_process())
            .try_get_matches_from(given)
            .unwrap();
        read(&matches).map_err(|Usage(message)| message)
    }

    #[test]
    fn defaults_are_those_of_the_predecessor() {
        let lease = "aqua-system/aqua-service-controller.aqua.io";
        let expected = Settings {
            region: None,
            concurrency: 16,
            legacy_lease: Some(lease.parse().unwrap()),
        };
        assert_eq!(settings(&[]), Ok(expected));
    }

    #[rstest]
    #[case::no_passes("--migrate-concurrency=0", "write a number above 0")]
    #[case::not_a_number("--migrate-concurrency=many", "write a number above 0")]
    #[case::lease("--migrate-legacy-lease=a/b/c", "names no Lease")]
    fn an_invalid_value_is_refused(#[case] given: &str, #[case] expected: &str) {
        let message = settings(&[given]).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }

    #[test]
    fn flags_set_values() {
        let given = [
            "--aws-region=eu-west-1",
            "--migrate-concurrency=3",
            "--migrate-legacy-lease=none",
        ];
        let expected = Settings {
            region: Some("eu-west-1".to_owned()),
            concurrency: 3,
            legacy_lease: None,
        };
        assert_eq!(settings(&given), Ok(expected));
    }
}
