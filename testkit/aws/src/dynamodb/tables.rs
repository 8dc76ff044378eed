//! Tables and their rows, by account and region.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::accounts::DEFAULT_ACCOUNT;
use crate::control::read;
use crate::service::{ControlError, Moment};
use crate::shelf::{Shelf, View};

/// DynamoDB's own names of types.
const TYPES: &[&str] = &["S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"];

/// A row in DynamoDB's form.
type Row = Map<String, Value>;

/// A table: rows by their key.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Names of the key's attributes.
    pub(super) key: Vec<String>,
    pub(super) rows: Shelf<Row>,
}

/// All tables, by account, region and name.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tables: BTreeMap<(String, String, String), Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Change {
    Table(Seed),
    Rows(Rows),
    DeleteTable(Named),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    name: String,
    key: Vec<String>,
    #[serde(default)]
    rows: Vec<Row>,
    account: Option<String>,
    region: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    table: String,
    #[serde(default)]
    put: Vec<Row>,
    #[serde(default)]
    delete: Vec<Row>,
    account: Option<String>,
    region: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    table: String,
    account: Option<String>,
    region: Option<String>,
}

impl Tables {
    pub(super) fn get(&self, account: &str, region: &str, name: &str) -> Option<&Table> {
        let key = (account.to_owned(), region.to_owned(), name.to_owned());
        self.tables.get(&key)
    }

    pub(super) fn change(
        &mut self,
        moment: &Moment<'_>,
        change: Value,
    ) -> Result<Value, ControlError> {
        let now = moment.now;
        match read("mutate dynamodb", change)? {
            Change::Table(seed) => {
                let mut table = Table {
                    key: seed.key,
                    rows: Shelf::default(),
                };
                for row in seed.rows {
                    table.put(row, now)?;
                }
                let place = place(seed.account, seed.region, seed.name);
                self.tables.insert(place, table);
            }
            Change::Rows(rows) => {
                let table = self.named(place(rows.account, rows.region, rows.table))?;
                for row in rows.delete {
                    table.delete(row, now)?;
                }
                for row in rows.put {
                    table.put(row, now)?;
                }
            }
            Change::DeleteTable(Named {
                table,
                account,
                region,
            }) => {
                let place = place(account, region, table);
                self.named(place.clone())?;
                self.tables.remove(&place);
            }
        }
        Ok(json!({}))
    }

    fn named(&mut self, place: (String, String, String)) -> Result<&mut Table, ControlError> {
        let told = format!(
            "there is no table {:?} in {} of {}",
            place.2, place.1, place.0
        );
        let table = self.tables.get_mut(&place);
        table.ok_or_else(|| ControlError::unknown(told))
    }

    pub(super) fn shown(&self) -> Vec<Value> {
        let all = self.tables.iter().map(|((account, region, name), table)| {
            let rows: Vec<_> = table.rows.list(View::Live).map(|(_, row)| row).collect();
            json!({ "account": account, "region": region, "name": name, "rows": rows })
        });
        all.collect()
    }
}

impl Table {
    fn put(&mut self, row: Row, now: Timestamp) -> Result<(), ControlError> {
        let row = typed(row);
        let key = row_key(&self.key, &row).map_err(ControlError::invalid)?;
        self.rows.put(&key, Some(row), now);
        Ok(())
    }

    fn delete(&mut self, row: Row, now: Timestamp) -> Result<(), ControlError> {
        let row = typed(row);
        let key = row_key(&self.key, &row).map_err(ControlError::invalid)?;
        if self.rows.get(&key, View::Live).is_none() {
            return Err(ControlError::unknown(format!(
                "there is no row {}",
                Value::Object(row)
            )));
        }
        self.rows.put(&key, None, now);
        Ok(())
    }
}

fn place(
    account: Option<String>,
    region: Option<String>,
    name: String,
) -> (String, String, String) {
    let account = account.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    (account, region, name)
}

/// A row in DynamoDB's form, whatever form it was written in.
fn typed(row: Row) -> Row {
    let typed = row
        .into_iter()
        .map(|(name, value)| (name, attribute(value)));
    typed.collect()
}

fn attribute(value: Value) -> Value {
    match value {
        Value::Object(one)
            if one.len() == 1 && one.keys().all(|name| TYPES.contains(&name.as_str())) =>
        {
            Value::Object(one)
        }
        Value::Object(map) => json!({ "M": typed(map) }),
        Value::String(text) => json!({ "S": text }),
        Value::Number(number) => json!({ "N": number.to_string() }),
        Value::Bool(flag) => json!({ "BOOL": flag }),
        Value::Null => json!({ "NULL": true }),
        Value::Array(list) => {
            json!({ "L": list.into_iter().map(attribute).collect::<Vec<_>>() })
        }
    }
}

/// What tells a row from all others; rows are listed in its order.
pub(super) fn row_key(key: &[String], row: &Row) -> Result<String, String> {
    let parts: Result<Vec<_>, _> = key
        .iter()
        .map(|name| {
            let value = row.get(name);
            let value = value.ok_or_else(|| format!("a row needs its key attribute {name:?}"))?;
            Ok(value.to_string())
        })
        .collect();
    parts.map(|parts: Vec<String>| parts.join("\u{0}"))
}
