//! DynamoDB: Scan (JSON 1.0), page by page.
//!
//! Tables lie in an account and a region; `TableName` may be an ARN. Filters, projections, indexes
//! and segments are refused: the emulator gives whole rows. Without `ConsistentRead` a scan is
//! behind by the switch `readLag`; `pageSize` is the most rows of one answer.
//!
//! `mutate`, each form alone:
//! - `{"service": "dynamodb", "table": {"name", "key": ["<attribute>", …], "rows"?, "account"?,
//!   "region"?}}`; the region is us-east-1 unless given;
//! - `"rows": {"table", "put"?: [row], "delete"?: [row], "account"?, "region"?}`; of a deleted row
//!   the key is enough;
//! - `"deleteTable": {"table", "account"?, "region"?}`.
//!
//! A row is `{"<attribute>": value}`: text, numbers, booleans, lists of these, or DynamoDB's own
//! form such as `{"SS": ["a"]}`.

mod scan;
mod tables;

use serde_json::{Value, json};

use crate::protocol::{ApiError, Protocol};
use crate::service::{Call, ControlError, Moment, Operation, Service, Violation};
use crate::switches::{Accepts, Switch};
use crate::wire::{Request, Response};
use std::time::Duration;

use tables::Tables;

const SWITCHES: &[Switch] = &[
    Switch {
        name: "readLag",
        accepts: Accepts::Span(Duration::ZERO),
    },
    Switch {
        name: "pageSize",
        accepts: Accepts::Count(1000),
    },
];

/// The emulated DynamoDB.
#[derive(Debug, Default)]
pub struct DynamoDb {
    tables: Tables,
}

impl DynamoDb {
    /// A DynamoDB without tables.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Service for DynamoDb {
    fn name(&self) -> &'static str {
        "dynamodb"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Json10 {
            shapes: "com.amazonaws.dynamodb.v20120810",
        }
    }

    fn operation(&self, request: &Request) -> Option<Operation> {
        let name = request
            .target("DynamoDB_20120810")
            .filter(|name| *name == "Scan")?;
        let body: Value = request.json().unwrap_or_default();
        Some(Operation {
            name: name.to_owned(),
            resource: body["TableName"].as_str().map(str::to_owned),
        })
    }

    fn call(&mut self, call: &Call<'_>, request: &Request) -> Result<Response, ApiError> {
        let answer = scan::scan(&self.tables, call, request.json()?)?;
        Ok(Response::json(200, "application/x-amz-json-1.0", &answer))
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn mutate(&mut self, moment: &Moment<'_>, change: Value) -> Result<Value, ControlError> {
        self.tables.change(moment, change)
    }

    fn state(&self, _moment: &Moment<'_>) -> Value {
        json!({ "tables": self.tables.shown() })
    }

    fn violations(&self) -> Vec<Violation> {
        Vec::new()
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::desk::Desk;

    fn desk() -> Desk {
        let mut desk = Desk::new();
        let rows = json!([
            { "name": "a", "domain": "a.example.com" },
            { "name": "b", "domain": { "SS": ["b.example.com", "c.example.com"] } },
            { "name": "c", "domain": ["d.example.com"], "enabled": false, "weight": 3 },
        ]);
        let table = json!({ "name": "sites", "key": ["name"], "rows": rows });
        desk.mutate("dynamodb", json!({ "table": table }));
        desk
    }

    fn scan(desk: &mut Desk, key: &str, body: &Value) -> (u16, Value) {
        let target = ("x-amz-target", "DynamoDB_20120810.Scan");
        let body = body.to_string();
        let answer = desk.as_key(key, "dynamodb", Method::POST, "/", &[target], &body);
        (answer.status, answer.json())
    }

    #[test]
    fn rows_come_typed() {
        let (status, answer) = scan(&mut desk(), "test", &json!({ "TableName": "sites" }));
        assert_eq!(status, 200);
        assert_eq!(
            (&answer["Count"], &answer["ScannedCount"]),
            (&json!(3), &json!(3))
        );
        assert_eq!(answer["Items"][1]["domain"]["SS"][1], "c.example.com");
        let last = &answer["Items"][2];
        assert_eq!(last["domain"], json!({ "L": [{ "S": "d.example.com" }] }));
        assert_eq!(last["enabled"], json!({ "BOOL": false }));
        assert_eq!(last["weight"], json!({ "N": "3" }));
        assert!(answer.get("LastEvaluatedKey").is_none());
    }

    #[test]
    fn pages_follow_one_another_by_the_last_key() {
        let mut desk = desk();
        desk.switch("dynamodb", json!({ "pageSize": 2 }));
        let mut body = json!({ "TableName": "sites", "ConsistentRead": true });
        let (_, first) = scan(&mut desk, "test", &body);
        assert_eq!(first["Count"], 2);
        assert_eq!(first["LastEvaluatedKey"], json!({ "name": { "S": "b" } }));
        body["ExclusiveStartKey"] = first["LastEvaluatedKey"].clone();
        let (_, rest) = scan(&mut desk, "test", &body);
        assert_eq!(rest["Items"][0]["name"]["S"], "c");
        body["Limit"] = json!(1);
        body["ExclusiveStartKey"] = Value::Null;
        assert_eq!(scan(&mut desk, "test", &body).1["Count"], 1);
    }

    #[test]
    fn only_a_consistent_scan_is_never_behind() {
        let mut desk = desk();
        desk.advance(60);
        desk.switch("dynamodb", json!({ "readLag": 10 }));
        let rows = json!({ "table": "sites", "delete": [{ "name": "a" }] });
        desk.mutate("dynamodb", json!({ "rows": rows }));
        let loose = json!({ "TableName": "sites" });
        assert_eq!(scan(&mut desk, "test", &loose).1["Count"], 3);
        let consistent = json!({ "TableName": "sites", "ConsistentRead": true });
        assert_eq!(scan(&mut desk, "test", &consistent).1["Count"], 2);
    }

    #[rstest]
    #[case::no_such_table("test", json!({ "TableName": "x" }), "ResourceNotFoundException")]
    #[case::anothers_table("AKIA222222222222", json!({ "TableName": "sites" }), "ResourceNotFoundException")]
    #[case::anothers_arn(
        "AKIA222222222222",
        json!({ "TableName": "arn:aws:dynamodb:us-east-1:000000000000:table/sites" }),
        "AccessDeniedException"
    )]
    #[case::a_filter("test", json!({ "TableName": "sites", "FilterExpression": "a = b" }), "ValidationException")]
    #[case::no_rows_at_all("test", json!({ "TableName": "sites", "Limit": 0 }), "ValidationException")]
    fn a_scan_is_refused(#[case] key: &str, #[case] body: Value, #[case] code: &str) {
        let (status, answer) = scan(&mut desk(), key, &body);
        assert_eq!(status, 400);
        let kind = answer["__type"].as_str().unwrap();
        assert!(kind.ends_with(&format!("#{code}")), "{kind}");
    }

    #[test]
    fn a_row_without_its_key_is_refused() {
        let mut desk = desk();
        let rows = json!({ "table": "sites", "put": [{ "domain": "x.example.com" }] });
        let told = desk.refused("dynamodb", json!({ "rows": rows }));
        assert!(told.contains("name"), "{told}");
    }
}
