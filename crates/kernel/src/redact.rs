//! Redaction of secrets in texts.

use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const STARS: &str = "***";
/// Shorter secrets would redact ordinary words.
const SHORTEST: usize = 4;
const ELLIPSIS: char = '…';

/// A secret value. It is deserialized unchanged and always printed as `***`.
///
/// # When not to use it
/// To send the secret as JSON: it would arrive as `***`. Expose it there explicitly.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Hides `secret`.
    pub fn new(secret: T) -> Self {
        Self(secret)
    }

    /// The secret itself. Review every use.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Redacted<T> {
    fn from(secret: T) -> Self {
        Self(secret)
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl<T> fmt::Display for Redacted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl<T> Serialize for Redacted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(STARS)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Redacted<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

/// `text` with every secret replaced by `***`, also in base64, URL-encoded or JSON-escaped form.
///
/// Secrets that overlap or contain one another leave no remainder. Those shorter than four
/// characters are not replaced: they would redact ordinary words.
///
/// # When not to use it
/// As the only protection: it cannot find a secret that was hashed, split or encoded together with
/// other text. Keep secrets in [`Redacted`], and do not put them into messages.
pub fn redact(text: &str, secrets: &[&str]) -> String {
    let mut hidden: Vec<Range<usize>> = secrets
        .iter()
        .flat_map(|secret| forms(secret))
        .flat_map(|form| occurrences(text, &form))
        .collect();
    hidden.sort_by_key(|range| range.start);

    let mut redacted = String::with_capacity(text.len());
    let mut shown = 0;
    for range in hidden {
        // A range that begins within the last one only extends it.
        if range.start >= shown {
            redacted.push_str(&text[shown..range.start]);
            redacted.push_str(STARS);
        }
        shown = shown.max(range.end);
    }
    redacted.push_str(&text[shown..]);
    redacted
}

/// `text` cut on a character boundary to at most `max_bytes`, including the `…`.
pub fn cap(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    match max_bytes.checked_sub(ELLIPSIS.len_utf8()) {
        Some(room) => format!("{}{ELLIPSIS}", &text[..text.floor_char_boundary(room)]),
        None => String::new(),
    }
}

/// Every occurrence of `form` in `text`, including overlapping ones.
fn occurrences(text: &str, form: &str) -> Vec<Range<usize>> {
    let mut occurrences = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(form) {
        let start = from + at;
        occurrences.push(start..start + form.len());
        from = start + form.chars().next().map_or(1, char::len_utf8);
    }
    occurrences
}

/// The forms of a secret in a text.
fn forms(secret: &str) -> Vec<String> {
    // A secret from a file often ends in a newline that a message does not contain.
    let mut forms: Vec<String> = [secret, secret.trim()]
        .into_iter()
        .filter(|secret| secret.chars().count() >= SHORTEST)
        .flat_map(encodings)
        .collect();
    forms.sort();
    forms.dedup();
    forms
}

fn encodings(secret: &str) -> Vec<String> {
    let percent = percent_encoded(secret);
    let json = json_escaped(secret);
    let mut encodings: Vec<String> = [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD]
        .iter()
        .map(|base64| base64.encode(secret))
        .collect();
    encodings.extend([
        secret.to_owned(),
        percent.replace("%20", "+"),
        lower_hex(&percent).replace("%20", "+"),
        lower_hex(&percent),
        percent,
        // Go, in which Vault and Kubernetes are written, also escapes special characters of HTML.
        json.replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
        json,
    ]);
    encodings
}

/// As in a URL: all but unreserved characters as `%XX`.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a string cannot fail");
        }
        encoded
    })
}

/// `%2F` as `%2f`, which some encoders write; the rest of the text keeps its case.
fn lower_hex(percent: &str) -> String {
    let mut left = 0;
    percent
        .chars()
        .map(|c| {
            if c == '%' {
                left = 2;
                c
            } else if left > 0 {
                left -= 1;
                c.to_ascii_lowercase()
            } else {
                c
            }
        })
        .collect()
}

