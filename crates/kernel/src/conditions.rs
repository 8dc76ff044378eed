//! Status conditions that change only if the observed state changed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::Reason;

/// The conditions of one object: starts with the current ones and sets the new ones.
///
/// Conditions that no stage sets keep their value and their observedGeneration: they are still true
/// for that generation.
///
/// ```
/// # use kernel::{Conditions, Reason};
/// let mut conditions = Conditions::new(&[], Some(3), jiff::Timestamp::UNIX_EPOCH);
/// conditions.yes("Ready", &Reason::new("Succeeded", "the policy is in Vault"));
/// let (conditions, changed) = conditions.into_parts();
/// assert!(changed);
/// assert!(kernel::is_true(&conditions, "Ready"));
/// ```
#[derive(Debug, Clone)]
pub struct Conditions {
    before: Vec<Condition>,
    after: BTreeMap<String, Condition>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    /// Starts from the conditions the object has, for its `generation`, at the time `now`.
    pub fn new(current: &[Condition], generation: Option<i64>, now: Timestamp) -> Self {
        let by_kind = |one: &Condition| (one.type_.clone(), one.clone());
        Self {
            before: current.to_vec(),
            after: current.iter().map(by_kind).collect(),
            generation,
            now,
        }
    }

    /// `kind` holds.
    pub fn yes(&mut self, kind: &str, reason: &Reason) -> &mut Self {
        self.set(kind, "True", reason)
    }

    /// `kind` does not hold.
    pub fn no(&mut self, kind: &str, reason: &Reason) -> &mut Self {
        self.set(kind, "False", reason)
    }

    /// It is unknown whether `kind` holds.
    pub fn unknown(&mut self, kind: &str, reason: &Reason) -> &mut Self {
        self.set(kind, "Unknown", reason)
    }

    /// `kind` no longer applies to this object.
    pub fn drop(&mut self, kind: &str) -> &mut Self {
        self.after.remove(kind);
        self
    }

    /// Whether anything but the order differs from the object's current conditions.
    pub fn changed(&self) -> bool {
        let kept = |one: &Condition| self.after.get(&one.type_) == Some(one);
        self.before.len() != self.after.len() || !self.before.iter().all(kept)
    }

    /// The conditions, sorted by type, and whether anything but their order changed.
    pub fn into_parts(self) -> (Vec<Condition>, bool) {
        let changed = self.changed();
        (self.after.into_values().collect(), changed)
    }

    fn set(&mut self, kind: &str, status: &str, reason: &Reason) -> &mut Self {
        // Compare with the object's condition, not with one set earlier in this pass: a change and
        // its reversal within one pass is no transition.
        let since = match find(&self.before, kind) {
            Some(same) if same.status == status => same.last_transition_time.clone(),
            Some(_) | None => Time(whole_second(self.now)),
        };
        let condition = Condition {
            last_transition_time: since,
            message: reason.message.clone(),
            observed_generation: self.generation,
            reason: reason.code.to_string(),
            status: status.to_owned(),
            type_: kind.to_owned(),
        };
        self.after.insert(kind.to_owned(), condition);
        self
    }
}

/// The condition of this type, if the object has it.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == kind)
}

/// Whether the object has this condition and it holds.
///
/// # When not to use it
/// To check whether the newest spec is applied: compare observedGeneration as well.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|one| one.status == "True")
}

