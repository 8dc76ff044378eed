//! Edit or drift: what is done when Vault does not hold what the object says.

use api::vault::DriftMode;

/// What Vault holds (V), beside what was last applied (L) and what is desired (D).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// Nothing.
    Absent,
    /// V ≡ D, whatever L is.
    Desired,
    /// V ≡ L, and D is another.
    Applied,
    /// Neither.
    Other,
}

/// What we wrote last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing ever.
    Never,
    /// L ≡ D.
    Desired,
    /// L is another: the spec was edited since.
    Another,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Vault is right: at most the record is behind.
    True,
    /// Write: it is missing and was never there.
    Create,
    /// Write: the spec was edited.
    Edit,
    /// Write the edit over a change made outside, and say what was lost.
    Overwrite,
    /// Write what was there before: drift, and consent to correct it.
    Correct,
    /// Drift: say so, touch nothing.
    Report,
    /// Drift that wants consent.
    Block,
    /// Drift that nobody wants to hear of.
    Ignore,
}

/// | V, L, D             | ignore | detect    | correct, consent | correct |
/// |---------------------|--------|-----------|------------------|---------|
/// | V≡D                 | true   | true      | true             | true    |
/// | V≡L, D≠L            | edit   | edit      | edit             | edit    |
/// | V≠L or absent, D≡L  | ignore | report    | correct          | block   |
/// | V≠L, D≠L, V≠D       | edit   | overwrite | correct          | block   |
/// | V absent, no L      | create | create    | create           | create  |
pub fn verdict(live: Live, applied: Applied, mode: DriftMode, consent: bool) -> Verdict {
    match (live, applied, mode) {
        (Live::Desired, ..) => Verdict::True,
        (Live::Absent, Applied::Never, _) => Verdict::Create,
        (Live::Applied, ..) => Verdict::Edit,
        (Live::Absent | Live::Other, Applied::Desired, DriftMode::Ignore) => Verdict::Ignore,
        (Live::Absent | Live::Other, _, DriftMode::Ignore) => Verdict::Edit,
        (Live::Absent | Live::Other, Applied::Desired, DriftMode::Detect) => Verdict::Report,
        (Live::Absent | Live::Other, _, DriftMode::Detect) => Verdict::Overwrite,
        (Live::Absent | Live::Other, _, DriftMode::Correct) if consent => Verdict::Correct,
        (Live::Absent | Live::Other, _, DriftMode::Correct) => Verdict::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DriftMode::{Correct, Detect, Ignore};
    use rstest::rstest;

    /// The sides as three words; none is absent, or never applied.
    fn sides(live: Option<&str>, applied: Option<&str>, desired: &str) -> (Live, Applied) {
        let held = match live {
            None => Live::Absent,
            Some(live) if live == desired => Live::Desired,
            Some(live) if Some(live) == applied => Live::Applied,
            Some(_) => Live::Other,
        };
        let wrote = match applied {
            None => Applied::Never,
            Some(applied) if applied == desired => Applied::Desired,
            Some(_) => Applied::Another,
        };
        (held, wrote)
    }

    #[rstest]
    //                          live       applied    desired ignore           detect              correct
    #[case::true_is_left_alone(           Some("a"), Some("a"), "a",    [Verdict::True,   Verdict::True,      Verdict::True])]
    #[case::a_lost_answer_is_found(       Some("a"), None,      "a",    [Verdict::True,   Verdict::True,      Verdict::True])]
    #[case::the_first_write(              None,      None,      "a",    [Verdict::Create, Verdict::Create,    Verdict::Create])]
    #[case::an_edit_is_no_drift(          Some("a"), Some("a"), "b",    [Verdict::Edit,   Verdict::Edit,      Verdict::Edit])]
    #[case::drift(                        Some("x"), Some("a"), "a",    [Verdict::Ignore, Verdict::Report,    Verdict::Block])]
    #[case::deleted_outside_is_drift(     None,      Some("a"), "a",    [Verdict::Ignore, Verdict::Report,    Verdict::Block])]
    #[case::both(                         Some("x"), Some("a"), "b",    [Verdict::Edit,   Verdict::Overwrite, Verdict::Block])]
    #[case::edited_here_and_deleted_there(None,      Some("a"), "b",    [Verdict::Edit,   Verdict::Overwrite, Verdict::Block])]
    fn rule(
        #[case] live: Option<&str>,
        #[case] applied: Option<&str>,
        #[case] desired: &str,
        #[case] verdicts: [Verdict; 3],
    ) {
        let (live, applied) = sides(live, applied, desired);
        let judged = [Ignore, Detect, Correct].map(|mode| verdict(live, applied, mode, false));
        assert_eq!(judged, verdicts);
        let blocked = verdicts[2] == Verdict::Block;
        let expected = if blocked {
            Verdict::Correct
        } else {
            verdicts[2]
        };
        assert_eq!(verdict(live, applied, Correct, true), expected);
    }
}
