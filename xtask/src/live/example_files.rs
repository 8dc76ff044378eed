//! The files in `examples/`, and the texts that stand for settings of the world.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use testkit::manifests;

use super::surroundings::deep;
use crate::verdict::{Error, While};

/// The example files below `folder`, one folder per feature, in the order of application.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for feature in sorted(folder)?.into_iter().filter(|path| path.is_dir()) {
            let yaml = sorted(&feature)?.into_iter();
            files.extend(yaml.filter(|path| path.extension().is_some_and(|end| end == "yaml")));
        }
    }
    Ok(files)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).doing(format_args!("listing {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(
            entry
                .doing(format_args!("listing {}", folder.display()))?
                .path(),
        );
    }
    paths.sort();
    Ok(paths)
}

/// The API groups of the CRDs in `crds`: an example of such a group must become Ready.
pub(crate) fn groups(crds: &str) -> Result<BTreeSet<String>, Error> {
    let crds = manifests::parse(crds).map_err(deep)?;
    Ok(crds
        .iter()
        .filter_map(|crd| Some(crd.data["spec"]["group"].as_str()?.to_owned()))
        .collect())
}

/// The text of a file. `${VAULT_ADDR}` and similar texts are replaced by the world's settings.
pub(crate) fn text(file: &Path, settings: &[(&str, String)]) -> Result<String, Error> {
    let yaml = std::fs::read_to_string(file).doing(format_args!("reading {}", file.display()))?;
    filled(&yaml, settings).doing(file.display())
}

/// `yaml` with each `${NAME}` replaced by the world's setting of that name.
fn filled(yaml: &str, settings: &[(&str, String)]) -> Result<String, Error> {
    let mut parts = yaml.split("${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let Some((_, value)) = settings.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = settings.iter().map(|(known, _)| *known).collect();
            return Err(Error::new(format!(
                "${{{name}}} stands for nothing; the world has {}",
                known.join(", ")
            )));
        };
        text.push_str(value);
        text.push_str(rest);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{files, filled, groups};

    #[test]
    fn settings_are_filled_in_and_unknown_names_are_reported() {
        let settings = [("VAULT_ADDR", "http://127.0.0.1:1".to_owned())];
        let text = filled("a: ${VAULT_ADDR}/x\nb: $c", &settings).unwrap();
        assert_eq!(text, "a: http://127.0.0.1:1/x\nb: $c");
        let error = filled("a: ${NOTHING}", &settings).unwrap_err();
        assert!(error.to_string().contains("VAULT_ADDR"), "{error}");
    }

    #[test]
    fn examples_are_sorted_by_feature_and_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            files(&folder.path().join("none")).unwrap(),
            Vec::<std::path::PathBuf>::new()
        );
        for name in [
            "vault/2.yaml",
            "vault/1.yaml",
            "ack/1.yaml",
            "ack/README.md",
            "loose.yaml",
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = files(folder.path()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(folder.path()).unwrap())
            .collect();
        assert_eq!(
            found,
            ["ack/1.yaml", "vault/1.yaml", "vault/2.yaml"].map(std::path::Path::new)
        );
    }

    #[test]
    fn our_groups_are_those_of_our_crds() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: a.io}\n";
        assert_eq!(
            groups(crd).unwrap().into_iter().collect::<Vec<_>>(),
            ["a.io"]
        );
        assert!(groups("").unwrap().is_empty());
    }
}
