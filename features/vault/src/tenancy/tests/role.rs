//! Claims, bound policies and the life of tokens.

use api::vault::{NamespaceChoice, PolicyReference};

use super::*;

#[rstest]
#[case::service_accounts_alone(json!({"boundAudiences": ["x"]}), true)]
#[case::empty_ones(json!({"boundSubject": "", "boundClaims": {}}), true)]
#[case::a_subject(json!({"boundSubject": "system:serviceaccount:team-b:x"}), false)]
#[case::claims(json!({"boundClaims": {"sub": "x"}}), false)]
#[case::lists_of_claims(json!({"boundClaimsList": {"sub": ["x"]}}), false)]
fn subjects_and_claims_can_be_denied(#[case] jwt: Value, #[case] allowed: bool) {
    let spec = json!({"jwt": jwt});
    let denied = json!({"tenancy": {"jwtOverrides": "Deny"}});
    assert_eq!(role_in("team-a", &denied, spec.clone()).is_ok(), allowed);
    for open in [json!({}), json!({"tenancy": {}})] {
        assert_eq!(role_in("team-a", &open, spec.clone()), Ok(()));
    }
}

#[rstest]
#[case::without_a_tenancy(json!({}), "shared", false)]
#[case::without_globs(json!({"tenancy": {}}), "shared", false)]
#[case::granted(json!({"tenancy": {"externalPolicies": ["Sha*"]}}), "shared", true)]
#[case::of_the_namespace(json!({"tenancy": {"externalPolicies": ["{{namespace}}"]}}), "TEAM-a", true)]
#[case::of_another(json!({"tenancy": {"externalPolicies": ["{{namespace}}"]}}), "team-b", false)]
#[case::external_names_are_another_grant(json!({"tenancy": {"externalNames": ["*"]}}), "shared", false)]
#[case::by_discovery(json!({"tenancy": {}, "discovery": discovery_into("team-a")}), "shared", true)]
#[case::by_discovery_elsewhere(json!({"discovery": discovery_into("team-b")}), "shared", false)]
fn external_policies_have_to_be_granted(
    #[case] connection: Value,
    #[case] name: &str,
    #[case] granted: bool,
) {
    let reference: PolicyReference = read(json!({"kind": "External", "name": name}));
    let judged = in_namespace("team-a", &connection, |guard| {
        guard.may_bind(&reference, None)
    });
    assert_eq!(judged.is_ok(), granted, "{judged:?}");
}

#[rstest]
#[case::ones_own(json!({"kind": "VaultPolicy", "name": "p"}), json!(null), true)]
#[case::ones_own_by_name(json!({"kind": "VaultPolicy", "name": "p", "namespace": "team-a"}), json!(null), true)]
#[case::anothers(json!({"kind": "VaultPolicy", "name": "p", "namespace": "team-b"}), json!(null), false)]
#[case::anothers_granted_to_us(json!({"kind": "VaultPolicy", "name": "p", "namespace": "team-b"}), json!({"names": ["team-a"]}), true)]
#[case::anothers_granted_by_label(json!({"kind": "VaultPolicy", "name": "p", "namespace": "team-b"}), json!({"selector": {}}), true)]
#[case::anothers_granted_to_others(json!({"kind": "VaultPolicy", "name": "p", "namespace": "team-b"}), json!({"names": ["team-b"]}), false)]
#[case::the_clusters(json!({"kind": "VaultClusterPolicy", "name": "p"}), json!(null), false)]
#[case::the_clusters_granted(json!({"kind": "VaultClusterPolicy", "name": "p"}), json!({"names": ["team-a"]}), true)]
fn what_others_declare_is_bound_as_they_grant_it(
    #[case] reference: Value,
    #[case] bindable_from: Value,
    #[case] granted: bool,
) {
    let reference: PolicyReference = read(reference);
    let bindable_from: Option<NamespaceChoice> = read(bindable_from);
    let judge = |connection: Value| {
        in_namespace("team-a", &connection, |guard| {
            guard.may_bind(&reference, bindable_from.as_ref())
        })
    };
    let judged = judge(json!({"tenancy": {"crossNamespaceRefs": "Granted"}}));
    assert_eq!(judged.is_ok(), granted, "{judged:?}");
    assert_eq!(judge(json!({"tenancy": {}})), Ok(()));
    assert_eq!(judge(json!({})), Ok(()));
}

#[rstest]
#[case::unset(json!({}), None)]
#[case::set(json!({"maxTokenTTL": "1h"}), Some(3600))]
#[case::nothing_is_no_limit(json!({"maxTokenTTL": "0"}), None)]
fn the_longest_token_is_the_tenancys(#[case] tenancy: Value, #[case] seconds: Option<u64>) {
    let connection = json!({"tenancy": tenancy});
    in_namespace("team-a", &connection, |guard| {
        assert_eq!(
            guard.max_token_ttl().map(api::vault::Duration::as_secs),
            seconds
        );
        Ok(())
    })
    .unwrap();
}
