//! `plan`: what the operator would do, by its own code.

use std::sync::Arc;

use clap::ArgMatches;
use engine::{Answer, Finding, Outcome};
use kernel::ObjectKey;
use serde_json::json;

use super::advice::DOCTOR;
use super::site::{Held, Site};
use super::{Failure, file, plural, text};
use crate::tenant::{Step, outlook};

/// The step where there is none, and where that could not be told.
const NOTHING: &str = "-";
const UNKNOWN: &str = "?";

pub(super) async fn plan(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    let chosen = match (text(args, "name"), text(args, "file")) {
        (Some(name), _) => vec![site.tenant(name)?],
        (None, Some(file)) => file::tenants(site, file)?,
        (None, None) => site.tenants()?,
    };
    let mut lines = Vec::new();
    for held in &chosen {
        lines.extend(told(held.key(), look(site, held).await));
    }
    Ok(answer(&lines, chosen.len()))
}

async fn look(site: &Site, held: &Held) -> Result<Vec<Step>, String> {
    let Held { stored, object } = held;
    let cache = &site.ctx.caches.tenants;
    let mut pass = site.ctx.deck.look(cache, Arc::clone(stored)).await;
    Box::pin(outlook(object, stored.key(), &site.ctx, &mut pass)).await
}

/// One line of a plan.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    key: ObjectKey,
    step: &'static str,
    what: String,
    want: String,
    last: String,
    live: String,
    why: String,
    outcome: Outcome,
}

/// What is told of one object: a line a step, or one that says there is none.
fn told(key: &ObjectKey, steps: Result<Vec<Step>, String>) -> Vec<Line> {
    let bare = |step, why, outcome| Line {
        key: key.clone(),
        step,
        what: String::new(),
        want: String::new(),
        last: String::new(),
        live: String::new(),
        why,
        outcome,
    };
    match steps {
        Err(why) => vec![bare(UNKNOWN, why, Outcome::Unknown)],
        Ok(steps) if steps.is_empty() => {
            vec![bare(NOTHING, "as declared".to_owned(), Outcome::Holds)]
        }
        Ok(steps) => steps.into_iter().map(|step| line(key, step)).collect(),
    }
}

fn line(key: &ObjectKey, step: Step) -> Line {
    let side = Option::unwrap_or_default;
    Line {
        key: key.clone(),
        step: step.does.word(),
        what: step.what,
        want: side(step.want),
        last: side(step.last),
        live: side(step.live),
        why: step.why,
        outcome: super::outcome(!step.does.counts()),
    }
}

fn answer(lines: &[Line], objects: usize) -> Answer {
    let any = |outcome| lines.iter().any(|line| line.outcome == outcome);
    let outcome = if any(Outcome::Unknown) {
        Outcome::Unknown
    } else {
        super::outcome(!any(Outcome::DoesNot))
    };
    let count = |outcome| lines.iter().filter(|line| line.outcome == outcome).count();
    let remark = remark(count(Outcome::DoesNot), objects, count(Outcome::Unknown));
    let finding = |line: &Line| {
        let Line {
            key,
            step,
            what,
            want,
            last,
            live,
            why,
            outcome: _,
        } = line;
        let sides = [what, want, last, live, why].map(String::clone);
        let head = [key.to_string(), (*step).to_owned()];
        Finding {
            name: format!("DistributionTenant/{key}"),
            cells: head.into_iter().chain(sides).collect(),
            full: json!({
                "namespace": key.namespace.as_deref(),
                "name": &*key.name,
                "step": step,
                "what": what,
                "want": want,
                "last": last,
                "live": live,
                "why": why,
            }),
        }
    };
    Answer {
        columns: &["name", "step", "what", "want", "last", "live", "why"],
        findings: lines.iter().map(finding).collect(),
        outcome,
        documents: false,
        remark: Some(remark),
    }
}

fn remark(steps: usize, objects: usize, untold: usize) -> String {
    let (steps, objects) = (plural(steps, "step"), plural(objects, "object"));
    let done = format!("{steps} for {objects}; nothing was written.");
    match untold {
        0 => done,
        untold => format!("{done} Of {untold} it could not be told: {DOCTOR} from here."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::Does;
    use rstest::rstest;

    fn step(does: Does) -> Step {
        Step {
            does,
            what: "domains".to_owned(),
            want: Some("a, b".to_owned()),
            last: Some("a".to_owned()),
            live: None,
            why: "the spec was edited".to_owned(),
        }
    }

    #[rstest]
    #[case::nothing_to_do(Ok(vec![]), Outcome::Holds, &["-", "", "", "", "", "as declared"])]
    #[case::an_update(Ok(vec![step(Does::Update)]), Outcome::DoesNot, &["update", "domains", "a, b", "a", "", "the spec was edited"])]
    #[case::what_is_left_alone(Ok(vec![step(Does::Leave)]), Outcome::Holds, &["leave", "domains", "a, b", "a", "", "the spec was edited"])]
    #[case::denied(Err("AWS said no".to_owned()), Outcome::Unknown, &["?", "", "", "", "", "AWS said no"])]
    fn a_plan_says(
        #[case] steps: Result<Vec<Step>, String>,
        #[case] outcome: Outcome,
        #[case] cells: &[&str],
    ) {
        let lines = told(&ObjectKey::namespaced("web", "acme"), steps);
        let answer = answer(&lines, 1);
        assert_eq!(answer.outcome, outcome);
        assert_eq!(answer.findings[0].cells[0], "web/acme");
        assert_eq!(answer.findings[0].cells[1..], *cells);
        assert_eq!(answer.columns.len(), answer.findings[0].cells.len());
    }

    #[test]
    fn what_could_not_be_told_of_one_is_not_told_of_all() {
        let key = ObjectKey::namespaced("web", "acme");
        let mut lines = told(&key, Ok(vec![step(Does::Update)]));
        lines.extend(told(&key, Err("no".to_owned())));
        let answer = answer(&lines, 2);
        assert_eq!(answer.outcome, Outcome::Unknown);
        let remark = answer.remark.unwrap();
        assert!(remark.contains("Of 1 it could not be told"), "{remark}");
    }
}
