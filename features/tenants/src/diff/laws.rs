//! What holds of every plan.

use std::collections::BTreeMap;

use api::tenants::ValidationTokenHost;
use proptest::prelude::*;

use super::*;
use crate::body::tests::any_body;

#[derive(Debug, Clone)]
struct World {
    declared: TenantBody,
    last: Last,
    live: Body,
    default_group: Option<&'static str>,
    issued: Option<&'static str>,
}

impl World {
    fn plan(&self, policy: DriftPolicy) -> Plan {
        plan(&Ground {
            declared: &self.declared,
            last: &self.last,
            live: &self.live,
            default_group: self.default_group,
            issued: self.issued,
            resend: false,
            policy,
        })
    }

    /// The world after `plan` was carried out and recorded.
    fn after(&self, plan: Plan) -> Self {
        let live = plan.update.map_or(self.live.clone(), |update| update.body);
        Self {
            last: Last {
                body: Body::from(&plan.record),
                request: plan.record.managed_certificate_request,
                tags: plan.record.tags,
                certificate_in_use: plan.certificate_in_use,
            },
            live,
            ..self.clone()
        }
    }
}

fn any_request() -> impl Strategy<Value = Option<BodyCertificateRequest>> {
    let host = prop_oneof![
        Just(ValidationTokenHost::Cloudfront),
        Just(ValidationTokenHost::SelfHosted),
    ];
    proptest::option::of(host.prop_map(|host| BodyCertificateRequest {
        validation_token_host: host,
        primary_domain_name: "a.x".to_owned(),
        certificate_transparency_logging_preference: None,
    }))
}

prop_compose! {
    fn any_world()(
        declared in any_body(),
        asked in any_request(),
        last in any_body(),
        had in any_request(),
        in_use in proptest::option::of("[ABM]"),
        live in any_body(),
        default_group in prop_oneof![Just(None), Just(Some("cg0"))],
        issued in prop_oneof![Just(None), Just(Some("M"))],
    ) -> World {
        let mut live = live;
        // CloudFront puts every tenant into a group.
        live.connection_group_id.get_or_insert("cg0".to_owned());
        World {
            declared: declared.recorded(asked, BTreeMap::new()),
            last: Last { body: last, request: had, tags: BTreeMap::new(), certificate_in_use: in_use },
            live,
            default_group,
            issued,
        }
    }
}

fn any_policy() -> impl Strategy<Value = DriftPolicy> {
    prop_oneof![
        Just(DriftPolicy::Enforce),
        Just(DriftPolicy::Report),
        Just(DriftPolicy::Suspend),
    ]
}

fn lenient() -> impl Strategy<Value = DriftPolicy> {
    prop_oneof![Just(DriftPolicy::Report), Just(DriftPolicy::Suspend)]
}

/// What an Update that replaces leaves: absent members go back to their defaults.
fn replaced(sent: &Body) -> Body {
    let group = sent.connection_group_id.clone();
    Body {
        connection_group_id: group.or(Some("cg0".to_owned())),
        ..sent.clone()
    }
}

/// What an Update that merges leaves: absent members stay.
fn kept(live: &Body, sent: &Body) -> Body {
    let group = sent.connection_group_id.clone();
    Body {
        connection_group_id: group.or(live.connection_group_id.clone()),
        ..sent.clone()
    }
}

proptest! {
    #[test]
    fn an_update_equal_to_live_is_never_planned(world in any_world(), policy in any_policy()) {
        if let Some(update) = world.plan(policy).update {
            prop_assert!(update.request.is_some() || update.body != world.live);
        }
    }

    #[test]
    fn to_replace_and_to_merge_give_the_same(world in any_world(), policy in any_policy()) {
        if let Some(update) = world.plan(policy).update {
            prop_assert_eq!(replaced(&update.body), kept(&world.live, &update.body));
        }
    }

    #[test]
    fn no_drift_is_healed_by_accident(world in any_world(), policy in lenient()) {
        let World { declared, last, live, .. } = &world;
        let Some(Update { body: sent, .. }) = world.plan(policy).update else { return Ok(()) };
        let last = &last.body;
        for one in live.domains.union(&declared.domains).chain(&last.domains) {
            let [desired, before, there, sent] =
                [&declared.domains, &last.domains, &live.domains, &sent.domains]
                    .map(|side| side.contains(one));
            prop_assert_eq!(sent, if desired == before { there } else { desired });
        }
        for name in ["p", "q"] {
            let [desired, before, there, sent] =
                [&declared.parameters, &last.parameters, &live.parameters, &sent.parameters]
                    .map(|side| side.get(name));
            prop_assert_eq!(sent, if desired == before { there } else { desired });
        }
        if declared.enabled == last.enabled {
            prop_assert_eq!(sent.enabled, live.enabled);
        }
        if declared.distribution_id == last.distribution_id {
            prop_assert_eq!(&sent.distribution_id, &live.distribution_id);
        }
        if declared.web_acl == last.web_acl {
            prop_assert_eq!(&sent.web_acl, &live.web_acl);
        }
        if declared.geo_restrictions == last.geo_restrictions {
            prop_assert_eq!(&sent.geo_restrictions, &live.geo_restrictions);
        }
        if declared.connection_group_id == last.connection_group_id {
            prop_assert_eq!(&sent.connection_group_id, &live.connection_group_id);
        }
    }

    #[test]
    fn drift_that_is_left_alone_stays_drift(world in any_world(), policy in lenient()) {
        let plan = world.plan(policy);
        let drifts = |plan: &Plan| -> Vec<FieldChange> {
            let changes = plan.changes.iter();
            changes.filter(|one| one.kind == ChangeKind::Drift).cloned().collect()
        };
        let before = drifts(&plan);
        let after = drifts(&world.after(plan).plan(policy));
        for one in before {
            prop_assert!(after.contains(&one), "{one:?} is gone from {after:?}");
        }
    }

    #[test]
    fn enforced_nothing_differs_afterwards(world in any_world()) {
        let after = world.after(world.plan(DriftPolicy::Enforce));
        prop_assert_eq!(after.plan(DriftPolicy::Enforce).changes, vec![]);
    }

    #[test]
    fn a_plan_carried_out_leaves_nothing_to_do(world in any_world(), policy in any_policy()) {
        let mut world = world.after(world.plan(policy));
        for _ in 0..2 {
            let again = world.plan(policy);
            prop_assert_eq!(&again.update, &None);
            let recorded = (&world.last.body, &world.last.request);
            let record = Body::from(&again.record);
            prop_assert_eq!(recorded, (&record, &again.record.managed_certificate_request));
            world = world.after(again);
        }
    }
}
