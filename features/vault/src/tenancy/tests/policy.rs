//! Text, boundary and ceilings.

use api::vault::VaultPolicySpec;
use proptest::{collection, prelude::*, sample};

use super::*;

#[rstest]
#[case::without_a_tenancy(json!({}), false)]
#[case::by_default(json!({"tenancy": {}}), false)]
#[case::denied(json!({"tenancy": {"rawHCL": "Deny"}}), false)]
#[case::allowed(json!({"tenancy": {"rawHCL": "Allow"}}), true)]
#[case::by_discovery_without_a_tenancy(json!({"discovery": discovery_into("team-a")}), true)]
#[case::by_discovery(json!({"tenancy": {}, "discovery": discovery_into("team-a")}), true)]
#[case::by_discovery_elsewhere(json!({"discovery": discovery_into("team-b")}), false)]
#[case::by_discovery_that_makes_nothing(json!({"discovery": {"enabled": true, "targetNamespace": "team-a"}}), false)]
fn raw_text_has_to_be_allowed(#[case] connection: Value, #[case] allowed: bool) {
    let judged = policy_in("team-a", &connection, raw("a/b", &["read"]));
    assert_eq!(judged.is_ok(), allowed, "{judged:?}");
    assert_eq!(
        policy_in("team-a", &connection, rule("a/b", &["read"])),
        Ok(())
    );
}

#[rstest]
#[case::a_shared_path("secret/data/shared/*", &["read"], false)]
#[case::below_a_star("*/{{namespace}}/x", &["read"], false)]
#[case::below_a_plus("secret/+/{{namespace}}/x", &["read"], false)]
#[case::open_behind("secret/data/{{namespace}}*", &["read"], false)]
#[case::part_of_a_segment("a-{{namespace}}/x", &["read"], false)]
#[case::the_name_written_out("secret/data/team-a/*", &["read"], false)]
#[case::a_template_of_vaults("secret/data/{{identity.entity.id}}/*", &["read"], false)]
#[case::climbing_out("secret/{{namespace}}/../x", &["read"], false)]
#[case::all_below("secret/data/{{namespace}}/*", &["read"], true)]
#[case::just_it("secret/data/{{namespace}}", &["read"], true)]
#[case::first_of_all("{{namespace}}/*", &["read"], true)]
#[case::pure_deny("secret/data/shared/*", &["deny"], true)]
fn the_boundary_holds_for_rules_and_text_alike(
    #[case] path: &str,
    #[case] capabilities: &[&str],
    #[case] kept: bool,
) {
    let connection = json!({"tenancy": {"enforceNamespaceBoundary": true, "rawHCL": "Allow"}});
    let open = json!({"tenancy": {"rawHCL": "Allow"}});
    for mut spec in [rule(path, capabilities), raw(path, capabilities)] {
        // By the connection, whatever the object says; not unless the connection says so.
        let judged = policy_in("team-a", &connection, spec.clone());
        assert_eq!(judged.is_ok(), kept, "{judged:?}");
        assert_eq!(policy_in("team-a", &open, spec.clone()), Ok(()));
        // By the object, whatever the connection says; not unless the object says so.
        let own: VaultPolicySpec = read(complete(spec.clone()));
        assert_eq!(own_boundary(&own), Ok(()));
        spec["enforceNamespaceBoundary"] = true.into();
        let own: VaultPolicySpec = read(complete(spec));
        assert_eq!(own_boundary(&own).is_ok(), kept);
    }
}

#[test]
fn every_path_of_a_text_has_to_keep_the_boundary() {
    let text = r#"
        # path "secret/data/{{namespace}}/*" {}
        path "secret/data/{{namespace}}/*" { capabilities = ["read"] }
        path "secret/data/x" { capabilities = ["deny"] }
        path "secret/data/x" { capabilities = ["read"] }
        path "other" { policy = "read" }
    "#;
    let spec = json!({"rawHCL": text, "enforceNamespaceBoundary": true});
    let refused = own_boundary(&read(complete(spec))).unwrap_err().to_string();
    // The denied path grants nothing.
    assert!(refused.starts_with("path other: "), "{refused}");
}