/// Times in metadata have no fraction; with one, our value would differ from the one read back.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("the second of a valid time is valid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn succeeded() -> Reason {
        Reason::new("Succeeded", "it is there")
    }

    /// Ready since second 100, found for generation 1.
    fn ready() -> Vec<Condition> {
        let mut set = Conditions::new(&[], Some(1), at(100));
        set.yes("Ready", &succeeded());
        set.into_parts().0
    }

    #[test]
    fn the_same_value_later_changes_nothing() {
        let mut set = Conditions::new(&ready(), Some(1), at(200));
        set.yes("Ready", &succeeded());
        assert_eq!(set.into_parts(), (ready(), false));
    }

    #[test]
    fn a_new_reason_keeps_the_transition_time() {
        let mut set = Conditions::new(&ready(), Some(1), at(200));
        set.yes("Ready", &Reason::new("Adopted", "it was there"));
        let (after, changed) = set.into_parts();
        assert!(changed);
        assert_eq!(after[0].last_transition_time, Time(at(100)));
        assert_eq!(after[0].reason, "Adopted");
    }

    #[test]
    fn a_transition_sets_the_transition_time() {
        for flip in [Conditions::no, Conditions::unknown] {
            let mut set = Conditions::new(&ready(), Some(1), at(200));
            flip(&mut set, "Ready", &succeeded());
            let (after, changed) = set.into_parts();
            assert!(changed);
            assert_eq!(after[0].last_transition_time, Time(at(200)));
        }
    }

    #[test]
    fn a_change_and_its_reversal_in_one_pass_is_no_transition() {
        let mut set = Conditions::new(&ready(), Some(1), at(200));
        set.no("Ready", &succeeded()).yes("Ready", &succeeded());
        assert_eq!(set.into_parts(), (ready(), false));
    }

    #[test]
    fn a_new_generation_is_a_change_but_no_transition() {
        let mut set = Conditions::new(&ready(), Some(2), at(200));
        set.yes("Ready", &succeeded());
        let (after, changed) = set.into_parts();
        assert!(changed);
        assert_eq!(after[0].observed_generation, Some(2));
        assert_eq!(after[0].last_transition_time, Time(at(100)));
    }

    #[test]
    fn an_untouched_condition_keeps_its_generation() {
        let mut set = Conditions::new(&ready(), Some(2), at(200));
        set.no("Drifted", &succeeded());
        let (after, _) = set.into_parts();
        assert_eq!(find(&after, "Ready"), Some(&ready()[0]));
        assert_eq!(
            find(&after, "Drifted").unwrap().observed_generation,
            Some(2)
        );
    }

    #[test]
    fn conditions_are_sorted_by_type_and_order_alone_is_no_change() {
        let mut set = Conditions::new(&[], None, at(1));
        set.yes("Ready", &succeeded()).yes("Accepted", &succeeded());
        let (sorted, _) = set.into_parts();
        assert_eq!(sorted[0].type_, "Accepted");

        let reversed: Vec<_> = sorted.iter().rev().cloned().collect();
        assert_eq!(
            Conditions::new(&reversed, None, at(2)).into_parts(),
            (sorted, false)
        );
    }

    #[test]
    fn dropping_is_a_change_only_if_the_condition_existed() {
        let mut set = Conditions::new(&ready(), Some(1), at(200));
        assert!(!set.drop("Drifted").changed());
        assert!(set.drop("Ready").changed());
    }

    #[test]
    fn a_missing_condition_is_not_true() {
        assert!(is_true(&ready(), "Ready"));
        assert!(!is_true(&ready(), "Drifted"));
        assert!(!is_true(&[], "Ready"));
    }

    #[test]
    fn the_written_conditions_are_read_back_unchanged() {
        let mut set = Conditions::new(&[], Some(1), Timestamp::new(5, 999_999_999).unwrap());
        set.yes("Ready", &succeeded());
        let (written, _) = set.into_parts();
        let text = serde_json::to_string(&written).unwrap();
        let read: Vec<Condition> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, written);
    }

    proptest! {
        #[test]
        fn setting_the_same_again_changes_nothing(
            answers in proptest::collection::btree_map("[A-D]", (any::<bool>(), "[a-z]{0,3}"), 0..5),
        ) {
            let set_all = |current: &[Condition], now| {
                let mut set = Conditions::new(current, Some(1), now);
                for (kind, (yes, message)) in &answers {
                    let reason = Reason::new("Said", message.clone());
                    if *yes { set.yes(kind, &reason) } else { set.no(kind, &reason) };
                }
                set.into_parts()
            };
            let (first, changed) = set_all(&[], at(1));
            prop_assert_eq!(changed, !answers.is_empty());
            prop_assert_eq!(set_all(&first, at(2)), (first, false));
        }
    }
}
