//! Reads, changes and their names.

use std::collections::BTreeSet;

use api::migrate::StepName;
use engine::Effect;

use super::*;

#[test]
fn every_step_that_changes_something_has_a_kill_point() {
    let named: BTreeSet<&str> = Write::NAMES.iter().copied().collect();
    let known: BTreeSet<&str> = StepName::ALL.iter().map(|step| step.as_str()).collect();
    let waits: BTreeSet<&str> = known.difference(&named).copied().collect();
    let expected = [
        "attach",
        "confirm",
        "detach",
        "gate",
        "r-attach",
        "r-confirm",
        "r-detach",
        "r-ready",
        "ready",
        "soak",
    ];
    assert_eq!(waits.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(
        named.difference(&known).copied().collect::<Vec<_>>(),
        ["mirror"]
    );
}
