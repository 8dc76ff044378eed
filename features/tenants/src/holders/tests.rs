use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("web", name)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// An object made at `second` that wants `domains` and has nothing.
fn claim(name: &str, second: i64, domains: &[&str]) -> Claim {
    Claim {
        key: key(name),
        created: Timestamp::from_second(second).unwrap(),
        name: name.to_owned(),
        domains: set(domains),
        exists: false,
        served: set(&[]),
        recorded: set(&[]),
        deleting: false,
    }
}

fn serving(claim: Claim) -> Claim {
    Claim {
        exists: true,
        served: claim.domains.clone(),
        ..claim
    }
}

fn holders(claims: &[&Claim]) -> Holders {
    let mut holders = Holders::default();
    for claim in claims {
        holders.put((*claim).clone());
    }
    holders
}

/// Who has the domain `d` of `claim`, if it is not the claim's own.
fn lost(holders: &Holders, claim: &Claim) -> Option<String> {
    match holders.conflict(claim)? {
        Conflict::Domains(domains) => Some(domains["d"].name.to_string()),
        Conflict::Name { .. } => panic!("the names differ"),
    }
}

#[rstest]
#[case::the_oldest(claim("b", 1, &["d"]), claim("a", 2, &["d"]))]
#[case::of_one_age_the_first_by_name(claim("a", 1, &["d"]), claim("b", 1, &["d"]))]
#[case::who_serves_it(serving(claim("b", 2, &["d"])), claim("a", 1, &["d"]))]
#[case::who_has_its_record(Claim { recorded: set(&["d"]), ..claim("b", 2, &["d"]) }, claim("a", 1, &["d"]))]
#[case::who_serves_it_before_who_has_its_record(serving(claim("b", 2, &["d"])), Claim { recorded: set(&["d"]), ..claim("a", 1, &["d"]) })]
#[case::who_has_it_although_no_longer_wanted(Claim { served: set(&["d"]), ..claim("b", 2, &["e"]) }, claim("a", 1, &["d"]))]
#[case::who_has_it_until_deleted(Claim { deleting: true, ..serving(claim("b", 2, &["d"])) }, claim("a", 1, &["d"]))]
#[case::not_one_that_is_deleted_and_has_nothing(claim("b", 2, &["d"]), Claim { deleting: true, ..claim("a", 1, &["d"]) })]
fn a_domain_is_held_by(#[case] winner: Claim, #[case] loser: Claim) {
    for order in [[&winner, &loser], [&loser, &winner]] {
        let holders = holders(&order);
        assert_eq!(lost(&holders, &winner), None);
        let expected = (!loser.deleting).then(|| winner.key.name.to_string());
        assert_eq!(lost(&holders, &loser), expected);
        let all = holders.contested_domains();
        let all = all.get("d").map(|keys| keys[0]);
        assert!(all.is_none_or(|first| *first == winner.key));
    }
}

#[test]
fn a_name_is_held_by_one() {
    let [mut one, mut two] = [claim("a", 1, &["d"]), claim("b", 2, &["e"])];
    (one.name, two.name) = ("acme".to_owned(), "acme".to_owned());
    let holders = holders(&[&one, &two]);
    assert_eq!(holders.conflict(&one), None);
    let conflict = holders.conflict(&two).unwrap();
    let reason = conflict.reason();
    assert_eq!(reason.code, "NameConflict");
    assert!(
        reason.message.contains("acme") && reason.message.contains("web/a"),
        "{reason}"
    );
    let exists = Claim {
        exists: true,
        ..two
    };
    assert_eq!(holders.conflict(&exists), None);
}

#[test]
fn a_conflict_names_domain_and_holder() {
    let (first, second) = (claim("a", 1, &["d"]), claim("b", 2, &["d", "e"]));
    let reason = holders(&[&first]).conflict(&second).unwrap().reason();
    assert_eq!(reason.code, "DomainConflict");
    assert!(
        reason
            .message
            .contains("domain d belongs to DistributionTenant web/a"),
        "{reason}"
    );
    assert!(!reason.message.contains("domain e"), "{reason}");
}

