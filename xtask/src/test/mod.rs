//! `cargo xtask test`: builds, runs tier by tier, and reports.
//!
//! ```text
//! tools (Go) ──────────────────────────┐
//! tests and operator (cargo, clippy) ──┴─▶ check ─▶ unit ─▶ contract, integration, chaos ─▶ start
//!                                                           (one pool, longest first)
//! ```

mod report;
mod run;
mod suite;
mod tier;
pub(crate) mod times;
mod usage;

use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use testkit::tools::Tool;
use tokio::sync::oneshot;

use self::report::TierRan;
use self::run::{Executable, ExecutableRan, RunSettings};
use self::suite::{Outcome, Ran};
pub(crate) use self::tier::Chosen;
use self::tier::Tier;
use self::times::{Budget, Times};
use crate::cargo::{self, Artifact, Built, OperatorBuild};
use crate::check::{self, CheckResult};
use crate::interrupt::Interrupt;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// How many executables of the pool run concurrently.
const SIDE_BY_SIDE: usize = 2;

/// Runs the tests of the chosen tiers whose name has `filter` in it.
pub(crate) async fn test(chosen: Chosen, filter: Option<&str>) -> Result<Verdict, Error> {
    let progress = Progress::new();
    let tools = build_tools(chosen, &progress);
    let built = built(&progress)?;
    let operator = cargo::kept(OperatorBuild::Chaos, &built.artifacts)?;

    let mut tiers = Vec::new();
    // A filter selects tests, not checks.
    if chosen == Chosen::One(Tier::Check) || (chosen == Chosen::All && filter.is_none()) {
        let operator = Operator::at(operator.clone());
        tiers.push(checked(&built.warnings, &operator, &progress)?);
    }
    let mut executables = executables(&built.artifacts)?;
    executables.retain(|executable| chosen.has(executable.tier));
    let settings = RunSettings {
        filter,
        operator: &operator,
        deadline: run::DEADLINE,
    };
    // From here on we stop the children ourselves; before, Ctrl-C also reached cargo and go.
    let mut interrupt = Interrupt::listen()?;
    let ran = tokio::select! {
        ran = run_all(executables, tools, &settings, &progress) => ran?,
        () = interrupt.wait() => {
            return Err(Error::new("stopped on request; every test was told to end"));
        }
    };
    drop(progress);
    let is_whole = chosen == Chosen::All && filter.is_none();
    let notes = if is_whole { keep_times(&ran)? } else { vec![] };
    let used = report::used(&ran);
    tiers.extend(report::by_tier(ran));
    println!("{used}\n\n{}", report::report(&tiers));
    for note in notes {
        eprintln!("over budget: {note}");
    }
    Ok(Verdict::of(report::holds(&tiers)))
}

/// Saves the times of a whole run; returns the executables over budget.
fn keep_times(ran: &[ExecutableRan]) -> Result<Vec<String>, Error> {
    let each = ran.iter().map(|one| (one.name.clone(), one.seconds));
    let times = Times(each.collect());
    times.save()?;
    Ok(times.over(&Budget::read(cargo::root())?))
}

/// Tools that are built while cargo runs or, those of the last tier, while the pool runs.
struct ToolBuilds {
    of_pool: oneshot::Receiver<Result<(), Error>>,
    of_start: oneshot::Receiver<Result<(), Error>>,
}

/// Starts building the tools that the chosen tiers need.
fn build_tools(chosen: Chosen, progress: &Progress) -> ToolBuilds {
    let needed_by = |is_wanted: fn(Tier) -> bool| -> Vec<Tool> {
        let tiers = Tier::ALL.into_iter();
        let tiers = tiers.filter(|tier| chosen.has(*tier) && is_wanted(*tier));
        tiers
            .flat_map(|tier| needed(tier).iter().copied())
            .collect()
    };
    let pool = needed_by(|tier| tier != Tier::Start);
    let start = needed_by(|tier| tier == Tier::Start);
    let progress = progress.clone();
    let (pool_built, of_pool) = oneshot::channel();
    let (start_built, of_start) = oneshot::channel();
    std::thread::spawn(move || {
        // The receiver is gone if the run has failed meanwhile.
        pool_built.send(tools::ensure(&pool, &progress)).ok();
        start_built.send(tools::ensure(&start, &progress)).ok();
    });
    ToolBuilds { of_pool, of_start }
}

async fn until_built(tools: oneshot::Receiver<Result<(), Error>>) -> Result<(), Error> {
    let built = tools.await;
    built.unwrap_or_else(|_| Err(Error::new("building the tools panicked")))
}

/// Prints the tests of the chosen tiers, one per line: tier, then name.
pub(crate) async fn list(chosen: Chosen, filter: Option<&str>) -> Result<Verdict, Error> {
    let executables = executables(&built(&Progress::new())?.artifacts)?;
    for executable in executables
        .iter()
        .filter(|executable| chosen.has(executable.tier))
    {
        for name in executable.list(filter).await? {
            println!("{:<11} {name}", executable.tier);
        }
    }
    Ok(Verdict::Holds)
}

