//! What a scan tells. Pure.

use api::vault::{DiscoveredResource, DiscoveryStatus, names as words};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::claims::Claims;
use crate::metrics::Things;
use crate::names;
use crate::place::Place;

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// No object names it.
pub(super) const DISCOVERED: &str = "discovered";
/// An object names it, and has not taken it over yet.
pub(super) const PENDING: &str = "pending";
/// An object for it could not be made.
pub(super) const FAILED: &str = "failed";

/// What `places`, which are nobody's, look like in the status. What was found before keeps its time.
pub(super) fn report(
    places: &[&Place],
    claims: &Claims,
    before: Option<&DiscoveryStatus>,
    now: Timestamp,
) -> DiscoveryStatus {
    let known = before.map(|before| &*before.discovered_resources);
    let resource = |place: &&Place| {
        let known = known.and_then(|known| known.iter().find(|one| is(one, place)));
        let since = known.and_then(|known| known.discovered_at.clone());
        let adoption = if claims.is_wanted(place) {
            PENDING
        } else {
            DISCOVERED
        };
        DiscoveredResource {
            kind: Some(word(place).to_owned()),
            name: Some(place.name().to_owned()),
            discovered_at: Some(since.unwrap_or(Time(now))),
            suggested_cr_name: suggested(place.name()),
            adoption_status: Some(adoption.to_owned()),
        }
    };
    let Things { policies, roles } = counted(places);
    let number = |count: usize| Some(i64::try_from(count).unwrap_or(i64::MAX));
    DiscoveryStatus {
        last_scan_at: Some(Time(now)),
        unmanaged_policies: number(policies),
        unmanaged_roles: number(roles),
        discovered_resources: places
            .iter()
            .take(words::DISCOVERED_CAP)
            .map(resource)
            .collect(),
    }
}

pub(super) fn counted(places: &[&Place]) -> Things {
    let roles = places
        .iter()
        .filter(|place| place.mount().is_some())
        .count();
    let policies = places.len() - roles;
    Things { policies, roles }
}

/// Whether two scans have found the same.
pub(super) fn is_same(before: Option<&DiscoveryStatus>, after: &DiscoveryStatus) -> bool {
    let named = |status: &DiscoveryStatus| -> Vec<_> {
        let all = status.discovered_resources.iter();
        all.map(|one| (one.kind.clone(), one.name.clone()))
            .collect()
    };
    before.is_some_and(|before| {
        before.last_scan_at.is_some()
            && before.unmanaged_policies == after.unmanaged_policies
            && before.unmanaged_roles == after.unmanaged_roles
            && named(before) == named(after)
    })
}

/// Whether an entry of the status is about `place`.
pub(super) fn is(one: &DiscoveredResource, place: &Place) -> bool {
    let name = one.name.as_deref().unwrap_or_default();
    one.kind.as_deref() == Some(word(place)) && names::same(name, place.name())
}

fn word(place: &Place) -> &'static str {
    match place {
        Place::Policy { .. } => "policy",
        Place::Role { .. } => "role",
    }
}

/// A name that an object could have; none if nothing is left of it.
pub(super) fn suggested(name: &str) -> Option<String> {
    let mut made = String::new();
    for ch in name.to_lowercase().chars() {
        match ch {
            'a'..='z' | '0'..='9' => made.push(ch),
            _ if !made.is_empty() && !made.ends_with('-') => made.push('-'),
            _ => {}
        }
    }
    made.truncate(LONGEST_NAME);
    let made = made.trim_end_matches('-');
    (!made.is_empty()).then(|| made.to_owned())
}

#[cfg(test)]
mod tests {
    use api::vault::VaultConnection;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::fit("app-1", Some("app-1"))]
    #[case::lower_case("App", Some("app"))]
    #[case::others("team/a.b_c", Some("team-a-b-c"))]
    #[case::collapsed("a -- b", Some("a-b"))]
    #[case::trimmed("_a_", Some("a"))]
    #[case::nothing_left("__", None)]
    #[case::not_ascii("über", Some("ber"))]
    fn an_object_can_have_the_name_suggested(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(suggested(name).as_deref(), expected);
    }

    #[test]
    fn a_suggested_name_is_not_too_long() {
        let long = format!("{}-{}", "a".repeat(252), "b".repeat(9));
        assert_eq!(suggested(&long), Some("a".repeat(252)));
    }

    fn claims(wanted: &[&str]) -> Claims {
        let connection: VaultConnection = serde_json::from_value(json!({
            "metadata": {"name": "c"},
            "spec": {"address": "https://v", "auth": {"kubernetes": {"role": "r"}}},
        }))
        .unwrap();
        let mut claims = Claims::new(&connection, None);
        claims.add_connection(&connection, None, "k".into());
        for name in wanted {
            let policy: api::vault::VaultPolicy = serde_json::from_value(json!({
                "metadata": {"name": "x", "namespace": "n"},
                "spec": {"connectionRef": "c", "externalName": name},
            }))
            .unwrap();
            claims.add(&policy);
        }
        claims
    }

    fn places(names: &[&str]) -> Vec<Place> {
        let place = |name: &&str| Place::parse(&format!("sys/policies/acl/{name}")).unwrap();
        names.iter().map(place).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn told(
        names: &[&str],
        wanted: &[&str],
        before: Option<&DiscoveryStatus>,
        now: i64,
    ) -> DiscoveryStatus {
        let places = places(names);
        let places: Vec<&Place> = places.iter().collect();
        report(&places, &claims(wanted), before, at(now))
    }

    #[test]
    fn what_was_found_before_keeps_its_time() {
        let first = told(&["a", "b"], &[], None, 100);
        let second = told(&["b", "c"], &[], Some(&first), 200);
        let since: Vec<_> = second
            .discovered_resources
            .iter()
            .map(|one| one.discovered_at.clone().unwrap().0.as_second())
            .collect();
        assert_eq!(since, [100, 200]);
        assert_eq!(second.last_scan_at, Some(Time(at(200))));
        assert!(!is_same(Some(&first), &second));
        assert!(is_same(
            Some(&second),
            &told(&["b", "c"], &["c"], Some(&second), 300)
        ));
        assert!(!is_same(None, &told(&[], &[], None, 300)));
    }

    #[test]
    fn an_object_that_names_it_is_told() {
        let found = told(&["a", "b"], &["B"], None, 100);
        let all = found.discovered_resources.iter();
        let adoption: Vec<_> = all
            .filter_map(|one| one.adoption_status.as_deref())
            .collect();
        assert_eq!(adoption, [DISCOVERED, PENDING]);
    }

    #[test]
    fn all_are_counted_and_the_first_are_listed() {
        let names: Vec<String> = (0..501).map(|n| format!("p{n:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = told(&names, &[], None, 100);
        assert_eq!(found.discovered_resources.len(), 500);
        assert_eq!(
            (found.unmanaged_policies, found.unmanaged_roles),
            (Some(501), Some(0))
        );
    }
}
