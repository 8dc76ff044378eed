//! A tenant as its rows come in, in whatever order: what one row says, and what all say together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{
    CONNECTION_GROUP, Cell, DISTRIBUTION, DOMAIN, ENABLED, NAME, PARAMETER, Place, Row, TAG,
    Tenant, shown, valid,
};
use crate::words::few;

/// What one row says of its tenant.
#[derive(Debug)]
pub(super) struct Said {
    /// In lower case, without a final dot.
    domains: Vec<String>,
    /// What the rows of a tenant have to agree on, by column. A column that says nothing is absent.
    values: BTreeMap<Arc<str>, String>,
}

impl Said {
    /// # Errors
    /// What is wrong with the row, whatever others say.
    pub(super) fn by(row: &Row) -> Result<Self, String> {
        let mut said = Self {
            domains: Vec::new(),
            values: BTreeMap::new(),
        };
        for (column, cell) in &row.cells {
            let value = match &**column {
                NAME => None,
                DOMAIN => {
                    said.domains = domains(cell)?;
                    None
                }
                ENABLED => text(column, cell)?.map(yes_or_no).transpose()?,
                CONNECTION_GROUP | DISTRIBUTION => text(column, cell)?.map(str::to_owned),
                _ => pair(column, cell)?,
            };
            said.values
                .extend(value.map(|value| (column.clone(), value)));
        }
        if said.domains.is_empty() {
            return Err(format!("it has no domain; fill in the column {DOMAIN}"));
        }
        Ok(said)
    }
}

/// A tenant of which not all rows have been seen.
#[derive(Debug, Default)]
pub(super) struct Draft {
    domains: Vec<String>,
    /// By column all that is said, and where first.
    values: BTreeMap<Arc<str>, BTreeMap<String, Place>>,
    wrongs: Vec<(Place, String)>,
}

impl Draft {
    /// Takes in a row, or what is wrong with it.
    pub(super) fn add(&mut self, place: Place, said: Result<Said, String>) {
        let Said { domains, values } = match said {
            Ok(said) => said,
            Err(why) => return self.wrongs.push((place, why)),
        };
        for domain in domains {
            if !self.domains.contains(&domain) {
                self.domains.push(domain);
            }
        }
        for (column, value) in values {
            let all = self.values.entry(column).or_default();
            all.entry(value).or_insert(place);
        }
    }

    /// The tenant, all rows of which have been seen.
    ///
    /// # Errors
    /// All that is wrong with its rows, and where.
    pub(super) fn finished(mut self, name: &str) -> Result<Tenant, Vec<(Place, String)>> {
        let contradictions = self.values.iter().filter_map(contradiction);
        self.wrongs.extend(contradictions);
        if !self.wrongs.is_empty() {
            return Err(self.wrongs);
        }
        let mut tenant = Tenant {
            name: name.to_owned(),
            domains: self.domains,
            ..Tenant::default()
        };
        for (column, values) in self.values {
            let value = values.into_keys().next().unwrap_or_default();
            match &*column {
                ENABLED => tenant.enabled = value.parse().ok(),
                CONNECTION_GROUP => tenant.connection_group_id = Some(value),
                DISTRIBUTION => tenant.distribution_id = Some(value),
                other => {
                    if let Some(name) = other.strip_prefix(PARAMETER) {
                        tenant.parameters.insert(name.to_owned(), value);
                    } else if let Some(key) = other.strip_prefix(TAG) {
                        tenant.tags.insert(key.to_owned(), value);
                    }
                }
            }
        }
        Ok(tenant)
    }
}

/// Rows of one tenant must not contradict each other; one that says nothing does not.
fn contradiction(
    (column, values): (&Arc<str>, &BTreeMap<String, Place>),
) -> Option<(Place, String)> {
    // Where the second of them was said.
    let mut places: Vec<Place> = values.values().copied().collect();
    places.sort();
    let place = *places.get(1)?;
    let values: Vec<String> = values.keys().map(|value| shown(value)).collect();
    let why = format!(
        "its rows contradict each other in the column {column}: {}; let them agree",
        few(&values)
    );
    Some((place, why))
}

/// The value of a parameter or a tag, as it is; an empty one is none.
fn pair(column: &str, cell: &Cell) -> Result<Option<String>, String> {
    let value = one(column, cell)?;
    if value.is_empty() {
        return Ok(None);
    }
    if let Some(name) = column.strip_prefix(PARAMETER) {
        valid::check_parameter(name, value)?;
    } else if let Some(key) = column.strip_prefix(TAG) {
        valid::check_tag(key, value)?;
    }
    Ok(Some(value.to_owned()))
}

fn domains(cell: &Cell) -> Result<Vec<String>, String> {
    let listed = match cell {
        Cell::Text(one) => std::slice::from_ref(one),
        Cell::List(many) => many,
        Cell::Other(what) => return Err(no_text(DOMAIN, what)),
    };
    let listed = || {
        let trimmed = listed.iter().map(|one| one.trim());
        trimmed.filter(|one| !one.is_empty())
    };
    // A set has no order: of several wrong ones always the same is told.
    if let Some(wrong) = listed().filter(|one| !valid::is_domain(one)).min() {
        return Err(format!(
            "the domain {} is none; write a host name such as www.example.com",
            shown(wrong)
        ));
    }
    Ok(listed().map(crate::body::domain).collect())
}

/// The trimmed text of a cell; none if there is nothing but blanks.
fn text<'a>(column: &str, cell: &'a Cell) -> Result<Option<&'a str>, String> {
    let text = one(column, cell)?.trim();
    Ok(Some(text).filter(|text| !text.is_empty()))
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

/// As databases and people write it: `true` or `false`.
fn yes_or_no(said: &str) -> Result<String, String> {
    match said.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true.to_string()),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false.to_string()),
        _ => Err(format!(
            "the column {ENABLED} says {}; write true or false",
            shown(said)
        )),
    }
}
