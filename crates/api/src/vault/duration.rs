//! Lengths of time as people write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The longest that counts, about 292 years: what Vault itself can hold. Longer ones count as this.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(9_223_372_036);
const PATTERN: &str = r"^([0-9]+|([0-9]+(\.[0-9]+)?[smhd])+)$";
const NANOS: u128 = 1_000_000_000;
/// Digits after the point that count; with more, a day's part could overflow.
const FRACTION: usize = 15;

/// A length of time: `90`, `90s`, `1h30m`, `1.5d`. A bare number is seconds.
///
/// It keeps the text it was given, so that objects read back as they were written. Two are equal
/// when their texts are; to compare lengths, compare [`Duration::as_std`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration {
    text: String,
    length: std::time::Duration,
}

/// A text that is no [`Duration`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDuration(String);

impl Duration {
    /// This many seconds, written in hours, minutes and seconds.
    pub fn from_secs(seconds: u64) -> Self {
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
        ];
        let mut text = String::new();
        for (count, unit) in parts.iter().filter(|(count, _)| *count > 0) {
            text += &count.to_string();
            text += unit;
        }
        Self {
            text: if text.is_empty() { "0s".into() } else { text },
            length: std::time::Duration::from_secs(seconds).min(LONGEST),
        }
    }

    /// Whole seconds, a part of one counted as one: to Vault, 0 means no limit.
    pub fn as_secs(&self) -> u64 {
        self.length.as_secs() + u64::from(self.length.subsec_nanos() > 0)
    }

    /// The exact length.
    pub fn as_std(&self) -> std::time::Duration {
        self.length
    }

    /// The text it was given as.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Duration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for Duration {
    type Error = InvalidDuration;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let Some(nanos) = nanos(&text) else {
            return Err(InvalidDuration(text));
        };
        let length = match u64::try_from(nanos / NANOS) {
            Ok(seconds) => {
                let rest = u32::try_from(nanos % NANOS).expect("less than a second's nanoseconds");
                std::time::Duration::new(seconds, rest).min(LONGEST)
            }
            Err(_) => LONGEST,
        };
        Ok(Self { text, length })
    }
}

/// The length in nanoseconds, saturating; `None` for what [`PATTERN`] rejects.
fn nanos(text: &str) -> Option<u128> {
    let (first, rest) = digits(text)?;
    if rest.is_empty() {
        return Some(count(first).saturating_mul(NANOS));
    }
    let mut total = 0_u128;
    let mut left = text;
    while !left.is_empty() {
        let (whole, rest) = digits(left)?;
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => digits(rest)?,
            None => ("", rest),
        };
        let unit = rest.chars().next().and_then(seconds_of)? * NANOS;
        let fraction = &fraction[..fraction.len().min(FRACTION)];
        let parts = 10_u128.pow(u32::try_from(fraction.len()).expect("at most FRACTION"));
        total = total
            .saturating_add(count(whole).saturating_mul(unit))
            .saturating_add(count(fraction) * unit / parts);
        left = &rest[1..];
    }
    Some(total)
}

/// The digits `text` begins with, at least one, and what follows them.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// What `digits` count; none count as 0, too many as the most there is.
fn count(digits: &str) -> u128 {
    if digits.is_empty() {
        return 0;
    }
    digits.parse().unwrap_or(u128::MAX)
}

fn seconds_of(unit: char) -> Option<u128> {
    match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.text
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is no duration; write seconds (90) or numbers with s, m, h or d (1h30m)"
        )
    }
}

impl std::error::Error for InvalidDuration {}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::bare_number("90", 90)]
    #[case::zero("0", 0)]
    #[case::mixed("1h30m", 5400)]
    #[case::as_go_prints_it("1h0m0s", 3600)]
    #[case::days("1d", 86_400)]
    #[case::fraction("1.5h", 5400)]
    #[case::any_order("1s1d1s", 86_402)]
    #[case::part_of_a_second("0.2s", 1)]
    #[case::beyond_what_vault_holds("99999999999999999999999999999999999999999d", 9_223_372_036)]
    #[case::many_digits_after_the_point("0.50000000000000000000000000000000000000000m", 30)]
    fn counts_seconds(#[case] text: &str, #[case] seconds: u64) {
        let duration: Duration = text.parse().unwrap();
        assert_eq!((duration.as_secs(), duration.as_str()), (seconds, text));
    }

    #[rstest]
    fn what_the_pattern_rejects_is_no_duration(
        #[values(
            "", "abc", "1x", "h", "-1s", "1.5", "1.h", ".5h", "1h30", "500ms", " 1s", "1s ", "1S",
            "1h\n", "\u{661}s", "1\u{e9}"
        )]
        text: &str,
    ) {
        let error = text.parse::<Duration>().unwrap_err().to_string();
        assert!(error.contains("is no duration"), "{error}");
        assert!(serde_json::from_value::<Duration>(text.into()).is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(seconds in 0..=LONGEST.as_secs()) {
            let duration = Duration::from_secs(seconds);
            prop_assert_eq!(duration.as_secs(), seconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn what_the_pattern_accepts_reads_back_as_written(
            text in r"[0-9]{1,50}|([0-9]{1,50}(\.[0-9]{1,50})?[smhd]){1,5}"
        ) {
            let duration: Duration = serde_json::from_value(text.clone().into()).unwrap();
            prop_assert_eq!(serde_json::to_value(duration).unwrap(), text);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = text.parse::<Duration>();
        }
    }
}
