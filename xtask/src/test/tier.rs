//! The tier of a test, by its target's name.

use std::fmt;

/// More than there are cores, because stories mostly wait for servers.
const STORIES_AT_ONCE: usize = 4;

/// A tier, in the order in which they run: the fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// The checks of `cargo xtask check`.
    Check,
    /// Pure code, without servers.
    Unit,
    /// A client against the real Vault, API server or emulator.
    Contract,
    /// The engine and a feature against a real API server.
    Integration,
    /// The operator as a separate program, with crashes and broken connections.
    Chaos,
    /// The chart and `cargo xtask up --once`.
    Start,
}

impl Tier {
    pub(crate) const ALL: [Self; 6] = [
        Self::Check,
        Self::Unit,
        Self::Contract,
        Self::Integration,
        Self::Chaos,
        Self::Start,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Unit => "unit",
            Self::Contract => "contract",
            Self::Integration => "integration",
            Self::Chaos => "chaos",
            Self::Start => "start",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }

    /// Whether its executables run concurrently with those of other such tiers: stories mostly wait
    /// for servers. Unit tests use all cores, and the tools of the tier start are built while the
    /// pool runs.
    pub(crate) fn is_pooled(self) -> bool {
        match self {
            Self::Check | Self::Unit | Self::Start => false,
            Self::Contract | Self::Integration | Self::Chaos => true,
        }
    }

    /// How many tests of an executable run at once; `None` is one per core.
    pub(crate) fn threads(self) -> Option<usize> {
        self.is_pooled().then_some(STORIES_AT_ONCE)
    }

    /// The tier of a test target: tests under `src/` are unit tests, those under `tests/` name it.
    pub(crate) fn of_target(kind: &str, name: &str) -> Result<Self, String> {
        if kind != "test" {
            return Ok(Self::Unit);
        }
        Self::named(name)
            .filter(|tier| *tier != Self::Check)
            .ok_or_else(|| {
                format!(
                    "tests/{name} belongs to no tier: make it a module of tests/<tier>/main.rs, \
                 where <tier> is one of unit, contract, integration, chaos, start"
                )
            })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The choice of the first argument of `cargo xtask test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    All,
    One(Tier),
}

impl Chosen {
    /// Reads the argument; the error names the valid ones.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        Tier::named(text).map(Self::One).ok_or_else(|| {
            let names: Vec<_> = Tier::ALL.iter().map(|tier| tier.name()).collect();
            format!(
                "no tier has this name; the tiers are {}, and `cargo xtask test all {text}` \
                 runs what is named so in any tier",
                names.join(", ")
            )
        })
    }

    pub(crate) fn has(self, tier: Tier) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == tier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Chosen, Tier};

    #[test]
    fn a_file_under_tests_belongs_to_the_tier_in_its_name() {
        assert_eq!(Tier::of_target("test", "chaos"), Ok(Tier::Chaos));
        assert_eq!(Tier::of_target("test", "contract"), Ok(Tier::Contract));
        assert_eq!(Tier::of_target("lib", "kernel"), Ok(Tier::Unit));
        assert_eq!(Tier::of_target("bin", "chaos_maker"), Ok(Tier::Unit));
    }

    #[test]
    fn a_target_of_no_tier_is_refused() {
        let error = Tier::of_target("test", "watching").unwrap_err();
        assert!(
            error.contains("tests/watching belongs to no tier"),
            "{error}"
        );
        assert!(Tier::of_target("test", "check_all").is_err());
        assert!(Tier::of_target("test", "united").is_err());
    }

    #[test]
    fn an_unknown_tier_is_answered_with_the_tiers() {
        let error = Chosen::parse("backoff").unwrap_err();
        assert!(
            error.contains("check, unit, contract, integration, chaos, start"),
            "{error}"
        );
        assert!(error.contains("cargo xtask test all backoff"), "{error}");
        assert_eq!(Chosen::parse("start"), Ok(Chosen::One(Tier::Start)));
    }
}
