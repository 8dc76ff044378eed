//! Generated files: written by a command, committed, and never edited by hand.

mod fields;
mod reference;
mod roles;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::cargo::{self, OperatorBuild};
use crate::operator::Operator;
use crate::progress::Progress;
use crate::verdict::{Error, Verdict, While};

/// Files by their path from the workspace's folder.
pub(crate) type Files = BTreeMap<String, String>;

/// The folder of the chart's generated files, with one folder per feature.
const GENERATED: &str = "charts/pontoon/generated";
const VALUES: &str = "charts/pontoon/values.yaml";
const VALUES_SCHEMA: &str = "charts/pontoon/values.schema.json";
const REFERENCE: &str = "docs/reference";

/// Placeholders that we pass to the operator as names, and their values in the chart.
const RELEASE: [(&str, &str); 2] = [
    ("release-namespace", "{{ .Release.Namespace | quote }}"),
    (
        "release-service-account",
        "{{ include \"pontoon.serviceAccountName\" . | quote }}",
    ),
];

/// A set of generated files, and the command that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// `charts/pontoon/generated/<feature>/crds.yaml`.
    Crds,
    /// `charts/pontoon/generated/{engine,<feature>}/rbac.yaml`, templates; and the schema of the values.
    Chart,
    /// `docs/reference/*.md`.
    Docs,
}

impl Set {
    pub(crate) const ALL: [Self; 3] = [Self::Crds, Self::Chart, Self::Docs];

    fn command(self) -> &'static str {
        match self {
            Self::Crds => "cargo xtask crds",
            Self::Chart => "cargo xtask chart",
            Self::Docs => "cargo xtask docs",
        }
    }

    fn owns(self, path: &str) -> bool {
        let generated = path.strip_prefix(GENERATED);
        match self {
            Self::Crds => generated.is_some_and(|path| path.ends_with("/crds.yaml")),
            Self::Chart => {
                path == VALUES_SCHEMA || generated.is_some_and(|path| path.ends_with("/rbac.yaml"))
            }
            Self::Docs => path
                .strip_prefix(REFERENCE)
                .is_some_and(|path| path.starts_with('/')),
        }
    }

    /// The expected files, from the operator's output.
    pub(crate) fn expected(self, operator: &Operator) -> Result<Files, Error> {
        match self {
            Self::Crds => crds(operator),
            Self::Chart => chart(operator),
            Self::Docs => reference::pages(operator),
        }
    }

    /// The current files.
    pub(crate) fn on_disk(self, root: &Path) -> Result<Files, Error> {
        let mut files = Files::new();
        for start in [GENERATED, REFERENCE, VALUES_SCHEMA] {
            read_below(root, start, &mut files)?;
        }
        files.retain(|path, _| self.owns(path));
        Ok(files)
    }
}

fn crds(operator: &Operator) -> Result<Files, Error> {
    let mut files = Files::new();
    for feature in operator.features()? {
        let crds = operator.print(&["crds", "--feature", &feature])?;
        files.insert(
            format!("{GENERATED}/{feature}/crds.yaml"),
            marked(Set::Crds, &crds),
        );
    }
    Ok(files)
}

fn chart(operator: &Operator) -> Result<Files, Error> {
    let mut files = Files::new();
    let [(namespace, _), (account, _)] = RELEASE;
    let base = [
        "rbac",
        "--namespace",
        namespace,
        "--service-account",
        account,
        "--chart-lists",
    ];
    let values = std::fs::read_to_string(cargo::root().join(VALUES));
    let values = values.doing(format_args!("reading {VALUES}"))?;
    let mut add = |part: &str, documents: &[&str]| -> Result<(), Error> {
        let text = roles::template(part, documents, &values).doing("pontoon rbac")?;
        let text = marked(Set::Chart, &templated(&text));
        files.insert(format!("{GENERATED}/{part}/rbac.yaml"), text);
        Ok(())
    };
    // Every output contains the engine's objects; the chart needs them only once.
    let all = operator.print(&base)?;
    add("engine", &of_engine(&all, true)?)?;
    for feature in operator.features()? {
        let rbac = operator.print(&[&base[..], &["--feature", &feature]].concat())?;
        add(&feature, &of_engine(&rbac, false)?)?;
    }
    let schema = values::schema(&values).doing(VALUES)?;
    files.insert(VALUES_SCHEMA.to_owned(), schema);
    Ok(files)
}

/// The documents in `rbac` that belong to the engine, or the others.
fn of_engine(rbac: &str, wanted: bool) -> Result<Vec<&str>, Error> {
    let mut chosen = Vec::new();
    for document in documents(rbac) {
        let object: Value = serde_saphyr::from_str(document).doing("reading pontoon rbac")?;
        if (object["metadata"]["name"] == "pontoon-engine") == wanted {
            chosen.push(document);
        }
    }
    Ok(chosen)
}

/// The documents of a YAML stream, without the separators.
fn documents(yaml: &str) -> Vec<&str> {
    let yaml = yaml.strip_prefix("---\n").unwrap_or(yaml);
    let documents = yaml.split("\n---\n").map(str::trim_end);
    documents.filter(|document| !document.is_empty()).collect()
}

fn templated(rbac: &str) -> String {
    RELEASE
        .iter()
        .fold(rbac.to_owned(), |text, (stand_in, template)| {
            text.replace(stand_in, template)
        })
}

fn marked(set: Set, text: &str) -> String {
    format!("# Generated by `{}`.\n{}\n", set.command(), text.trim_end())
}

