//! Names that Kubernetes accepts, derived from any names.

use sha2::{Digest, Sha256};

/// Hex digits of the suffix: 40 bits, and not the 12 digits of an AWS account.
const HASH_LENGTH: usize = 10;

/// A DNS-1123 label of at most 63 characters, from `parts` joined by `-`.
///
/// Lower-cased; characters that a label may not contain become `-`. If two inputs could give the same
/// text (something was changed or cut, or a part contains a `-`), a hash of the original parts is
/// added. So `["a", "b-c"]` and `["a-b", "c"]` get different names, and `["payments", "api"]` stays
/// `payments-api`.
///
/// # When not to use it
/// For names of an existing system: those have their own rules.
pub fn label(parts: &[&str]) -> String {
    Form {
        separator: '-',
        limit: 63,
    }
    .name(parts)
}

/// A DNS-1123 subdomain of at most 253 characters, from `parts` joined by `.`.
///
/// The rules are those of [`label`], with `.` instead of `-`: a part may contain `-`, and one that
/// contains `.` gets the hash.
pub fn subdomain(parts: &[&str]) -> String {
    Form {
        separator: '.',
        limit: 253,
    }
    .name(parts)
}

struct Form {
    separator: char,
    limit: usize,
}

impl Form {
    fn name(&self, parts: &[&str]) -> String {
        let joined = parts.join(&self.separator.to_string());
        if self.is_unambiguous(parts) && joined.len() <= self.limit {
            return joined;
        }
        let hash = hash(parts);
        let mut readable = self.legal(&joined);
        readable.truncate(self.limit - HASH_LENGTH - 1);
        let readable = readable.trim_end_matches(['-', '.']);
        if readable.is_empty() {
            hash
        } else {
            format!("{readable}{}{hash}", self.separator)
        }
    }

    /// Whether no other parts give the same joined text, and no hashed name looks like it.
    fn is_unambiguous(&self, parts: &[&str]) -> bool {
        parts.iter().all(|part| self.is_plain(part))
            && parts.last().is_some_and(|last| !looks_like_a_hash(last))
    }

    fn is_plain(&self, part: &str) -> bool {
        let inside = |c: char| is_alphanumeric(c) || (c == '-' && self.separator != '-');
        !part.is_empty()
            && part.starts_with(is_alphanumeric)
            && part.ends_with(is_alphanumeric)
            && part.chars().all(inside)
    }

