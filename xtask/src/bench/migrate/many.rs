//! Twenty runs of five ordinals at once, one of them stalled for ever: their time, and the memory of a new
//! operator.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::{peak, resident};
use super::moved::Run;
use super::numbered;
use super::setup::MigrateSetup;
use super::totals::Totals;
use crate::progress::Progress;
use crate::verdict::Error;

const RUNS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) struct Many {
    pub(super) time: Bar,
    pub(super) memory: Bar,
    pub(super) notes: Vec<String>,
}

pub(super) async fn measure(
    setup: &MigrateSetup,
    alone: f64,
    totals: &mut Totals,
    progress: &Progress,
) -> Result<Many> {
    progress.step("twenty runs at once, one of them stalled");
    let sets = numbered("many", RUNS, 5);
    setup.create_sets(&sets).await?;
    setup.restart().await?;
    let idle = resident(setup.operator()).await?;
    let (stalled, others) = sets.split_first().expect("there are twenty sets");
    setup.stick(&stalled.volume("data", 0))?;
    let begin = setup.now()?;
    let one = std::slice::from_ref(stalled);
    let (stalls, usual) = (json!({"volumeDetachTimeout": "10s"}), json!({}));
    futures::try_join!(setup.migrate(one, &stalls), setup.migrate(others, &usual))?;
    let completed = |status: &Value| status["phase"] == "Completed";
    setup
        .until("nineteen runs are Completed", others, PATIENCE, completed)
        .await?;
    let memory = peak(setup.operator())?;
    let is_stalled = |status: &Value| status["ordinals"][0]["step"] == "detach";
    setup
        .until("the stalled run waits", one, Duration::ZERO, is_stalled)
        .await?;

    let left = resident(setup.operator()).await?;
    let logs = setup.logs(begin).await?;
    let mut spans = Vec::new();
    for set in &sets {
        let run = Run { logs: &logs, set };
        totals.add(&run);
        if set.namespace != stalled.namespace {
            spans.extend(run.span());
        }
    }
    let first = spans.iter().map(|(from, _)| *from).min();
    let last = spans.iter().map(|(_, to)| *to).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Err(Error::new("the runs are not logged").into());
    };
    let seconds = last.duration_since(first).as_secs_f64();
    let reads = logs.calls.iter().filter(|call| call.is_read()).count();
    Ok(Many {
        time: Bar::at_most(
            "twenty runs at once, one stalled: until the others end ÷ one alone",
            seconds / alone,
            2.0,
            "",
        )
        .fine(),
        memory: Bar::at_most("memory that twenty runs add", memory - idle, 40.0, " MiB"),
        notes: vec![
            format!("twenty runs: the nineteen end after {seconds:.1} s; {reads} DescribeVolumes"),
            format!(
                "  memory: {idle:.1} MiB with nothing to do, at most {memory:.1} MiB, {left:.1} MiB after them"
            ),
        ],
    })
}
