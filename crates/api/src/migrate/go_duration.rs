//! Durations as Go writes them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Go's longest duration, about 292 years. Longer texts count as this.
const LONGEST: Duration = Duration::from_secs(9_223_372_036);
const PATTERN: &str = "^(0|([0-9]+(\\.[0-9]+)?(ns|us|\u{b5}s|ms|s|m|h))+)$";

/// A duration: `90s`, `5m`, `1h30m`, `0`.
///
/// It keeps its text, so that objects read back as they were written. Any text can be read, so that an
/// object that an older definition let in can still be reported: [`is_valid`](Self::is_valid).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoDuration(String);

impl GoDuration {
    /// Whether the text is a duration.
    pub fn is_valid(&self) -> bool {
        length_of(&self.0).is_some()
    }

    /// The length, at most 292 years; zero for a text that is no duration.
    pub fn length(&self) -> Duration {
        length_of(&self.0).unwrap_or_default()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for GoDuration {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN})
    }
}

/// The length, or `None` for what [`PATTERN`] rejects.
fn length_of(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    let mut left = text;
    while !left.is_empty() {
        let (number, after) = left.split_at(left.find(|c| !is_of_a_number(c))?);
        let (unit, after) = after.split_at(after.find(is_of_a_number).unwrap_or(after.len()));
        total = total.saturating_add(part(number, unit)?);
        left = after;
    }
    Some(total.min(LONGEST))
}

fn is_of_a_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

/// One number with its unit.
fn part(number: &str, unit: &str) -> Option<Duration> {
    let digits = |text: &str| !text.is_empty() && !text.contains('.');
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let count: f64 = number.parse().ok()?;
    let length = Duration::try_from_secs_f64(count * seconds_in(unit)?);
    Some(length.unwrap_or(LONGEST))
}

fn seconds_in(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "\u{b5}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::zero("0", 0)]
    #[case::zero_with_unit("0s", 0)]
    #[case::minutes("5m", 300_000)]
    #[case::as_go_prints_it("1h30m0s", 5_400_000)]
    #[case::fraction("1.5h", 5_400_000)]
    #[case::small_units("250ms1000us1000000ns", 252)]
    #[case::micro("2000\u{b5}s", 2)]
    #[case::any_order("1s1h", 3_601_000)]
    #[case::longer_than_go_can("99999999999999999999999999h", 9_223_372_036_000)]
    #[case::more_digits_than_a_float(&format!("{}h", "9".repeat(400)), 9_223_372_036_000)]
    fn has_a_length(#[case] text: &str, #[case] millis: u128) {
        let duration = GoDuration::from(text);
        assert!(duration.is_valid());
        assert_eq!(duration.length().as_millis(), millis);
    }

    #[rstest]
    fn what_the_pattern_rejects_is_not_valid(
        #[values(
            "",
            "5",
            "00",
            "soon",
            "m",
            "-5m",
            "+5m",
            ".5h",
            "1.h",
            "1.2.3h",
            "1h.5m",
            "1d",
            "1h30",
            " 5m",
            "5m ",
            "5M",
            "1\u{3bc}s",
            "\u{661}s",
            "infs",
            "1e3s"
        )]
        text: &str,
    ) {
        let duration: GoDuration = serde_json::from_value(text.into()).unwrap();
        assert!(!duration.is_valid());
        assert_eq!(duration.length(), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn what_the_pattern_accepts_is_valid(
            text in "0|([0-9]{1,30}(\\.[0-9]{1,30})?(ns|us|\u{b5}s|ms|s|m|h)){1,5}"
        ) {
            prop_assert!(GoDuration::from(&*text).is_valid());
        }

        #[test]
        fn any_text_reads_back_as_written(text in any::<String>()) {
            let duration: GoDuration = serde_json::from_value(text.clone().into()).unwrap();
            prop_assert!(duration.length() <= LONGEST);
            prop_assert_eq!(serde_json::to_value(duration).unwrap(), text);
        }
    }
}
