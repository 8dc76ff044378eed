//! The records that somebody else has to make, for provider `none`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::tenants::{RequiredRecord, RequiredRecordType};

use super::{Target, names};

/// Second labels below two-letter top domains under which names are registered.
const REGISTRIES: [&str; 7] = ["ac", "co", "com", "edu", "gov", "net", "org"];

/// The records that `domains` need.
///
/// A name at the top of its zone is an ALIAS, since DNS forbids a CNAME there; all others are
/// CNAMEs. Nobody tells us the zones of such names. So a name counts as a top if it
/// - is one of `tops`, the names of zones we know of, or
/// - has two labels, like `example.com`, or
/// - has three, of which the last two look like a registry's: `example.co.uk`.
///
/// Where that is wrong, the value still is what the record must point to.
pub(crate) fn required<'d>(
    domains: impl IntoIterator<Item = &'d str>,
    target: &Target,
    tops: &BTreeSet<String>,
) -> Vec<RequiredRecord> {
    let domains: BTreeSet<_> = domains.into_iter().map(names::canonical).collect();
    let records = domains.into_iter().map(|name| RequiredRecord {
        kind: if tops.contains(&name) || looks_like_a_top(&name) {
            RequiredRecordType::Alias
        } else {
            RequiredRecordType::Cname
        },
        name,
        value: names::canonical(&target.endpoint),
    });
    records.collect()
}

fn looks_like_a_top(name: &str) -> bool {
    let labels: Vec<_> = name.split('.').collect();
    match labels.as_slice() {
        ["*", ..] => false,
        [_, _] => true,
        [_, second, last] => last.len() == 2 && REGISTRIES.contains(second),
        [..] => false,
    }
}

/// The records as a zone file.
///
/// Zone files have no ALIAS: such a name is a comment that says what to make.
pub(crate) fn zone_file(records: &[RequiredRecord], ttl: i64) -> String {
    let mut file = String::new();
    for RequiredRecord { name, kind, value } in records {
        let line = match kind {
            RequiredRecordType::Cname => writeln!(file, "{name}. {ttl} IN CNAME {value}."),
            RequiredRecordType::Alias => writeln!(
                file,
                "; {name}. to {value}. by what your provider offers at the top of a zone: ALIAS, \
                 ANAME, or a flattened CNAME"
            ),
        };
        line.expect("writing to a string never fails");
    }
    file
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn target() -> Target {
        Target {
            endpoint: "d0.cloudfront.net".to_owned(),
            ipv6: true,
        }
    }

    #[rstest]
    #[case::below_a_top("www.example.com", "CNAME")]
    #[case::two_labels("Example.com.", "ALIAS")]
    #[case::below_a_registry("example.co.uk", "ALIAS")]
    #[case::further_below("www.example.co.uk", "CNAME")]
    #[case::no_registry("www.example.uk", "CNAME")]
    #[case::a_long_top_domain("www.co.shop", "CNAME")]
    #[case::a_wildcard("*.com", "CNAME")]
    #[case::a_zone_we_know("eu.example.com", "ALIAS")]
    fn a_record_is_required(#[case] domain: &str, #[case] kind: &str) {
        let tops = BTreeSet::from(["eu.example.com".to_owned()]);
        let records = required([domain], &target(), &tops);
        let told: Vec<_> = records
            .iter()
            .map(|one| (&*one.name, one.kind.as_str(), &*one.value))
            .collect();
        let name = names::canonical(domain);
        assert_eq!(told, [(&*name, kind, "d0.cloudfront.net")]);
    }

    #[test]
    fn required_records_make_a_zone_file() {
        let domains = [
            "b.example.com",
            "*.example.com",
            "example.com",
            "B.example.com.",
        ];
        let records = required(domains, &target(), &BTreeSet::new());
        let expected = "\
*.example.com. 300 IN CNAME d0.cloudfront.net.
b.example.com. 300 IN CNAME d0.cloudfront.net.
; example.com. to d0.cloudfront.net. by what your provider offers at the top of a zone: ALIAS, \
ANAME, or a flattened CNAME
";
        assert_eq!(zone_file(&records, 300), expected);
    }
}