#[rstest]
#[case::any_by_default(json!(null), "team-a", "secret/data/{{namespace}}/*", true)]
#[case::but_sys(json!(null), "team-a", "sys/policies/acl/{{namespace}}", false)]
#[case::but_auth(json!(null), "team-a", "auth/{{namespace}}/*", false)]
#[case::but_identity(json!(null), "team-a", "identity/entity/name/{{namespace}}", false)]
#[case::but_cubbyhole(json!(null), "team-a", "cubbyhole/{{namespace}}", false)]
#[case::a_word_that_begins_alike(json!(null), "team-a", "system/{{namespace}}", true)]
#[case::listed(json!(["kv/data/", "auth/x/"]), "team-a", "auth/x/{{namespace}}", true)]
#[case::not_listed(json!(["kv/data/"]), "team-a", "kv/{{namespace}}", false)]
#[case::below_what_is_listed(json!(["kv/"]), "team-a", "kv/data/{{namespace}}", false)]
#[case::none_listed(json!([]), "team-a", "kv/{{namespace}}", false)]
#[case::a_namespace_called_as_a_mount(json!(null), "sys", "{{namespace}}/policies/acl/*", false)]
#[case::also_where_any_mount_is_listed(json!([""]), "sys", "{{namespace}}/policies/acl/*", false)]
#[case::which_harms_nobody_further_down(json!(null), "sys", "kv/{{namespace}}/x", true)]
fn what_may_stand_before_the_namespace(
    #[case] prefixes: Value,
    #[case] namespace: &str,
    #[case] path: &str,
    #[case] allowed: bool,
) {
    let mut tenancy = json!({"enforceNamespaceBoundary": true, "rawHCL": "Allow"});
    if !prefixes.is_null() {
        tenancy["boundaryPrefixes"] = prefixes;
    }
    let connection = json!({"tenancy": tenancy});
    for spec in [rule(path, &["read"]), raw(path, &["read"])] {
        let judged = policy_in(namespace, &connection, spec);
        assert_eq!(judged.is_ok(), allowed, "{judged:?}");
    }
    assert_eq!(
        policy_in(namespace, &connection, rule(path, &["deny"])),
        Ok(())
    );
}

#[rstest]
#[case::below("secret/data/{{namespace}}/x", &["read"], true)]
#[case::written_out("secret/data/team-a/x", &["read", "list"], true)]
#[case::with_a_leading_slash("/secret/data/team-a/x", &["read"], true)]
#[case::with_the_name("secret/data/{{namespace}}/{{name}}/*", &["read"], true)]
#[case::of_another_namespace("secret/data/team-b/x", &["read"], false)]
#[case::another_capability("secret/data/team-a/x", &["read", "update"], false)]
#[case::another_ceiling_for_less("secret/data/team-b/x", &["list"], true)]
#[case::wider("secret/*", &["list"], false)]
#[case::wider_by_a_plus("secret/data/+/x", &["read"], false)]
#[case::a_template_below_a_star("secret/data/team-a/{{identity.entity.id}}", &["read"], true)]
#[case::a_template_above("secret/data/{{identity.entity.id}}/x", &["read"], false)]
#[case::pure_deny("sys/*", &["deny"], true)]
fn ceilings_hold_for_rules_and_text_alike(
    #[case] path: &str,
    #[case] capabilities: &[&str],
    #[case] within: bool,
) {
    let connection = json!({"tenancy": {"rawHCL": "Allow", "ceilings": [
        {"path": "secret/data/{{namespace}}/*", "capabilities": ["read", "list"]},
        {"path": "secret/data/*", "capabilities": ["list"]},
    ]}});
    for spec in [rule(path, capabilities), raw(path, capabilities)] {
        let judged = policy_in("team-a", &connection, spec);
        assert_eq!(judged.is_ok(), within, "{judged:?}");
    }
}

#[test]
fn without_a_single_ceiling_nothing_is_granted_and_without_ceilings_anything() {
    let none = json!({"tenancy": {"ceilings": []}});
    assert!(policy_in("team-a", &none, rule("a", &["read"])).is_err());
    assert_eq!(policy_in("team-a", &none, rule("a", &["deny"])), Ok(()));
    let unset = json!({"tenancy": {}});
    assert_eq!(
        policy_in("team-a", &unset, rule("sys/*", &["sudo"])),
        Ok(())
    );
}

