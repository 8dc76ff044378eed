//! What is sent and said as answers come in: refusals that stand, and drift that was undone.

use std::collections::BTreeMap;

use rstest::rstest;

use super::hold::{Case, comes_to, known};
use super::{A, a_spot, removal, sets};
use crate::dns::known::{Answer, Known, Sight};
use crate::dns::verdict::Verdict;
use crate::dns::want::Want;

#[rstest]
#[case::taken(Answer::Accepted { change: "C1".to_owned() }, 1)]
#[case::on_its_way(Answer::Pending, 0)]
#[case::unknown(Answer::Lost, 0)]
#[case::refused(Answer::Refused { text: "no".to_owned() }, 0)]
fn that_drift_was_undone_is_told_when_it_was(#[case] answer: Answer, #[case] news: usize) {
    let (recorded, live) = ("Applied CNAME d0 300", "CNAME x.net 300 + mark ours");
    let first = Case::new(recorded, "CNAME d0 300", known("", Some(live))).step();
    assert_eq!((first.corrected.len(), first.news.len()), (1, 0));
    let mut known = Known::default();
    known.submitted(first.submit[0].clone());
    known.corrects(first.corrected.clone());
    known.answered(&a_spot(), answer);
    let next = Case::new(recorded, "CNAME d0 300", known.clone()).step();
    assert_eq!(next.news.len(), news);
    if news == 1 {
        assert_eq!(next.news, first.corrected);
        known.has_told(&next.news);
        let last = Case::new(recorded, "CNAME d0 300", known).step();
        assert_eq!(last.news, BTreeMap::new(), "once");
    }
}

#[test]
fn what_was_refused_as_it_is_goes_again_after_a_slow_look() {
    let live = Some("");
    let first = Case::new(
        "Planned CNAME d0 300",
        "CNAME d0 300",
        known("differs", live),
    )
    .step();
    let mut known = Known::default();
    known.submitted(first.submit[0].clone());
    let text = "it exists".to_owned();
    known.answered(&a_spot(), Answer::Differs { text });
    known.read(a_spot(), Sight::default());

    // Route 53 says that it exists, and shows that it does not.
    let second = Case::new("Planned CNAME d0 300", "CNAME d0 300", known.clone()).step();
    assert_eq!(comes_to(&second), "it exists");

    known.look_again();
    let third = Case::new("Planned CNAME d0 300", "CNAME d0 300", known.clone()).step();
    assert_eq!(comes_to(&third), "read");
    known.read(a_spot(), Sight::default());
    let last = Case::new("Planned CNAME d0 300", "CNAME d0 300", known).step();
    assert_eq!(last.submit, first.submit);
}

#[test]
fn what_is_tried_again_is_as_bad_as_it_was_until_it_is_taken() {
    let (recorded, want) = ("Planned CNAME d0 300", "CNAME d0 300");
    let step = |known: &Known| Case::new(recorded, want, known.clone()).step();
    let failed = Some(Verdict::Failed(vec!["no".to_owned()]));
    let mut known = Known::default();
    let first = step(&known);
    assert_ne!(first.verdict, failed);
    known.submitted(first.submit[0].clone());
    let text = "no".to_owned();
    known.answered(&a_spot(), Answer::Refused { text });
    let told = step(&known);
    assert_eq!((told.submit.len(), &told.verdict), (0, &failed));
    known.stored(&told);

    known.look_again();
    known.read(a_spot(), Sight::default());
    let again = step(&known);
    assert_eq!((&again.submit, &again.verdict), (&first.submit, &failed));
    known.stored(&again);
    known.submitted(again.submit[0].clone());
    let waiting = step(&known);
    assert_eq!(waiting.verdict, failed);
    known.stored(&waiting);

    // Something else is another matter.
    known.answered(&a_spot(), Answer::Lost);
    known.read(a_spot(), Sight::default());
    let edited = Case::new(recorded, "CNAME d0 600", known.clone()).step();
    assert_eq!(edited.submit.len(), 1);
    assert_ne!(edited.verdict, failed);

    let change = "C1".to_owned();
    known.answered(&a_spot(), Answer::Accepted { change });
    let taken = step(&known);
    assert_ne!(taken.verdict, failed);
    known.stored(&taken);
    assert!(known.is_empty());
}

#[test]
fn a_name_that_was_in_conflict_is_not_refused_once_it_is_free() {
    let (recorded, want) = ("Planned CNAME d0 300", "CNAME d0 300");
    let step = |known: &Known| Case::new(recorded, want, known.clone()).step();
    let mut known = Known::default();
    known.submitted(step(&known).submit[0].clone());
    let text = "it exists".to_owned();
    known.answered(&a_spot(), Answer::Differs { text });
    let sets = sets("CNAME x.net 300");
    known.read(a_spot(), Sight { sets });
    let told = step(&known);
    assert!(comes_to(&told).starts_with("clash"));
    known.stored(&told);
    known.look_again();
    known.read(a_spot(), Sight::default());
    let names = vec![A.to_owned()];
    assert_eq!(step(&known).verdict, Some(Verdict::Creating { names }));
}

#[test]
fn a_mark_that_is_refused_is_told_while_it_is_tried_again() {
    let recorded = "Applied CNAME d0 300";
    let unmarked = Some("CNAME d0 300");
    let step = |known: &Known| Case::new(recorded, "CNAME d0 300", known.clone()).step();
    let mut known = known("", unmarked);
    let first = step(&known);
    assert_eq!(comes_to(&first), "CREATE mark");
    assert_eq!(first.verdict, Some(Verdict::Ready { names: 1 }));
    known.submitted(first.submit[0].clone());
    let text = "no".to_owned();
    known.answered(&a_spot(), Answer::Refused { text });
    known.stored(&step(&known));
    known.look_again();
    let sets = sets("CNAME d0 300");
    known.read(a_spot(), Sight { sets });
    let failed = Verdict::Failed(vec!["no".to_owned()]);
    assert_eq!(step(&known).verdict, Some(failed));
}

#[test]
fn a_deletion_that_is_tried_again_is_as_bad_as_it_was() {
    let (recorded, mut known) = ("Deleting CNAME d0 300", Known::default());
    let first = removal::step(recorded, &Want::Nothing, &known);
    known.submitted(first.submit[0].clone());
    let text = "no".to_owned();
    known.answered(&a_spot(), Answer::Refused { text });
    let failed = Some(Verdict::Failed(vec!["no".to_owned()]));
    let told = removal::step(recorded, &Want::Nothing, &known);
    assert_eq!(told.verdict, failed);
    known.stored(&told);
    known.look_again();
    let sets = sets("CNAME d0 300 + mark ours");
    known.read(a_spot(), Sight { sets });
    let again = removal::step(recorded, &Want::Nothing, &known);
    assert_eq!((&again.submit, &again.verdict), (&first.submit, &failed));
}
