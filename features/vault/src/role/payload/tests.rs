use rstest::rstest;

use super::*;
use crate::owner;

mod answers;
mod rules;

/// A role that says no more than it must, and what `more` says.
fn spec(more: Value) -> RoleSpec {
    let mut spec = json!({"connectionRef": "c", "policies": [{"kind": "External", "name": "x"}]});
    let more = more.as_object().expect("fields").clone();
    spec.as_object_mut().expect("fields").extend(more);
    serde_json::from_value(spec).expect("a role")
}

fn strings<C: FromIterator<String>>(texts: &str) -> C {
    texts.split_whitespace().map(str::to_owned).collect()
}

fn accounts(names: &str, namespaces: &str) -> Subjects {
    Subjects::Accounts(Product {
        names: strings(names),
        namespaces: strings(namespaces),
    })
}

fn pairs(texts: &str) -> Subjects {
    let pair = |text: &str| {
        let (namespace, name) = text.split_once('/').expect("namespace/name");
        (namespace.to_owned(), name.to_owned())
    };
    Subjects::Jwt(texts.split_whitespace().map(pair).collect())
}

fn header() -> Header {
    Header {
        auth_mount: Some("kubernetes".into()),
        cluster: None,
        resource: "team-a/r".into(),
        kind: "VaultRole".into(),
    }
}

fn sent(spec: &RoleSpec, subjects: &Subjects, policies: &str) -> Payload {
    let policies: Vec<String> = strings(policies);
    payload(&Wanted {
        spec,
        subjects,
        policies: &policies,
        header: &header(),
        audiences: &[],
        max_token_ttl: None,
    })
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("fields").clone()
}

#[test]
fn a_bare_kubernetes_role_sends_every_field() {
    let payload = sent(&spec(json!({})), &accounts("b a", "ns2 ns1"), "z a z");
    let expected = json!({
        "bound_service_account_names": ["a", "b"],
        "bound_service_account_namespaces": ["ns1", "ns2"],
        "bound_service_account_namespace_selector": "",
        "audience": "",
        "alias_name_source": "serviceaccount_uid",
        "token_policies": ["a", "z"],
        "token_ttl": 0,
        "token_max_ttl": 0,
        "token_explicit_max_ttl": 0,
        "token_period": 0,
        "token_num_uses": 0,
        "token_bound_cidrs": [],
        "token_type": "default",
        "token_no_default_policy": false,
        "alias_metadata": {
            "managed-by": "vault-access-operator",
            "auth-mount": "kubernetes",
            "k8s-resource": "team-a/r",
            "k8s-kind": "VaultRole",
        },
    });
    assert_eq!(Value::Object(payload.fields()), expected);
}

#[test]
fn a_bare_jwt_role_sends_every_field() {
    let payload = sent(&spec(json!({})), &pairs("team-a/sa1"), "");
    let expected = json!({
        "role_type": "jwt",
        "user_claim": "sub",
        "groups_claim": "",
        "bound_audiences": ["https://kubernetes.default.svc.cluster.local"],
        "bound_subject": "system:serviceaccount:team-a:sa1",
        "bound_claims": {},
        "bound_claims_type": "string",
        "token_policies": [],
        "token_ttl": 0,
        "token_max_ttl": 0,
        "token_explicit_max_ttl": 0,
        "token_period": 0,
        "token_num_uses": 0,
        "token_bound_cidrs": [],
        "token_type": "default",
        "token_no_default_policy": false,
        "alias_metadata": {
            "managed-by": "vault-access-operator",
            "auth-mount": "kubernetes",
            "k8s-resource": "team-a/r",
            "k8s-kind": "VaultRole",
        },
    });
    assert_eq!(Value::Object(payload.fields()), expected);
}

