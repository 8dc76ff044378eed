use proptest::collection::btree_map;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const RUN: &str = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";
const OTHER_RUN: &str = "9c0a2d41-1111-4c9e-9d55-5a3d1c6a7b11";

fn identity() -> LockIdentity {
    LockIdentity {
        run_id: RUN.to_owned(),
        cluster: "cluster-1".to_owned(),
        object: "ops/move-web".to_owned(),
    }
}

fn lock(phase: LockPhase) -> Lock {
    Lock {
        identity: identity(),
        phase,
        spec: r#"{"statefulSetName":"web"}"#.to_owned(),
        journal: r#"{"version":1}"#.to_owned(),
    }
}

fn stored(phase: LockPhase) -> StoredLock {
    StoredLock::parse(&lock(phase).config_map("shop", "web"))
}

fn map(keys: &[(&str, &str)]) -> ConfigMap {
    let keys = keys
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    ConfigMap {
        data: Some(keys.collect()),
        ..ConfigMap::default()
    }
}

#[test]
fn the_config_map_has_every_key_of_the_contract() {
    let map = lock(LockPhase::Active).config_map("shop", "web");
    assert_eq!(map.metadata.name.as_deref(), Some("stsm-web"));
    assert_eq!(map.metadata.namespace.as_deref(), Some("shop"));
    let expected = [
        ("holder", RUN),
        ("managementCluster", "cluster-1"),
        ("object", "ops/move-web"),
        ("state", "Active"),
        ("spec", r#"{"statefulSetName":"web"}"#),
        ("journal", r#"{"version":1}"#),
    ];
    assert_eq!(map.data, self::map(&expected).data);
}

#[test]
fn a_patch_writes_the_keys_of_the_config_map() {
    let lock = lock(LockPhase::Released);
    let map = serde_json::to_value(lock.config_map("shop", "web")).unwrap();
    assert_eq!(lock.patch()["data"], map["data"]);
    assert_eq!(lock.patch()["data"]["state"], "Released");
}

#[rstest]
#[case::active("Active", LockPhase::Active)]
#[case::released("Released", LockPhase::Released)]
#[case::spaces_around(" Released\n", LockPhase::Released)]
#[case::unknown_is_active("released?", LockPhase::Active)]
#[case::empty_is_active("", LockPhase::Active)]
fn the_state_is_read(#[case] text: &str, #[case] phase: LockPhase) {
    assert_eq!(StoredLock::parse(&map(&[("state", text)])).phase(), phase);
}

fn foreign(holder: &str, object: &str, cluster: &str) -> LockOwnership {
    LockOwnership::Foreign(ForeignLock {
        holder: holder.to_owned(),
        object: object.to_owned(),
        cluster: cluster.to_owned(),
    })
}

#[rstest] //                  holder     object          cluster
#[case::ours(RUN, "ops/move-web", "cluster-1", LockOwnership::Ours)]
#[case::ours_without_object(RUN, "", "cluster-1", LockOwnership::Ours)]
#[case::ours_without_cluster(RUN, "ops/move-web", "", LockOwnership::Ours)]
#[case::another_run(
    OTHER_RUN,
    "ops/move-web",
    "cluster-1",
    foreign(OTHER_RUN, "ops/move-web", "cluster-1")
)]
#[case::restored_in_another_cluster(
    RUN,
    "ops/move-web",
    "cluster-2",
    foreign(RUN, "ops/move-web", "cluster-2")
)]
#[case::restored_under_another_name(
    RUN,
    "ops/again",
    "cluster-1",
    foreign(RUN, "ops/again", "cluster-1")
)]
#[case::no_holder(
    "",
    "ops/move-web",
    "cluster-1",
    foreign("", "ops/move-web", "cluster-1")
)]
#[case::no_lock_at_all("", "", "", foreign("", "", ""))]
fn the_owner_is_read(
    #[case] holder: &str,
    #[case] object: &str,
    #[case] cluster: &str,
    #[case] expected: LockOwnership,
    #[values("Active", "Released")] state: &str,
) {
    let keys = [
        ("holder", holder),
        ("object", object),
        ("managementCluster", cluster),
        ("state", state),
    ];
    let found = StoredLock::parse(&map(&keys));
    assert_eq!(ownership(Some(&found), &identity()), expected);
}

