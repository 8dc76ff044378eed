use proptest::{collection, prelude::*, sample};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::language::text::{self, Header, Names, Rule};

fn policy(text: &str) -> Policy {
    Policy::parse(text).expect("a policy")
}

#[rstest]
#[case::layout_and_comments(
    "path \"a\" {\n  capabilities = [\"read\"] # why\n}",
    "/* x */ path a { capabilities=[\"read\",] }"
)]
#[case::a_leading_slash(
    r#"path "/a/b" { capabilities = ["read"] }"#,
    r#"path "a/b" { capabilities = ["read"] }"#
)]
#[case::order_of_blocks_and_capabilities(
    r#"path "a" { capabilities = ["read", "list"] } path "b" { policy = "deny" }"#,
    r#"path "b" { capabilities = ["deny"] } path "a" { capabilities = ["list", "read", "list"] }"#
)]
#[case::the_key_comment(
    r#"path "a" { comment = "x" capabilities = ["read"] }"#,
    r#"path "a" { capabilities = ["read"] }"#
)]
#[case::same_path_blocks(
    r#"path "a" { capabilities = ["read"] } path "/a" { policy = "read" }"#,
    r#"path "a" { capabilities = ["list", "read"] }"#
)]
#[case::deny_absorbs_its_block(
    r#"path "a" { capabilities = ["read", "deny"] min_wrapping_ttl = "1h" }"#,
    r#"path "a" { capabilities = ["deny"] }"#
)]
#[case::deny_absorbs_its_path(
    r#"path "a" { capabilities = ["deny"] } path "a" { capabilities = ["read"] max_wrapping_ttl = 5 }"#,
    r#"path "a" { policy = "deny" }"#
)]
#[case::old_write(
    r#"path "a" { policy = "write" }"#,
    r#"path "a" { capabilities = ["create", "read", "update", "delete", "list"] }"#
)]
#[case::old_sudo(
    r#"path "a" { policy = "sudo" capabilities = ["patch"] }"#,
    r#"path "a" { policy = "write" capabilities = ["sudo", "patch"] }"#
)]
#[case::parameter_names_and_values(
    r#"path "a" { capabilities = ["update"] allowed_parameters = { "Foo" = ["b", "a", "b"] "x" = [] } }"#,
    r#"path "a" { capabilities = ["update"] allowed_parameters { x = [] foo = ["a", "b"] } }"#
)]
#[case::no_parameters(
    r#"path "a" { capabilities = ["read"] allowed_parameters = {} required_parameters = [] }"#,
    r#"path "a" { capabilities = ["read"] }"#
)]
#[case::times_in_seconds(
    r#"path "a" { capabilities = ["read"] min_wrapping_ttl = "1m30s" max_wrapping_ttl = "1d" }"#,
    r#"path "a" { capabilities = ["read"] min_wrapping_ttl = 90 max_wrapping_ttl = "86400" }"#
)]
#[case::no_time(
    r#"path "a" { capabilities = ["read"] min_wrapping_ttl = 0 }"#,
    r#"path "a" { capabilities = ["read"] max_wrapping_ttl = "" }"#
)]
#[case::labels_of_kept_keys(
    r#"path "a" { control_group = { factor "x" { approvals = 1 } factor "y" { approvals = 0x2 } } }"#,
    r#"path "a" { control_group { factor = { y = { approvals = 2 }, x = { approvals = 1 } } } }"#
)]
#[case::json(
    r#"{"path": {"a": {"capabilities": ["read"], "allowed_parameters": {"x": [1, "1"]}}}}"#,
    r#"path "a" { capabilities = ["read"] allowed_parameters = { x = ["1", 1] } }"#
)]
#[case::nothing("", "# only a comment")]
fn these_say_the_same(#[case] one: &str, #[case] other: &str) {
    assert_eq!(policy(one), policy(other));
    assert_eq!(policy(one).canonical_hash(), policy(other).canonical_hash());
    assert_eq!(diff(&policy(one), &policy(other), 10), "");
}

