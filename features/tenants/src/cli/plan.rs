//! `plan` and `diff`: what the operator would do, by its own code.

use std::sync::Arc;

use api::tenants::DistributionTenant;
use clap::ArgMatches;
use engine::Stored;
use engine::cli::{Failure, Outcome, PlanRow, PlanTable};
use serde::Serialize;

use super::session::{TenantsSession, kind};
use crate::tenant::{Step, outlook};

/// One row of a plan.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    step: &'static str,
    what: String,
    want: String,
    last: String,
    live: String,
    why: String,
    #[serde(skip)]
    outcome: Outcome,
}

impl PlanRow for Row {
    const PLAN_COLUMNS: &'static [&'static str] = &[
        "kind", "name", "step", "what", "want", "last", "live", "why",
    ];
    const DIFF_COLUMNS: &'static [&'static str] = &["kind", "name", "what", "want", "live", "why"];

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn plan_cells(&self) -> Vec<String> {
        let sides = [&self.what, &self.want, &self.last, &self.live, &self.why];
        let step = [self.step.to_owned()];
        step.into_iter().chain(sides.map(String::clone)).collect()
    }

    fn diff_cells(&self) -> Vec<String> {
        [&self.what, &self.want, &self.live, &self.why]
            .map(String::clone)
            .into()
    }
}

/// The plan of all tenants that `args` select.
pub(super) async fn plan(
    session: &TenantsSession,
    args: &ArgMatches,
) -> Result<PlanTable<Row>, Failure> {
    let mut plan = PlanTable::new(&session.cluster);
    for (target, stored) in session.kinds().select(&session.cluster.scope, args)? {
        plan.add(&target, rows(preview(session, stored).await));
    }
    Ok(plan)
}

/// What the operator would do for one tenant.
async fn preview(session: &TenantsSession, stored: Arc<Stored>) -> Result<Vec<Step>, String> {
    let object: DistributionTenant = stored.parse(&kind()).map_err(|error| error.to_string())?;
    let (ctx, key) = (&session.ctx, stored.key().clone());
    let mut pass = ctx.deck.reading_pass(&ctx.caches.tenants, stored).await;
    Box::pin(outlook(&object, &key, ctx, &mut pass)).await
}

/// A row a step, or one that says there is none.
fn rows(steps: Result<Vec<Step>, String>) -> Vec<Row> {
    let without_step = |step, why, outcome| Row {
        step,
        what: String::new(),
        want: String::new(),
        last: String::new(),
        live: String::new(),
        why,
        outcome,
    };
    match steps {
        Err(why) => vec![without_step("?", why, Outcome::Unknown)],
        Ok(steps) if steps.is_empty() => {
            vec![without_step("-", "as declared".to_owned(), Outcome::Holds)]
        }
        Ok(steps) => steps.into_iter().map(row).collect(),
    }
}

fn row(step: Step) -> Row {
    Row {
        step: step.does.word(),
        what: step.what,
        want: step.want.unwrap_or_default(),
        last: step.last.unwrap_or_default(),
        live: step.live.unwrap_or_default(),
        why: step.why,
        outcome: Outcome::of(!step.does.counts()),
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
        let rows = rows(steps);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].outcome(), outcome);
        assert_eq!(rows[0].plan_cells(), cells);
        assert_eq!(Row::PLAN_COLUMNS.len(), cells.len() + 2);
    }

    #[test]
    fn a_diff_shows_the_field_with_both_sides() {
        let row = row(step(Does::Update));
        let cells = ["domains", "a, b", "", "the spec was edited"];
        assert_eq!(row.diff_cells(), cells);
        assert_eq!(Row::DIFF_COLUMNS.len(), cells.len() + 2);
    }
}
