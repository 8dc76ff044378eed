//! DynamoDB: scans of whole tables.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::call::Call;
use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::Hosts;
use crate::{Account, Caller, Error, Fault, Operation, Page, Service};

impl Service {
    /// DynamoDB.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const DynamoDb: Self = Self(&ServiceRow {
        name: "dynamodb",
        id: "DynamoDB",
        signing: "dynamodb",
        hosts: Hosts::Regional("dynamodb"),
        region: None,
        fault: |code, _| (code == "ResourceNotFoundException").then_some(Fault::OtherMissing),
    });
}

const ALL: Limit = Limit {
    label: "dynamodb",
    rates: RateRange::new(10.0, 0.2, 50.0),
};

operations! { DynamoDb "DynamoDB":
    Read Scan ALL;
}

/// DynamoDB in one region, used by one caller; see [`Account::dynamodb`].
#[derive(Debug, Clone)]
pub struct DynamoDb {
    account: Account,
    caller: Caller,
    region: String,
}

/// A row: its attributes by name.
pub type Row = BTreeMap<String, Value>;

/// The value of an attribute. A null attribute is not in the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A set or a list of texts.
    Texts(Vec<String>),
    /// A number, as DynamoDB writes it.
    Number(String),
    /// True or false.
    Flag(bool),
    /// Something else, by DynamoDB's name for its type.
    Other(&'static str),
}

/// Where the next page of a scan begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Bookmark(HashMap<String, AttributeValue>);

impl DynamoDb {
    pub(crate) fn new(account: Account, caller: Caller, region: String) -> Self {
        Self {
            account,
            caller,
            region,
        }
    }

    /// A page of a table's rows by a consistent read, from `from` on.
    ///
    /// # When not to use it
    /// To conclude from one page that a row is gone: only after the last page the whole table has
    /// been read.
    pub async fn scan(
        &self,
        table: &str,
        from: Option<&Bookmark>,
    ) -> Result<Page<Row, Bookmark>, Error> {
        let call = Call::new(Operation::Scan, table).within(&self.region);
        let client = self.account.dynamodb_client(&self.region);
        let send = || {
            client
                .scan()
                .table_name(table)
                .consistent_read(true)
                .set_exclusive_start_key(from.map(|from| from.0.clone()))
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let items = answer.items.unwrap_or_default();
        let next = answer.last_evaluated_key.filter(|key| !key.is_empty());
        Ok(Page {
            items: items.into_iter().map(row).collect(),
            next: next.map(Bookmark),
        })
    }
}

fn row(item: HashMap<String, AttributeValue>) -> Row {
    item.into_iter()
        .filter_map(|(name, attribute)| Some((name, value(attribute)?)))
        .collect()
}

fn value(attribute: AttributeValue) -> Option<Value> {
    Some(match attribute {
        AttributeValue::Null(_) => return None,
        AttributeValue::S(text) => Value::Text(text),
        AttributeValue::Ss(texts) => Value::Texts(texts),
        AttributeValue::N(number) => Value::Number(number),
        AttributeValue::Bool(flag) => Value::Flag(flag),
        AttributeValue::L(list) => texts(list).map_or(Value::Other("L"), Value::Texts),
        AttributeValue::B(_) => Value::Other("B"),
        AttributeValue::Bs(_) => Value::Other("BS"),
        AttributeValue::M(_) => Value::Other("M"),
        AttributeValue::Ns(_) => Value::Other("NS"),
        _ => Value::Other("unknown"),
    })
}

/// The texts of a list that contains only texts.
fn texts(list: Vec<AttributeValue>) -> Option<Vec<String>> {
    list.into_iter()
        .map(|one| match one {
            AttributeValue::S(text) => Some(text),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn text(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    #[rstest]
    #[case::text(text("a"), Some(Value::Text("a".to_owned())))]
    #[case::set(
        AttributeValue::Ss(vec!["a".to_owned()]),
        Some(Value::Texts(vec!["a".to_owned()]))
    )]
    #[case::list(
        AttributeValue::L(vec![text("a"), text("b")]),
        Some(Value::Texts(vec!["a".to_owned(), "b".to_owned()]))
    )]
    #[case::mixed_list(
        AttributeValue::L(vec![text("a"), AttributeValue::Bool(true)]),
        Some(Value::Other("L"))
    )]
    #[case::number(AttributeValue::N("1.5".to_owned()), Some(Value::Number("1.5".to_owned())))]
    #[case::flag(AttributeValue::Bool(true), Some(Value::Flag(true)))]
    #[case::map(AttributeValue::M(HashMap::new()), Some(Value::Other("M")))]
    #[case::null(AttributeValue::Null(true), None)]
    fn an_attribute_is(#[case] attribute: AttributeValue, #[case] expected: Option<Value>) {
        assert_eq!(value(attribute), expected);
    }
}
