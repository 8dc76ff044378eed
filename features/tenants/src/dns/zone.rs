//! Which hosted zone a domain belongs to.

use super::Zone;
use super::names::{is_within, reserved};

/// Why a domain has no place for its records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It lies in none.
    #[error(
        "{domain} lies in no public hosted zone that the spec names or the account has ({seen}); \
         add its zone to dns.hostedZoneIds, or set dns.discoverZones"
    )]
    NoZone {
        /// The domain.
        domain: String,
        /// The zones that were looked at.
        seen: String,
    },
    /// It lies in two of the same name.
    #[error(
        "{domain} lies in hosted zones {first} and {second}, which are both named {name}; \
         name one of them in dns.hostedZoneId, without dns.discoverZones"
    )]
    TwoZones {
        /// The domain.
        domain: String,
        /// The name of the zones.
        name: String,
        /// The id of one.
        first: String,
        /// The id of the other.
        second: String,
    },
    /// Its ownership record would be another's.
    #[error("{domain} cannot have records: the name of its ownership TXT is that of *.{rest}")]
    NoMark {
        /// The domain.
        domain: String,
        /// What is below its first label.
        rest: String,
    },
}

/// The zone of `domain`, which is canonical: the public one with the longest name it ends in.
///
/// | public zones that hold the domain     | so                  |
/// |---------------------------------------|---------------------|
/// | none                                  | refused             |
/// | one with the longest name             | that one            |
/// | two ids with the longest name         | refused             |
/// | one id named twice                    | counts once         |
///
/// A name that begins like the mark of a wildcard has no place at all: each mark is one name's.
pub(super) fn choose<'z>(domain: &str, candidates: &'z [Zone]) -> Result<&'z Zone, Refusal> {
    if let Some(rest) = reserved(domain) {
        return Err(Refusal::NoMark {
            domain: domain.to_owned(),
            rest: rest.to_owned(),
        });
    }
    let fits = |zone: &&Zone| !zone.private && is_within(domain, &zone.name);
    let mut best: Vec<&Zone> = Vec::new();
    for zone in candidates.iter().filter(fits) {
        match best.first().map_or(0, |best| best.name.len()) {
            length if length < zone.name.len() => best = vec![zone],
            length if length == zone.name.len() && best.iter().all(|one| one.id != zone.id) => {
                best.push(zone);
            }
            _ => {}
        }
    }
    match best.as_slice() {
        [] => Err(Refusal::NoZone {
            domain: domain.to_owned(),
            seen: seen(candidates),
        }),
        [zone] => Ok(zone),
        [first, second, ..] => Err(Refusal::TwoZones {
            domain: domain.to_owned(),
            name: first.name.clone(),
            first: first.id.clone(),
            second: second.id.clone(),
        }),
    }
}

/// Some zones, for people.
fn seen(zones: &[Zone]) -> String {
    const SHOWN: usize = 5;
    let mut told: Vec<_> = zones
        .iter()
        .take(SHOWN)
        .map(|Zone { id, name, private }| {
            let private = if *private { ", private" } else { "" };
            format!("{id} {name}{private}")
        })
        .collect();
    match zones.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => told.push(format!("{more} more")),
        Some(_) | None => {}
    }
    if told.is_empty() {
        "there is none".to_owned()
    } else {
        format!("seen: {}", told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn zone(id: &str, name: &str) -> Zone {
        Zone {
            id: id.to_owned(),
            name: name.to_owned(),
            private: id.starts_with('P'),
        }
    }

    #[rstest] //                          domain                 zones                                          chosen
    #[case::the_only_one(                 "a.example.com",       &[("Z1", "example.com")],                      Ok("Z1"))]
    #[case::its_top(                      "example.com",         &[("Z1", "example.com")],                      Ok("Z1"))]
    #[case::a_wildcard(                   "*.example.com",       &[("Z1", "example.com")],                      Ok("Z1"))]
    #[case::the_longest(                  "x.eu.example.com",    &[("Z1", "example.com"), ("Z2", "eu.example.com")], Ok("Z2"))]
    #[case::the_longest_in_any_order(     "x.eu.example.com",    &[("Z2", "eu.example.com"), ("Z1", "example.com")], Ok("Z2"))]
    #[case::not_the_longer_beside_it(     "x.us.example.com",    &[("Z1", "example.com"), ("Z2", "eu.example.com")], Ok("Z1"))]
    #[case::no_private_one(               "x.eu.example.com",    &[("Z1", "example.com"), ("P2", "eu.example.com")], Ok("Z1"))]
    #[case::one_that_was_named_twice(     "a.example.com",       &[("Z1", "example.com"), ("Z1", "example.com")], Ok("Z1"))]
    #[case::two_alike_where_a_longer_fits("x.eu.example.com",    &[("Z1", "example.com"), ("Z2", "example.com"), ("Z3", "eu.example.com")], Ok("Z3"))]
    #[case::two_alike(                    "a.example.com",       &[("Z1", "example.com"), ("Z2", "example.com")], Err("Z1 and Z2"))]
    #[case::by_labels_not_letters(        "a.notexample.com",    &[("Z1", "example.com")],                      Err("seen: Z1 example.com)"))]
    #[case::only_private_ones(            "a.example.com",       &[("P1", "example.com")],                      Err("P1 example.com, private"))]
    #[case::none(                         "a.example.com",       &[],                                           Err("there is none"))]
    #[case::the_word_for_a_star(          "_wildcard.example.com", &[("Z1", "example.com")],                    Err("that of *.example.com"))]
    #[case::that_word_further_down(       "a._wildcard.example.com", &[("Z1", "example.com")],                  Ok("Z1"))]
    #[rustfmt::skip]
    fn a_domain_gets(#[case] domain: &str, #[case] zones: &[(&str, &str)], #[case] chosen: Result<&str, &str>) {
        let zones: Vec<_> = zones.iter().map(|(id, name)| zone(id, name)).collect();
        match (choose(domain, &zones), chosen) {
            (Ok(zone), Ok(id)) => assert_eq!(zone.id, id),
            (Err(refusal), Err(told)) => assert!(refusal.to_string().contains(told), "{refusal}"),
            (is, should) => panic!("{is:?} should be {should:?}"),
        }
    }

    #[test]
    fn a_refusal_shows_some_zones() {
        let zones: Vec<_> = (0..7).map(|n| zone(&format!("Z{n}"), "x.net")).collect();
        let told = choose("a.example.com", &zones).unwrap_err().to_string();
        assert!(told.contains("Z4 x.net; 2 more"), "{told}");
    }
}
