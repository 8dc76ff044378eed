//! What is remembered of an object between its passes, the zones' writers and reads.
//!
//! In memory only. After a restart it is empty: what was in flight is then planned again from the
//! status, and Route 53 refuses what happened already.

use std::collections::BTreeMap;

use api::tenants::DriftedField;
use aws::route53::zone_writer;

use super::plan::Step;
use super::record::RecordSet;
use super::{Bundle, Spot};

/// What was read around one name: the sets at all names of [`super::names::to_read`].
///
/// Route 53 reads what it accepted, in sync or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// The sets, of every type.
    pub(crate) sets: Vec<RecordSet>,
}

impl Sight {
    /// The sets of one name.
    pub(super) fn at(&self, name: &str) -> impl Iterator<Item = &RecordSet> {
        self.sets.iter().filter(move |set| set.name == name)
    }
}

/// What became of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It waits for its batch, or for an answer.
    Pending,
    /// Route 53 took it.
    Accepted {
        /// The change that is to reach all name servers.
        change: String,
    },
    /// Refused, nothing changed: something exists already, or is not there as the changes say.
    Differs {
        /// In Route 53's words.
        text: String,
    },
    /// Refused for another reason, nothing changed.
    Refused {
        /// In Route 53's words.
        text: String,
    },
    /// Refused: there is no such zone.
    NoZone {
        /// In Route 53's words.
        text: String,
    },
    /// Nobody knows whether it was carried out: no answer, or one that leaves it open.
    Lost,
}

impl From<zone_writer::Answer> for Answer {
    fn from(answer: zone_writer::Answer) -> Self {
        use zone_writer::Answer;
        match answer {
            Answer::Accepted { change } => Self::Accepted { change },
            Answer::Differs { text } => Self::Differs { text },
            Answer::Refused { text } => Self::Refused { text },
            Answer::NoZone { text } => Self::NoZone { text },
            Answer::Lost => Self::Lost,
        }
    }
}

/// A bundle and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// What was sent; `None` after a refusal that is to be tried again.
    pub(super) bundle: Option<Bundle>,
    pub(super) answer: Answer,
}

impl Told {
    /// That there is no such zone, in Route 53's words.
    pub(super) fn no_zone(&self) -> Option<&str> {
        match &self.answer {
            Answer::NoZone { text } => Some(text),
            Answer::Pending
            | Answer::Accepted { .. }
            | Answer::Differs { .. }
            | Answer::Refused { .. }
            | Answer::Lost => None,
        }
    }
}

/// Bundles that were refused, by name, and in which words.
pub(super) type Refused = BTreeMap<Spot, (Bundle, String)>;

/// What is remembered of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    told: BTreeMap<Spot, Told>,
    sights: BTreeMap<Spot, Sight>,
    /// What the condition says was refused, and why.
    refused: Refused,
    /// What others changed and is being undone, until that is told.
    corrected: BTreeMap<Spot, Vec<DriftedField>>,
}

impl Known {
    /// A bundle of [`Step::submit`] goes to the writer: what was read before is out of date.
    pub(crate) fn submitted(&mut self, bundle: Bundle) {
        let spot = bundle.spot();
        self.sights.remove(&spot);
        let told = Told {
            bundle: Some(bundle),
            answer: Answer::Pending,
        };
        self.told.insert(spot, told);
    }

    /// What others changed at these names is undone by what was just submitted.
    pub(crate) fn corrects(&mut self, drift: BTreeMap<Spot, Vec<DriftedField>>) {
        self.corrected.extend(drift);
    }

    /// That it was undone has been told.
    pub(crate) fn has_told(&mut self, news: &BTreeMap<Spot, Vec<DriftedField>>) {
        self.corrected.retain(|spot, _| !news.contains_key(spot));
    }

