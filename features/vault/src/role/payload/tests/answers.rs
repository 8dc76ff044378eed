//! What Vault answers, and when it says the same as what was sent.

use proptest::{collection, option, prelude::*, sample};
use rstest::rstest;

use super::*;

use RoleFamily::{Jwt, Kubernetes};

fn live(family: RoleFamily, value: Value) -> Canonical {
    Canonical::of_live(family, &map(value))
}

/// What vault-access-operator wrote for team-a/r, as Vault 1.21.1 answers it.
fn swapped() -> Map<String, Value> {
    map(json!({
        "alias_name_source": "serviceaccount_uid",
        "bound_service_account_names": ["sa1"],
        "bound_service_account_namespace_selector": "",
        "bound_service_account_namespaces": ["team-a"],
        "policies": ["vao.kubernetes._.shared", "vao.kubernetes.team-a.app"],
        "token_bound_cidrs": [],
        "token_explicit_max_ttl": 0,
        "token_max_ttl": 0,
        "token_no_default_policy": false,
        "token_num_uses": 0,
        "token_period": 0,
        "token_policies": ["vao.kubernetes._.shared", "vao.kubernetes.team-a.app"],
        "token_ttl": 5400,
        "token_type": "default",
    }))
}

#[test]
fn a_role_of_the_predecessor_is_what_we_would_write() {
    let spec = spec(json!({"tokenTTL": "1h30m"}));
    let policies = "vao.kubernetes.team-a.app vao.kubernetes._.shared";
    let payload = sent(&spec, &accounts("sa1", "team-a"), policies);
    assert_eq!(
        Canonical::of_live(Kubernetes, &swapped()),
        payload.canonical()
    );
    assert_eq!(not_echoed(&payload, &swapped()), Vec::<String>::new());
    assert_eq!(marker(&swapped()), None);
    assert_eq!(family(&swapped()), Kubernetes);
}

#[rstest]
#[case::order_and_repetition(Kubernetes, json!({"token_policies": ["b", "a", "b"]}), json!({"token_policies": ["a", "b"]}))]
#[case::capitals_in_policies(Kubernetes, json!({"token_policies": ["App"]}), json!({"token_policies": ["app"]}))]
#[case::a_text_with_commas(Kubernetes, json!({"bound_service_account_names": "b, a"}), json!({"bound_service_account_names": ["a", "b"]}))]
#[case::null_lists(Kubernetes, json!({"token_bound_cidrs": null, "token_policies": null}), json!({}))]
#[case::empty_lists(Kubernetes, json!({"token_bound_cidrs": [], "token_policies": ""}), json!({}))]
#[case::times_in_words(Kubernetes, json!({"token_ttl": "1h0m0s", "token_period": "90"}), json!({"token_ttl": 3600, "token_period": 90}))]
#[case::no_time(Kubernetes, json!({"token_ttl": "", "token_max_ttl": 0, "token_period": "0s"}), json!({}))]
#[case::unset_texts(Kubernetes, json!({"audience": "", "alias_name_source": "", "token_type": "default"}), json!({}))]
#[case::networks_of_one(Kubernetes, json!({"token_bound_cidrs": ["10.0.0.1/32", "::1/128", "::ffff:10.1.0.0/112"]}), json!({"token_bound_cidrs": ["::1", "10.0.0.1", "10.1.0.0/16"]}))]
#[case::what_is_not_ours(Kubernetes, json!({"policies": ["x"], "num_uses": 1, "alias_metadata": {"a": "b"}}), json!({}))]
#[case::layout_of_a_selector(Kubernetes, json!({"bound_service_account_namespace_selector": "{ \"matchLabels\": {\"b\": \"1\", \"a\": \"2\"} }"}), json!({"bound_service_account_namespace_selector": r#"{"matchLabels":{"a":"2","b":"1"}}"#}))]
#[case::no_claims(Jwt, json!({"bound_claims": null, "bound_claims_type": "", "role_type": ""}), json!({"bound_claims": {}, "bound_claims_type": "string", "role_type": "jwt"}))]
#[case::a_claim_of_one_value(Jwt, json!({"bound_claims": {"sub": "a"}}), json!({"bound_claims": {"sub": ["a"]}}))]
#[case::claims_in_any_order(Jwt, json!({"bound_claims": {"sub": ["b", "a", "b"]}}), json!({"bound_claims": {"sub": ["a", "b"]}}))]
fn these_say_the_same(#[case] family: RoleFamily, #[case] one: Value, #[case] other: Value) {
    let (one, other) = (live(family, one), live(family, other));
    assert_eq!(one, other);
    assert_eq!(one.hash(), other.hash());
    assert_eq!(diff(&one, &other, 6), "");
}

