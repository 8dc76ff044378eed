//! How long each executable took in the last whole run, and its budget.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cargo;
use crate::verdict::{Error, While};

/// Seconds by executable, `package::target`.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times(pub(crate) BTreeMap<String, f64>);

const FILE: &str = "xtask/times.json";
const BUDGET: &str = "xtask/budget.toml";

impl Times {
    /// The times of the last whole run in this target folder; none on a new machine.
    pub(crate) fn last() -> Result<Self, Error> {
        let file = cargo::metadata()?.target_directory.join(FILE);
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // They only decide the order of tests: an unreadable file counts as none.
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Saves them for the next run.
    pub(crate) fn save(&self) -> Result<(), Error> {
        let file = cargo::metadata()?.target_directory.join(FILE);
        let folder = file.parent().expect("the file is in a folder");
        std::fs::create_dir_all(folder).doing(format_args!("making {}", folder.display()))?;
        let text = serde_json::to_string_pretty(self).doing("writing times")?;
        std::fs::write(&file, text).doing(format_args!("writing {}", file.display()))
    }

    /// The executables that take longer than their budget.
    pub(crate) fn over(&self, budget: &Budget) -> Vec<String> {
        let over = self.0.iter().filter_map(|(name, seconds)| {
            let most = budget.of(name)?;
            (*seconds > most).then(|| {
                format!(
                    "{name} took {seconds:.0} s and may take {most:.0} s ({BUDGET}): \
                     move what needs no cluster to unit tests, or let time run faster in its stories"
                )
            })
        });
        over.collect()
    }
}

/// The budgets of executables: seconds by tier, and by executable if it differs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budget {
    tier: BTreeMap<String, f64>,
    #[serde(default)]
    executable: BTreeMap<String, f64>,
}

impl Budget {
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(root.join(BUDGET)).doing(format_args!("reading {BUDGET}"))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        toml::from_str(text).doing(format_args!("reading {BUDGET}"))
    }

    /// The budget of the executable `package::target`.
    pub(crate) fn of(&self, name: &str) -> Option<f64> {
        let tier = name.rsplit("::").next().unwrap_or(name);
        let seconds = self.executable.get(name).or_else(|| self.tier.get(tier));
        seconds.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Times};

    fn budget() -> Budget {
        let text = "[tier]\nintegration = 150\nchaos = 60\n[executable]\n\"big::chaos\" = 90\n";
        Budget::parse(text).unwrap()
    }

    #[test]
    fn an_executable_over_budget_is_named_with_both_times() {
        let times = [("a::integration", 151.0), ("b::integration", 150.0)];
        let times = Times(times.map(|(name, time)| (name.to_owned(), time)).into());
        let over = times.over(&budget());
        assert_eq!(over.len(), 1);
        assert!(
            over[0].starts_with("a::integration took 151 s and may take 150 s"),
            "{over:?}"
        );
    }

    #[test]
    fn an_executable_may_have_its_own_budget() {
        let times = Times([("big::chaos".to_owned(), 80.0)].into());
        assert!(times.over(&budget()).is_empty());
    }

    #[test]
    fn a_tier_without_a_budget_has_no_limit() {
        let times = Times([("a::lib".to_owned(), 1e9)].into());
        assert!(times.over(&budget()).is_empty());
    }

    #[test]
    fn the_budget_of_this_repository_can_be_read() {
        Budget::read(crate::cargo::root()).unwrap();
    }
}
