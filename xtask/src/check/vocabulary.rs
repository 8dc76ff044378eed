//! Names that are too vague, and type names with too many meanings. `xtask/vocabulary.toml` has the
//! number that is left of each, by package; the numbers may only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::verdict::{Error, While};

const FILE: &str = "xtask/vocabulary.toml";
/// A package may have this many types of one name; more make a search for the name useless.
const MEANINGS: usize = 2;

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vocabulary {
    /// No file, module, type, function or constant may have such a name.
    words: BTreeSet<String>,
    /// Type names that each kind has, with one meaning.
    pipeline: BTreeSet<String>,
    /// How many names are still such words, by package.
    #[serde(default)]
    names: BTreeMap<String, usize>,
    /// How many type names still have too many meanings, by package.
    #[serde(default)]
    types: BTreeMap<String, usize>,
}

/// The names that a package defines, each with its location.
#[derive(Debug, Default)]
pub(crate) struct Names {
    all: Vec<(String, String)>,
    types: BTreeMap<String, Vec<String>>,
}

impl Names {
    /// Adds the definitions of a source file.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        let stem = Path::new(path).file_stem();
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        self.all
            .extend(stem.map(|stem| (stem, "the file".to_owned())));
        for (at, line) in text.lines().enumerate() {
            let Some((keyword, name)) = defined(line) else {
                continue;
            };
            let location = format!("{path}:{}", at + 1);
            if matches!(keyword, "struct" | "enum" | "trait") {
                let locations = self.types.entry(name.to_owned()).or_default();
                locations.push(location.clone());
            }
            self.all.push((name.to_owned(), location));
        }
    }
}

/// The keyword and the name of a definition in the line, if there is one.
fn defined(line: &str) -> Option<(&str, &str)> {
    const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "mod", "const", "static"];
    if line.trim_start().starts_with("//") {
        return None;
    }
    let mut tokens = line.split_whitespace().peekable();
    while let Some(token) = tokens.next() {
        if KEYWORDS.contains(&token) && tokens.peek().is_none_or(|next| *next != "fn") {
            let rest = tokens.next()?;
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            return (!name.is_empty()).then_some((token, name));
        }
    }
    None
}

impl Vocabulary {
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(root.join(FILE)).doing(format_args!("reading {FILE}"))?;
        toml::from_str(&text).doing(format_args!("reading {FILE}"))
    }

    /// What is wrong with the names of a package.
    pub(crate) fn wrong(&self, package: &str, names: &Names) -> Vec<String> {
        let is_word = |name: &str| self.words.contains(&name.to_lowercase());
        let words = names.all.iter().filter(|(name, _)| is_word(name));
        let words = words.map(|(name, location)| format!("{name} ({location})"));
        let repeated = names.types.iter().filter(|(name, locations)| {
            locations.len() > MEANINGS && !self.pipeline.contains(*name)
        });
        let repeated =
            repeated.map(|(name, locations)| format!("{name} ({})", locations.join(", ")));
        let words = compared(
            package,
            "names that are too vague",
            &words.collect::<Vec<_>>(),
            self.names.get(package).copied(),
        );
        let types = compared(
            package,
            "types of one name with more than two meanings",
            &repeated.collect::<Vec<_>>(),
            self.types.get(package).copied(),
        );
        words.into_iter().chain(types).collect()
    }
}

fn compared(package: &str, what: &str, found: &[String], left: Option<usize>) -> Option<String> {
    let (count, left) = (found.len(), left.unwrap_or(0));
    match count.cmp(&left) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(format!(
            "{package}: {what}: {count} instead of {left}; lower the number in {FILE}"
        )),
        std::cmp::Ordering::Greater => Some(format!(
            "{package}: {what}: {count} instead of {left}; choose other names: {}",
            found.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Vocabulary, defined};

    fn vocabulary(rest: &str) -> Vocabulary {
        let text = format!("words = [\"told\", \"place\"]\npipeline = [\"Step\"]\n{rest}");
        toml::from_str(&text).unwrap()
    }

    fn names(files: &[(&str, &str)]) -> Names {
        let mut names = Names::default();
        for (path, text) in files {
            names.add(path, text);
        }
        names
    }

    #[test]
    fn definitions_are_found_after_any_modifiers() {
        assert_eq!(
            defined("    pub(crate) fn path(&self) {"),
            Some(("fn", "path"))
        );
        assert_eq!(defined("pub const fn total<T>() {"), Some(("fn", "total")));
        assert_eq!(defined("struct Total;"), Some(("struct", "Total")));
        assert_eq!(defined("// fn total() is gone"), None);
        assert_eq!(defined("let total = 1;"), None);
    }

    #[test]
    fn a_new_word_is_refused_with_its_location() {
        let names = names(&[("src/a.rs", "fn told() {}\n"), ("src/place.rs", "")]);
        let wrong = vocabulary("").wrong("p", &names);
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].contains("2 instead of 0"), "{wrong:?}");
        assert!(wrong[0].contains("told (src/a.rs:1)"), "{wrong:?}");
        assert!(wrong[0].contains("place (the file)"), "{wrong:?}");
    }

    #[test]
    fn the_numbers_only_shrink() {
        let names = names(&[("src/a.rs", "fn told() {}\n")]);
        assert!(vocabulary("[names]\np = 1\n").wrong("p", &names).is_empty());
        let wrong = vocabulary("[names]\np = 2\n").wrong("p", &names);
        assert!(wrong[0].contains("lower the number"), "{wrong:?}");
    }

    #[test]
    fn a_type_name_has_at_most_two_meanings() {
        let names = names(&[
            ("a.rs", "struct Look;\nstruct Step;"),
            ("b.rs", "enum Look {}\nstruct Step;"),
            ("c.rs", "trait Look {}\nstruct Step;"),
        ]);
        let wrong = vocabulary("").wrong("p", &names);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].contains("Look (a.rs:1, b.rs:1, c.rs:1)"),
            "{wrong:?}"
        );
    }
}