#[test]
fn no_config_map_is_no_lock() {
    assert_eq!(ownership(None, &identity()), LockOwnership::Missing);
}

#[test]
fn the_message_names_run_object_and_cluster() {
    let LockOwnership::Foreign(owner) = foreign(OTHER_RUN, "ops/other", "") else {
        panic!("it is foreign");
    };
    let expected = format!(
        "run {OTHER_RUN} of StatefulSetMigration ops/other in the cluster with kube-system UID \
         (not named)"
    );
    assert_eq!(owner.to_string(), expected);
}

/// What is under the name of the lock.
#[derive(Debug, Clone, Copy)]
enum FoundLock {
    None,
    Active,
    Released,
    Outdated,
    OtherSpec,
    Elsewhere,
    Foreign,
    ForeignReleased,
}

impl FoundLock {
    fn stored(self) -> Option<StoredLock> {
        let active = stored(LockPhase::Active);
        let foreign = OTHER_RUN.to_owned();
        match self {
            Self::None => None,
            Self::Active => Some(active),
            Self::Released => Some(stored(LockPhase::Released)),
            Self::Outdated => Some(StoredLock {
                journal: "{}".to_owned(),
                ..active
            }),
            Self::OtherSpec => Some(StoredLock {
                spec: "{}".to_owned(),
                ..active
            }),
            Self::Elsewhere => Some(StoredLock {
                cluster: "cluster-2".to_owned(),
                ..active
            }),
            Self::Foreign => Some(StoredLock {
                holder: foreign,
                ..active
            }),
            Self::ForeignReleased => Some(StoredLock {
                holder: foreign,
                ..stored(LockPhase::Released)
            }),
        }
    }
}

fn refuse() -> LockAction {
    LockAction::Refuse(ForeignLock {
        holder: OTHER_RUN.to_owned(),
        object: "ops/move-web".to_owned(),
        cluster: "cluster-1".to_owned(),
    })
}

fn refuse_elsewhere() -> LockAction {
    LockAction::Refuse(ForeignLock {
        holder: RUN.to_owned(),
        object: "ops/move-web".to_owned(),
        cluster: "cluster-2".to_owned(),
    })
}

