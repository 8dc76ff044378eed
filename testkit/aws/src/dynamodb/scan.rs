//! The Scan operation.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tables::{Table, Tables, row_key};
use crate::protocol::ApiError;
use crate::service::{Call, Moment};
use crate::shelf::View;

/// What a scan may ask for here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Scan {
    table_name: String,
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    exclusive_start_key: Option<Map<String, Value>>,
    #[serde(default)]
    consistent_read: Option<bool>,
    #[serde(default)]
    return_consumed_capacity: Option<String>,
}

pub(super) fn scan(tables: &Tables, call: &Call<'_>, sent: Value) -> Result<Value, ApiError> {
    let Scan {
        table_name,
        limit,
        exclusive_start_key,
        consistent_read,
        return_consumed_capacity,
    } = serde_json::from_value(sent).map_err(|wrong| {
        invalid(&format!(
            "the emulator does not understand this scan: {wrong}"
        ))
    })?;
    let Moment { now, switches, .. } = call.moment;
    let table = table(tables, call, &table_name)?;
    let view = if consistent_read == Some(true) {
        View::Live
    } else {
        call.view.lagged(now, switches.span("readLag"))
    };
    let most = switches.count("pageSize").min(limit.unwrap_or(u64::MAX));
    if most == 0 {
        return Err(invalid(
            "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
        ));
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let after = exclusive_start_key
        .map(|key| row_key(&table.key, &key))
        .transpose()
        .map_err(|wrong| invalid(&format!("The provided starting key is invalid: {wrong}")))?;
    let from = after.as_deref().unwrap_or_default();
    let rows = table
        .rows
        .list_from(from, view)
        .filter(|(key, _)| after.as_deref() != Some(*key));
    let mut found: Vec<_> = rows
        .take(most.saturating_add(1))
        .map(|(_, row)| row)
        .collect();
    let more = found.len() > most;
    found.truncate(most);
    let mut answer = json!({
        "Items": found, "Count": found.len(), "ScannedCount": found.len(),
    });
    if let (true, Some(last)) = (more, found.last()) {
        let key = table
            .key
            .iter()
            .map(|name| (name.clone(), last[name].clone()));
        answer["LastEvaluatedKey"] = Value::Object(key.collect());
    }
    if return_consumed_capacity.is_some_and(|wanted| wanted != "NONE") {
        answer["ConsumedCapacity"] = json!({ "TableName": table_name, "CapacityUnits": 1.0 });
    }
    Ok(answer)
}

/// The table a name or an ARN means to this caller.
fn table<'a>(tables: &'a Tables, call: &Call<'_>, named: &str) -> Result<&'a Table, ApiError> {
    let account = call.caller.map_or("", |caller| &caller.account);
    let (account, name) = match named.strip_prefix("arn:aws:dynamodb:") {
        None => (account, named),
        Some(rest) => {
            let prefix = format!("{}:{account}:table/", call.region);
            let name = rest.strip_prefix(&prefix).ok_or_else(|| {
                let arn = call.caller.map_or("anonymous", |caller| &caller.arn);
                let told = format!(
                    "User: {arn} is not authorized to perform: dynamodb:Scan on resource: {named}"
                );
                ApiError::new(400, "AccessDeniedException", &told)
            })?;
            (account, name)
        }
    };
    tables.get(account, call.region, name).ok_or_else(|| {
        let told = "Requested resource not found";
        ApiError::new(400, "ResourceNotFoundException", told)
    })
}

fn invalid(told: &str) -> ApiError {
    ApiError::new(400, "ValidationException", told)
}
