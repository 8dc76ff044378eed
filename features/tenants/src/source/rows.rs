//! What the rows of a table say: which tenants there are, and which rows are wrong.
//!
//! Rows of one name are one tenant with several domains. A wrong row makes its whole tenant wrong:
//! half a tenant would be a change nobody asked for.

mod draft;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kernel::cap;

use self::draft::{Draft, Said};
use super::valid;

pub(super) const NAME: &str = "name";
pub(super) const DOMAIN: &str = "domain";
const ENABLED: &str = "enabled";
const CONNECTION_GROUP: &str = "connection_group_id";
const DISTRIBUTION: &str = "distribution_id";
const PARAMETER: &str = "param_";
const TAG: &str = "tag_";

/// Bytes of a value that a message shows.
const SHOWN: usize = 80;

/// Where in its table a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The line of a text on which it begins, from 1.
    Line(usize),
    /// How many rows of a database had come with it. Another time it may come as another one, so
    /// this is nothing to tell people.
    Row(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
        }
    }
}

/// What a row has in one column. A column without a value has no cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A text, or something that can be written as one.
    Text(String),
    /// Several texts.
    List(Vec<String>),
    /// Something that is no text; this is how people call it.
    Other(&'static str),
}

/// One row, with the columns that mean something here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it is.
    pub place: Place,
    /// What it has, by column.
    pub cells: BTreeMap<Arc<str>, Cell>,
}

/// Whether a column means something here; tables have others too.
pub(super) fn is_ours(column: &str) -> bool {
    [NAME, DOMAIN, ENABLED, CONNECTION_GROUP, DISTRIBUTION].contains(&column)
        || column.starts_with(PARAMETER)
        || column.starts_with(TAG)
}

/// Refuses a table whose columns cannot say what each tenant is.
pub(super) fn check_columns<'a>(columns: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for column in columns.into_iter().filter(|column| is_ours(column)) {
        if !seen.insert(column) {
            return Err(format!("it has the column {column} twice; leave one out"));
        }
    }
    match [NAME, DOMAIN].into_iter().find(|must| !seen.contains(must)) {
        Some(missing) => Err(format!(
            "it has no column {missing}; give it the columns {NAME} and {DOMAIN}"
        )),
        None => Ok(()),
    }
}

/// A tenant as its rows tell it. What they do not say is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    /// In lower case, without a final dot, each once, as the rows came.
    pub(crate) domains: Vec<String>,
    pub(crate) enabled: Option<bool>,
    pub(crate) connection_group_id: Option<String>,
    pub(crate) distribution_id: Option<String>,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) tags: BTreeMap<String, String>,
}

/// What a whole table says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tenants {
    /// How many rows it had.
    pub(crate) rows: usize,
    /// How many tenants it has, wrong ones too.
    pub(crate) count: usize,
    /// How many rows name none.
    pub(crate) nameless: usize,
    /// Those that can be made, by name.
    pub(crate) good: BTreeMap<String, Tenant>,
    /// Names, in lower case, of those with a wrong row: left alone, but there.
    pub(super) wrong: BTreeSet<String>,
    /// What is wrong, by line or else by name: the same table says the same, however it comes.
    pub(crate) errors: Vec<String>,
}

impl Tenants {
    /// Whether a row names this tenant, well or badly. A name spoiled by a capital letter still
    /// keeps the object that it means.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.good.contains_key(name) || self.wrong.contains(name)
    }

    /// Takes tenants out that cannot be made after all.
    pub(crate) fn refuse(&mut self, name: &str, why: &str) {
        if self.good.remove(name).is_some() {
            self.wrong.insert(name.to_owned());
            self.errors.push(format!("tenant {name}: {why}"));
        }
    }
}

/// The tenants that `rows` tell of.
pub(crate) fn tenants(rows: &[Row]) -> Tenants {
    let mut drafts: BTreeMap<String, Draft> = BTreeMap::new();
    let mut nameless: Vec<Place> = Vec::new();
    for row in rows {
        let Some(name) = named(row) else {
            nameless.push(row.place);
            continue;
        };
        let said = check_name(&name).and_then(|()| Said::by(row));
        drafts.entry(name).or_default().add(row.place, said);
    }
    let mut all = Tenants {
        rows: rows.len(),
        count: drafts.len(),
        nameless: nameless.len(),
        ..Tenants::default()
    };
    let mut errors = unnamed(&nameless);
    for (name, draft) in drafts {
        match draft.finished(&name) {
            Ok(tenant) => {
                all.good.insert(name, tenant);
            }
            Err(wrongs) => {
                let told = |(place, why): &(Place, String)| told(*place, &name, why);
                errors.extend(wrongs.iter().map(told));
                all.wrong.insert(name.to_ascii_lowercase());
            }
        }
    }
    all.errors = errors.into_iter().map(|(_, error)| error).collect();
    all
}

/// What is wrong: the line, if there are lines, and what is said.
type Errors = BTreeSet<(usize, String)>;

fn told(place: Place, name: &str, why: &str) -> (usize, String) {
    let name = cap(name, SHOWN);
    match place {
        Place::Line(line) => (line, format!("{place} (tenant {name}): {why}")),
        Place::Row(_) => (0, format!("tenant {name}: {why}")),
    }
}

fn unnamed(places: &[Place]) -> Errors {
    let mut errors = Errors::new();
    let mut rows = 0;
    for place in places {
        match place {
            Place::Line(line) => {
                let why = format!("{place}: it names no tenant; fill in the column {NAME}");
                errors.insert((*line, why));
            }
            Place::Row(_) => rows += 1,
        }
    }
    if rows > 0 {
        let why = format!("{rows} rows name no tenant; fill in the column {NAME}");
        errors.insert((0, why));
    }
    errors
}

fn named(row: &Row) -> Option<String> {
    match row.cells.get(NAME)? {
        Cell::Text(name) => Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        Cell::List(_) | Cell::Other(_) => None,
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if valid::is_object_name(name) {
        return Ok(());
    }
    Err(
        "no object can have its name; use 3 to 128 small letters, digits, - and ., with a letter \
         or digit at both ends of each part"
            .to_owned(),
    )
}

/// A value as a message quotes it.
pub(super) fn shown(value: &str) -> String {
    format!("{:?}", cap(value, SHOWN))
}

#[cfg(test)]
mod tests;
