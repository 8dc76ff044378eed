//! Checks of the source itself, besides the tests.

mod arrows;
mod cases;
mod licences;
mod sizes;
mod traces;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Instant;

use crate::cargo::{self, Metadata, OperatorBuild};
use crate::generate::{self, Set};
use crate::operator::Operator;
use crate::progress::Progress;
use crate::test;
use crate::test::times::{Budget, Times};
use crate::verdict::{Error, Verdict, While};

/// The result of one check.
#[derive(Debug)]
pub(crate) struct CheckResult {
    pub(crate) name: &'static str,
    pub(crate) seconds: f64,
    /// What is wrong; empty if the check holds.
    pub(crate) wrong: Vec<String>,
}

type Check = fn(&Source) -> Result<Vec<String>, Error>;

/// The checks that need only the files, quickest first.
const CHECKS: [(&str, Check); 6] = [
    ("format", format),
    ("arrows", |source| {
        Ok(arrows::forbidden(&arrows::arrows(
            &source.metadata.packages,
            cargo::root(),
        )))
    }),
    ("licences", licences),
    ("cases", |source| Ok(cases(source))),
    ("traces", |source| Ok(traces(source))),
    ("vocabulary", vocabulary),
];

/// The source files and the metadata.
struct Source {
    metadata: Metadata,
    /// The text files under version control, and new ones.
    files: Vec<(String, String)>,
}

impl Source {
    fn read() -> Result<Self, Error> {
        let mut git = Command::new("git");
        git.args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(cargo::root());
        let output = git
            .output()
            .doing("running git ls-files; is git installed?")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::new(format!(
                "git ls-files failed, so the files are not known: {why}"
            )));
        }
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = names.split('\0').filter(|name| !name.is_empty());
        // A file whose deletion is not committed yet is listed but cannot be read.
        let files = names.filter_map(|name| {
            let text = std::fs::read_to_string(cargo::root().join(name)).ok()?;
            Some((name.to_owned(), text))
        });
        Ok(Self {
            files: files.collect(),
            metadata: cargo::metadata()?,
        })
    }

    fn named(&self, end: &str) -> impl Iterator<Item = &(String, String)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
    }
}

/// Runs all checks, with the warnings and the operator of a build of all tests.
pub(crate) fn check_all(
    warnings: &[String],
    operator: &Operator,
    progress: &Progress,
) -> Result<Vec<CheckResult>, Error> {
    let source = Source::read()?;
    let mut results = Vec::new();
    for (name, check) in CHECKS {
        let step = format!("check: {name}");
        results.push(timed(name, || progress.aside(&step, || check(&source)))?);
    }
    results.push(timed("clippy", || Ok(warnings.to_vec()))?);
    results.push(timed("generated", || generated(operator))?);
    for line in long_files(&source) {
        progress.note(&format!("for information: {line}"));
    }
    Ok(results)
}

fn timed(
    name: &'static str,
    check: impl FnOnce() -> Result<Vec<String>, Error>,
) -> Result<CheckResult, Error> {
    let start = Instant::now();
    let wrong = check()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(CheckResult {
        name,
        seconds,
        wrong,
    })
}

/// Runs all checks and prints what is wrong.
pub(crate) fn check() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let built = test::built(&progress)?;
    let operator = Operator::at(cargo::kept(OperatorBuild::Chaos, &built.artifacts)?);
    let mut results = check_all(&built.warnings, &operator, &progress)?;
    // Not a part of `cargo xtask test`: timings do not decide whether a change is accepted.
    results.push(timed("budget", budget)?);
    drop(progress);
    for each in &results {
        println!(
            "{:<10} {}",
            each.name,
            if each.wrong.is_empty() {
                "holds"
            } else {
                "does not hold"
            }
        );
        each.wrong.iter().for_each(|line| println!("  {line}"));
    }
    Ok(Verdict::of(
        results.iter().all(|each| each.wrong.is_empty()),
    ))
}

/// The executables that took too long in the last whole run, if there was one.
fn budget() -> Result<Vec<String>, Error> {
    Ok(Times::last()?.over(&Budget::read(cargo::root())?))
}

fn format(_: &Source) -> Result<Vec<String>, Error> {
    let output = cargo::cargo()
        .args(["fmt", "--all", "--", "--check", "-l"])
        .output()
        .doing("running cargo fmt")?;
    if output.status.success() {
        return Ok(vec![]);
    }
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = files
        .lines()
        .map(|file| file.strip_prefix(&prefix()).unwrap_or(file).to_owned());
    let mut wrong: Vec<String> = files
        .map(|file| format!("{file} is not formatted; run: cargo fmt --all"))
        .collect();
    if wrong.is_empty() {
        wrong.push(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(wrong)
}

fn prefix() -> String {
    format!("{}/", cargo::root().display())
}

fn licences(source: &Source) -> Result<Vec<String>, Error> {
    let deny =
        std::fs::read_to_string(cargo::root().join("deny.toml")).doing("reading deny.toml")?;
    Ok(licences::refused(
        &source.metadata.packages,
        &licences::allowed(&deny)?,
    ))
}

/// The source files of each package, with paths relative to its folder.
fn sources(source: &Source) -> impl Iterator<Item = (String, &str, &str)> {
    let packages = cargo::package_names(&source.metadata).into_iter();
    packages.flat_map(|(folder, package)| {
        let folder = folder.strip_prefix(cargo::root()).ok();
        let folder = folder.map(|folder| format!("{}/", folder.display()));
        source.named(".rs").filter_map(move |(path, text)| {
            let file = path.strip_prefix(folder.as_ref()?)?;
            let is_source = file.starts_with("src/") || file.starts_with("tests/");
            is_source.then(|| (package.clone(), file, text.as_str()))
        })
    })
}

fn vocabulary(source: &Source) -> Result<Vec<String>, Error> {
    let vocabulary = vocabulary::Vocabulary::read(cargo::root())?;
    let mut packages = BTreeMap::<String, vocabulary::Names>::new();
    for (package, file, text) in sources(source) {
        packages.entry(package).or_default().add(file, text);
    }
    let wrong = packages.iter();
    Ok(wrong
        .flat_map(|(package, names)| vocabulary.wrong(package, names))
        .collect())
}

fn cases(source: &Source) -> Vec<String> {
    let existing: BTreeSet<_> = sources(source)
        .flat_map(|(package, file, text)| cases::tests(&package, file, text))
        .collect();
    let lists = source.named("CASES.md");
    lists
        .flat_map(|(path, text)| cases::missing(path, text, &existing))
        .collect()
}

fn traces(source: &Source) -> Vec<String> {
    let home = std::env::var("HOME").ok();
    let root = cargo::root().display().to_string();
    let traces = traces::Traces::new(home.into_iter().chain([root]));
    let files = source.files.iter();
    files
        .flat_map(|(path, text)| traces.found(path, text))
        .collect()
}

fn generated(operator: &Operator) -> Result<Vec<String>, Error> {
    let mut wrong = Vec::new();
    for set in Set::ALL {
        wrong.extend(generate::stale(
            set,
            &set.expected(operator)?,
            &set.on_disk(cargo::root())?,
        ));
    }
    Ok(wrong)
}

fn long_files(source: &Source) -> Vec<String> {
    let lengths: Vec<_> = source
        .named(".rs")
        .map(|(path, text)| (path.clone(), text.lines().count()))
        .collect();
    sizes::long(&lengths, sizes::LIMIT)
}
