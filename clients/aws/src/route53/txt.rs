//! Encoding of TXT records.

use std::fmt::Write as _;

/// The most bytes of one string in a record.
const LONGEST: usize = 255;

/// `text` as the value of a TXT record: quoted, in strings of at most 255 characters, everything
/// but printable ASCII escaped.
pub fn txt_value(text: &str) -> String {
    let bytes = text.as_bytes();
    let strings = bytes.chunks(LONGEST).map(quoted);
    let strings: Vec<String> = if bytes.is_empty() {
        vec![quoted(&[])]
    } else {
        strings.collect()
    };
    strings.join(" ")
}

fn quoted(bytes: &[u8]) -> String {
    let mut string = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' => string.push_str("\\\""),
            b'\\' => string.push_str("\\\\"),
            b' '..=b'~' => string.push(char::from(*byte)),
            _ => write!(string, "\\{byte:03o}").expect("writing to a string cannot fail"),
        }
    }
    string.push('"');
    string
}

/// The text of a TXT record's value: its strings joined.
pub fn txt_text(value: &str) -> String {
    let mut text = Vec::new();
    let mut bytes = value.bytes().peekable();
    let mut inside = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => inside = !inside,
            // Between strings.
            b' ' | b'\t' if !inside => {}
            b'\\' => {
                let digits: Vec<u8> = std::iter::from_fn(|| bytes.next_if(u8::is_ascii_digit))
                    .take(3)
                    .collect();
                match octal(&digits) {
                    Some(byte) => text.push(byte),
                    None if digits.is_empty() => text.extend(bytes.next()),
                    None => text.extend(digits),
                }
            }
            _ => text.push(byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|all| all.len() == 3)?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("heritage=pontoon,owner=c", "\"heritage=pontoon,owner=c\"")]
    #[case::quotes(r#"say "hi" \o/"#, r#""say \"hi\" \\o/""#)]
    #[case::not_ascii("ä", r#""\303\244""#)]
    #[case::empty("", "\"\"")]
    fn a_text_is_quoted(#[case] text: &str, #[case] value: &str) {
        assert_eq!(txt_value(text), value);
        assert_eq!(txt_text(value), text);
    }

    #[test]
    fn a_long_text_is_several_strings() {
        let value = txt_value(&"x".repeat(300));
        let strings: Vec<usize> = value.split(' ').map(str::len).collect();
        assert_eq!(strings, [257, 47]);
    }

    #[test]
    fn a_value_without_quotes_is_read_as_it_is() {
        assert_eq!(txt_text("v=spf1"), "v=spf1");
    }

    proptest! {
        #[test]
        fn a_written_text_is_read_back(text in "\\PC{0,600}") {
            prop_assert_eq!(txt_text(&txt_value(&text)), text);
        }

        #[test]
        fn no_value_panics_the_reader(value in ".{0,80}") {
            txt_text(&value);
        }
    }
}