/// As between the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[test]
    fn a_redacted_value_prints_stars_everywhere() {
        let token = Redacted::new("hvs.secret".to_owned());
        assert_eq!(
            format!("{token} {token:?} {:#?}", Some(&token)),
            "*** *** Some(\n    ***,\n)"
        );
        assert_eq!(serde_json::to_string(&token).unwrap(), r#""***""#);
        assert_eq!(token.expose(), "hvs.secret");
    }

    #[test]
    fn a_redacted_value_is_deserialized_unchanged() {
        let token: Redacted<String> = serde_json::from_str(r#""hvs.secret""#).unwrap();
        assert_eq!(token, Redacted::from("hvs.secret".to_owned()));
    }

    const SECRET: &str = "p<ss w/\"rd+?";

    #[rstest]
    #[case::plain("p<ss w/\"rd+?")]
    #[case::base64("cDxzcyB3LyJyZCs/")]
    #[case::base64_for_urls("cDxzcyB3LyJyZCs_")]
    #[case::url("p%3Css%20w%2F%22rd%2B%3F")]
    #[case::url_in_lower_case("p%3css%20w%2f%22rd%2b%3f")]
    #[case::form("p%3Css+w%2F%22rd%2B%3F")]
    #[case::json(r#"p<ss w/\"rd+?"#)]
    #[case::json_from_go(r#"p\u003css w/\"rd+?"#)]
    fn a_secret_is_found_in_every_form(#[case] form: &str) {
        assert_eq!(redact(&format!("got ({form})!"), &[SECRET]), "got (***)!");
    }

    #[test]
    fn base64_without_padding_is_found_too() {
        assert_eq!(redact("a3ViZXM= a3ViZXM", &["kubes"]), "*** ***");
    }

    #[test]
    fn a_longer_secret_leaves_no_remainder_when_a_shorter_begins_it() {
        assert_eq!(
            redact("token abcdefgh.", &["abcd", "abcdefgh"]),
            "token ***."
        );
        assert_eq!(
            redact("token abcdefgh.", &["abcdefgh", "efgh"]),
            "token ***."
        );
    }

    #[test]
    fn overlapping_secrets_leave_no_remainder() {
        assert_eq!(redact("abcd1234efgh", &["abcd1234", "1234efgh"]), "***");
        assert_eq!(redact("aaaaaa", &["aaaa"]), "***");
    }

    #[test]
    fn a_secret_with_a_trailing_newline_is_found_without_it() {
        assert_eq!(redact("bad token s3cret", &["s3cret\n"]), "bad token ***");
    }

    #[test]
    fn short_secrets_do_not_redact_words() {
        assert_eq!(redact("the end", &["", "the", " \n "]), "the end");
    }

    #[rstest]
    #[case::fits("grün", 5, "grün")]
    #[case::cut("grünlich", 6, "gr…")]
    #[case::only_dots("grün", 3, "…")]
    #[case::no_room("grün", 2, "")]
    fn a_text_is_capped_between_characters(
        #[case] text: &str,
        #[case] max: usize,
        #[case] capped: &str,
    ) {
        assert_eq!(cap(text, max), capped);
    }

    proptest! {
        #[test]
        fn a_capped_text_fits_and_begins_like_the_whole(text in ".{0,40}", max in 0..50_usize) {
            let capped = cap(&text, max);
            prop_assert!(capped.len() <= max);
            prop_assert!(text.starts_with(capped.trim_end_matches('…')));
        }

        #[test]
        fn no_secret_survives(
            words in proptest::collection::vec("[a-zé%&\"\\\\ ]{4,12}", 1..4),
            around in "[a-z ]{0,8}",
        ) {
            let text = words.iter().flat_map(|word| encodings(word)).collect::<Vec<_>>().join(&around);
            let secrets: Vec<&str> = words.iter().map(String::as_str).collect();
            let redacted = redact(&text, &secrets);
            for word in &words {
                prop_assert!(!redacted.contains(word.as_str()), "{word:?} in {redacted:?}");
            }
        }

        #[test]
        fn a_text_without_secrets_does_not_change(text in "[a-m ]{0,40}") {
            prop_assert_eq!(redact(&text, &["[nopq]"]), text);
        }
    }
}