#[rstest]
#[case::another_time(Kubernetes, json!({"token_ttl": 60}), json!({"token_ttl": 61}), "- token_ttl: 60\n+ token_ttl: 61")]
#[case::a_time_nobody_can_read(Kubernetes, json!({"token_ttl": "soon"}), json!({}), "- token_ttl: \"soon\"")]
#[case::a_time_below_nothing(Kubernetes, json!({"token_ttl": -1}), json!({}), "- token_ttl: -1")]
#[case::only_members_that_differ(Kubernetes, json!({"token_policies": ["a", "b"]}), json!({"token_policies": ["b", "c", "d"]}), "- token_policies: [\"a\"]\n+ token_policies: [\"c\",\"d\"]")]
#[case::a_list_that_is_none(Kubernetes, json!({"token_policies": [1]}), json!({"token_policies": ["a"]}), "- token_policies: [1]\n+ token_policies: [\"a\"]")]
#[case::another_kind_of_token(Kubernetes, json!({}), json!({"token_type": "default-service"}), "+ token_type: \"default-service\"")]
#[case::a_selector_that_picks_all(Kubernetes, json!({}), json!({"bound_service_account_namespace_selector": "{}"}), "+ bound_service_account_namespace_selector: \"{}\"")]
#[case::a_selector_spelt_as_only_vault_reads_it(Kubernetes, json!({"bound_service_account_namespace_selector": r#"{"MatchLabels":{"a":"b"}}"#}), json!({"bound_service_account_namespace_selector": "{}"}), "- bound_service_account_namespace_selector: \"{\\\"MatchLabels\\\":{\\\"a\\\":\\\"b\\\"}}\"\n+ bound_service_account_namespace_selector: \"{}\"")]
#[case::claims_one_by_one(Jwt, json!({"bound_claims": {"a": "1", "b": ["2", "3"]}}), json!({"bound_claims": {"b": "2", "c": []}}), "- bound_claims.a: [\"1\"]\n- bound_claims.b: [\"3\"]\n+ bound_claims.c: []")]
#[case::a_number_is_no_text(Jwt, json!({"bound_claims": {"a": 1}}), json!({"bound_claims": {"a": "1"}}), "- bound_claims.a: [1]\n+ bound_claims.a: [\"1\"]")]
#[case::a_role_for_browsers(Jwt, json!({"role_type": "oidc"}), json!({"role_type": "jwt"}), "- role_type: \"oidc\"")]
fn these_differ(
    #[case] family: RoleFamily,
    #[case] before: Value,
    #[case] after: Value,
    #[case] lines: &str,
) {
    let (before, after) = (live(family, before), live(family, after));
    assert_ne!(before.hash(), after.hash());
    assert_eq!(diff(&before, &after, 6), lines);
}

#[test]
fn a_long_difference_is_cut_and_counted() {
    let after = json!({"token_ttl": 1, "token_period": 2, "token_num_uses": 3, "audience": "x"});
    let lines = diff(&live(Kubernetes, json!({})), &live(Kubernetes, after), 3);
    assert_eq!(
        lines,
        "+ audience: \"x\"\n+ token_num_uses: 3\n… and 2 more"
    );
}

#[rstest]
#[case::all_is_there(json!({"audience": "vault", "token_period": 60}), vec![])]
#[case::a_field_it_does_not_know(json!({"token_period": 60}), vec!["audience"])]
#[case::several(json!({}), vec!["audience", "token_period"])]
#[case::fields_that_somebody_changed(json!({"audience": "other", "token_period": 0}), vec![])]
fn fields_that_the_server_dropped(#[case] answer: Value, #[case] dropped: Vec<&str>) {
    let spec = spec(json!({"audience": "vault", "tokenPeriod": "60"}));
    let payload = sent(&spec, &accounts("a", "ns"), "p");
    let mut echoed = map(json!({
        "bound_service_account_names": ["a"],
        "bound_service_account_namespaces": ["ns"],
        "token_policies": ["p"],
    }));
    echoed.extend(map(answer));
    assert_eq!(not_echoed(&payload, &echoed), dropped);
}

fn any_life() -> impl Strategy<Value = Option<u64>> {
    option::of(0..100_000_u64)
}

fn any_spec() -> impl Strategy<Value = RoleSpec> {
    let networks = sample::subsequence(vec!["10.1.2.3/32", "10.0.0.0/8", "fd00::/8", "::1"], 0..4);
    let lives = (any_life(), any_life(), any_life(), any_life());
    let token = (
        0..5_u32,
        sample::select(vec!["default", "service", "batch"]),
        any::<bool>(),
    );
    let texts = collection::vec("[a-c]{0,2}", 0..3);
    let jwt = (
        texts,
        option::of("[a-c]{0,2}"),
        collection::btree_map("[a-c]", "[x-z]", 0..3),
        collection::btree_map("[a-c]", collection::vec("[x-z]", 0..3), 0..3),
        any::<bool>(),
    );
    (lives, token, networks, "[a-c]{0,2}", any::<bool>(), jwt).prop_map(
        |((ttl, max, end, period), (uses, kind, bare), networks, audience, by_name, jwt)| {
            let life = |seconds: Option<u64>| seconds.map(Duration::from_secs);
            let (audiences, subject, claims, lists, glob) = jwt;
            let mut spec = spec(json!({
                "audience": audience,
                "aliasNameSource": if by_name { "serviceaccount_name" } else { "serviceaccount_uid" },
                "tokenBoundCIDRs": networks,
                "tokenNumUses": uses,
                "tokenType": kind,
                "tokenNoDefaultPolicy": bare,
                "jwt": {
                    "boundAudiences": audiences,
                    "boundClaims": claims,
                    "boundClaimsList": lists,
                    "boundClaimsType": if glob { "glob" } else { "string" },
                },
            }));
            spec.jwt.as_mut().expect("it was given").bound_subject = subject;
            (spec.token_ttl, spec.token_max_ttl) = (life(ttl), life(max));
            (spec.token_explicit_max_ttl, spec.token_period) = (life(end), life(period));
            spec
        },
    )
}