#[rstest]
#[case::a_free_lock_is_created(LockGoal::Acquire, FoundLock::None, LockAction::Create)]
#[case::our_lock_is_acquired_once(LockGoal::Acquire, FoundLock::Active, LockAction::Nothing)]
#[case::our_old_lock_is_rewritten(LockGoal::Acquire, FoundLock::Outdated, LockAction::Rewrite)]
#[case::a_released_run_moves_again(LockGoal::Acquire, FoundLock::Released, LockAction::Rewrite)]
#[case::a_foreign_lock_is_not_acquired(LockGoal::Acquire, FoundLock::Foreign, refuse())]
#[case::nor_a_released_foreign_one(LockGoal::Acquire, FoundLock::ForeignReleased, refuse())]
#[case::a_deleted_lock_is_lost(LockGoal::Mirror, FoundLock::None, LockAction::Lost)]
#[case::a_current_mirror_is_left(LockGoal::Mirror, FoundLock::Active, LockAction::Nothing)]
#[case::an_old_journal_is_rewritten(LockGoal::Mirror, FoundLock::Outdated, LockAction::Rewrite)]
#[case::an_old_spec_is_rewritten(LockGoal::Mirror, FoundLock::OtherSpec, LockAction::Rewrite)]
#[case::an_edited_state_is_rewritten(LockGoal::Mirror, FoundLock::Released, LockAction::Rewrite)]
#[case::a_foreign_mirror_is_left(LockGoal::Mirror, FoundLock::Foreign, refuse())]
#[case::the_last_journal_is_not_lost(LockGoal::Release, FoundLock::None, LockAction::Create)]
#[case::an_active_lock_is_released(LockGoal::Release, FoundLock::Active, LockAction::Rewrite)]
#[case::a_released_lock_is_left(LockGoal::Release, FoundLock::Released, LockAction::Nothing)]
#[case::a_foreign_lock_is_not_released(LockGoal::Release, FoundLock::Foreign, refuse())]
#[case::no_lock_is_removed(LockGoal::Remove, FoundLock::None, LockAction::Nothing)]
#[case::our_lock_is_removed(LockGoal::Remove, FoundLock::Active, LockAction::Delete)]
#[case::whatever_it_says(LockGoal::Remove, FoundLock::Outdated, LockAction::Delete)]
#[case::our_released_lock_is_removed(LockGoal::Remove, FoundLock::Released, LockAction::Delete)]
#[case::a_foreign_lock_is_not_removed(LockGoal::Remove, FoundLock::Foreign, LockAction::Nothing)]
#[case::a_lost_lock_is_restored(LockGoal::Restore, FoundLock::None, LockAction::Create)]
#[case::a_restored_lock_is_left(LockGoal::Restore, FoundLock::Active, LockAction::Nothing)]
#[case::a_released_lock_is_restored(LockGoal::Restore, FoundLock::Released, LockAction::Rewrite)]
#[case::our_run_is_moved_here(LockGoal::Restore, FoundLock::Elsewhere, LockAction::Rewrite)]
#[case::another_run_is_not(LockGoal::Restore, FoundLock::Foreign, refuse())]
#[case::our_run_elsewhere_stays(LockGoal::Acquire, FoundLock::Elsewhere, refuse_elsewhere())]
#[case::its_mirror_is_left(LockGoal::Mirror, FoundLock::Elsewhere, refuse_elsewhere())]
#[case::it_is_not_released(LockGoal::Release, FoundLock::Elsewhere, refuse_elsewhere())]
#[case::it_is_not_removed(LockGoal::Remove, FoundLock::Elsewhere, LockAction::Nothing)]
fn rule(#[case] goal: LockGoal, #[case] found: FoundLock, #[case] expected: LockAction) {
    let wanted = lock(goal.phase());
    assert_eq!(
        next_action(goal, found.stored().as_ref(), &wanted),
        expected
    );
}

fn any_map() -> impl Strategy<Value = ConfigMap> {
    let key = prop_oneof![
        Just(HOLDER.to_owned()),
        Just(CLUSTER.to_owned()),
        Just(OBJECT.to_owned()),
        Just(STATE.to_owned()),
        Just(SPEC.to_owned()),
        Just(JOURNAL.to_owned()),
        ".{0,8}",
    ];
    let text = prop_oneof![Just(RUN.to_owned()), Just(RELEASED.to_owned()), ".{0,20}"];
    proptest::option::of(btree_map(key, text, 0..7)).prop_map(|data| ConfigMap {
        data,
        ..ConfigMap::default()
    })
}

fn any_goal() -> impl Strategy<Value = LockGoal> {
    prop_oneof![
        Just(LockGoal::Acquire),
        Just(LockGoal::Mirror),
        Just(LockGoal::Release),
        Just(LockGoal::Remove),
        Just(LockGoal::Restore),
    ]
}

proptest! {
    #[test]
    fn only_a_lock_with_our_run_is_ever_written(map in any_map(), goal in any_goal()) {
        let found = StoredLock::parse(&map);
        let action = next_action(goal, Some(&found), &lock(goal.phase()));
        if matches!(action, LockAction::Create | LockAction::Rewrite | LockAction::Delete) {
            prop_assert_eq!(&*found.holder, RUN);
        }
    }

    #[test]
    fn what_was_written_is_current(spec in "[^ ].{0,20}[^ ]", journal in "\\{.{0,20}\\}") {
        let wanted = Lock { spec, journal, ..lock(LockPhase::Active) };
        let found = StoredLock::parse(&wanted.config_map("shop", "web"));
        let action = next_action(LockGoal::Mirror, Some(&found), &wanted);
        prop_assert_eq!(action, LockAction::Nothing);
        prop_assert_eq!(found.content_sha256(), wanted.content_sha256());
    }
}
