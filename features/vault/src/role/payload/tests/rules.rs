//! What is refused, and in which words.

use rstest::rstest;

use super::*;

#[rstest]
#[case::no_times(json!({}), None)]
#[case::equal(json!({"tokenTTL": "1h", "tokenMaxTTL": "60m"}), None)]
#[case::a_ttl_alone(json!({"tokenTTL": "1h"}), None)]
#[case::a_max_of_zero_is_none(json!({"tokenTTL": "1h", "tokenMaxTTL": "0"}), None)]
#[case::longer(json!({"tokenTTL": "2h", "tokenMaxTTL": "1h"}), Some("tokenTTL 2h is longer than tokenMaxTTL 1h; shorten the one or lengthen the other"))]
#[case::networks(json!({"tokenBoundCIDRs": ["10.0.0.0/8", "::1"]}), None)]
#[case::a_word(json!({"tokenBoundCIDRs": ["office"]}), Some("tokenBoundCIDRs: \"office\" is neither an address nor a network; write 10.0.0.1 or 10.0.0.0/8"))]
#[case::too_many_bits(json!({"tokenBoundCIDRs": ["10.0.0.0/33"]}), Some("tokenBoundCIDRs: \"10.0.0.0/33\" is neither an address nor a network; write 10.0.0.1 or 10.0.0.0/8"))]
fn times_and_networks(#[case] more: Value, #[case] refusal: Option<&str>) {
    assert_eq!(check(&spec(more)).err().as_deref(), refusal);
}

#[rstest]
#[case::pairs("a/x b/y", None)]
#[case::a_glob_namespace_alone("team-*/x team-*/y", None)]
#[case::a_glob_namespace_beside_others(
    "c/y team-*/x a/y",
    Some(
        "the namespace team-* is a glob and must be the only one; move the ServiceAccounts of a, c to another role"
    )
)]
#[case::any_name_alone("a/* a/* b/x", None)]
#[case::any_name_beside_others(
    "a/* a/x a/y",
    Some(
        "the name * admits every ServiceAccount of namespace a and must be the only one there; remove it, or remove x, y"
    )
)]
#[case::a_glob_name_is_a_name("a/app-* a/x", None)]
#[case::a_long_list_is_cut(
    "a/* a/1 a/2 a/3 a/4 a/5 a/6 a/7",
    Some(
        "the name * admits every ServiceAccount of namespace a and must be the only one there; remove it, or remove 1, 2, 3, 4, 5 and 2 more"
    )
)]
fn globs_stand_alone(#[case] accounts: &str, #[case] refusal: Option<&str>) {
    let accounts = accounts
        .split_whitespace()
        .filter_map(|one| one.split_once('/'));
    assert_eq!(check_accounts(accounts).err().as_deref(), refusal);
}
