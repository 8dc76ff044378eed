//! Names of volumes and claims.

use super::volume_id::VolumeId;
use super::window::Window;
use crate::record::hashes::sha256;
use crate::record::names::short_run;

/// Most characters of a PersistentVolume's name that are left in front of a hash.
const READABLE: usize = 240;

/// The name of a PersistentVolume at the destination.
///
/// | name at the source                   | name                                               |
/// |--------------------------------------|----------------------------------------------------|
/// | free at the destination, or ours     | the same                                           |
/// | that of a foreign PersistentVolume   | the same, cut to 240, with `-` and a hash of 8 digits |
///
/// The hash is that of the volume and its claim at the destination, so it stays the same in a second run.
pub fn volume_name(source: &str, is_foreign: bool, claim: &ClaimOfVolume<'_>) -> String {
    if !is_foreign {
        return source.to_owned();
    }
    let ClaimOfVolume {
        id,
        namespace,
        name,
    } = claim;
    let hash = sha256(format!("{id}/{namespace}/{name}").as_bytes());
    let mut readable: String = source.chars().take(READABLE).collect();
    // A `.` must not be followed by the `-` before the hash.
    readable.truncate(readable.trim_end_matches(['-', '.']).len());
    format!("{readable}-{}", &hash[..8])
}

/// A volume and its claim at the destination.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOfVolume<'a> {
    /// The EBS volume.
    pub id: &'a VolumeId,
    /// The namespace of the claim.
    pub namespace: &'a str,
    /// The name of the claim.
    pub name: &'a str,
}

/// The name of the volume that a tombstone waits for: `fenced-<runId8>-<i>`. It never exists.
pub fn fenced_volume(run_id: &str, ordinal: i32) -> String {
    format!("fenced-{}-{ordinal}", short_run(run_id))
}

/// A StatefulSet whose claims are named `<template>-<sts>-<i>`.
#[derive(Debug, Clone, Copy)]
pub struct ClaimNames<'a> {
    /// The name of the StatefulSet.
    pub stateful_set: &'a str,
    /// The names of its volumeClaimTemplates.
    pub templates: &'a [String],
}

/// A claim of a StatefulSet, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimOfSet<'a> {
    /// The ordinal.
    pub ordinal: i32,
    /// The volumeClaimTemplate.
    pub template: &'a str,
}

impl<'a> ClaimNames<'a> {
    /// The claims of one ordinal, which move together.
    pub fn claim_set(self, ordinal: i32) -> Vec<String> {
        let name = |template: &String| format!("{template}-{}-{ordinal}", self.stateful_set);
        self.templates.iter().map(name).collect()
    }

    /// Which claim of the set `name` is; none for a claim of others, as with `01` for an ordinal.
    pub fn parse(self, name: &str) -> Option<ClaimOfSet<'a>> {
        self.templates.iter().find_map(|template| {
            let digits = name
                .strip_prefix(&**template)?
                .strip_prefix('-')?
                .strip_prefix(self.stateful_set)?
                .strip_prefix('-')?;
            let ordinal = ordinal(digits)?;
            Some(ClaimOfSet { ordinal, template })
        })
    }

    /// The claims among `names` that are named like the set, but outside of its window. Sorted by ordinal.
    pub fn dormant<'n>(
        self,
        names: impl IntoIterator<Item = &'n str>,
        window: Window,
    ) -> Vec<ClaimOfSet<'a>> {
        let claims = names.into_iter().filter_map(|name| self.parse(name));
        let mut dormant: Vec<_> = claims
            .filter(|claim| !window.contains(claim.ordinal))
            .collect();
        dormant.sort_unstable();
        dormant
    }
}