#[rstest]
#[case::another_path(
    r#"path "a" { capabilities = ["read"] }"#,
    r#"path "a/" { capabilities = ["read"] }"#
)]
#[case::only_one_slash_is_dropped(
    r#"path "//a" { capabilities = ["read"] }"#,
    r#"path "a" { capabilities = ["read"] }"#
)]
#[case::a_comment_in_a_string(
    "path \"a#\" { capabilities = [\"read\"] }",
    "path \"a\" { capabilities = [\"read\"] }"
)]
#[case::a_number_is_no_string(
    r#"path "a" { allowed_parameters = { x = [1] } }"#,
    r#"path "a" { allowed_parameters = { x = ["1"] } }"#
)]
#[case::blocks_with_parameters_are_not_merged(
    r#"path "a" { capabilities = ["read"] } path "a" { capabilities = ["update"] required_parameters = ["x"] }"#,
    r#"path "a" { capabilities = ["read", "update"] required_parameters = ["x"] }"#
)]
#[case::unknown_keys_count(
    r#"path "a" { capabilities = ["read"] pagination_limit = 5 }"#,
    r#"path "a" { capabilities = ["read"] }"#
)]
#[case::a_name_counts(
    r#"name = "x" path "a" { capabilities = ["read"] }"#,
    r#"path "a" { capabilities = ["read"] }"#
)]
fn these_differ(#[case] one: &str, #[case] other: &str) {
    assert_ne!(policy(one), policy(other));
    assert_ne!(policy(one).canonical_hash(), policy(other).canonical_hash());
    assert_ne!(diff(&policy(one), &policy(other), 10), "");
}

#[rstest]
#[case::top_level_key(
    "rule \"a\" {}",
    "line 1, column 1: expected `path` or `name`, found rule"
)]
#[case::capability(
    "\npath \"a\" { capabilities = [\"root\"] }",
    "line 2, column 1: capability root is none of create, read"
)]
#[case::old_policy(r#"path "a" { policy = "all" }"#, "policy: expected deny, read")]
#[case::plus_star(r#"path "a/+*" {}"#, "path a/+*: `+*` is forbidden")]
#[case::open_template(r#"path "a/{{x" {}"#, "path a/{{x: `{{` and `}}` do not pair")]
#[case::closed_template(r#"path "a}}/{{x}}" {}"#, "do not pair")]
#[case::no_label(r#"path = { "a" = { policy = "read" } }"#, "path: expected a label")]
#[case::no_block(r#"{"path": {"a": {"x": 1}, "b": 2}}"#, "path: expected a label")]
#[case::two_labels(r#"path "a" "b" {}"#, "line 1, column 10: path takes one label")]
#[case::a_capability_alone(
    r#"path "a" { capabilities = "read" }"#,
    "line 1, column 12: capabilities: expected a list of strings"
)]
#[case::upper_case_key(
    r#"path "a" { Capabilities = [] }"#,
    "Capabilities: write it in lower case"
)]
#[case::a_time(
    r#"path "a" { min_wrapping_ttl = "soon" }"#,
    "min_wrapping_ttl: expected seconds"
)]
#[case::times_crossed(
    r#"path "a" { min_wrapping_ttl = 5 max_wrapping_ttl = 4 }"#,
    "max_wrapping_ttl is less than min_wrapping_ttl"
)]
#[case::a_parameter_without_list(
    r#"path "a" { allowed_parameters = { x = "1" } }"#,
    "allowed_parameters: expected a list for x"
)]
#[case::a_parameter_in_two_cases(
    r#"path "a" { allowed_parameters = { x = [] X = [] } }"#,
    "allowed_parameters: x is set twice"
)]
#[case::twice_in_json(
    r#"{"path": {"a": {"capabilities": ["read"], "capabilities": ["sudo"]}}}"#,
    "capabilities is set twice"
)]
#[case::twice_as_blocks(
    r#"path "a" { denied_parameters {} denied_parameters {} }"#,
    "denied_parameters is set twice"
)]
fn a_text_that_is_no_policy_is_refused(#[case] text: &str, #[case] message: &str) {
    let refused = Policy::parse(text).expect_err("refused").to_string();
    assert!(refused.contains(message), "{refused}");
}

