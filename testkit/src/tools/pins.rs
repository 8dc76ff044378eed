//! The contents of `versions.toml`: what each tool is built from.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Tool;
use crate::checkout::checkout;

/// What a tool is built from.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) version: String,
    /// The Go module the sources come from.
    pub(super) module: String,
    /// The folder of our own Go module, in which it is built.
    pub(super) folder: PathBuf,
    /// The Go package of the tool.
    pub(super) package: String,
    pub(super) ldflags: String,
    pub(super) tags: String,
    /// Files of `module` that are replaced: the path there, and our file.
    pub(super) patches: Vec<(PathBuf, PathBuf)>,
    /// Modules that are replaced: the module, and our folder.
    pub(super) stubs: Vec<(String, PathBuf)>,
    /// Eight hex digits that change with the sources or the way they are built.
    pub(super) fingerprint: String,
}

/// A section of `versions.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    /// The folder with the go.mod, if it is not named like the section.
    folder: Option<String>,
    module: String,
    version: String,
    packages: BTreeMap<String, String>,
    #[serde(default)]
    stamp: BTreeMap<String, String>,
    #[serde(default)]
    tags: String,
    #[serde(default)]
    patches: BTreeMap<PathBuf, PathBuf>,
    #[serde(default)]
    stubs: BTreeMap<String, PathBuf>,
}

impl Section {
    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.as_deref().unwrap_or(name);
        checkout().join("testkit/tools").join(folder)
    }
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
    let (name, section, package) = SECTIONS
        .iter()
        .find_map(|(name, section)| Some((name, section, section.packages.get(tool.name())?)))
        .expect("every tool has a pin: a test checks each");
    let folder = section.folder(name);
    let Section {
        folder: _,
        module,
        version,
        packages: _,
        stamp: _,
        tags,
        patches,
        stubs,
    } = section;
    let patches = patches
        .iter()
        .map(|(replaced, file)| (replaced.clone(), folder.join("patches").join(file)));
    let stubs = stubs
        .iter()
        .map(|(module, stub)| (module.clone(), folder.join("stubs").join(stub)));
    let mut pin = Pin {
        version: version.clone(),
        module: module.clone(),
        folder: folder.clone(),
        package: package.clone(),
        ldflags: ldflags(section),
        tags: tags.clone(),
        patches: patches.collect(),
        stubs: stubs.collect(),
        fingerprint: String::new(),
    };
    pin.fingerprint = fingerprint(&pin);
    pin
}

fn ldflags(section: &Section) -> String {
    let mut parts = section.version.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    // Without symbols the binaries are a third smaller; they are not debugged here.
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

fn fingerprint(pin: &Pin) -> String {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        hash.update(fs::read(pin.folder.join(file)).unwrap_or_default());
    }
    hash.update(&pin.package);
    hash.update(&pin.ldflags);
    hash.update(&pin.tags);
    for (replaced, file) in &pin.patches {
        hash.update(replaced.as_os_str().as_encoded_bytes());
        hash.update(fs::read(file).unwrap_or_default());
    }
    for (module, stub) in &pin.stubs {
        hash.update(module);
        for file in files_below(stub) {
            hash.update(fs::read(file).unwrap_or_default());
        }
    }
    let digest = hash.finalize();
    let head = digest.first_chunk().expect("a SHA-256 has 32 bytes");
    format!("{:08x}", u32::from_be_bytes(*head))
}

/// The files in a folder and its folders, in a stable order.
pub(super) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return vec![];
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let below = paths.into_iter().flat_map(|path| {
        if path.is_dir() {
            files_below(&path)
        } else {
            vec![path]
        }
    });
    below.collect()
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
        for (name, section) in SECTIONS.iter() {
            let go_mod = section.folder(name).join("go.mod");
            let text = fs::read_to_string(&go_mod).unwrap();
            let wanted = format!("{} v{}", section.module, section.version);
            let required = text.lines().any(|line| {
                let line = line.trim().trim_start_matches("require ");
                line.trim_end_matches("// indirect").trim() == wanted
            });
            assert!(required, "{} does not require {wanted}", go_mod.display());
        }
    }

    #[test]
    fn the_fingerprint_follows_every_input_of_the_build() {
        let folder = tempfile::tempdir().unwrap();
        let patch = folder.path().join("patch.go");
        let of = |package: &str, ldflags: &str, tags: &str| {
            fingerprint(&Pin {
                version: String::new(),
                module: String::new(),
                folder: folder.path().to_owned(),
                package: package.into(),
                ldflags: ldflags.into(),
                tags: tags.into(),
                patches: vec![("a.go".into(), patch.clone())],
                stubs: vec![("m".into(), folder.path().join("stub"))],
                fingerprint: String::new(),
            })
        };
        let first = of("p", "-s", "");
        assert_eq!(first.len(), 8);
        assert_ne!(first, of("q", "-s", ""));
        assert_ne!(first, of("p", "-w", ""));
        assert_ne!(first, of("p", "-s", "minimal"));
        fs::write(&patch, "package a").unwrap();
        let patched = of("p", "-s", "");
        assert_ne!(first, patched);
        let stub = folder.path().join("stub/below");
        fs::create_dir_all(&stub).unwrap();
        fs::write(stub.join("b.go"), "package b").unwrap();
        let patched = of("p", "-s", "");
        assert_ne!(first, patched);
        fs::write(folder.path().join("go.sum"), "x").unwrap();
        assert_ne!(patched, of("p", "-s", ""));
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
