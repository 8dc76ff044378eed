//! What a pass does with a plan.

use api::migrate::{StatefulSetMigrationStatus, StoredMigration};
use engine::{Object, PassFacts};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::{ClusterId, ObjectKey};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::migration::core::{Facts, MigrationCore, Observed, World};
use crate::migration::decision::Change;
use crate::migration::fixture::spec;
use crate::migration::pass::Memory;

fn in_phase(phase: Phase) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        phase: Some(phase),
        ..StatefulSetMigrationStatus::default()
    }
}

fn world(status: StatefulSetMigrationStatus) -> World {
    World {
        object: Object {
            key: ObjectKey::namespaced("ops", "move-web"),
            metadata: ObjectMeta::default(),
            resource: StoredMigration {
                spec: Ok(spec(&json!({}))),
            },
            status,
            conditions: Vec::new(),
            exists: true,
        },
        facts: Facts::default(),
        observed: Observed::default(),
        memory: Memory::default(),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: Timestamp::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.0,
            retry_in: Duration::ZERO,
            is_urgent: false,
        },
    }
}

#[rstest]
#[case::a_saved_phase(Phase::Finalizing, true)]
#[case::a_phase_of_this_pass(Phase::MigratingPods, false)]
fn a_phase_is_saved_before_it_is_mirrored(#[case] saved: Phase, #[case] is_mirrored: bool) {
    let core = MigrationCore {
        management_cluster: ClusterId::new("m").expect("it is an id"),
    };
    let world = world(in_phase(saved));
    let spec = spec(&json!({}));
    let deciding = Deciding::new(&core, &world, &spec);
    let change = Change::DeleteTags {
        disk: "vol-1".to_owned(),
        keys: Vec::new(),
    };
    let mirror = Next::Mirror(Step {
        name: StepName::Lock,
        ordinal: None,
        change,
    });
    let mut plan = deciding.plan(None);
    (plan.next, plan.record) = (mirror, in_phase(Phase::Finalizing));
    let decided = deciding.carried_out(plan, true);
    match decided.next {
        Move::Write(_) => assert!(is_mirrored),
        next => assert_eq!((next, is_mirrored), (Move::Wait(PAUSE), false)),
    }
}
