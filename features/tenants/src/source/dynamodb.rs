//! A table in DynamoDB: a consistent scan, page by page to the end.

use api::tenants::DynamoDbSource;
use aws::dynamodb::{Row as Found, Value};
use aws::{Caller, Priority, Role};

use super::given;
use super::read::Unread;
use super::rows::{Cell, DOMAIN, NAME, Place, Row, is_ours};
use crate::ctx::Ctx;

/// All rows of a table, if they are at most `max`.
pub(super) async fn rows(
    source: &DynamoDbSource,
    ctx: &Ctx,
    namespace: &str,
    external_id: Option<&str>,
    max: usize,
) -> Result<Vec<Row>, Unread> {
    let role = given(source.assume_role_arn.as_deref());
    let role = role.map(|arn| Role::new(arn, external_id)).transpose();
    let account = ctx.account(role.map_err(aws::Error::from)?.as_ref()).await;
    let region = match given(source.region.as_deref()) {
        Some(region) => region,
        None => ctx.aws().await.region(),
    };
    let table = account.dynamodb(&Caller::new(Priority::Poll, namespace), region);
    let mut rows = Vec::new();
    let mut from = None;
    loop {
        let page = table.scan(&source.table_name, from.as_ref()).await?;
        for found in page.items {
            if rows.len() == max {
                let why = super::too_many(max);
                return Err(Unread::Table(format!("table {}: {why}", source.table_name)));
            }
            rows.push(row(rows.len() + 1, found, source));
        }
        from = page.next;
        if from.is_none() {
            return Ok(rows);
        }
    }
}

fn row(number: usize, found: Found, source: &DynamoDbSource) -> Row {
    let cells = found.into_iter().filter_map(|(attribute, value)| {
        let column = column(&attribute, source)?;
        Some((column.into(), cell(value)))
    });
    Row {
        place: Place::Row(number),
        cells: cells.collect(),
    }
}

/// The column an attribute stands for. Attributes that are called like the two columns, and are not
/// the ones the source names, are something else.
fn column<'a>(attribute: &'a str, source: &DynamoDbSource) -> Option<&'a str> {
    if attribute == source.name_attribute {
        Some(NAME)
    } else if attribute == source.domain_attribute {
        Some(DOMAIN)
    } else {
        Some(attribute).filter(|one| is_ours(one) && ![NAME, DOMAIN].contains(one))
    }
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Text(text) | Value::Number(text) => Cell::Text(text),
        Value::Texts(texts) => Cell::List(texts),
        Value::Flag(flag) => Cell::Text(flag.to_string()),
        Value::Other(kind) => Cell::Other(match kind {
            "L" => "a list of more than texts",
            "M" => "a map",
            "NS" => "a set of numbers",
            "B" | "BS" => "bytes",
            _ => "a type we do not know",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, domain: &str) -> DynamoDbSource {
        DynamoDbSource {
            table_name: "tenants".into(),
            region: None,
            name_attribute: name.into(),
            domain_attribute: domain.into(),
            assume_role_arn: None,
        }
    }

    #[test]
    fn attributes_become_columns_by_the_names_of_the_source() {
        let found = Found::from([
            ("customer".to_owned(), Value::Text("acme".into())),
            ("name".to_owned(), Value::Text("Acme Inc.".into())),
            ("hosts".to_owned(), Value::Texts(vec!["a.x.com".into()])),
            ("enabled".to_owned(), Value::Flag(false)),
            ("param_n".to_owned(), Value::Number("7".into())),
            ("tag_m".to_owned(), Value::Other("M")),
            ("id".to_owned(), Value::Text("1".into())),
        ]);
        let row = row(3, found, &source("customer", "hosts"));
        assert_eq!(row.place.to_string(), "row 3");
        let cells: Vec<(&str, &Cell)> = row.cells.iter().map(|(k, v)| (&**k, v)).collect();
        let wanted = [
            ("domain", Cell::List(vec!["a.x.com".into()])),
            ("enabled", Cell::Text("false".into())),
            ("name", Cell::Text("acme".into())),
            ("param_n", Cell::Text("7".into())),
            ("tag_m", Cell::Other("a map")),
        ];
        assert_eq!(
            cells,
            wanted.iter().map(|(k, v)| (*k, v)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn by_default_the_attributes_are_called_like_the_columns() {
        let source = source("name", "domain");
        assert_eq!(column("name", &source), Some(NAME));
        assert_eq!(column("domain", &source), Some(DOMAIN));
        assert_eq!(column("created_at", &source), None);
    }
}
