//! `versions.toml`, read: what each tool is built from.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Tool;

/// What a tool is built from.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) version: String,
    /// The Go module the sources come from.
    pub(super) module: String,
    /// Where our own Go module is, in which it is built.
    pub(super) folder: PathBuf,
    /// The Go package that is the tool.
    pub(super) package: String,
    pub(super) ldflags: String,
    /// Eight hex digits that change with the sources or the way they are built.
    pub(super) fingerprint: String,
}

/// A section of `versions.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    module: String,
    version: String,
    packages: BTreeMap<String, String>,
    #[serde(default)]
    stamp: BTreeMap<String, String>,
}

static SECTIONS: LazyLock<BTreeMap<String, Section>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../tools/versions.toml")).expect("a test reads this file")
});

static PINS: LazyLock<BTreeMap<&'static str, Pin>> = LazyLock::new(|| {
    let of = |tool: Tool| (tool.name(), read(tool));
    Tool::ALL.into_iter().map(of).collect()
});

pub(super) fn pin(tool: Tool) -> &'static Pin {
    &PINS[tool.name()]
}

fn read(tool: Tool) -> Pin {
    let (folder, section, package) = SECTIONS
        .iter()
        .find_map(|(folder, section)| Some((folder, section, section.packages.get(tool.name())?)))
        .expect("every tool has a pin: a test asks for each");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tools")
        .join(folder);
    let ldflags = ldflags(section);
    let fingerprint = fingerprint(&folder, package, &ldflags);
    let Section {
        module, version, ..
    } = section;
    let (version, module) = (version.clone(), module.clone());
    Pin {
        version,
        module,
        folder,
        package: package.clone(),
        ldflags,
        fingerprint,
    }
}

fn ldflags(section: &Section) -> String {
    let mut parts = section.version.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    // Without symbols the binaries are a third smaller, and nobody debugs them here.
    let mut flags = "-s -w".to_owned();
    for (variable, value) in &section.stamp {
        let value = value
            .replace("{version}", &section.version)
            .replace("{major}", major)
            .replace("{minor}", minor);
        flags.extend([" -X ", variable, "=", &value]);
    }
    flags
}

fn fingerprint(folder: &Path, package: &str, ldflags: &str) -> String {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        hash.update(fs::read(folder.join(file)).unwrap_or_default());
    }
    hash.update(package);
    hash.update(ldflags);
    let digest = hash.finalize();
    let head = digest.first_chunk().expect("a SHA-256 has 32 bytes");
    format!("{:08x}", u32::from_be_bytes(*head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_pinned() {
        for tool in Tool::ALL {
            assert!(!pin(tool).package.is_empty(), "{}", tool.name());
        }
    }

    #[test]
    fn pins_are_what_the_go_modules_require() {
        for (
            folder,
            Section {
                module, version, ..
            },
        ) in SECTIONS.iter()
        {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tools")
                .join(folder);
            let text = fs::read_to_string(path.join("go.mod")).unwrap();
            let wanted = format!("{module} v{version}");
            let required = text.lines().any(|line| {
                let line = line.trim().trim_start_matches("require ");
                line.trim_end_matches("// indirect").trim() == wanted
            });
            assert!(required, "tools/{folder}/go.mod does not require {wanted}");
        }
    }

    #[test]
    fn the_fingerprint_follows_the_way_a_tool_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let of = |package, flags| fingerprint(folder.path(), package, flags);
        let first = of("p", "-s");
        assert_eq!(first.len(), 8);
        assert_ne!(first, of("q", "-s"));
        assert_ne!(first, of("p", "-w"));
        fs::write(folder.path().join("go.sum"), "x").unwrap();
        assert_ne!(first, of("p", "-s"));
    }

    #[test]
    fn kubernetes_binaries_are_stamped_with_their_version() {
        let flags = &pin(Tool::KubeApiserver).ldflags;
        let version = Tool::KubeApiserver.version();
        assert!(
            flags.contains(&format!("component-base/version.gitVersion=v{version}")),
            "{flags}"
        );
        assert!(
            flags.contains("component-base/version.gitMajor=1 "),
            "{flags}"
        );
    }
}
