//! What the rows of a table say: which tenants there are, and which rows are wrong.
//!
//! Rows of one name are one tenant with several domains. A wrong row makes its whole tenant wrong:
//! half a tenant would be a change nobody asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kernel::cap;

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

/// Where in its table a row is, as people count: `row 3`, `line 7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// What its table consists of.
    pub unit: &'static str,
    /// Its number, from 1.
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.unit, self.number)
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
    /// Those that can be made, by name.
    pub(crate) good: BTreeMap<String, Tenant>,
    /// Names, in lower case, of those with a wrong row: left alone, but there.
    pub(super) wrong: BTreeSet<String>,
    /// What is wrong, in the order of the rows.
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
    let mut errors = Vec::new();
    for row in rows {
        let place = row.place;
        let Some(name) = named(row) else {
            errors.push(format!(
                "{place}: it names no tenant; fill in the column {NAME}"
            ));
            continue;
        };
        let draft = drafts.entry(name.clone()).or_default();
        if let Err(why) = check_name(&name).and_then(|()| add(&mut draft.tenant, row)) {
            draft.wrong = true;
            errors.push(format!("{place} (tenant {}): {why}", cap(&name, SHOWN)));
        }
    }
    let mut all = Tenants {
        rows: rows.len(),
        count: drafts.len(),
        errors,
        ..Tenants::default()
    };
    for (name, Draft { tenant, wrong }) in drafts {
        if wrong {
            all.wrong.insert(name.to_ascii_lowercase());
        } else {
            let tenant = Tenant { name, ..tenant };
            all.good.insert(tenant.name.clone(), tenant);
        }
    }
    all
}

/// A tenant of which not all rows have been seen.
#[derive(Default)]
struct Draft {
    tenant: Tenant,
    wrong: bool,
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

/// Takes in what a row says more of its tenant.
fn add(tenant: &mut Tenant, row: &Row) -> Result<(), String> {
    let mut domains = 0;
    for (column, cell) in &row.cells {
        match &**column {
            NAME => {}
            DOMAIN => domains += add_domains(&mut tenant.domains, cell)?,
            ENABLED => {
                let said = text(column, cell)?
                    .map(|said| yes_or_no(&said))
                    .transpose()?;
                agree(column, &mut tenant.enabled, said)?;
            }
            CONNECTION_GROUP => {
                agree(column, &mut tenant.connection_group_id, text(column, cell)?)?;
            }
            DISTRIBUTION => agree(column, &mut tenant.distribution_id, text(column, cell)?)?,
            _ => add_pair(tenant, column, cell)?,
        }
    }
    if domains == 0 {
        return Err(format!("it has no domain; fill in the column {DOMAIN}"));
    }
    Ok(())
}

/// A parameter or a tag; their values are taken as they are, and an empty one is none.
fn add_pair(tenant: &mut Tenant, column: &str, cell: &Cell) -> Result<(), String> {
    let value = one(column, cell)?;
    if value.is_empty() {
        return Ok(());
    }
    let (pairs, key) = if let Some(name) = column.strip_prefix(PARAMETER) {
        valid::check_parameter(name, value)?;
        (&mut tenant.parameters, name)
    } else if let Some(key) = column.strip_prefix(TAG) {
        valid::check_tag(key, value)?;
        (&mut tenant.tags, key)
    } else {
        return Ok(());
    };
    let mut held = pairs.get(key).cloned();
    agree(column, &mut held, Some(value.to_owned()))?;
    pairs.extend(held.map(|value| (key.to_owned(), value)));
    Ok(())
}

fn add_domains(domains: &mut Vec<String>, cell: &Cell) -> Result<usize, String> {
    let listed = match cell {
        Cell::Text(one) => std::slice::from_ref(one),
        Cell::List(many) => many,
        Cell::Other(what) => return Err(no_text(DOMAIN, what)),
    };
    let mut count = 0;
    for domain in listed
        .iter()
        .map(|one| one.trim())
        .filter(|one| !one.is_empty())
    {
        if !valid::is_domain(domain) {
            return Err(format!(
                "the domain {} is none; write a host name such as www.example.com",
                shown(domain)
            ));
        }
        count += 1;
        let domain = crate::body::domain(domain);
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    Ok(count)
}

/// The trimmed text of a cell; none if there is nothing but blanks.
fn text(column: &str, cell: &Cell) -> Result<Option<String>, String> {
    let text = one(column, cell)?.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn one<'a>(column: &str, cell: &'a Cell) -> Result<&'a str, String> {
    match cell {
        Cell::Text(text) => Ok(text),
        Cell::List(_) => Err(no_text(column, "a list")),
        Cell::Other(what) => Err(no_text(column, what)),
    }
}

fn no_text(column: &str, what: &str) -> String {
    format!("the column {column} holds {what}; store text there")
}

/// As databases and people write it.
fn yes_or_no(said: &str) -> Result<bool, String> {
    match said.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(format!(
            "the column {ENABLED} says {}; write true or false",
            shown(said)
        )),
    }
}

/// Rows of one tenant must not contradict each other; one that says nothing does not.
fn agree<T: PartialEq + fmt::Display>(
    column: &str,
    held: &mut Option<T>,
    said: Option<T>,
) -> Result<(), String> {
    match (&*held, said) {
        (Some(before), Some(now)) if *before != now => Err(format!(
            "the column {column} says {}, another row of the tenant says {}; let them agree",
            shown(&now.to_string()),
            shown(&before.to_string())
        )),
        (_, None) => Ok(()),
        (_, said) => {
            *held = said;
            Ok(())
        }
    }
}

/// A value as a message quotes it.
pub(super) fn shown(value: &str) -> String {
    format!("{:?}", cap(value, SHOWN))
}

#[cfg(test)]
mod tests;