    /// The writer answers; whether somebody waits for it.
    pub(crate) fn answered(&mut self, spot: &Spot, answer: Answer) -> bool {
        let Some(told) = self.told.get_mut(spot) else {
            return false;
        };
        told.answer = answer;
        match told.answer {
            Answer::Pending | Answer::Accepted { .. } | Answer::Lost => {}
            Answer::Differs { .. } | Answer::Refused { .. } | Answer::NoZone { .. } => {
                self.corrected.remove(spot); // nothing was
            }
        }
        true
    }

    /// A name was read, because [`Step::reads`] asked for it.
    ///
    /// While an answer is pending it says nothing. Nothing older than the last answer is to be told.
    pub(crate) fn read(&mut self, spot: Spot, sight: Sight) {
        let pending = |told: &Told| told.answer == Answer::Pending;
        if !self.told.get(&spot).is_some_and(pending) {
            self.sights.insert(spot, sight);
        }
    }

    /// A name could not be read: its zone is gone, and with it all that was there.
    pub(crate) fn zone_missing(&mut self, spot: Spot, text: String) {
        let told = Told {
            bundle: None,
            answer: Answer::NoZone { text },
        };
        self.sights.remove(&spot);
        self.told.insert(spot, told);
    }

    /// A name seems not to be as recorded or read, by something that may be out of date, such as the
    /// list of a zone: it is to be read.
    pub(crate) fn doubt(&mut self, spot: Spot) {
        let told = self.told.entry(spot.clone()).or_insert_with(|| Told {
            bundle: None,
            answer: Answer::Differs {
                text: "it seems to have changed".to_owned(),
            },
        });
        match told.answer {
            Answer::Pending | Answer::Accepted { .. } => {}
            Answer::Differs { .. }
            | Answer::Refused { .. }
            | Answer::NoZone { .. }
            | Answer::Lost => {
                self.sights.remove(&spot);
            }
        }
    }

    /// The records of `step` are stored: what they were made of is over.
    pub(crate) fn stored(&mut self, step: &Step) {
        for spot in &step.settled {
            let pending = |told: &Told| told.answer == Answer::Pending;
            if !self.told.get(spot).is_some_and(pending) {
                self.told.remove(spot);
                self.sights.remove(spot);
                self.corrected.remove(spot);
            }
        }
        self.refused.clone_from(&step.refused);
    }

    /// The spec was edited, or it is time for a slow look: after a refusal the name is read again,
    /// and then what was refused may be sent once more. What was only read is read again, too.
    pub(crate) fn look_again(&mut self) {
        let untold = self.sights.keys();
        let untold = untold.filter(|spot| !self.told.contains_key(*spot));
        for spot in untold.cloned().collect::<Vec<_>>() {
            self.doubt(spot);
        }
        for (spot, told) in &mut self.told {
            match &told.answer {
                Answer::Pending | Answer::Accepted { .. } => {}
                Answer::Lost => {
                    self.sights.remove(spot);
                }
                Answer::Differs { text } | Answer::Refused { text } | Answer::NoZone { text } => {
                    let text = text.clone();
                    told.answer = Answer::Differs { text };
                    told.bundle = None;
                    self.sights.remove(spot);
                }
            }
        }
    }