fn read_below(root: &Path, start: &str, files: &mut Files) -> Result<(), Error> {
    let path = root.join(start);
    if path.is_file() {
        let text = std::fs::read_to_string(&path).doing(format_args!("reading {start}"))?;
        files.insert(start.to_owned(), text);
        return Ok(());
    }
    let Ok(entries) = std::fs::read_dir(&path) else {
        return Ok(());
    };
    for entry in entries {
        let name = entry.doing(format_args!("listing {start}"))?.file_name();
        read_below(root, &format!("{start}/{}", name.to_string_lossy()), files)?;
    }
    Ok(())
}

/// How `actual` differs from `expected`: each file with the command that updates it.
pub(crate) fn stale(set: Set, expected: &Files, actual: &Files) -> Vec<String> {
    let repair = format!("run: {}", set.command());
    let wrong = expected
        .iter()
        .filter_map(|(path, text)| match actual.get(path) {
            None => Some(format!("{path} is missing; {repair}")),
            Some(found) if found != text => {
                Some(format!("{path} is not what would be generated; {repair}"))
            }
            Some(_) => None,
        });
    let left = actual.keys().filter(|path| !expected.contains_key(*path));
    let left = left.map(|path| format!("{path} belongs to no feature any more; {repair}"));
    wrong.chain(left).collect()
}

/// Writes the set and prints the changed files.
pub(crate) fn write(set: Set) -> Result<Verdict, Error> {
    let progress = Progress::new();
    let operator =
        Operator::at(progress.aside("building pontoon", || cargo::operator(OperatorBuild::Chaos))?);
    let root = cargo::root();
    let (expected, actual) = (set.expected(&operator)?, set.on_disk(root)?);
    drop(progress);
    for (path, text) in expected
        .iter()
        .filter(|(path, text)| actual.get(*path) != Some(text))
    {
        let file = root.join(path);
        let folder = file.parent().expect("a generated file is in a folder");
        std::fs::create_dir_all(folder).doing(format_args!("making {}", folder.display()))?;
        std::fs::write(&file, text).doing(format_args!("writing {path}"))?;
        println!("wrote {path}");
    }
    for path in actual.keys().filter(|path| !expected.contains_key(*path)) {
        std::fs::remove_file(root.join(path)).doing(format_args!("removing {path}"))?;
        println!("removed {path}");
    }
    eprintln!("{} files are current", expected.len());
    Ok(Verdict::Holds)
}

#[cfg(test)]
mod tests {
    use super::{Files, Set, of_engine, stale, templated};

    fn files(of: &[(&str, &str)]) -> Files {
        of.iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    const VAULT: &str = "charts/pontoon/generated/vault/crds.yaml";

    #[test]
    fn a_file_edited_by_hand_is_named_with_the_command_that_repairs_it() {
        let wrong = stale(Set::Crds, &files(&[(VAULT, "a")]), &files(&[(VAULT, "b")]));
        let expected = format!("{VAULT} is not what would be generated; run: cargo xtask crds");
        assert_eq!(wrong, vec![expected]);
    }

    #[test]
    fn missing_files_and_leftover_files_are_named() {
        let wrong = stale(
            Set::Docs,
            &files(&[("docs/reference/a.md", "")]),
            &files(&[("docs/reference/b.md", "")]),
        );
        assert_eq!(wrong.len(), 2);
        assert!(
            wrong
                .iter()
                .all(|line| line.ends_with("run: cargo xtask docs")),
            "{wrong:?}"
        );
    }

    #[test]
    fn current_files_are_not_reported() {
        assert_eq!(
            stale(Set::Crds, &files(&[(VAULT, "a")]), &files(&[(VAULT, "a")])),
            Vec::<String>::new()
        );
        assert_eq!(
            stale(Set::Crds, &Files::new(), &Files::new()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_file_has_one_set() {
        let paths = [
            VAULT,
            "charts/pontoon/generated/vault/rbac.yaml",
            "charts/pontoon/values.schema.json",
            "docs/reference/cli.md",
        ];
        for path in paths {
            assert_eq!(
                Set::ALL.iter().filter(|set| set.owns(path)).count(),
                1,
                "{path}"
            );
        }
        assert!(!Set::ALL.iter().any(|set| set.owns("docs/engine.md")));
    }

    #[test]
    fn rbac_has_the_names_of_the_release() {
        let text = templated("namespace: release-namespace\nname: release-service-account\n");
        assert!(
            text.contains("namespace: {{ .Release.Namespace | quote }}\n"),
            "{text}"
        );
        assert!(
            text.contains("{{ include \"pontoon.serviceAccountName\" . | quote }}"),
            "{text}"
        );
    }

    #[test]
    fn the_engines_rbac_is_separated_from_that_of_features() {
        let rbac =
            "---\nmetadata:\n  name: pontoon-engine\n---\nmetadata:\n  name: pontoon-vault\n";
        assert_eq!(
            of_engine(rbac, true).unwrap(),
            ["metadata:\n  name: pontoon-engine"]
        );
        assert_eq!(
            of_engine(rbac, false).unwrap(),
            ["metadata:\n  name: pontoon-vault"]
        );
        assert!(of_engine("", true).unwrap().is_empty());
    }

    #[test]
    fn files_on_disk_are_read_below_their_folders() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("charts/pontoon/generated/vault");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("crds.yaml"), "x").unwrap();
        std::fs::write(folder.join("rbac.yaml"), "y").unwrap();
        assert_eq!(
            Set::Crds.on_disk(root.path()).unwrap(),
            files(&[(VAULT, "x")])
        );
    }
}
