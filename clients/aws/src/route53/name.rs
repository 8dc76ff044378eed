//! Domain names in our form and as Route 53 stores them.

use std::fmt::Write as _;

/// Converts a name that Route 53 stores to our form: lower case, no final dot, and `*` for `\052`.
/// Characters that a name cannot contain otherwise, such as a dot inside a label, stay escaped.
///
/// A name that is already in our form does not change.
pub fn domain(kept: &str) -> String {
    let mut name = String::with_capacity(kept.len());
    let mut rest = kept.strip_suffix('.').unwrap_or(kept);
    while let Some(next) = rest.chars().next() {
        match escaped(rest) {
            Some(byte) if is_plain(byte) => {
                name.push(char::from(byte).to_ascii_lowercase());
                rest = &rest[4..];
            }
            Some(_) => {
                name.push_str(&rest[..4]);
                rest = &rest[4..];
            }
            None => {
                name.push(next.to_ascii_lowercase());
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    name
}

/// Converts a name in our form to the one that Route 53 stores. Everything except letters, digits,
/// `-` and `_` is escaped, so that the name sorts as in Route 53.
pub(super) fn kept(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if escaped(rest).is_some() {
            kept.push_str(&rest[..4]);
            rest = &rest[4..];
            continue;
        }
        let plain = next.is_ascii_alphanumeric() || "-_.".contains(next);
        if plain {
            kept.push(next.to_ascii_lowercase());
        } else {
            for byte in next.to_string().bytes() {
                write!(kept, "\\{byte:03o}").expect("writing to a string cannot fail");
            }
        }
        rest = &rest[next.len_utf8()..];
    }
    kept
}

/// The byte that `\ooo` at the beginning of `text` stands for.
fn escaped(text: &str) -> Option<u8> {
    let digits = text.strip_prefix('\\')?.get(..3)?;
    let octal = digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let byte = u16::from_str_radix(digits, 8).ok().filter(|_| octal)?;
    u8::try_from(byte).ok()
}

/// Whether a byte needs no escape in a name.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'.' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_star(r"\052.example.com.", "*.example.com")]
    #[case::case_and_dot("A.Example.com.", "a.example.com")]
    #[case::ours_already("*.example.com", "*.example.com")]
    #[case::a_dot_in_a_label(r"a\056b.example.com.", r"a\056b.example.com")]
    #[case::not_ascii(r"\303\244.example.com.", r"\303\244.example.com")]
    #[case::no_escape(r"\09.example.com.", r"\09.example.com")]
    #[case::short(r"\05", r"\05")]
    #[case::the_root(".", "")]
    fn a_kept_name_is_ours(#[case] kept: &str, #[case] ours: &str) {
        assert_eq!(domain(kept), ours);
    }

    #[rstest]
    #[case::a_star("*.example.com", r"\052.example.com")]
    #[case::an_underscore("_pontoon-owner.a.b", "_pontoon-owner.a.b")]
    #[case::an_escape(r"a\056b.example.com", r"a\056b.example.com")]
    #[case::not_ascii("ä.example.com", r"\303\244.example.com")]
    fn our_name_is_kept(#[case] ours: &str, #[case] as_kept: &str) {
        assert_eq!(kept(ours), as_kept);
    }

    proptest! {
        #[test]
        fn both_conversions_are_inverse(name in "[a-z0-9*_-]{1,12}(\\.[a-z0-9*]{1,9}){0,4}") {
            prop_assert_eq!(domain(&kept(&name)), name);
        }

        #[test]
        fn no_text_panics_in_either_conversion(text in ".{0,40}") {
            let once = domain(&text);
            prop_assert!(kept(&once).is_ascii());
        }
    }
}
