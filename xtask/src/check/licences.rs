//! Whether every dependency may be used under a licence that `deny.toml` allows.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cargo::Package;
use crate::verdict::{Error, While};

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

/// The allowed licences in the text of `deny.toml`.
pub(crate) fn allowed(deny: &str) -> Result<BTreeSet<String>, Error> {
    let deny: Deny = toml::from_str(deny).doing("reading deny.toml")?;
    Ok(deny.licenses.allow)
}

/// The packages that may not be used, and what to do about each.
pub(crate) fn refused(packages: &[Package], allowed: &BTreeSet<String>) -> Vec<String> {
    let theirs = packages.iter().filter(|package| package.source.is_some());
    theirs
        .filter_map(|package| refusal(package, allowed))
        .collect()
}

fn refusal(package: &Package, allowed: &BTreeSet<String>) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.license else {
        return Some(format!(
            "{name} {version} declares no licence; use another crate"
        ));
    };
    match Parser::new(expression).satisfied_by(allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "{name} {version} is under {expression}, which deny.toml does not allow; \
             use another crate, or allow the licence there if its terms permit"
        )),
        Err(why) => Some(format!(
            "{name} {version}: licence {expression:?} cannot be read: {why}"
        )),
    }
}

/// Parses an SPDX expression: AND binds tighter than OR, `/` is an old OR, WITH belongs to its licence.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(expression: &'a str) -> Self {
        Self {
            tokens: tokens(expression),
            at: 0,
        }
    }

    fn satisfied_by(mut self, allowed: &BTreeSet<String>) -> Result<bool, String> {
        let answer = self.either(allowed)?;
        match self.peek() {
            None => Ok(answer),
            Some(token) => Err(format!("`{token}` is one too many")),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, expected: &[&str]) -> bool {
        let found = self.peek().is_some_and(|token| expected.contains(&token));
        self.at += usize::from(found);
        found
    }

    fn either(&mut self, allowed: &BTreeSet<String>) -> Result<bool, String> {
        let mut answer = self.both(allowed)?;
        while self.take(&["OR", "/"]) {
            answer |= self.both(allowed)?;
        }
        Ok(answer)
    }

    fn both(&mut self, allowed: &BTreeSet<String>) -> Result<bool, String> {
        let mut answer = self.one(allowed)?;
        while self.take(&["AND"]) {
            answer &= self.one(allowed)?;
        }
        Ok(answer)
    }

    fn one(&mut self, allowed: &BTreeSet<String>) -> Result<bool, String> {
        if self.take(&["("]) {
            let answer = self.either(allowed)?;
            return if self.take(&[")"]) {
                Ok(answer)
            } else {
                Err("a `)` is missing".into())
            };
        }
        let mut licence = self.licence_name()?.to_owned();
        if self.take(&["WITH"]) {
            licence = format!("{licence} WITH {}", self.licence_name()?);
        }
        Ok(allowed.contains(&licence))
    }

    fn licence_name(&mut self) -> Result<&'a str, String> {
        let token = self.peek().ok_or("it ends where a licence should be")?;
        if ["AND", "OR", "WITH", "/", "(", ")"].contains(&token) {
            return Err(format!("`{token}` is where a licence should be"));
        }
        self.at += 1;
        Ok(token)
    }
}

fn tokens(expression: &str) -> Vec<&str> {
    let marks = ['(', ')', '/'];
    let words = expression.split_whitespace();
    words
        .flat_map(|part| part.split_inclusive(marks))
        .flat_map(|piece| match piece.char_indices().last() {
            Some((last, mark)) if marks.contains(&mark) => vec![&piece[..last], &piece[last..]],
            _ => vec![piece],
        })
        .filter(|token| !token.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Parser, allowed, refused};
    use crate::cargo::Package;

    fn may(expression: &str) -> Result<bool, String> {
        let allowed = [
            "MIT",
            "Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "Unicode-3.0",
        ];
        let allowed: BTreeSet<String> = allowed.map(str::to_owned).into();
        Parser::new(expression).satisfied_by(&allowed)
    }

    #[test]
    fn one_allowed_side_of_an_or_is_enough() {
        assert_eq!(may("GPL-3.0 OR MIT"), Ok(true));
        assert_eq!(may("MIT/GPL-3.0"), Ok(true));
        assert_eq!(may("GPL-3.0"), Ok(false));
    }

    #[test]
    fn both_sides_of_an_and_are_needed() {
        assert_eq!(may("(MIT OR Apache-2.0) AND Unicode-3.0"), Ok(true));
        assert_eq!(may("MIT AND GPL-3.0"), Ok(false));
        assert_eq!(may("MIT OR GPL-3.0 AND GPL-2.0"), Ok(true));
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert_eq!(may("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(may("MIT WITH LLVM-exception"), Ok(false));
    }

    #[test]
    fn a_broken_expression_is_an_error() {
        assert!(may("MIT OR").is_err());
        assert!(may("(MIT").is_err());
        assert!(may("MIT Apache-2.0").is_err());
    }

    #[test]
    fn a_refused_crate_is_named_with_its_licence() {
        let package = |name: &str, license: &str, source: Option<&str>| Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: Some(license.into()),
            source: source.map(str::to_owned),
            manifest_path: "/c/Cargo.toml".into(),
            dependencies: vec![],
        };
        let packages = [
            package("good", "MIT", Some("registry")),
            package("bad", "AGPL-3.0", Some("registry")),
            package("ours", "AGPL-3.0", None),
        ];
        let wrong = refused(
            &packages,
            &allowed("[licenses]\nallow = [\"MIT\"]").unwrap(),
        );
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].starts_with("bad 1.0.0 is under AGPL-3.0"),
            "{}",
            wrong[0]
        );
    }
}
