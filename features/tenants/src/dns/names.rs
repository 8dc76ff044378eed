//! DNS names: one spelling for all comparisons, and the names of marks.

use std::fmt::Write as _;

/// The one spelling of a name: lower case, no final dot, `*` for Route 53's `\052`.
pub(crate) use aws::route53::domain as canonical;
use sha2::{Digest as _, Sha256};

const MARK: &str = "_pontoon-owner";
/// What stands for `*` in the name of a mark.
const STAR: &str = "_wildcard";
/// The longest name, without its final dot.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;
/// What external-dns puts before a name for its own TXT record, by the type of the record. Before
/// that a user may have put a prefix of their own, which cannot be guessed.
const EXTERNAL_DNS: [&str; 3] = ["cname-", "a-", "aaaa-"];

/// The name of the mark beside `name`, both canonical.
///
/// Where it would be too long it is made of a digest, directly in the zone; then, and only then, it
/// is `None` without the zone's name.
pub(crate) fn mark_name(name: &str, zone: Option<&str>) -> Option<String> {
    let beside = match name.strip_prefix("*.") {
        Some(rest) => format!("{MARK}.{STAR}.{rest}"),
        None => format!("{MARK}.{name}"),
    };
    if beside.len() <= LONGEST {
        return Some(beside);
    }
    let digest = Sha256::digest(name.as_bytes());
    let head = digest[..8].iter().fold(String::new(), |mut all, byte| {
        write!(all, "{byte:02x}").expect("writing to a string never fails");
        all
    });
    Some(format!("{MARK}-{head}.{}", zone?))
}

/// What is below the first label of a name whose mark would be that of a wildcard.
pub(super) fn reserved(name: &str) -> Option<&str> {
    name.strip_prefix(STAR)?.strip_prefix('.')
}

/// The names that must be read to know what is at `name` and whose it is, the name itself first.
pub(crate) fn to_read(name: &str, mark: &str) -> Vec<String> {
    let own = [name.to_owned(), mark.to_owned()];
    let theirs = EXTERNAL_DNS.iter().map(|prefix| format!("{prefix}{name}"));
    own.into_iter()
        .chain(theirs.filter(|name| can_be(name)))
        .collect()
}

/// Whether DNS has room for a name.
fn can_be(name: &str) -> bool {
    name.len() <= LONGEST && name.split('.').all(|label| label.len() <= LONGEST_LABEL)
}

/// Whether `name` is `zone` or lies below it, both canonical.
pub(super) fn is_within(name: &str, zone: &str) -> bool {
    name == zone
        || name
            .strip_suffix(zone)
            .is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_name("a.example.com", "_pontoon-owner.a.example.com")]
    #[case::a_wildcard("*.example.com", "_pontoon-owner._wildcard.example.com")]
    #[case::the_top("example.com", "_pontoon-owner.example.com")]
    fn a_mark_lies_beside_its_name(#[case] name: &str, #[case] mark: &str) {
        assert_eq!(mark_name(name, None).as_deref(), Some(mark));
    }

    #[test]
    fn a_mark_that_would_be_too_long_is_a_digest_in_the_zone() {
        // 15 characters come before the name.
        let name = |length: usize| format!("{}.com", "a".repeat(length - 4));
        let fits = mark_name(&name(238), None).expect("it fits");
        assert_eq!(fits.len(), 253);
        assert_eq!(mark_name(&name(239), None), None);
        let long = mark_name(&name(239), Some("example.com")).expect("the zone is known");
        let digest = long
            .strip_prefix("_pontoon-owner-")
            .and_then(|rest| rest.strip_suffix(".example.com"))
            .expect("made of a digest");
        assert!(digest.len() == 16 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()));
        assert_ne!(mark_name(&name(240), Some("example.com")), Some(long));
    }

    #[test]
    fn names_that_dns_has_no_room_for_are_not_read() {
        let long = format!("{}.example.com", "a".repeat(60));
        let mark = mark_name(&long, None).unwrap();
        let read = to_read(&long, &mark);
        assert_eq!(read, [long.clone(), mark, format!("a-{long}")]);
    }

    #[rstest]
    #[case::itself("example.com", true)]
    #[case::below("*.b.example.com", true)]
    #[case::beside("notexample.com", false)]
    #[case::above("com", false)]
    fn a_name_lies_in_a_zone(#[case] name: &str, #[case] within: bool) {
        assert_eq!(is_within(name, "example.com"), within);
    }
}