    /// Whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
            && self.sights.is_empty()
            && self.refused.is_empty()
            && self.corrected.is_empty()
    }

    /// Why just this was refused, if the condition says that it was.
    pub(super) fn refusal(&self, bundle: &Bundle) -> Option<&str> {
        let (sent, text) = self.refused.get(&bundle.spot())?;
        (sent == bundle).then_some(text.as_str())
    }

    /// What others changed at a name, if that is being undone.
    pub(super) fn correction(&self, spot: &Spot) -> Option<&[DriftedField]> {
        self.corrected.get(spot).map(Vec::as_slice)
    }

    /// Whether a name was read, and what was seen still counts.
    pub(super) fn has_sight(&self, spot: &Spot) -> bool {
        self.sights.contains_key(spot)
    }

    /// Whether what was submitted for a name writes its mark and nothing else.
    pub(super) fn only_marks(&self, spot: &Spot) -> bool {
        let bundle = self.told(spot).and_then(|told| told.bundle.as_ref());
        bundle.is_some_and(Bundle::only_marks)
    }

    /// Whether there is something to remember of a name.
    pub(super) fn knows(&self, spot: &Spot) -> bool {
        self.told.contains_key(spot) || self.sights.contains_key(spot)
    }

    pub(super) fn told(&self, spot: &Spot) -> Option<&Told> {
        self.told.get(spot)
    }

    pub(super) fn sight(&self, spot: &Spot) -> Option<&Sight> {
        self.sights.get(spot)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::dns::tests::{a_bundle, a_spot};

    fn text() -> String {
        "no".to_owned()
    }

    fn after(answer: Answer) -> Known {
        let mut known = Known::default();
        known.submitted(a_bundle());
        known.answered(&a_spot(), answer);
        known
    }

    #[test]
    fn what_was_read_before_a_change_is_forgotten() {
        let mut known = Known::default();
        known.read(a_spot(), Sight::default());
        known.submitted(a_bundle());
        assert_eq!(known.sight(&a_spot()), None);
        known.read(a_spot(), Sight::default());
        assert_eq!(known.sight(&a_spot()), None, "the answer is pending");
        known.answered(&a_spot(), Answer::Lost);
        known.read(a_spot(), Sight::default());
        assert!(known.sight(&a_spot()).is_some());
    }

    #[test]
    fn what_is_in_doubt_is_read_again() {
        let mut known = Known::default();
        known.read(a_spot(), Sight::default());
        known.doubt(a_spot());
        assert_eq!(known.sight(&a_spot()), None);
        let told = known.told(&a_spot()).expect("remembered");
        assert!(matches!(told.answer, Answer::Differs { .. }));

        let mut known = after(Answer::Pending);
        known.doubt(a_spot());
        let told = known.told(&a_spot()).expect("remembered");
        assert_eq!(told.answer, Answer::Pending);
    }

    #[test]
    fn what_was_only_read_is_read_again_at_a_slow_look() {
        let mut known = Known::default();
        known.read(a_spot(), Sight::default());
        known.look_again();
        assert_eq!(known.sight(&a_spot()), None);
        let told = known.told(&a_spot()).expect("remembered");
        assert!(matches!(told.answer, Answer::Differs { .. }));
    }

    #[test]
    fn a_step_that_is_stored_takes_no_answer_that_is_awaited() {
        let step = Step {
            settled: [a_spot()].into(),
            ..Step::default()
        };
        let mut known = after(Answer::Pending);
        known.stored(&step);
        assert!(!known.is_empty());
        known.answered(&a_spot(), Answer::Lost);
        known.stored(&step);
        assert!(known.is_empty());
    }

    #[test]
    fn an_answer_nobody_waits_for_is_dropped() {
        let mut known = Known::default();
        known.answered(&a_spot(), Answer::Lost);
        assert!(known.is_empty());
    }

    #[rstest]
    #[case::pending(Answer::Pending, false)]
    #[case::accepted(Answer::Accepted { change: text() }, false)]
    #[case::differs(Answer::Differs { text: text() }, true)]
    #[case::refused(Answer::Refused { text: text() }, true)]
    #[case::no_zone(Answer::NoZone { text: text() }, true)]
    fn a_slow_look_lets_what_was_refused_go_again(#[case] answer: Answer, #[case] again: bool) {
        let mut known = after(answer.clone());
        known.read(a_spot(), Sight::default());
        known.look_again();
        let told = known.told(&a_spot()).expect("remembered");
        assert_eq!(told.bundle.is_none(), again);
        if again {
            assert_eq!(told.answer, Answer::Differs { text: text() });
            assert_eq!(known.sight(&a_spot()), None);
        } else {
            assert_eq!(told.answer, answer);
        }
    }

    #[test]
    fn a_lost_answer_is_looked_for_again() {
        let mut known = after(Answer::Lost);
        known.read(a_spot(), Sight::default());
        known.look_again();
        assert_eq!(known.sight(&a_spot()), None);
        assert_eq!(
            known.told(&a_spot()).map(|told| &told.answer),
            Some(&Answer::Lost)
        );
    }
}