fn any_subjects() -> impl Strategy<Value = Subjects> {
    let names = || collection::btree_set("[a-d]", 0..4);
    let labels = option::of(collection::btree_map("[a-d]", "[w-z]", 0..3));
    prop_oneof![
        (names(), names())
            .prop_map(|(names, namespaces)| Subjects::Accounts(Product { names, namespaces })),
        (names(), labels).prop_map(|(names, match_labels)| {
            let selector = LabelSelector {
                match_labels,
                match_expressions: None,
            };
            Subjects::Selected { names, selector }
        }),
        collection::btree_set(("[a-d]", "[w-z]"), 0..4).prop_map(Subjects::Jwt),
    ]
}

/// A role that was sent, as a server prints it: with fields of its own, lists in another order and
/// null for none, times now and then in words.
fn answered(payload: &Payload, in_words: bool, keeps_marker: bool) -> Map<String, Value> {
    let mut answer = Map::new();
    for (field, value) in payload.fields() {
        let printed = match value {
            Value::Array(values) if values.is_empty() => Value::Null,
            Value::Array(values) => values.into_iter().rev().collect(),
            Value::Number(seconds) if in_words && field.ends_with("ttl") => {
                json!(Duration::from_secs(seconds.as_u64().expect("seconds")).to_string())
            }
            Value::Object(claims) if field == "bound_claims" && claims.is_empty() => Value::Null,
            Value::String(text) if field == "audience" && text.is_empty() => continue,
            _ if field == "alias_metadata" && !keeps_marker => continue,
            value => value,
        };
        answer.insert(field, printed);
    }
    answer.insert("policies".into(), answer["token_policies"].clone());
    answer.insert("verbose_oidc_logging".into(), json!(false));
    answer
}

proptest! {
    #[test]
    fn what_was_sent_is_found_again(
        spec in any_spec(), subjects in any_subjects(), policies in "[a-cA-C ]{0,6}", in_words: bool, keeps_marker: bool,
    ) {
        let payload = sent(&spec, &subjects, &policies);
        let answer = answered(&payload, in_words, keeps_marker);
        let found = Canonical::of_live(subjects.family(), &answer);
        prop_assert_eq!(family(&answer), subjects.family());
        prop_assert_eq!(&found, &payload.canonical());
        prop_assert_eq!(found.hash(), payload.canonical().hash());
        prop_assert_eq!(diff(&found, &payload.canonical(), 6), "");
        prop_assert!(not_echoed(&payload, &answer).is_empty());
        prop_assert_eq!(marker(&answer).is_some(), keeps_marker);
    }

    #[test]
    fn every_write_has_the_same_fields(spec in any_spec(), subjects in any_subjects()) {
        let fields = sent(&spec, &subjects, "p").fields();
        let ours: BTreeSet<_> = fields::of(subjects.family()).map(|(field, _)| field).chain(["alias_metadata"]).collect();
        prop_assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), ours);
    }

    #[test]
    fn a_role_differs_from_another_as_its_diff_says(
        one in any_spec(), other in any_spec(), subjects in any_subjects(),
    ) {
        let (one, other) = (sent(&one, &subjects, "").canonical(), sent(&other, &subjects, "").canonical());
        prop_assert_eq!(one == other, diff(&one, &other, 6).is_empty());
        prop_assert_eq!(one == other, one.hash() == other.hash());
    }

    #[test]
    fn a_cap_holds_whatever_is_asked_for(spec in any_spec(), cap in 1..100_000_u64) {
        let fields = payload(&Wanted {
            spec: &spec,
            subjects: &accounts("a", "ns"),
            policies: &[],
            header: &header(),
            audiences: &[],
            max_token_ttl: Some(&Duration::from_secs(cap)),
        }).fields();
        for field in ["token_ttl", "token_max_ttl", "token_period"] {
            prop_assert!(fields[field].as_u64().is_some_and(|life| life <= cap));
        }
        prop_assert_ne!(&fields["token_max_ttl"], &json!(0));
    }
}