fn checked(
    warnings: &[String],
    operator: &Operator,
    progress: &Progress,
) -> Result<TierRan, Error> {
    let start = Instant::now();
    let ran = check::check_all(warnings, operator, progress)?;
    let ran = ran.into_iter().map(|looked| {
        let CheckResult {
            name,
            seconds,
            wrong,
        } = looked;
        let outcome = if wrong.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        Ran {
            name: format!("check::{name}"),
            outcome,
            seconds,
            output: wrong.join("\n"),
        }
    });
    let ran = ran.collect();
    Ok(TierRan {
        tier: Tier::Check,
        ran,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Unit tests first, because they need no tools and fail fast; then the pool; the tier start last,
/// because its tools are built while the pool runs.
async fn run_all(
    executables: Vec<Executable>,
    tools: ToolBuilds,
    settings: &RunSettings<'_>,
    progress: &Progress,
) -> Result<Vec<ExecutableRan>, Error> {
    let (unit, others): (Vec<_>, Vec<_>) = executables
        .into_iter()
        .partition(|one| one.tier == Tier::Unit);
    let (pool, start) = others.into_iter().partition(|one| one.tier.is_pooled());
    let mut ran = run_side_by_side(unit, SIDE_BY_SIDE, settings, progress).await?;
    until_built(tools.of_pool).await?;
    let budget = Budget::read(cargo::root())?;
    let pool = longest_first(pool, &Times::last()?, &budget);
    ran.extend(run_side_by_side(pool, SIDE_BY_SIDE, settings, progress).await?);
    until_built(tools.of_start).await?;
    ran.extend(run_side_by_side(start, SIDE_BY_SIDE, settings, progress).await?);
    Ok(ran)
}

/// Executables that have not run yet are ordered by their budget.
fn longest_first(
    mut executables: Vec<Executable>,
    times: &Times,
    budget: &Budget,
) -> Vec<Executable> {
    let known = |one: &Executable| times.0.get(&one.name).copied();
    let seconds = |one: &Executable| known(one).or_else(|| budget.of(&one.name)).unwrap_or(0.0);
    executables.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    executables
}

async fn run_side_by_side(
    executables: Vec<Executable>,
    at_once: usize,
    settings: &RunSettings<'_>,
    progress: &Progress,
) -> Result<Vec<ExecutableRan>, Error> {
    let runs = executables.iter().map(async |executable: &Executable| {
        progress.step(&format!("{}: {}", executable.tier, executable.name));
        executable.run(settings, progress).await
    });
    // In the order of their ends: no executable waits for a slow one before it.
    let ran = stream::iter(runs).buffer_unordered(at_once);
    ran.try_collect().await
}

/// The tools that a tier needs.
fn needed(tier: Tier) -> &'static [Tool] {
    match tier {
        Tier::Check | Tier::Unit => &[],
        Tier::Contract => &[
            Tool::Etcd,
            Tool::KubeApiserver,
            Tool::KubeControllerManager,
            Tool::KubeScheduler,
            Tool::Kwok,
            Tool::Vault,
        ],
        Tier::Integration | Tier::Chaos => &[Tool::Etcd, Tool::KubeApiserver, Tool::Vault],
        Tier::Start => &Tool::ALL,
    }
}

/// Builds every test of the workspace, and the operator for tests.
pub(crate) fn built(progress: &Progress) -> Result<Built, Error> {
    progress.aside("building the tests", || {
        let chaos = ["--features", "pontoon/chaos"];
        cargo::build(&[&["test", "--workspace", "--no-run"][..], &chaos].concat())
    })
}

/// The test executables among the artifacts.
fn executables(built: &[Artifact]) -> Result<Vec<Executable>, Error> {
    let names = cargo::package_names(&cargo::metadata()?);
    let (mut found, mut strays) = (Vec::new(), Vec::new());
    for artifact in built {
        let path = artifact.executable.clone();
        let Some(path) = path.filter(|_| artifact.profile.test) else {
            continue;
        };
        let folder = artifact
            .manifest_path
            .parent()
            .expect("a manifest is in a folder")
            .to_owned();
        let package = names.get(&folder).cloned().unwrap_or_default();
        let kind = artifact.target.kind.first().map_or("lib", String::as_str);
        let target = if kind == "test" {
            artifact.target.name.as_str()
        } else {
            kind
        };
        match Tier::of_target(kind, &artifact.target.name) {
            Ok(tier) => found.push(Executable {
                tier,
                name: format!("{package}::{target}"),
                path,
                folder,
            }),
            Err(why) => strays.push(format!("{package}: {why}")),
        }
    }
    if !strays.is_empty() {
        return Err(Error::new(strays.join("\n")));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