#[test]
fn one_rule_above_the_ceilings_is_enough_to_refuse() {
    let connection = json!({"tenancy": {"ceilings": [{"path": "a/*", "capabilities": ["read"]}]}});
    let spec = json!({"rules": [
        {"path": "a/b", "capabilities": ["read"]},
        {"path": "b", "capabilities": ["read", "list"]},
    ]});
    assert_eq!(
        policy_in("team-a", &connection, spec).unwrap_err(),
        "path b with [list, read] is above the connection's tenancy.ceilings: none covers all of \
         it; narrow path or capabilities, or have a ceiling raised"
    );
}

/// What the server does with a request: see the tests of `cover`.
fn server_matches(pattern: &str, path: &str) -> bool {
    let (body, open) = match pattern.strip_suffix('*') {
        Some(body) => (body, true),
        None => (pattern, false),
    };
    let wanted: Vec<&str> = body.split('/').collect();
    let given: Vec<&str> = path.split('/').collect();
    if !wanted.contains(&"+") {
        return path == body || (open && path.starts_with(body));
    }
    let last = wanted.len() - 1;
    let fits = |at: usize, wanted: &str, given: &str| {
        wanted == "+" || wanted == given || (open && at == last && given.starts_with(wanted))
    };
    (given.len() == wanted.len() || (open && given.len() > wanted.len()))
        && (wanted.iter().zip(&given).enumerate())
            .all(|(at, (wanted, given))| fits(at, wanted, given))
}

/// A path that `pattern` matches, any part of it made of `filler`.
fn request(pattern: &str, filler: &str) -> String {
    let segments = pattern.split('/').map(|segment| match segment {
        "+" => filler.split('/').next().unwrap_or_default(),
        segment => segment,
    });
    let request = segments.collect::<Vec<_>>().join("/");
    match request.strip_suffix('*') {
        Some(body) => format!("{body}{filler}"),
        None => request,
    }
}

fn any_path() -> impl Strategy<Value = String> {
    let segment = sample::select(vec![
        "a",
        "b",
        "ab",
        "+",
        "{{namespace}}",
        "a-{{namespace}}",
    ]);
    let end = sample::select(vec!["", "/*", "/a*"]);
    (collection::vec(segment, 1..4), end).prop_map(|(segments, end)| segments.join("/") + end)
}

fn any_capabilities() -> impl Strategy<Value = Vec<&'static str>> {
    sample::subsequence(vec!["read", "list", "update"], 1..=3)
}

proptest! {
    // Most draws are refused, and say nothing.
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_request_is_let_through_above_the_ceilings(
        ceilings in collection::vec((any_path(), any_capabilities()), 1..4),
        path in any_path(),
        capabilities in any_capabilities(),
        filler in "[ab]{1,2}(/[ab]{1,2})?",
        as_text in any::<bool>(),
    ) {
        let listed = ceilings.iter().map(|(path, capabilities)| {
            json!({"path": path, "capabilities": capabilities})
        });
        let connection = json!({"tenancy": {
            "rawHCL": "Allow",
            "ceilings": listed.collect::<Vec<_>>(),
        }});
        let spec = if as_text { raw(&path, &capabilities) } else { rule(&path, &capabilities) };
        if policy_in("a", &connection, spec).is_err() {
            return Ok(());
        }
        let pattern = for_namespace(&path, "a");
        let request = request(&pattern, &filler);
        prop_assert!(server_matches(&pattern, &request));
        let allows = |(ceiling, granted): &(String, Vec<&str>)| {
            server_matches(&for_namespace(ceiling, "a"), &request)
                && capabilities.iter().all(|one| granted.contains(one))
        };
        prop_assert!(ceilings.iter().any(allows), "{request}");
    }

    #[test]
    fn no_request_is_let_through_beyond_the_boundary(
        path in any_path(),
        filler in "[ab]{1,2}(/[ab]{1,2})?",
        as_text in any::<bool>(),
    ) {
        let connection = json!({"tenancy": {"rawHCL": "Allow", "enforceNamespaceBoundary": true}});
        let spec = if as_text { raw(&path, &["read"]) } else { rule(&path, &["read"]) };
        if policy_in("team-a", &connection, spec).is_err() {
            return Ok(());
        }
        let request = request(&for_namespace(&path, "team-a"), &filler);
        prop_assert!(request.split('/').any(|segment| segment == "team-a"), "{request}");
    }
}