#[rstest]
#[case::a_life_in_words(json!({"tokenTTL": "1h30m"}), "token_ttl", json!(5400))]
#[case::a_life_in_days(json!({"tokenMaxTTL": "1d"}), "token_max_ttl", json!(86_400))]
#[case::a_period(json!({"tokenPeriod": "90"}), "token_period", json!(90))]
#[case::an_end(json!({"tokenExplicitMaxTTL": "2h"}), "token_explicit_max_ttl", json!(7200))]
#[case::a_number_of_uses(json!({"tokenNumUses": 3}), "token_num_uses", json!(3))]
#[case::a_kind_of_token(json!({"tokenType": "batch"}), "token_type", json!("batch"))]
#[case::no_default_policy(json!({"tokenNoDefaultPolicy": true}), "token_no_default_policy", json!(true))]
#[case::an_audience(json!({"audience": "vault"}), "audience", json!("vault"))]
#[case::an_alias(json!({"aliasNameSource": "serviceaccount_name"}), "alias_name_source", json!("serviceaccount_name"))]
#[case::networks_as_vault_prints_them(json!({"tokenBoundCIDRs": ["10.0.0.1/32", "10.0.0.0/8", "FD00::0/64", "10.0.0.1"]}), "token_bound_cidrs", json!(["10.0.0.0/8", "10.0.0.1", "fd00::/64"]))]
fn a_field_of_the_spec_is_sent(#[case] more: Value, #[case] field: &str, #[case] expected: Value) {
    let fields = sent(&spec(more), &accounts("a", "ns"), "").fields();
    assert_eq!(fields[field], expected);
}

#[rstest]
//                                  spec                                              cap          ttl   max   period
#[case::nothing_set_gets_a_max(               json!({}),                                        Some("1h"), [0,    3600, 0])]
#[case::longer_ones_are_cut(                  json!({"tokenTTL": "2h", "tokenMaxTTL": "3h", "tokenPeriod": "4h"}), Some("1h"), [3600, 3600, 3600])]
#[case::shorter_ones_stay(                    json!({"tokenTTL": "1m", "tokenMaxTTL": "2m", "tokenPeriod": "3m"}), Some("1h"), [60, 120, 180])]
#[case::a_max_of_zero_is_unset(               json!({"tokenTTL": "2h", "tokenMaxTTL": "0"}),    Some("1h"), [3600, 3600, 0])]
#[case::a_cap_of_zero_caps_nothing(           json!({"tokenTTL": "2h"}),                        Some("0"),  [7200, 0,    0])]
#[case::no_cap(                               json!({"tokenTTL": "2h"}),                        None,       [7200, 0,    0])]
fn lives_are_capped(#[case] more: Value, #[case] cap: Option<&str>, #[case] lives: [u64; 3]) {
    let cap: Option<Duration> = cap.map(|cap| cap.parse().unwrap());
    let fields = payload(&Wanted {
        spec: &spec(more),
        subjects: &accounts("a", "ns"),
        policies: &[],
        header: &header(),
        audiences: &[],
        max_token_ttl: cap.as_ref(),
    })
    .fields();
    let sent = ["token_ttl", "token_max_ttl", "token_period"].map(|field| fields[field].clone());
    assert_eq!(sent, lives.map(|life| json!(life)));
}

#[rstest]
#[case::no_names(accounts("", "ns"), json!(["_"]), json!(["ns"]))]
#[case::no_namespaces(accounts("a", ""), json!(["a"]), json!(["_"]))]
fn an_empty_list_admits_nobody(
    #[case] subjects: Subjects,
    #[case] names: Value,
    #[case] namespaces: Value,
) {
    let fields = sent(&spec(json!({})), &subjects, "").fields();
    assert_eq!(fields["bound_service_account_names"], names);
    assert_eq!(fields["bound_service_account_namespaces"], namespaces);
}

