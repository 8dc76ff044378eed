//! The names of the records, and the short form of a run's id.

use api::migrate::names::RECORD_PREFIX as PREFIX;

use super::hashes::sha256;

/// Most characters of the name of a Secret or ConfigMap.
const LIMIT: usize = 253;
/// Hexadecimal digits that make a cut name unique.
const HASH_LENGTH: usize = 8;
/// Characters of a run's id in names.
const RUN_LENGTH: usize = 8;

/// The first eight letters and digits of a run's id, for names.
pub fn short_run(run_id: &str) -> String {
    let legal = run_id.chars().filter(char::is_ascii_alphanumeric);
    let legal = legal.map(|c| c.to_ascii_lowercase());
    legal.take(RUN_LENGTH).collect()
}

/// The name of the ConfigMap that is the lock of a StatefulSet: `stsm-<sts>`.
pub fn lock_name(stateful_set: &str) -> String {
    derived(stateful_set, "")
}

/// The name of the Secret with the capture of a run: `stsm-<sts>-<runId8>`.
pub fn capture_name(stateful_set: &str, run_id: &str) -> String {
    derived(stateful_set, &format!("-{}", short_run(run_id)))
}

/// A name over the limit is cut and gets a hash of the StatefulSet's whole name.
fn derived(stateful_set: &str, suffix: &str) -> String {
    let whole = format!("{PREFIX}{stateful_set}{suffix}");
    if whole.len() <= LIMIT {
        return whole;
    }
    let room = LIMIT - PREFIX.len() - 1 - HASH_LENGTH - suffix.len();
    let start: String = stateful_set.chars().take(room).collect();
    // A `.` must not be followed by the `-` before the hash.
    let start = start.trim_end_matches(['-', '.']);
    let hash = &sha256(stateful_set.as_bytes())[..HASH_LENGTH];
    format!("{PREFIX}{start}-{hash}{suffix}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const RUN: &str = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";

    #[test]
    fn names_follow_the_contract() {
        assert_eq!(lock_name("web"), "stsm-web");
        assert_eq!(capture_name("web", RUN), "stsm-web-0f2b1f0e");
    }

    #[rstest]
    #[case::a_uid(RUN, "0f2b1f0e")]
    #[case::upper_case("ABCDEF12-3", "abcdef12")]
    #[case::short("a-1", "a1")]
    #[case::nothing_legal("ä-_", "")]
    fn the_short_id_has_only_letters_and_digits(#[case] run: &str, #[case] short: &str) {
        assert_eq!(short_run(run), short);
    }

    #[rstest]
    #[case::the_last_that_fits(253 - "stsm--0f2b1f0e".len(), false)]
    #[case::one_more(254 - "stsm--0f2b1f0e".len(), true)]
    #[case::the_longest_name(253, true)]
    fn a_name_over_the_limit_is_cut(#[case] length: usize, #[case] is_cut: bool) {
        let set = "x".repeat(length);
        let name = capture_name(&set, RUN);
        assert_eq!(!name.contains(&set), is_cut, "{name}");
        assert!(name.len() <= LIMIT);
        assert!(name.ends_with("-0f2b1f0e"), "{name}");
    }

    #[test]
    fn long_names_that_differ_at_the_end_stay_different() {
        let name = |last: &str| lock_name(&("x".repeat(252) + last));
        assert_eq!(name("a").len(), LIMIT);
        assert_ne!(name("a"), name("b"));
    }

    fn is_a_subdomain(name: &str) -> bool {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        name.len() <= LIMIT
            && name.split('.').all(|label| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.chars().all(is_inner)
            })
    }

    proptest! {
        #[test]
        fn every_name_is_a_subdomain(
            set in r"[a-z0-9]{1,4}([-.][a-z0-9]{1,5}){0,60}"
                .prop_filter("a name of at most 253 characters", |set| set.len() <= LIMIT),
        ) {
            prop_assert!(is_a_subdomain(&lock_name(&set)), "{}", lock_name(&set));
            prop_assert!(is_a_subdomain(&capture_name(&set, RUN)), "{}", capture_name(&set, RUN));
        }
    }

    #[test]
    fn a_name_cut_at_a_dot_is_a_subdomain() {
        for start in 1..252 {
            let set = format!("{}.{}", "x".repeat(start), "x".repeat(252 - start));
            let name = capture_name(&set, RUN);
            assert!(is_a_subdomain(&name), "{name}");
        }
    }
}
