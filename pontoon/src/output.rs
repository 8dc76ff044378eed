//! Results on stdout, in the form that was asked for.

use std::io::Write;

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

/// `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// One JSON document.
    Json,
    /// YAML documents.
    Yaml,
    /// One name a line, for pipes.
    Name,
}

impl Format {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Name => "name",
        }
    }
}

/// A list of things to print: what each is in full, and in short.
pub(crate) struct Listing {
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

/// One thing.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
    pub(crate) full: Value,
}

/// What cannot be printed.
#[derive(Debug, thiserror::Error)]
#[error("the result cannot be printed: {0}")]
pub(crate) struct Unprintable(String);

impl Listing {
    pub(crate) fn print(self, format: Format) -> Result<(), Unprintable> {
        let mut text = self.text(format)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        match std::io::stdout().write_all(text.as_bytes()) {
            // `| head` has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| Unprintable(error.to_string())),
        }
    }

    fn text(self, format: Format) -> Result<String, Unprintable> {
        match format {
            Format::Table => Ok(self.table().trim_fmt()),
            Format::Json => {
                let all: Vec<_> = self.rows.into_iter().map(|row| row.full).collect();
                serde_json::to_string_pretty(&all).map_err(|error| Unprintable(error.to_string()))
            }
            Format::Yaml => {
                let documents: Result<Vec<_>, _> =
                    self.rows.iter().map(|row| yaml(&row.full)).collect();
                Ok(documents?.concat())
            }
            Format::Name => Ok(self.rows.into_iter().map(|row| row.name + "\n").collect()),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(self.columns.iter().map(|column| column.to_uppercase()));
        for row in &self.rows {
            table.add_row(row.cells.clone());
        }
        table
    }
}

/// One document, with the line before it that tells it from the one above.
fn yaml(value: &impl Serialize) -> Result<String, Unprintable> {
    let text = serde_saphyr::to_string(value).map_err(|error| Unprintable(error.to_string()))?;
    Ok(format!("---\n{}\n", text.trim_end()))
}
