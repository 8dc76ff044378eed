use proptest::prelude::*;
use rstest::rstest;

use super::*;

const LAG: u64 = 10;
const TIMING: Timing = Timing {
    appears_within: Duration::from_secs(LAG),
    missing_for: Duration::from_secs(LAG),
};

fn at(second: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_secs(second)
}

fn present(version: u64) -> Lifecycle<u64> {
    Lifecycle::Present { version }
}

const SUPERSEDED: Lifecycle<u64> = Lifecycle::Superseded {
    before: 1,
    version: 2,
};

fn unconfirmed(second: u64) -> Lifecycle<u64> {
    Lifecycle::Unconfirmed { since: at(second) }
}

fn missing(second: u64) -> Lifecycle<u64> {
    Lifecycle::Missing { since: at(second) }
}

#[rstest] //                            state                    observation                  so
#[case::found_by_its_marker(Lifecycle::NotRequested, Observation::Shown(1), present(1))]
#[case::intent(
    Lifecycle::NotRequested,
    Observation::IntentSaved,
    Lifecycle::Requested
)]
#[case::sent(Lifecycle::Requested, Observation::CreateSent(at(3)), unconfirmed(3))]
#[case::refused(unconfirmed(3), Observation::CreateRefused, Lifecycle::Requested)]
#[case::answered(unconfirmed(3), Observation::Written { before: None, after: 1 }, present(1))]
#[case::it_appears(unconfirmed(3), Observation::Shown(1), present(1))]
#[case::it_may_still_appear(unconfirmed(3), Observation::NotShown(at(12)), unconfirmed(3))]
#[case::it_never_came(unconfirmed(3), Observation::NotShown(at(13)), Lifecycle::NotRequested)]
#[case::our_write(present(1), Observation::Written { before: Some(1), after: 2 }, SUPERSEDED)]
#[case::a_stale_read(SUPERSEDED, Observation::Shown(1), SUPERSEDED)]
#[case::a_current_read(SUPERSEDED, Observation::Shown(2), present(2))]
#[case::a_read_of_anothers_write(SUPERSEDED, Observation::Shown(3), present(3))]
#[case::first_miss(present(1), Observation::NotShown(at(5)), missing(5))]
#[case::second_miss_too_early(missing(5), Observation::NotShown(at(14)), missing(5))]
#[case::second_miss(missing(5), Observation::NotShown(at(15)), Lifecycle::Gone)]
#[case::it_was_only_late(missing(5), Observation::Shown(1), present(1))]
#[case::switched_off(present(1), Observation::Disabled(2), Lifecycle::Disabling { version: 2 })]
#[case::still_off(Lifecycle::Disabling { version: 2 }, Observation::Shown(3), Lifecycle::Disabling { version: 3 })]
#[case::deleted(Lifecycle::Disabling { version: 2 }, Observation::Deleted, Lifecycle::Gone)]
#[case::made_again_by_others(Lifecycle::Gone, Observation::Shown(9), present(9))]
fn observed(
    #[case] state: Lifecycle<u64>,
    #[case] observation: Observation<u64>,
    #[case] expected: Lifecycle<u64>,
) {
    assert_eq!(state.observe(observation, &TIMING), expected);
}

#[rstest] //              state                        wanted: existing           wanted: absent
#[case::new(Lifecycle::NotRequested, ToDo::SaveIntent, ToDo::Nothing)]
#[case::requested(Lifecycle::Requested, ToDo::Create, ToDo::Nothing)]
#[case::unconfirmed(unconfirmed(3), ToDo::ReadAgain(at(13)), ToDo::ReadAgain(at(13)))]
#[case::present(present(1), ToDo::Compare, ToDo::Disable)]
#[case::superseded(SUPERSEDED, ToDo::Compare, ToDo::Disable)]
#[case::missing(missing(5), ToDo::ReadAgain(at(15)), ToDo::ReadAgain(at(15)))]
#[case::disabling(Lifecycle::Disabling { version: 2 }, ToDo::Compare, ToDo::Delete)]
#[case::gone(Lifecycle::Gone, ToDo::SaveIntent, ToDo::Nothing)]
fn decided(#[case] state: Lifecycle<u64>, #[case] existing: ToDo, #[case] absent: ToDo) {
    assert_eq!(state.next(Wanted::Existing, &TIMING), existing);
    assert_eq!(state.next(Wanted::Absent, &TIMING), absent);
}

#[test]
fn only_the_version_that_we_replaced_is_stale() {
    assert!(SUPERSEDED.is_stale(&1) && !SUPERSEDED.is_stale(&2));
    assert!(!present(1).is_stale(&1));
}

/// The fault of one call.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Nothing,
    /// It has its effect and no answer comes.
    Lost,
    /// It has no effect.
    Refused,
    /// The process ends after the effect.
    Crash,
    /// Reads show the state of some seconds ago.
    Stale,
    /// Somebody else deletes the resource.
    DeletedByOthers,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        5 => Just(Fault::Nothing),
        1 => Just(Fault::Lost),
        1 => Just(Fault::Refused),
        1 => Just(Fault::Crash),
        2 => Just(Fault::Stale),
        1 => Just(Fault::DeletedByOthers),
    ]
}