    /// `text` with only legal characters, each dot between two alphanumerics. ASCII throughout.
    fn legal(&self, text: &str) -> String {
        let dots = self.separator == '.';
        let replaced: String = text
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c if is_alphanumeric(c) || (c == '.' && dots) => c,
                _ => '-',
            })
            .collect();
        let segments: Vec<&str> = replaced
            .split('.')
            .map(|segment| segment.trim_matches('-'))
            .filter(|segment| !segment.is_empty())
            .collect();
        segments.join(".")
    }
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn looks_like_a_hash(part: &str) -> bool {
    part.len() == HASH_LENGTH && part.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

/// Each part is hashed with its length, so that moving text between parts changes the hash.
fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_string());
        digest.update(":");
        digest.update(part);
    }
    let mut hex = hex(&digest.finalize());
    hex.truncate(HASH_LENGTH);
    hex
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rstest::rstest;
    use std::collections::HashMap;

    #[rstest]
    #[case::plain_parts_stay_readable(&["payments", "api"], "payments-api")]
    #[case::one_part_stays_itself(&["payments"], "payments")]
    #[case::digits_may_lead(&["0", "a"], "0-a")]
    fn a_label_of_plain_parts_has_no_hash(#[case] parts: &[&str], #[case] name: &str) {
        assert_eq!(label(parts), name);
    }

    #[rstest]
    #[case::upper_case(&["Payments"], "payments-")]
    #[case::illegal_characters(&["pay_ments", "ä"], "pay-ments-")]
    #[case::separator_within(&["my-app"], "my-app-")]
    #[case::edges(&["-a-"], "a-")]
    #[case::an_empty_part(&["a", ""], "a-")]
    #[case::what_looks_like_a_hash(&["a", "0123456789"], "a-0123456789-")]
    fn a_label_that_was_changed_has_a_hash(#[case] parts: &[&str], #[case] readable: &str) {
        let name = label(parts);
        assert!(name.starts_with(readable), "{name}");
        assert_eq!(name.len(), readable.len() + HASH_LENGTH, "{name}");
    }

    #[test]
    fn a_subdomain_keeps_dashes_and_hashes_dots() {
        assert_eq!(subdomain(&["web-0", "payments"]), "web-0.payments");
        assert!(subdomain(&["web.0", "payments"]).starts_with("web.0.payments."));
        assert_ne!(
            subdomain(&["web", "0.payments"]),
            subdomain(&["web.0", "payments"])
        );
        assert!(subdomain(&["a.-b", ".c"]).starts_with("a.b.c."));
    }

    #[test]
    fn a_name_that_just_fits_stays_whole() {
        let long = "x".repeat(63);
        assert_eq!(label(&[&long]), long);
        assert_eq!(label(&[&long, "x"]).len(), 63);
    }

    #[test]
    fn without_legal_characters_only_the_hash_is_left() {
        assert!(looks_like_a_hash(&label(&[])));
        assert!(looks_like_a_hash(&label(&["_"])));
        assert_ne!(label(&[]), label(&[""]));
        assert_ne!(label(&["_"]), label(&["~"]));
    }

    #[test]
    fn names_stay_the_same_across_releases() {
        assert_eq!(label(&["my-app", "Prod"]), "my-app-prod-222a46e89f");
        assert_eq!(subdomain(&["my.app", "Prod"]), "my.app.prod.cb808eec5a");
    }

    fn is_a_label(name: &str) -> bool {
        (1..=63).contains(&name.len()) && is_a_segment(name)
    }

    fn is_a_subdomain(name: &str) -> bool {
        (1..=253).contains(&name.len()) && name.split('.').all(is_a_segment)
    }

    fn is_a_segment(text: &str) -> bool {
        text.starts_with(is_alphanumeric)
            && text.ends_with(is_alphanumeric)
            && text.chars().all(|c| is_alphanumeric(c) || c == '-')
    }

    /// Random parts, and every way to split their joined text into parts again.
    fn family(parts: &[String], separator: char) -> Vec<Vec<String>> {
        let text = parts.join(&separator.to_string());
        let mut family = vec![parts.to_vec(), vec![text.clone()]];
        for (at, _) in text.match_indices(separator) {
            family.push(vec![text[..at].to_owned(), text[at + 1..].to_owned()]);
        }
        family
    }

    fn assert_no_collision(
        inputs: &[Vec<String>],
        separator: char,
        name: fn(&[&str]) -> String,
    ) -> Result<(), TestCaseError> {
        let mut taken: HashMap<String, Vec<String>> = HashMap::new();
        for input in inputs.iter().flat_map(|parts| family(parts, separator)) {
            // The name itself is an input, too: its own name must differ.
            let made = name(&input.iter().map(String::as_str).collect::<Vec<_>>());
            let echo: Vec<String> = made.split(separator).map(str::to_owned).collect();
            for parts in [input, echo] {
                let made = name(&parts.iter().map(String::as_str).collect::<Vec<_>>());
                let first = taken.entry(made.clone()).or_insert_with(|| parts.clone());
                prop_assert_eq!(&*first, &parts, "both became {}", made);
            }
        }
        Ok(())
    }

    fn any_parts() -> impl Strategy<Value = Vec<String>> {
        prop_oneof![
            vec("[ab.-]{0,3}", 0..4),
            vec("[a-c]{1,2}", 1..4),
            vec("[aA_é-]{0,80}", 0..3),
            vec(".{0,100}", 0..4),
        ]
    }

    proptest! {
        #[test]
        fn every_name_is_valid(parts in any_parts()) {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            prop_assert!(is_a_label(&label(&parts)), "{}", label(&parts));
            prop_assert!(is_a_subdomain(&subdomain(&parts)), "{}", subdomain(&parts));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1))]
        #[test]
        fn different_parts_never_share_a_name(inputs in vec(any_parts(), 3000)) {
            assert_no_collision(&inputs, '-', label)?;
            assert_no_collision(&inputs, '.', subdomain)?;
        }
    }
}
