//! Spans of time in control requests.

use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A span from JSON: a number of seconds (`1.5`) or text with units (`"250ms"`, `"2m 30s"`).
pub fn span(value: &Value) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{value} is no span of time; write seconds (1.5) or text such as \"250ms\" or \"2m 30s\""
        )
    };
    match value {
        Value::Number(number) => {
            let seconds = number.as_f64().ok_or_else(wrong)?;
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
        }
        Value::String(text) => {
            let signed: SignedDuration = text.parse().map_err(|_| wrong())?;
            Duration::try_from(signed).map_err(|_| wrong())
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    span(&Value::deserialize(from)?).map_err(serde::de::Error::custom)
}

pub(crate) fn deserialize_some<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::whole_seconds(json!(60), 60_000)]
    #[case::parts_of_a_second(json!(0.25), 250)]
    #[case::text(json!("250ms"), 250)]
    #[case::several_units(json!("2m 30s"), 150_000)]
    fn a_span_reads(#[case] written: Value, #[case] millis: u64) {
        assert_eq!(span(&written), Ok(Duration::from_millis(millis)));
    }

    #[rstest]
    #[case::negative(json!(-1))]
    #[case::negative_text(json!("-5s"))]
    #[case::no_unit(json!("soon"))]
    #[case::no_span(json!([1]))]
    fn an_invalid_span_is_refused(#[case] written: Value) {
        assert!(span(&written).unwrap_err().contains("no span of time"));
    }
}
