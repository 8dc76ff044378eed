//! Results on stdout, in the form that was asked for.

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
        match format {
            Format::Table => println!("{}", self.table()),
            Format::Json => {
                let all: Vec<_> = self.rows.into_iter().map(|row| row.full).collect();
                println!(
                    "{}",
                    serde_json::to_string_pretty(&all).map_err(|e| Unprintable(e.to_string()))?
                );
            }
            Format::Yaml => {
                for row in self.rows {
                    print!("---\n{}", yaml(&row.full)?);
                }
            }
            Format::Name => self.rows.iter().for_each(|row| println!("{}", row.name)),
        }
        Ok(())
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

fn yaml(value: &impl Serialize) -> Result<String, Unprintable> {
    let mut text =
        serde_saphyr::to_string(value).map_err(|error| Unprintable(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