#[test]
fn a_selector_is_sent_as_text_and_no_namespace_beside_it() {
    let selector = json!({
        "matchExpressions": [
            {"key": "z", "operator": "Exists", "values": []},
            {"key": "a", "operator": "In", "values": ["2", "1", "2"]},
        ],
        "matchLabels": {"team": "x"},
    });
    let subjects = Subjects::Selected {
        names: strings("b a"),
        selector: serde_json::from_value(selector).unwrap(),
    };
    let fields = sent(&spec(json!({})), &subjects, "").fields();
    assert_eq!(fields["bound_service_account_names"], json!(["a", "b"]));
    assert_eq!(fields["bound_service_account_namespaces"], json!([]));
    assert_eq!(
        fields["bound_service_account_namespace_selector"],
        r#"{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]},{"key":"z","operator":"Exists"}],"matchLabels":{"team":"x"}}"#
    );
}

const TWO: &str = "team-a/sa1 team-b/sa2";

#[rstest]
#[case::one_is_the_subject("team-a/sa1", json!({}), "system:serviceaccount:team-a:sa1", json!({}))]
#[case::several_are_a_list(TWO, json!({}), "", json!({"sub": ["system:serviceaccount:team-a:sa1", "system:serviceaccount:team-b:sa2"]}))]
#[case::none_is_nobody("", json!({}), "system:serviceaccount:_:_", json!({}))]
#[case::a_subject_overrides(TWO, json!({"boundSubject": "me"}), "me", json!({}))]
#[case::an_empty_subject_does_not("team-a/sa1", json!({"boundSubject": ""}), "system:serviceaccount:team-a:sa1", json!({}))]
#[case::claims_override(TWO, json!({"boundClaims": {"a": "1"}}), "", json!({"a": ["1"]}))]
#[case::claim_lists_win(TWO, json!({"boundClaims": {"a": "1", "b": "2"}, "boundClaimsList": {"a": ["4", "3"]}}), "", json!({"a": ["3", "4"], "b": ["2"]}))]
#[case::an_empty_claim_list_admits_nobody(TWO, json!({"boundClaimsList": {"a": []}}), "", json!({"a": []}))]
fn who_a_jwt_role_admits(
    #[case] accounts: &str,
    #[case] jwt: Value,
    #[case] subject: &str,
    #[case] claims: Value,
) {
    let spec = spec(json!({"jwt": jwt}));
    let fields = sent(&spec, &pairs(accounts), "").fields();
    assert_eq!(fields["bound_subject"], subject);
    assert_eq!(fields["bound_claims"], claims);
    assert_eq!(
        is_bound_by_token(&spec),
        !subject.starts_with("system:") && !claims.to_string().contains("system:")
    );
}

#[rstest]
#[case::the_roles_own(json!(["b", "a", "b"]), "c", json!(["a", "b"]))]
#[case::the_connections(json!([]), "d c", json!(["c", "d"]))]
#[case::the_clusters(json!([]), "", json!(["https://kubernetes.default.svc.cluster.local"]))]
fn audiences(#[case] own: Value, #[case] connection: &str, #[case] expected: Value) {
    let audiences: Vec<String> = strings(connection);
    let fields = payload(&Wanted {
        spec: &spec(json!({"jwt": {"boundAudiences": own}})),
        subjects: &pairs(""),
        policies: &[],
        header: &header(),
        audiences: &audiences,
        max_token_ttl: None,
    })
    .fields();
    assert_eq!(fields["bound_audiences"], expected);
}

#[test]
fn what_is_sent_has_a_hash_of_its_own() {
    let bare = sent(&spec(json!({})), &accounts("a", "ns"), "");
    let text = Value::Object(bare.fields()).to_string();
    assert_eq!(bare.sent_hash(), format!("{:x}", Sha256::digest(text)));
}

#[test]
fn the_marker_reads_back_as_written() {
    let mut fields = sent(&spec(json!({})), &accounts("a", "ns"), "").fields();
    assert_eq!(marker(&fields), Some(owner::marker(&header())));
    fields["alias_metadata"]["managed-by"] = json!("somebody");
    assert_eq!(
        marker(&fields),
        None,
        "without the sentinel it is no marker"
    );
    fields.remove("alias_metadata");
    assert_eq!(marker(&fields), None, "most servers drop it");
}