#[test]
fn a_diff_names_what_each_path_lost_and_gained() {
    let before = policy(
        r#"path "a" { capabilities = ["read"] max_wrapping_ttl = 90 } path "b" { policy = "read" }"#,
    );
    let after = policy(
        r#"path "a" { capabilities = ["read", "list"] max_wrapping_ttl = 90 } path "c" { policy = "deny" }"#,
    );
    assert_eq!(
        diff(&before, &after, 10),
        r#"- a: capabilities = ["read"]
+ a: capabilities = ["list", "read"]
- b: capabilities = ["list", "read"]
+ c: capabilities = ["deny"]"#
    );
    assert_eq!(
        diff(&before, &after, 2),
        "- a: capabilities = [\"read\"]\n… and 3 more"
    );
}

#[test]
fn keys_that_vault_does_not_know_are_told() {
    let text = r#"path "a" { mfa_methods = ["x"] pagination_limit = 5 control_group {} }"#;
    assert_eq!(
        policy(text).unknown_keys(),
        BTreeSet::from(["pagination_limit"])
    );
}

#[rstest]
#[case::unknown_key(r#"path "a" { capabilities = ["read"] mfa_methods = ["x"] }"#)]
#[case::no_capability(r#"path "a" {}"#)]
#[case::a_name(r#"name = "x" path "a" { capabilities = ["read"] }"#)]
#[case::a_number(r#"path "a" { capabilities = ["read"] denied_parameters = { x = [1] } }"#)]
#[case::a_character(r#"path "a b" { capabilities = ["read"] }"#)]
#[case::a_second_slash(r#"path "//a" { capabilities = ["read"] }"#)]
#[case::our_own_template(r#"path "a/{{namespace}}" { capabilities = ["read"] }"#)]
#[case::two_blocks(
    r#"path "a" { policy = "read" } path "a" { policy = "read" max_wrapping_ttl = 1 }"#
)]
#[case::nothing("")]
fn rules_cannot_say(#[case] text: &str) {
    assert_eq!(expressible(&policy(text)), None);
}

/// A block as people write it, in no canonical order.
#[derive(Debug, Clone)]
struct Written {
    path: String,
    capabilities: Vec<&'static str>,
    allowed: Option<BTreeMap<String, Vec<String>>>,
    required: Vec<String>,
    ttl: Option<u32>,
}

fn any_path() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab/+-]{0,3}[*]?",
        1 => "[a\"\\\\$ {}é\n]{0,5}",
        1 => Just("secret/{{identity.entity.id}}/*".to_owned()),
    ]
    .prop_filter("Vault takes the path", |path| {
        Policy::parse(&format!("path {} {{}}", quoted(path))).is_ok()
    })
}

fn any_block() -> impl Strategy<Value = Written> {
    let names = || collection::vec("[abc\"$\\\\{}]{0,3}", 0..3);
    let parameters = collection::btree_map("[a-c*]{1,2}", names(), 0..3);
    (
        any_path(),
        sample::subsequence(&CAPABILITIES[..], 0..4),
        proptest::option::of(parameters),
        names(),
        proptest::option::of(0_u32..100),
    )
        .prop_map(|(path, capabilities, allowed, required, ttl)| Written {
            path,
            capabilities,
            allowed,
            required,
            ttl,
        })
}

fn any_blocks() -> impl Strategy<Value = Vec<Written>> {
    collection::vec(any_block(), 0..5)
}

/// HCL with `gap` wherever layout may stand.
fn as_hcl(blocks: &[Written], gap: &str) -> String {
    let block = |block: &Written| {
        let mut parts = vec![
            "path".to_owned(),
            quoted(&block.path),
            "{".to_owned(),
            format!("capabilities{gap}={}", quoted_list(&block.capabilities)),
        ];
        if let Some(allowed) = &block.allowed {
            parts.push("allowed_parameters = {".to_owned());
            parts.extend(
                allowed
                    .iter()
                    .map(|(name, values)| format!("{} = {}", quoted(name), quoted_list(values))),
            );
            parts.push("}".to_owned());
        }
        parts.push(format!(
            "required_parameters = {}",
            quoted_list(&block.required)
        ));
        parts.extend(block.ttl.map(|ttl| format!("max_wrapping_ttl = {ttl}")));
        parts.push("}".to_owned());
        parts.join(gap)
    };
    let blocks: Vec<String> = blocks.iter().map(block).collect();
    format!("{gap}{}{gap}", blocks.join(gap))
}

