//! The programs that the tests need: found, or built from source at their pinned version.
//!
//! No binary is downloaded: Go compiles each tool from a module of ours
//! (`testkit/tools/<module>/go.mod`), whose `go.sum` pins the sources.

mod build;
mod pins;

use std::{ffi::OsString, path::PathBuf, str::FromStr};

pub use build::{build, ensure};
use pins::{Pin, pin};

/// A program that the tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// The store of the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Garbage collection, namespaces, workloads.
    KubeControllerManager,
    /// Schedules pods.
    KubeScheduler,
    /// For scripts and manual work.
    Kubectl,
    /// Simulates nodes and their kubelets.
    Kwok,
    /// Renders and installs the chart.
    Helm,
    /// Checks manifests against schemas.
    Kubeconform,
    /// The Vault server.
    Vault,
}

impl Tool {
    /// All tools, in the order in which tests need them.
    pub const ALL: [Self; 9] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubeconform,
        Self::Helm,
        Self::Kwok,
        Self::Vault,
    ];

    /// The name of its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::Helm => "helm",
            Self::Kubeconform => "kubeconform",
            Self::Vault => "vault",
        }
    }

    /// The version it is pinned to, without a leading `v`.
    pub fn version(self) -> &'static str {
        &pin(self).version
    }

    /// The Go module its sources come from.
    pub fn module(self) -> &'static str {
        &pin(self).module
    }

    /// Whether both are built from one go.mod, so that they share compiled packages.
    pub fn shares_packages(self, other: Self) -> bool {
        pin(self).folder == pin(other).folder
    }

    /// Its path in the cache once it is built. The folder's name changes with the pin.
    pub fn cached(self) -> PathBuf {
        let Pin {
            version,
            fingerprint,
            ..
        } = pin(self);
        let folder = format!("{}-{version}-{fingerprint}", self.name());
        cache().join("tools").join(folder).join(self.name())
    }
}

impl FromStr for Tool {
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {
        let found = Self::ALL.into_iter().find(|tool| tool.name() == name);
        found.ok_or_else(|| UnknownTool {
            name: name.to_owned(),
        })
    }
}

/// A name that is not the name of a tool.
#[derive(Debug, thiserror::Error)]
#[error("there is no tool {name}; the tools are {}", Tool::ALL.map(Tool::name).join(", "))]
pub struct UnknownTool {
    /// The requested name.
    pub name: String,
}

/// A tool that is not built yet.
#[derive(Debug, thiserror::Error)]
#[error("{} {} is not built yet; run: cargo xtask tools {}", .tool.name(), .tool.version(), .tool.name())]
pub struct Missing {
    /// The tool.
    pub tool: Tool,
}

/// The path of `tool`: in the folder that `KUBEBUILDER_ASSETS` names, else in the cache.
pub fn find(tool: Tool) -> Result<PathBuf, Missing> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS");
    find_in(assets, tool).ok_or(Missing { tool })
}

fn find_in(assets: Option<OsString>, tool: Tool) -> Option<PathBuf> {
    let given = assets.map(|folder| PathBuf::from(folder).join(tool.name()));
    given
        .into_iter()
        .chain([tool.cached()])
        .find(|path| path.is_file())
}

/// The cache folder: `$PONTOON_CACHE`, `$XDG_CACHE_HOME/pontoon` or `$HOME/.cache/pontoon`.
pub fn cache() -> PathBuf {
    cache_from(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn cache_from(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(own) = variable("PONTOON_CACHE") {
        return own.into();
    }
    let base = variable("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(variable("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache"),
        PathBuf::from,
    );
    base.join("pontoon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_says_how_to_build_it() {
        let text = Missing { tool: Tool::Kwok }.to_string();
        assert_eq!(
            text,
            "kwok 0.8.0 is not built yet; run: cargo xtask tools kwok"
        );
    }

    #[test]
    fn an_unknown_tool_lists_the_known_ones() {
        let text = "kubelet".parse::<Tool>().unwrap_err().to_string();
        assert!(
            text.contains("no tool kubelet") && text.contains("kube-apiserver"),
            "{text}"
        );
    }

    #[test]
    fn given_assets_win_over_the_cache() {
        let assets = tempfile::tempdir().unwrap();
        let given = assets.path().join("etcd");
        std::fs::write(&given, "").unwrap();
        assert_eq!(find_in(Some(assets.path().into()), Tool::Etcd), Some(given));
    }

    #[test]
    fn the_cache_follows_the_environment() {
        let from = |set: &[(&str, &str)]| {
            cache_from(|name| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, v)| v.into())
            })
        };
        let all = [
            ("PONTOON_CACHE", "/a"),
            ("XDG_CACHE_HOME", "/b"),
            ("HOME", "/c"),
        ];
        assert_eq!(from(&all), PathBuf::from("/a"));
        assert_eq!(from(&all[1..]), PathBuf::from("/b/pontoon"));
        assert_eq!(from(&all[2..]), PathBuf::from("/c/.cache/pontoon"));
    }
}