#[test]
fn many_conflicts_are_counted() {
    let many: Vec<String> = (0..8).map(|one| format!("d{one}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (first, second) = (claim("a", 1, &many), claim("b", 2, &many));
    let reason = holders(&[&first]).conflict(&second).unwrap().reason();
    assert!(reason.message.contains("and 3 more"), "{reason}");
}

#[test]
fn contested_domains_are_told_with_their_holder_first() {
    let (first, second) = (claim("b", 1, &["d", "e"]), claim("a", 2, &["d"]));
    let holders = holders(&[&first, &second]);
    let expected = BTreeMap::from([("d", vec![&first.key, &second.key])]);
    assert_eq!(holders.contested_domains(), expected);
}

fn object(spec: Value, status: Value) -> DistributionTenant {
    let mut whole = json!({
        "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
        "kind": "DistributionTenant",
        "metadata": {"name": "acme", "namespace": "web", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"distributionId": "E1", "domains": [{"domain": "A.example.com."}]},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        whole["spec"][field] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

#[test]
fn a_claim_is_read_from_its_object() {
    let fresh = Claim::of(&object(json!({}), json!({})));
    assert_eq!(fresh.key, key("acme"));
    assert_eq!(fresh.name, "acme");
    assert_eq!(fresh.domains, set(&["a.example.com"]));
    assert!(!fresh.exists && !fresh.deleting);

    let named = Claim::of(&object(json!({"tenantName": "shop"}), json!({})));
    assert_eq!(named.name, "shop");

    let status = json!({
        "id": "dt_1", "tenantName": "found",
        "lastApplied": {"distributionId": "E1", "enabled": true, "domains": ["b.example.com"]},
        "dnsRecords": [{"zoneId": "Z1", "name": "C.example.com.", "type": "CNAME",
            "target": "d0", "state": "Deleting"}],
    });
    let known = Claim::of(&object(json!({}), status));
    assert_eq!(known.name, "found");
    assert!(known.exists);
    assert_eq!(known.served, set(&["b.example.com"]));
    assert_eq!(known.recorded, set(&["c.example.com"]));

    let inherited = json!({"id": "dt_1", "domainResults": [{"domain": "b.example.com"}]});
    let inherited = Claim::of(&object(json!({}), inherited));
    assert_eq!(inherited.served, set(&["b.example.com"]));

    let asked = Claim::of(&object(
        json!({}),
        json!({"createRequestedAt": "2026-01-02T03:04:05Z"}),
    ));
    assert!(asked.exists);
}

prop_compose! {
    fn any_claim(number: usize)(
        second in 0..3_i64,
        name in "[xy]",
        domains in btree_set("[def]", 1..3),
        exists: bool,
        served in btree_set("[def]", 0..2),
        recorded in btree_set("[def]", 0..2),
        deleting in prop::bool::weighted(0.2),
    ) -> Claim {
        Claim {
            key: key(&format!("o{number}")),
            created: Timestamp::from_second(second).unwrap(),
            name,
            domains,
            exists,
            served: if exists { served } else { BTreeSet::new() },
            recorded,
            deleting,
        }
    }
}

fn any_claims() -> impl Strategy<Value = Vec<Claim>> {
    (1..6_usize).prop_flat_map(|count| (0..count).map(any_claim).collect::<Vec<_>>())
}

/// Those of `claims` that want `domain` and may have it.
fn winners<'a>(holders: &Holders, claims: &'a [Claim], domain: &str) -> Vec<&'a ObjectKey> {
    let thing = Thing::Domain(domain);
    let wants = |claim: &&Claim| !claim.deleting && claim.domains.contains(domain);
    let wants = claims.iter().filter(wants);
    let wins = wants.filter(|claim| holders.stronger(thing, claim).is_none());
    wins.map(|claim| &claim.key).collect()
}

proptest! {
    #[test]
    fn one_holds_a_domain_whatever_the_order(
        claims in any_claims(),
        shuffle in vec(any::<u32>(), 6),
    ) {
        let mut shuffled: Vec<&Claim> = claims.iter().collect();
        shuffled.sort_by_key(|claim| {
            let at = claims.iter().position(|other| other.key == claim.key);
            shuffle[at.unwrap_or_default()]
        });
        let one = holders(&claims.iter().collect::<Vec<_>>());
        let other = holders(&shuffled);
        for domain in ["d", "e", "f"] {
            let winners = winners(&one, &claims, domain);
            prop_assert!(winners.len() <= 1, "{winners:?}");
            let thing = Thing::Domain(domain);
            let Some((_, _, holder)) = claims.iter().filter_map(|claim| claim.rank(thing)).min()
            else { continue };
            // Where nobody who wants it may have it, it is with one that has and does not want it.
            let holder = claims.iter().find(|claim| claim.key == *holder).unwrap();
            let wants = !holder.deleting && holder.domains.contains(domain);
            prop_assert_eq!(winners, Vec::from_iter(wants.then_some(&holder.key)));
        }
        prop_assert_eq!(one.contested_domains(), other.contested_domains());
        for claim in &claims {
            prop_assert_eq!(one.conflict(claim), other.conflict(claim));
        }
    }

    #[test]
    fn one_holds_a_name(claims in any_claims()) {
        let holders = holders(&claims.iter().collect::<Vec<_>>());
        for name in ["x", "y"] {
            let wants = claims.iter().filter(|claim| !claim.deleting && claim.name == name);
            let wins = wants.filter(|claim| {
                !matches!(holders.conflict(claim), Some(Conflict::Name { .. }))
            });
            prop_assert!(wins.count() <= 1);
        }
    }

    #[test]
    fn a_loser_does_not_win_by_editing(
        claims in any_claims(),
        domains in btree_set("[def]", 1..3),
    ) {
        let mut holders = holders(&claims.iter().collect::<Vec<_>>());
        for claim in &claims {
            for domain in ["d", "e", "f"] {
                let thing = Thing::Domain(domain);
                let Some(holder) = holders.stronger(thing, claim) else { continue };
                if claim.rank(thing).is_none() { continue }
                let edited = Claim { domains: domains.clone(), ..claim.clone() };
                prop_assert_eq!(holders.stronger(thing, &edited), Some(holder.clone()));
                // Nor does the holder lose by it.
                holders.put(edited);
                let holds = claims.iter().find(|claim| claim.key == holder).unwrap();
                prop_assert_eq!(holders.stronger(thing, holds), None);
                holders.put(claim.clone());
            }
        }
    }
}
