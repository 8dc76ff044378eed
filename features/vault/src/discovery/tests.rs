use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::find;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[rstest]
#[case::the_first(None, true)]
#[case::too_early(Some(701), false)]
#[case::in_time(Some(700), true)]
#[case::a_time_to_come(Some(1001), true)]
fn a_scan_has_its_time(#[case] last: Option<i64>, #[case] due: bool) {
    let before = DiscoveryStatus {
        last_scan_at: last.map(|last| Time(at(last))),
        ..DiscoveryStatus::default()
    };
    assert_eq!(is_due(Some(&before), SHORTEST_INTERVAL, at(1000)), due);
    assert!(is_due(None, SHORTEST_INTERVAL, at(1000)));
}

#[rstest]
#[case::nothing(json!({}), &[])]
#[case::the_policy(json!({"OperatorPolicyCreated": true}), &["sys/policies/acl/vault-access-operator"])]
#[case::the_role(json!({"OperatorRoleCreated": true}), &["auth/k8s/role/operator"])]
fn what_bootstrap_made_is_on_record(#[case] steps: Value, #[case] expected: &[&str]) {
    let connection: VaultConnection = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {
            "address": "https://v",
            "auth": {"kubernetes": {"role": "operator", "authPath": "k8s"}},
        },
        "status": {"authStatus": {"bootstrapSteps": steps}},
    }))
    .unwrap();
    let own = own_places(&connection, connection.status.as_ref().unwrap());
    let own: Vec<String> = own.iter().map(ToString::to_string).collect();
    assert_eq!(own, expected);
}

#[rstest]
#[case::within(500, "False", reasons::WITHIN_CAP)]
#[case::beyond(501, "True", reasons::CAPPED)]
fn a_list_that_is_cut_says_so(#[case] found: usize, #[case] status: &str, #[case] reason: &str) {
    let mut set = Conditions::new(&[], Some(1), at(0));
    tell_truncated(found, &mut set);
    let (all, _) = set.into_parts();
    let told = find(&all, conditions::DISCOVERY_RESULTS_TRUNCATED).unwrap();
    assert_eq!((&*told.status, &*told.reason), (status, reason));
}
