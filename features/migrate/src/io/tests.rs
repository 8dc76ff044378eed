use serde_json::json;

use super::*;

#[test]
fn the_live_migration_has_what_a_change_depends_on() {
    let object = json!({
        "metadata": {"uid": "u", "generation": 3, "deletionTimestamp": "2030-01-01T00:00:00Z",
            "annotations": {"pontoon.io/paused": "true"}},
        "status": {"intent": {"token": "t"}},
    });
    let expected = LiveMigration {
        uid: "u".to_owned(),
        generation: 3,
        is_deleting: true,
        is_paused: true,
        token: Some("t".to_owned()),
    };
    assert_eq!(live_migration(&object), expected);
    let plain = live_migration(&json!({"metadata": {"uid": "u", "generation": 1}}));
    assert_eq!(
        (plain.is_deleting, plain.is_paused, plain.token),
        (false, false, None)
    );
}