/// A service without names and tokens, and one object that needs one resource.
#[derive(Default)]
struct Model {
    now: u64,
    /// The versions of the resources that exist.
    things: Vec<u64>,
    /// The same at earlier times.
    history: Vec<(u64, Vec<u64>)>,
    versions: u64,
    state: Lifecycle<u64>,
    /// The record that a new process finds.
    recorded: Option<u64>,
    intent: Option<Timestamp>,
}

/// A create is sent within this time after its intent was saved.
const SENT_WITHIN: Duration = Duration::from_secs(2);

impl Model {
    fn observe(&mut self, observation: Observation<u64>) {
        let state = std::mem::take(&mut self.state);
        self.state = state.observe(observation, &TIMING);
        if let Lifecycle::Present { version }
        | Lifecycle::Superseded { version, .. }
        | Lifecycle::Disabling { version } = self.state
        {
            (self.recorded, self.intent) = (Some(version), None);
        }
    }

    fn changed(&mut self) {
        self.history.push((self.now, self.things.clone()));
    }

    fn read(&mut self, is_stale: bool) {
        let began = at(self.now);
        let then = self.now.saturating_sub(if is_stale { LAG - 1 } else { 0 });
        let shown = self.history.iter().rev().find(|(at, _)| *at <= then);
        let shown = shown.and_then(|(_, things)| things.first().copied());
        self.observe(match shown {
            Some(version) => Observation::Shown(version),
            None => Observation::NotShown(began),
        });
    }

    fn crash(&mut self) {
        let intent = self.intent.map(|saved| (saved, SENT_WITHIN));
        self.state = Lifecycle::recovered(self.recorded, intent);
    }

    /// Performs a write; `effect` changes what exists and returns what its answer shows.
    fn write(&mut self, fault: Fault, effect: impl FnOnce(&mut Self) -> Observation<u64>) -> bool {
        if matches!(fault, Fault::Refused) {
            return false;
        }
        let answer = effect(self);
        self.changed();
        match fault {
            Fault::Lost => {}
            Fault::Crash => self.crash(),
            Fault::Nothing | Fault::Refused | Fault::Stale | Fault::DeletedByOthers => {
                self.observe(answer);
            }
        }
        true
    }

    /// One pass: a read, then the next action. Returns whether nothing is left to do.
    fn step(&mut self, wanted: Wanted, fault: Fault) -> bool {
        self.now += 1;
        if matches!(fault, Fault::DeletedByOthers) && !self.things.is_empty() {
            self.things.clear();
            self.changed();
        }
        let is_fresh = self.state == Lifecycle::Requested;
        if !is_fresh {
            self.read(matches!(fault, Fault::Stale));
        }
        match self.state.next(wanted, &TIMING) {
            ToDo::SaveIntent => {
                (self.intent, self.recorded) = (Some(at(self.now)), None);
                self.observe(Observation::IntentSaved);
            }
            ToDo::Create => {
                self.observe(Observation::CreateSent(at(self.now)));
                let is_sent = self.write(fault, |model| {
                    assert!(model.things.is_empty(), "a second create");
                    model.versions += 1;
                    model.things.push(model.versions);
                    Observation::Written {
                        before: None,
                        after: model.versions,
                    }
                });
                if !is_sent {
                    self.observe(Observation::CreateRefused);
                }
            }
            ToDo::Disable => {
                self.write(fault, |model| match model.things.first_mut() {
                    Some(thing) => {
                        model.versions += 1;
                        *thing = model.versions;
                        Observation::Disabled(model.versions)
                    }
                    None => Observation::Deleted,
                });
            }
            ToDo::Delete => {
                self.write(fault, |model| {
                    model.things.clear();
                    Observation::Deleted
                });
            }
            ToDo::Compare => {}
            ToDo::ReadAgain(until) => {
                let until = until.as_second().try_into().unwrap_or(0);
                self.now = self.now.max(until);
            }
            ToDo::Nothing => {
                assert!(self.things.is_empty(), "it is leaked");
                return true;
            }
        }
        false
    }
}

proptest! {
    #[test]
    fn no_second_resource_is_created_and_none_is_leaked(
        before in proptest::collection::vec(fault(), 0..30),
        after in proptest::collection::vec(fault(), 0..30),
    ) {
        let mut model = Model::default();
        model.changed();
        for fault in before {
            model.step(Wanted::Existing, fault);
        }
        for fault in after {
            model.step(Wanted::Absent, fault);
        }
        let ends = (0..20).any(|_| model.step(Wanted::Absent, Fault::Nothing));
        prop_assert!(ends, "it does not end: {:?}", model.state);
    }

    #[test]
    fn without_faults_it_is_created(
        faults in proptest::collection::vec(fault(), 0..30),
    ) {
        let mut model = Model::default();
        model.changed();
        for fault in faults {
            model.step(Wanted::Existing, fault);
        }
        for _ in 0..20 {
            model.step(Wanted::Existing, Fault::Nothing);
        }
        prop_assert_eq!(model.things.len(), 1);
        let is_present = matches!(model.state, Lifecycle::Present { .. });
        prop_assert!(is_present, "{:?}", model.state);
    }
}
