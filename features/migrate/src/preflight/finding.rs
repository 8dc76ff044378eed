//! What a check found.

use api::migrate::{CheckId, Finding, Severity};

use super::reading::{Obstacle, Unread};

/// One thing that a rule found wrong, before it becomes part of a [`CheckOutcome`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    subject: String,
    found: String,
    need: String,
    ordinal: Option<i32>,
    is_information: bool,
}

/// The problems of one rule, or what it could not read.
pub(super) type Problems = Result<Vec<Problem>, Unread>;

impl Problem {
    pub(super) fn new(
        subject: impl Into<String>,
        found: impl Into<String>,
        need: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            found: found.into(),
            need: need.into(),
            ordinal: None,
            is_information: false,
        }
    }

    /// A refusal that prints as `found <x>, need <y>`.
    pub(super) fn refused(subject: impl Into<String>, refusal: &impl std::fmt::Display) -> Self {
        let text = refusal.to_string();
        let found = text.strip_prefix("found ").unwrap_or(&text);
        let (found, need) = found
            .split_once(", need ")
            .unwrap_or((found, "an EBS volume"));
        Self::new(subject, found, need)
    }

    /// The problem of one ordinal: it can be acknowledged alone.
    pub(super) fn of_ordinal(self, ordinal: i32) -> Self {
        Self {
            ordinal: Some(ordinal),
            ..self
        }
    }

    /// Reported only, whatever the severity of its check is.
    pub(super) fn informs(self) -> Self {
        Self {
            is_information: true,
            ..self
        }
    }
}

/// A finding, and what decides whether it may be passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// What `status.preflight` shows. Its message is `<subject>: found <x>, need <y>`, for each object that is
    /// concerned.
    pub finding: Finding,
    /// The ordinal, if the finding can be acknowledged for it alone.
    pub ordinal: Option<i32>,
    /// Why the check could not be established, if it could not.
    pub obstacle: Option<Obstacle>,
}

/// Puts the problems of one check together: one finding for each severity and ordinal, which names every
/// subject. Subjects of which the same was found share one sentence.
pub(super) fn results(id: CheckId, problems: Vec<Problem>, remedy: &str) -> Vec<CheckOutcome> {
    let mut found: Vec<(Severity, Option<i32>, Vec<Problem>)> = Vec::new();
    for problem in problems {
        let severity = if problem.is_information {
            Severity::Info
        } else {
            id.severity()
        };
        let same = found
            .iter_mut()
            .find(|(other, ordinal, _)| (*other, *ordinal) == (severity, problem.ordinal));
        match same {
            Some((_, _, problems)) => problems.push(problem),
            None => found.push((severity, problem.ordinal, vec![problem])),
        }
    }
    found
        .into_iter()
        .map(|(severity, ordinal, problems)| CheckOutcome {
            finding: Finding {
                id,
                severity,
                subject: subjects(problems.iter()),
                message: message(&problems),
                remedy: remedy.to_owned(),
            },
            ordinal,
            obstacle: None,
        })
        .collect()
}

/// The result of a check whose rule could not be evaluated.
pub(super) fn unread(id: CheckId, unread: Unread, remedy: &str) -> CheckOutcome {
    let Unread { subject, obstacle } = unread;
    let found = obstacle.found();
    CheckOutcome {
        finding: Finding {
            id,
            severity: id.severity(),
            message: format!("{subject}: found {found}, need an answer to judge {id}"),
            subject,
            remedy: remedy.to_owned(),
        },
        ordinal: None,
        obstacle: Some(obstacle),
    }
}

fn message(problems: &[Problem]) -> String {
    let mut sentences: Vec<(&Problem, Vec<&Problem>)> = Vec::new();
    for problem in problems {
        let same = sentences
            .iter_mut()
            .find(|(first, _)| (&first.found, &first.need) == (&problem.found, &problem.need));
        match same {
            Some((_, problems)) => problems.push(problem),
            None => sentences.push((problem, vec![problem])),
        }
    }
    let sentences = sentences.into_iter().map(|(first, problems)| {
        let subjects = subjects(problems.into_iter());
        format!("{subjects}: found {}, need {}", first.found, first.need)
    });
    sentences.collect::<Vec<_>>().join("; ")
}

fn subjects<'a>(problems: impl Iterator<Item = &'a Problem>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for problem in problems {
        if !names.contains(&&*problem.subject) {
            names.push(&problem.subject);
        }
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_finding_names_every_subject() {
        let missing = |subject: &str| Problem::new(subject, "none", "one at the destination");
        let other = Problem::new("Secret shop/c", "a certificate", "a password");
        let problems = vec![missing("Secret shop/a"), other, missing("Secret shop/b")];
        let found = results(CheckId::Dependencies, problems, "create");
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].finding.subject,
            "Secret shop/a, Secret shop/c, Secret shop/b"
        );
        assert_eq!(
            found[0].finding.message,
            "Secret shop/a, Secret shop/b: found none, need one at the destination; \
             Secret shop/c: found a certificate, need a password"
        );
    }

    #[test]
    fn ordinals_and_information_are_findings_of_their_own() {
        let pod = |ordinal| Problem::new("pod", "unready", "ready").of_ordinal(ordinal);
        let note = Problem::new("volume", "emptyDir", "nothing").informs();
        let found = results(CheckId::Health, vec![pod(1), note, pod(2)], "");
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.finding.severity, one.ordinal))
            .collect();
        let expected = [
            (Severity::Blocker, Some(1)),
            (Severity::Info, None),
            (Severity::Blocker, Some(2)),
        ];
        assert_eq!(found, expected);
    }
}
