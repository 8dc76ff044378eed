//! What a policy says, whatever its text looks like.
//!
//! Two texts that say the same have equal [`Policy`] values: comments, layout, order, a leading
//! `/` and the key `comment` do not count; `deny` absorbs all else on its path; the old `policy =`
//! is expanded; parameter names are lower-cased; wrapping times are durations.

mod constant;
mod diff;
mod read;
mod rules;
mod ttl;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use sha2::{Digest, Sha256};

use super::{Refused, hcl, quoted, quoted_list};
pub use constant::Constant;
pub use diff::diff;
pub use rules::expressible;

/// What a path may be granted, by Vault or OpenBao.
pub const CAPABILITIES: [&str; 11] = [
    "create",
    "read",
    "update",
    "delete",
    "list",
    "sudo",
    DENY,
    "patch",
    "subscribe",
    "recover",
    "scan",
];

/// The capability that takes all others away.
pub const DENY: &str = "deny";

/// The canonical form of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The top-level key `name`, which Vault accepts and does not use.
    pub name: Option<String>,
    /// What holds on each path, without a leading `/`.
    ///
    /// Usually one block a path. Blocks with nothing but capabilities are merged, and a `deny`
    /// leaves only itself; other blocks of the same path stay beside one another, sorted.
    pub paths: BTreeMap<String, Vec<PathRules>>,
}

/// What one block grants on its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathRules {
    /// Of [`CAPABILITIES`]; just `deny` if that is among them.
    pub capabilities: BTreeSet<String>,
    /// Parameters and the values they may have; no value means any.
    pub allowed_parameters: Parameters,
    /// Parameters and the values they must not have; no value means any.
    pub denied_parameters: Parameters,
    /// Parameters that must be there.
    pub required_parameters: BTreeSet<String>,
    /// The shortest life of a wrapped answer.
    pub min_wrapping_ttl: Option<Duration>,
    /// The longest one.
    pub max_wrapping_ttl: Option<Duration>,
    /// Events that may be subscribed to.
    pub subscribe_event_types: BTreeSet<String>,
    /// All other keys.
    pub others: BTreeMap<String, Constant>,
}

/// Values by the lower-cased name of a parameter.
pub type Parameters = BTreeMap<String, BTreeSet<Constant>>;

impl PathRules {
    /// Whether the block only takes rights away.
    pub fn is_pure_deny(&self) -> bool {
        self.capabilities.len() == 1 && self.capabilities.contains(DENY)
    }

    fn has_only_capabilities(&self) -> bool {
        let bare = Self {
            capabilities: self.capabilities.clone(),
            ..Self::default()
        };
        *self == bare
    }

    /// One line an attribute, in the policy language.
    fn lines(&self) -> Vec<String> {
        let Self {
            capabilities,
            allowed_parameters,
            denied_parameters,
            required_parameters,
            min_wrapping_ttl,
            max_wrapping_ttl,
            subscribe_event_types,
            others,
        } = self;
        let mut lines = vec![format!("capabilities = {}", quoted_list(capabilities))];
        let parameters = [
            ("allowed_parameters", allowed_parameters),
            ("denied_parameters", denied_parameters),
        ];
        for (key, parameters) in parameters {
            if !parameters.is_empty() {
                lines.push(format!("{key} = {}", constant::parameters(parameters)));
            }
        }
        if !required_parameters.is_empty() {
            let names = quoted_list(required_parameters);
            lines.push(format!("required_parameters = {names}"));
        }
        let times = [
            ("min_wrapping_ttl", min_wrapping_ttl),
            ("max_wrapping_ttl", max_wrapping_ttl),
        ];
        for (key, time) in times {
            if let Some(time) = time {
                lines.push(format!("{key} = {}", quoted(&seconds(*time))));
            }
        }
        if !subscribe_event_types.is_empty() {
            let types = quoted_list(subscribe_event_types);
            lines.push(format!("subscribe_event_types = {types}"));
        }
        lines.extend(
            others
                .iter()
                .map(|(key, value)| format!("{} = {value}", quoted(key))),
        );
        lines
    }
}

impl Policy {
    /// Reads a policy, HCL or JSON.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        read::policy(&hcl::parse(text)?)
    }

    /// Every block with its path, `deny` included.
    pub fn blocks(&self) -> impl Iterator<Item = (&str, &PathRules)> {
        self.paths
            .iter()
            .flat_map(|(path, blocks)| blocks.iter().map(move |block| (path.as_str(), block)))
    }

    /// Keys of path blocks that Vault 1.21 does not know and would refuse.
    pub fn unknown_keys(&self) -> BTreeSet<&str> {
        self.blocks()
            .flat_map(|(_, block)| block.others.keys())
            .map(String::as_str)
            .filter(|key| !["mfa_methods", "control_group"].contains(key))
            .collect()
    }

    /// The SHA-256 of the canonical text, in hexadecimal: equal for equal policies only.
    pub fn canonical_hash(&self) -> String {
        format!("{:x}", Sha256::digest(self.to_string()))
    }
}

/// The canonical text: HCL that reads back as the same policy.
///
/// # When not to use it
/// For a text to write to Vault from rules: [`super::text`] prints those.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            writeln!(f, "name = {}", quoted(name))?;
        }
        for (path, block) in self.blocks() {
            // One leading slash is dropped in reading; what still has one was written with two.
            let slash = if path.starts_with('/') { "/" } else { "" };
            writeln!(f, "path {} {{", quoted(&format!("{slash}{path}")))?;
            for line in block.lines() {
                writeln!(f, "  {line}")?;
            }
            writeln!(f, "}}")?;
        }
        Ok(())
    }
}

/// `90s`; a part of a second as a fraction.
pub(super) fn seconds(time: Duration) -> String {
    let fraction = format!("{:09}", time.subsec_nanos());
    match fraction.trim_end_matches('0') {
        "" => format!("{}s", time.as_secs()),
        fraction => format!("{}.{fraction}s", time.as_secs()),
    }
}

#[cfg(test)]
mod tests;
