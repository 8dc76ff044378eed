//! The answer of a verb: its output on stdout in the format of `-o`, and its exit code.

use std::io::{ErrorKind, Write};

use clap::{ArgMatches, ValueEnum};
use comfy_table::{Table, presets};
use kernel::ObjectKey;
use serde_json::{Value, json};

use super::{Failure, flags};

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people.
    Table,
    /// One JSON document.
    Json,
    /// YAML documents.
    Yaml,
    /// One name per line, for pipes.
    Name,
}

/// What a verb answers.
#[derive(Debug)]
pub struct Answer {
    /// The headings of the cells of each finding.
    pub columns: &'static [&'static str],
    /// What was found, in the order of the output.
    pub findings: Vec<Finding>,
    /// Whether the question of the verb holds, such as "all are Ready".
    pub outcome: Outcome,
    /// The findings are manifests. Without `-o` they are printed as YAML.
    pub is_manifests: bool,
    /// A last sentence on stderr.
    pub remark: Option<String>,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its name, for `-o name`.
    pub name: String,
    /// One text per column, for `-o table`.
    pub cells: Vec<String>,
    /// All of it, for `-o json` and `-o yaml`.
    pub full: Value,
}

impl Finding {
    /// A finding about an object. Its kind, namespace and name are added to `full`.
    pub fn about(kind: &str, key: &ObjectKey, cells: Vec<String>, mut full: Value) -> Self {
        full["kind"] = json!(kind);
        full["namespace"] = json!(key.namespace.as_deref());
        full["name"] = json!(&*key.name);
        Self {
            name: format!("{kind}/{key}"),
            cells,
            full,
        }
    }
}

/// Whether the question of a verb holds. A later variant outweighs an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It does.
    Holds,
    /// It was not decided within the time limit that the user has set.
    InProgress,
    /// It is not decided before a person acts; the findings say what to do.
    Suspended,
    /// It does not; the findings say why.
    DoesNot,
    /// It could not be determined for each object; the findings say why.
    Unknown,
}

impl Outcome {
    /// `Holds` or `DoesNot`.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::DoesNot }
    }

    /// The outcome of all together: `Unknown` if one is, otherwise `Holds` if each holds.
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().max().unwrap_or(Self::Holds)
    }

    /// The exit code. An error of a verb is 2, as `Unknown` is.
    pub fn code(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::DoesNot => 1,
            Self::Unknown => 2,
            Self::InProgress => 3,
            Self::Suspended => 4,
        }
    }
}

impl Answer {
    /// Findings that are printed as a table by default.
    pub fn table(
        columns: &'static [&'static str],
        findings: Vec<Finding>,
        outcome: Outcome,
    ) -> Self {
        Self {
            columns,
            findings,
            outcome,
            is_manifests: false,
            remark: None,
        }
    }

    /// Manifests, printed as YAML by default.
    pub fn manifests(columns: &'static [&'static str], findings: Vec<Finding>) -> Self {
        Self {
            is_manifests: true,
            ..Self::table(columns, findings, Outcome::Holds)
        }
    }

    /// The same answer with this remark, or without one.
    #[must_use]
    pub fn with_remark(self, remark: impl Into<Option<String>>) -> Self {
        Self {
            remark: remark.into(),
            ..self
        }
    }

    /// Prints the findings in the format of `-o`, and the remark on stderr.
    ///
    /// # Errors
    /// stdout cannot be written. A closed pipe, as after `head`, is no error.
    pub fn print(&self, args: &ArgMatches) -> Result<(), Failure> {
        let default = if self.is_manifests {
            Format::Yaml
        } else {
            Format::Table
        };
        let format = flags::format(args).unwrap_or(default);
        print_text(&text(self.columns, &self.findings, format)?)?;
        if let Some(remark) = &self.remark {
            eprintln!("{remark}");
        }
        Ok(())
    }
}

/// Writes `text` to stdout. Returns false if the reader has closed the pipe.
pub(super) fn print_text(text: &str) -> Result<bool, Failure> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Ok(true);
    }
    let mut out = std::io::stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("the result cannot be printed: {error}").into()),
    }
}

fn text(columns: &[&str], findings: &[Finding], format: Format) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(table(columns, findings)),
        Format::Json => {
            let all: Vec<_> = findings.iter().map(|one| &one.full).collect();
            Ok(serde_json::to_string_pretty(&all)?)
        }
        Format::Yaml => findings.iter().map(|one| yaml(&one.full)).collect(),
        Format::Name => Ok(findings.iter().map(|one| one.name.clone() + "\n").collect()),
    }
}

fn table(columns: &[&str], findings: &[Finding]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(columns.iter().map(|column| column.to_uppercase()));
    for finding in findings {
        table.add_row(finding.cells.clone());
    }
    table.trim_fmt()
}

/// One YAML document, after a separator line.
pub(super) fn yaml(value: &Value) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(value)
        .map_err(|error| format!("the result cannot be printed: {error}"))?;
    Ok(format!("---\n{}\n", text.trim_end()))
}

/// A number with its noun: `1 object`, `2 objects`.
pub fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_was_found(&[], Outcome::Holds, 0)]
    #[case::all_hold(&[Outcome::Holds, Outcome::Holds], Outcome::Holds, 0)]
    #[case::one_does_not(&[Outcome::Holds, Outcome::DoesNot], Outcome::DoesNot, 1)]
    #[case::one_is_unknown(&[Outcome::Unknown, Outcome::DoesNot], Outcome::Unknown, 2)]
    #[case::one_is_in_progress(&[Outcome::InProgress, Outcome::Holds], Outcome::InProgress, 3)]
    #[case::one_is_suspended(&[Outcome::Suspended, Outcome::InProgress], Outcome::Suspended, 4)]
    #[case::one_is_suspended_and_one_is_not(&[Outcome::Suspended, Outcome::DoesNot], Outcome::DoesNot, 1)]
    fn the_worst_outcome_is_the_exit_code(
        #[case] all: &[Outcome],
        #[case] together: Outcome,
        #[case] code: u8,
    ) {
        assert_eq!(Outcome::of_all(all.iter().copied()), together);
        assert_eq!(together.code(), code);
    }

    fn findings() -> Vec<Finding> {
        let finding = |name: &str, state: &str| Finding {
            name: format!("Ship/{name}"),
            cells: vec![name.to_owned(), state.to_owned()],
            full: json!({"name": name}),
        };
        vec![finding("a", "afloat"), finding("longer", "")]
    }

    #[rstest]
    #[case::json(Format::Json, r#"[{"name": "a"}, {"name": "longer"}]"#)]
    #[case::yaml(Format::Yaml, "---\nname: a\n---\nname: longer\n")]
    #[case::name(Format::Name, "Ship/a\nShip/longer\n")]
    fn each_format_has_every_finding(#[case] format: Format, #[case] expected: &str) {
        let text = text(&["name", "state"], &findings(), format).unwrap();
        if format == Format::Json {
            let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(json(&text), json(expected));
        } else {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn the_cells_of_a_table_are_below_their_headings() {
        let text = text(&["name", "state"], &findings(), Format::Table).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0].find("STATE"), lines[1].find("afloat"), "{text}");
        assert_eq!(lines[2].trim(), "longer");
    }

    #[test]
    fn a_table_without_findings_has_its_headings() {
        assert_eq!(text(&["name"], &[], Format::Table).unwrap().trim(), "NAME");
        assert_eq!(text(&["name"], &[], Format::Name).unwrap(), "");
    }
}
