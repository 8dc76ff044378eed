use api::vault::{Intent, IntentKind};
use rstest::rstest;
use serde_json::json;

use super::*;

const PATH: &str = "secret/data/team-a/seed";
const OWNER: &str = "VaultKVSecret team-a/seed (auth-mount kubernetes)";

/// As vault-access-operator leaves one: it forgot that it had written the seed.
fn left() -> VaultKVSecret {
    serde_json::from_value(json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": "VaultKVSecret",
        "metadata": { "name": "seed", "namespace": "team-a", "generation": 1 },
        "spec": { "connectionRef": "c", "path": PATH, "data": { "password": "initial" } },
        "status": {
            "phase": "Active",
            "managed": true,
            "vaultPath": PATH,
            "binding": {
                "vaultPath": PATH,
                "vaultResourceName": "team-a/seed",
                "bindingVerified": true,
                "boundAt": "2026-11-15T20:38:51Z",
            },
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "Succeeded",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-11-15T20:38:51Z",
            }],
        },
    }))
    .unwrap()
}

fn announced() -> VaultKVSecretStatus {
    let mut status = VaultKVSecretStatus::default();
    status.sync.phase = Some(Phase::Syncing);
    status.sync.intent = Some(Intent {
        kind: Some(IntentKind::Create),
        vault_path: Some(PATH.to_owned()),
        ..Intent::default()
    });
    status
}

fn after(before: &VaultKVSecretStatus, settled: &Settled, second: i64) -> VaultKVSecretStatus {
    let now = Timestamp::from_second(second).unwrap();
    let mut status = before.clone();
    let mut set = Conditions::new(&before.sync.conditions, Some(1), now);
    succeeded(&mut status, &left(), settled, &mut set, now);
    status.sync.conditions = set.into_parts().0;
    status
}

fn ours() -> Settled {
    Settled::Ours {
        version: 1,
        owner: Some(OWNER.to_owned()),
    }
}

fn seeded_is(status: &VaultKVSecretStatus) -> (String, String) {
    let seeded = find(&status.sync.conditions, conditions::SEEDED).unwrap();
    (seeded.status.clone(), seeded.reason.clone())
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn what_a_predecessor_left_is_not_called_ours() {
    let before = left().status.unwrap();
    let status = after(&before, &Settled::Theirs { owner: None }, 100);
    assert_eq!(seeded_is(&status), pair("False", "Succeeded"));
    assert_eq!((status.seeded, status.seeded_version), (Some(false), None));
    assert_eq!(status.sync.managed, Some(false));
    let kept = |status: &VaultKVSecretStatus| status.sync.binding.clone().unwrap().bound_at;
    assert_eq!(kept(&status), kept(&before));
}

#[test]
fn what_was_written_is_on_record_and_nothing_is_announced_any_more() {
    let status = after(&announced(), &ours(), 100);
    assert_eq!(seeded_is(&status), pair("True", "Succeeded"));
    assert_eq!(
        (status.seeded, status.seeded_version),
        (Some(true), Some(1))
    );
    assert_eq!(status.sync.intent, None);
    assert_eq!(status.sync.binding.unwrap().owner.as_deref(), Some(OWNER));
}

#[rstest]
#[case::a_refusal_is_an_answer(true, false)]
#[case::a_lost_answer_is_none(false, true)]
fn an_intent_ends_with_its_answer(#[case] refused: bool, #[case] stays: bool) {
    let mut status = announced();
    let mut set = Conditions::new(&[], Some(1), Timestamp::UNIX_EPOCH);
    let stop = Stop::blocked(Reason::new(reasons::VAULT_PERMISSION_DENIED, "no"));
    not_synced(&stop, refused, &mut status, &mut set);
    assert_eq!(status.sync.intent.is_some(), stays);
}

#[rstest]
#[case::refused(true, true)]
#[case::answer_lost(false, false)]
fn a_refused_intent_ends_though_nothing_else_is_reported(
    #[case] refused: bool,
    #[case] ends: bool,
) {
    let closed = without_refused_intent(&announced(), refused);
    assert_eq!(closed.is_some(), ends);
    if let Some(status) = closed {
        assert_eq!(status.sync.intent, None);
        assert_ne!(status.sync.phase, Some(Phase::Syncing));
    }
}

#[test]
fn what_is_in_doubt_stays_announced() {
    let status = after(&announced(), &Settled::Doubtful, 100);
    assert_eq!(seeded_is(&status), pair("Unknown", "SeedUnconfirmed"));
    assert_eq!(status.seeded, None);
    assert!(status.sync.intent.is_some());
    assert!(is_true(&status.sync.conditions, conditions::READY));
}

#[rstest]
#[case::ours(ours())]
#[case::theirs(Settled::Theirs { owner: None })]
#[case::anothers(Settled::Theirs { owner: Some("VaultKVSecret x/y".to_owned()) })]
#[case::in_doubt(Settled::Doubtful)]
fn the_same_answer_later_changes_nothing(#[case] settled: Settled) {
    let first = after(&announced(), &settled, 100);
    let later = match &settled {
        Settled::Ours { version, .. } => Settled::Ours {
            version: *version,
            owner: None,
        },
        Settled::Theirs { .. } | Settled::Doubtful => settled,
    };
    assert_eq!(after(&first, &later, 200), first);
}

#[test]
fn no_value_is_ever_told() {
    for settled in [ours(), Settled::Theirs { owner: None }, Settled::Doubtful] {
        let told = serde_json::to_string(&after(&announced(), &settled, 100)).unwrap();
        assert!(!told.contains("initial"), "{told}");
    }
}
