//! DNS names as Route 53 keeps, compares and orders them.

/// The longest name, its final dot included.
const LONGEST: usize = 255;
const LONGEST_LABEL: usize = 63;

/// A name as Route 53 keeps it: lower case, with a final dot, odd characters as `\ooo`.
///
/// # Errors
/// Route 53's words for a name that cannot be.
pub(crate) fn kept(name: &str) -> Result<String, String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut labels = Vec::new();
    for label in name.split('.') {
        let bytes = plain(label);
        let wrong = match bytes.len() {
            0 => "DomainLabelEmpty (Domain label is empty)",
            1..=LONGEST_LABEL => {
                labels.push(bytes.iter().map(|byte| written(*byte)).collect::<String>());
                continue;
            }
            _ => "DomainLabelTooLong (Domain label is too long)",
        };
        return Err(format!("FATAL problem: {wrong} encountered with '{name}'"));
    }
    let kept = labels.join(".") + ".";
    if kept.len() > LONGEST {
        let wrong = "DomainNameTooLong (Domain name is too long)";
        return Err(format!("FATAL problem: {wrong} encountered with '{name}'"));
    }
    Ok(kept)
}

/// A label without its `\ooo` escapes.
fn plain(label: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = label.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            out.push(byte);
            rest = &tail[3..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

fn written(byte: u8) -> String {
    match byte.to_ascii_lowercase() {
        plain @ (b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') => char::from(plain).to_string(),
        odd => format!("\\{odd:03o}"),
    }
}

/// What orders names as Route 53 lists them: by labels, the last one first.
pub(crate) fn order(kept: &str) -> String {
    let labels = kept.trim_end_matches('.').rsplit('.');
    labels.collect::<Vec<_>>().join("\u{1}")
}

/// Whether `name` lies in the zone of this name; both as kept.
pub(crate) fn is_within(name: &str, zone: &str) -> bool {
    name == zone
        || name
            .strip_suffix(zone)
            .is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::case_and_dot("A.Example.COM", "a.example.com.")]
    #[case::a_final_dot_stays("a.example.com.", "a.example.com.")]
    #[case::a_star_is_escaped("*.example.com", "\\052.example.com.")]
    #[case::an_escape_stays("\\052.example.com", "\\052.example.com.")]
    #[case::an_underscore_stays("_pontoon-owner.a.b", "_pontoon-owner.a.b.")]
    fn a_name_is_kept(#[case] sent: &str, #[case] name: &str) {
        assert_eq!(kept(sent), Ok(name.to_owned()));
    }

    #[rstest]
    #[case::empty_label("a..b", "DomainLabelEmpty")]
    #[case::long_label(&format!("{}.b", "a".repeat(64)), "DomainLabelTooLong")]
    #[case::long_name(&vec!["a".repeat(63); 4].join("."), "DomainNameTooLong")]
    fn a_name_that_cannot_be_is_refused(#[case] sent: &str, #[case] told: &str) {
        let wrong = kept(sent).unwrap_err();
        assert!(wrong.contains(told), "{wrong}");
    }

    #[test]
    fn names_are_ordered_by_labels_from_the_right() {
        let mut names = ["b.a.com.", "a.com.", "a.b.com.", "a.a.com."];
        names.sort_by_key(|name| order(name));
        assert_eq!(names, ["a.com.", "a.a.com.", "b.a.com.", "a.b.com."]);
    }

    #[rstest]
    #[case::itself("example.com.", true)]
    #[case::below("a.b.example.com.", true)]
    #[case::beside("notexample.com.", false)]
    fn a_name_is_in_its_zone(#[case] name: &str, #[case] within: bool) {
        assert_eq!(is_within(name, "example.com."), within);
    }

    proptest! {
        #[test]
        fn keeping_twice_is_keeping_once(name in "[a-zA-Z0-9*_@-]{1,20}(\\.[a-z*]{1,9}){1,4}") {
            let once = kept(&name).unwrap();
            prop_assert_eq!(kept(&once), Ok(once.clone()));
        }
    }
}
