//! `cargo xtask sim`: runs the cores of a feature on many more schedules than a test run does.

use clap::Args;

use crate::cargo;
use crate::verdict::{Error, Verdict, While};

/// Tests with this in their name run schedules; they read the two variables.
const TESTS: &str = "every_law_holds";
const SEEDS: &str = "PONTOON_SIM_SEEDS";
const SEED: &str = "PONTOON_SIM_SEED";

/// Packages with simulated kinds.
const PACKAGES: &[&str] = &[EXAMPLE, "probe", "tenants", "vault"];
/// The example kind of the simulator's own tests, which are not in its library.
const EXAMPLE: &str = "simulator";

/// Which schedules.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// A feature, or all
    feature: String,
    /// How many schedules a kind
    #[arg(long, default_value_t = 100_000, conflicts_with = "seed")]
    seeds: u64,
    /// One schedule, as a failure has named it
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the schedules.
pub(crate) fn sim(chosen: &Sim) -> Result<Verdict, Error> {
    let packages = packages(&chosen.feature)?;
    let mut command = cargo::cargo();
    // Optimised, so that a million schedules take minutes instead of hours.
    command.args(["test", "--profile", "sim"]);
    for package in &packages {
        command.args(["--package", package]);
    }
    command.arg("--lib");
    if packages.contains(&EXAMPLE) {
        command.args(["--test", "unit"]);
    }
    command.arg(TESTS);
    match chosen.seed {
        Some(seed) => command.env(SEED, seed.to_string()),
        None => command.env(SEEDS, chosen.seeds.to_string()),
    };
    let status = command.status().doing("running the schedules")?;
    Ok(Verdict::of(status.success()))
}

fn packages(feature: &str) -> Result<Vec<&'static str>, Error> {
    if feature == "all" {
        return Ok(PACKAGES.to_vec());
    }
    let named = PACKAGES.iter().find(|package| **package == feature);
    let named = named.ok_or_else(|| {
        let list = PACKAGES.join(", ");
        Error::new(format!(
            "{feature} has no simulated kind; name one of: all, {list}"
        ))
    })?;
    Ok(vec![*named])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_without_simulated_kinds_is_answered_with_the_list() {
        let error = packages("nope").unwrap_err().to_string();
        assert!(error.contains("name one of: all, simulator, "), "{error}");
        assert_eq!(packages("all").ok(), Some(PACKAGES.to_vec()));
    }
}
