//! How often a table is read, as Go writes lengths of time.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::schema::rule;

const SHORTEST: Duration = Duration::from_secs(30);
const USUAL: Duration = Duration::from_secs(300);

// What this accepts CEL can turn into a duration: a failure to do so would not be forgiven to an
// object that is stored already. The counts keep the sum below CEL's longest, 292 years.
const LENGTH_OF_TIME: &str = r"^([0-9]{1,5}([.][0-9]{1,9})?h|[0-9]{1,7}([.][0-9]{1,9})?(m|s|ms|us|\x{b5}s|\x{3bc}s|ns)){1,6}$";

/// How often a table is read: `90s`, `5m`, `1h30m`.
///
/// It keeps the text it was given, so that objects read back as they were written, and any text
/// can be read: an object stored before the rule below was made still gets its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Interval(String);

impl Interval {
    /// The length. Below 30s acts as 30s, and what is no length of time as 5m.
    pub fn length(&self) -> Duration {
        let Self(text) = self;
        parse(text).map_or(USUAL, |length| length.max(SHORTEST))
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self("5m".into())
    }
}

impl From<&str> for Interval {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Interval {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-kubernetes-validations": [rule(
                &format!("self.matches(r'{LENGTH_OF_TIME}') && duration(self) >= duration('30s')"),
                "pollInterval must be a length of time such as 5m, at least 30s"
            )],
        })
    }
}

/// Numbers with units, one after the other, without a sign.
fn parse(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    let mut left = text;
    while !left.is_empty() {
        let (number, rest) = left.split_at(left.find(|c: char| !is_of_number(c))?);
        let (unit, rest) = rest.split_at(rest.find(is_of_number).unwrap_or(rest.len()));
        seconds += number.parse::<f64>().ok()? * seconds_of(unit)?;
        left = rest;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn seconds_of(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::minutes("5m", 300)]
    #[case::as_go_prints_it("1h30m0s", 5400)]
    #[case::fraction("1.5h", 5400)]
    #[case::small_units("60000ms", 60)]
    #[case::micro_in_both_spellings("30000000\u{b5}s30000000\u{3bc}s", 60)]
    #[case::below_the_shortest("1s", 30)]
    #[case::no_length_of_time("soon", 300)]
    #[case::no_unit("5", 300)]
    #[case::no_number("m", 300)]
    #[case::negative("-5m", 300)]
    #[case::days_are_not_gos("1d", 300)]
    #[case::two_points("1.2.3h", 300)]
    #[case::empty("", 300)]
    fn has_a_length(#[case] text: &str, #[case] seconds: u64) {
        assert_eq!(Interval::from(text).length(), Duration::from_secs(seconds));
    }

    proptest! {
        #[test]
        fn any_text_reads_back_and_has_a_length(text in any::<String>()) {
            let interval: Interval = serde_json::from_value(text.clone().into()).unwrap();
            prop_assert!(interval.length() >= SHORTEST);
            prop_assert_eq!(serde_json::to_value(interval).unwrap(), text);
        }
    }
}