/// A decimal number without sign and leading zero.
fn ordinal(digits: &str) -> Option<i32> {
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
    (is_decimal && !has_leading_zero).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn hashed(source: &str, id: &str, namespace: &str, name: &str) -> String {
        let id = VolumeId::parse(id).unwrap();
        let claim = ClaimOfVolume {
            id: &id,
            namespace,
            name,
        };
        volume_name(source, true, &claim)
    }

    #[test]
    fn a_free_name_stays() {
        let id = VolumeId::parse("vol-0a1b2c3d").unwrap();
        let claim = ClaimOfVolume {
            id: &id,
            namespace: "shop",
            name: "data-web-0",
        };
        assert_eq!(volume_name("pvc-1", false, &claim), "pvc-1");
    }

    #[test]
    fn a_name_of_a_foreign_volume_gets_a_hash() {
        // sha256("vol-0a1b2c3d/shop/data-web-0")
        assert_eq!(
            hashed("pvc-1", "vol-0a1b2c3d", "shop", "data-web-0"),
            "pvc-1-d69a5295"
        );
    }

    #[rstest]
    #[case::volume("vol-0a1b2c3e", "shop", "data-web-0")]
    #[case::namespace("vol-0a1b2c3d", "shop2", "data-web-0")]
    #[case::claim("vol-0a1b2c3d", "shop", "data-web-1")]
    fn the_hash_depends_on(#[case] id: &str, #[case] namespace: &str, #[case] name: &str) {
        assert_ne!(
            hashed("pvc-1", id, namespace, name),
            hashed("pvc-1", "vol-0a1b2c3d", "shop", "data-web-0")
        );
    }

    #[rstest]
    #[case::just_fits(&"a".repeat(240), 240)]
    #[case::is_cut(&"a".repeat(253), 240)]
    #[case::ends_in_a_dot_after_the_cut(&format!("{}.{}", "a".repeat(239), "b".repeat(13)), 239)]
    fn a_long_name_is_cut_before_its_hash(#[case] source: &str, #[case] readable: usize) {
        let name = hashed(source, "vol-0a1b2c3d", "shop", "data-web-0");
        assert_eq!(name.len(), readable + 9);
        assert!(name[..readable].ends_with(char::is_alphanumeric));
    }

    #[test]
    fn a_fenced_volume_has_the_run_and_the_ordinal() {
        let run = "3f2b9c1e-7777-4444-8888-123456789abc";
        assert_eq!(fenced_volume(run, 12), "fenced-3f2b9c1e-12");
    }

    fn templates(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[rstest]
    #[case::one_template(&["data"], 0, &["data-web-0"])]
    #[case::two_templates(&["data", "logs"], 10, &["data-web-10", "logs-web-10"])]
    #[case::none(&[], 0, &[])]
    fn a_claim_set_has_a_claim_for_every_template(
        #[case] names: &[&str],
        #[case] ordinal: i32,
        #[case] expected: &[&str],
    ) {
        let templates = templates(names);
        let names = ClaimNames {
            stateful_set: "web",
            templates: &templates,
        };
        assert_eq!(names.claim_set(ordinal), expected);
    }

    #[rstest]
    #[case::the_first_ordinal("data-web-0", Some((0, "data")))]
    #[case::two_digits("data-web-10", Some((10, "data")))]
    #[case::a_template_with_a_dash("my-logs-web-1", Some((1, "my-logs")))]
    #[case::a_leading_zero("data-web-01", None)]
    #[case::a_sign("data-web-+1", None)]
    #[case::a_negative_number("data-web--1", None)]
    #[case::no_number("data-web-x", None)]
    #[case::nothing("data-web-", None)]
    #[case::beyond_all_ordinals("data-web-99999999999", None)]
    #[case::another_template("cache-web-0", None)]
    #[case::another_set("data-web2-0", None)]
    #[case::a_set_whose_name_begins_alike("data-web-1-0", None)]
    #[case::a_longer_template("data2-web-0", None)]
    fn a_claim_name_is_parsed(#[case] name: &str, #[case] expected: Option<(i32, &str)>) {
        let templates = templates(&["data", "my-logs"]);
        let names = ClaimNames {
            stateful_set: "web",
            templates: &templates,
        };
        let expected = expected.map(|(ordinal, template)| ClaimOfSet { ordinal, template });
        assert_eq!(names.parse(name), expected);
    }

    #[test]
    fn dormant_claims_are_outside_of_the_window() {
        let templates = templates(&["data", "logs"]);
        let names = ClaimNames {
            stateful_set: "web",
            templates: &templates,
        };
        let window = Window {
            start: 1,
            replicas: 2,
        };
        let live = [
            "logs-web-3",
            "data-web-1",
            "data-web-2",
            "data-web-0",
            "data-web-01",
            "data-other-7",
            "data-web-3",
        ];
        let dormant = names.dormant(live, window);
        let dormant: Vec<_> = dormant
            .iter()
            .map(|claim| (claim.ordinal, claim.template))
            .collect();
        assert_eq!(dormant, [(0, "data"), (3, "data"), (3, "logs")]);
    }

    proptest! {
        #[test]
        fn a_name_of_a_claim_set_parses_back(
            names in proptest::collection::hash_set("[a-b]{1,2}(-[a-b0-1]{1,2}){0,2}", 1..5),
            stateful_set in "[a-b]{1,2}(-[a-b0-1]{1,2}){0,2}",
            ordinal in 0..i32::MAX,
        ) {
            let templates: Vec<String> = names.into_iter().collect();
            let names = ClaimNames { stateful_set: &stateful_set, templates: &templates };
            for (name, template) in names.claim_set(ordinal).iter().zip(&templates) {
                prop_assert_eq!(names.parse(name), Some(ClaimOfSet { ordinal, template }));
            }
        }

        #[test]
        fn what_parses_is_the_name_of_that_claim(name in "(data|web|-|[0-9]){0,8}") {
            let templates = vec!["data".to_owned()];
            let names = ClaimNames { stateful_set: "web", templates: &templates };
            if let Some(claim) = names.parse(&name) {
                prop_assert_eq!(names.claim_set(claim.ordinal), vec![name]);
            }
        }
    }
}