fn as_json(blocks: &[Written]) -> String {
    let paths: Vec<_> = blocks
        .iter()
        .map(|block| {
            let mut body = json!({
                "capabilities": block.capabilities,
                "required_parameters": block.required,
            });
            if let Some(allowed) = &block.allowed {
                body["allowed_parameters"] = json!(allowed);
            }
            if let Some(ttl) = block.ttl {
                body["max_wrapping_ttl"] = json!(format!("{ttl}s"));
            }
            json!({ &block.path: body })
        })
        .collect();
    if paths.is_empty() {
        "{}".to_owned()
    } else {
        json!({ "path": paths }).to_string()
    }
}

fn any_gap() -> impl Strategy<Value = &'static str> {
    sample::select(vec![" ", "\n\n", "\t# } \"\n", " /* { */ ", "\r\n// [\r\n"])
}

proptest! {
    #[test]
    fn the_canonical_text_reads_as_the_same_policy(blocks in any_blocks()) {
        let read = policy(&as_hcl(&blocks, " "));
        prop_assert_eq!(policy(&read.to_string()), read);
    }

    #[test]
    fn order_layout_and_comments_do_not_count(
        (blocks, shuffled) in any_blocks().prop_flat_map(|blocks| {
            (Just(blocks.clone()), Just(blocks).prop_shuffle())
        }),
        gap in any_gap(),
    ) {
        prop_assert_eq!(policy(&as_hcl(&blocks, " ")), policy(&as_hcl(&shuffled, gap)));
    }

    #[test]
    fn the_json_form_says_what_the_hcl_form_says(blocks in any_blocks()) {
        prop_assert_eq!(policy(&as_json(&blocks)), policy(&as_hcl(&blocks, "\n")));
    }

    #[test]
    fn hashes_are_equal_when_policies_are(
        one in collection::vec(any_block(), 0..2),
        other in collection::vec(any_block(), 0..2),
    ) {
        let (one, other) = (policy(&as_hcl(&one, " ")), policy(&as_hcl(&other, " ")));
        prop_assert_eq!(one == other, one.canonical_hash() == other.canonical_hash());
        prop_assert_eq!(one == other, diff(&one, &other, 100).is_empty());
    }

    #[test]
    fn rules_made_of_a_policy_print_that_policy(blocks in any_blocks()) {
        let read = policy(&as_hcl(&blocks, " "));
        if let Some(rules) = expressible(&read) {
            prop_assert_eq!(policy(&printed(&rules)), read);
        }
    }

    #[test]
    fn no_text_makes_reading_panic(text in any::<String>()) {
        let _ = Policy::parse(&text);
        let _ = Policy::parse(&format!("path {text} {{ {text} }}"));
    }
}

fn printed(rules: &[Rule]) -> String {
    let header = Header {
        auth_mount: None,
        cluster: None,
        resource: "n".to_owned(),
        kind: "VaultClusterPolicy".to_owned(),
    };
    let names = Names {
        namespace: "",
        name: "n",
    };
    text::from_rules(&header, rules, names)
}

#[test]
fn a_policy_of_rules_is_expressible() {
    let text = r#"path "secret/{{identity.entity.id}}/+/x*" {
        capabilities = ["read", "scan"]
        allowed_parameters = { "*" = ["a", "b"] }
        denied_parameters = { "x.y" = [] }
        required_parameters = ["v"]
        min_wrapping_ttl = "500ms"
        max_wrapping_ttl = "1h"
        subscribe_event_types = ["kv*"]
    }"#;
    let rules = expressible(&policy(text)).expect("rules");
    assert_eq!(policy(&printed(&rules)), policy(text));
}
