//! `cargo xtask test`: builds, runs tier by tier, and reports.

mod report;
mod run;
mod suite;
mod tier;

use std::collections::BTreeSet;
use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use testkit::tools::Tool;

use self::report::TierRan;
use self::run::{Executable, Ground};
use self::suite::{Outcome, Ran};
pub(crate) use self::tier::Chosen;
use self::tier::Tier;
use crate::cargo::{self, Artifact, OperatorBuild};
use crate::check::{self, Looked};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// Runs the tests of the chosen tiers whose name has `filter` in it.
pub(crate) async fn test(chosen: Chosen, filter: Option<&str>) -> Result<Verdict, Error> {
    let progress = Progress::new();
    let mut tiers = Vec::new();
    // A filter asks for tests, and the checks are none.
    if chosen == Chosen::One(Tier::Check) || (chosen == Chosen::All && filter.is_none()) {
        tiers.push(checked(&progress)?);
    }
    if chosen != Chosen::One(Tier::Check) {
        tiers.extend(tested(chosen, filter, &progress).await?);
    }
    drop(progress);
    println!("{}", report::report(&tiers));
    Ok(Verdict::of(report::holds(&tiers)))
}

/// Prints the tests of the chosen tiers, one a line: tier, then name.
pub(crate) async fn list(chosen: Chosen, filter: Option<&str>) -> Result<Verdict, Error> {
    let executables = executables(&built(&Progress::new())?)?;
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

fn checked(progress: &Progress) -> Result<TierRan, Error> {
    let start = Instant::now();
    let ran = check::look(progress)?.into_iter().map(|looked| {
        let Looked {
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

async fn tested(
    chosen: Chosen,
    filter: Option<&str>,
    progress: &Progress,
) -> Result<Vec<TierRan>, Error> {
    let built = built(progress)?;
    let operator = cargo::kept(OperatorBuild::Chaos, &built)?;
    let mut executables = executables(&built)?;
    executables.retain(|executable| chosen.has(executable.tier));
    executables.sort_by_key(|executable| executable.tier);
    let present: BTreeSet<Tier> = executables
        .iter()
        .map(|executable| executable.tier)
        .collect();
    tools::ensure(
        &present
            .iter()
            .flat_map(|tier| needed(*tier))
            .copied()
            .collect::<Vec<_>>(),
        progress,
    )?;
    let ground = Ground {
        filter,
        operator: &operator,
        deadline: run::DEADLINE,
    };
    // From here on children are stopped by us; until here Ctrl-C reached cargo and go as well.
    let mut interrupt = Interrupt::listen()?;
    tokio::select! {
        tiers = ran(&present, &executables, &ground, progress) => tiers,
        () = interrupt.wait() => {
            Err(Error::new("stopped on request; every test was told to end"))
        }
    }
}

async fn ran(
    tiers: &BTreeSet<Tier>,
    executables: &[Executable],
    ground: &Ground<'_>,
    progress: &Progress,
) -> Result<Vec<TierRan>, Error> {
    let mut told = Vec::new();
    for &tier in tiers {
        let start = Instant::now();
        let of_tier = executables.iter().filter(|one| one.tier == tier);
        let runs = of_tier.map(async |executable: &Executable| {
            progress.step(&format!("{tier}: {}", executable.name));
            executable.run(ground, progress).await
        });
        // In whatever order they end: nobody waits for a slow one to make room.
        let ran: Vec<Vec<Ran>> = stream::iter(runs)
            .buffer_unordered(tier.side_by_side())
            .try_collect()
            .await?;
        told.push(TierRan {
            tier,
            ran: ran.concat(),
            seconds: start.elapsed().as_secs_f64(),
        });
    }
    Ok(told)
}

/// The tools a tier stands on.
fn needed(tier: Tier) -> &'static [Tool] {
    match tier {
        Tier::Check | Tier::Unit => &[],
        Tier::Contract => &[Tool::Etcd, Tool::KubeApiserver, Tool::Vault],
        Tier::Integration | Tier::Chaos | Tier::Start => &Tool::ALL,
    }
}

/// Builds every test of the workspace, and with them the operator as the tests run it.
fn built(progress: &Progress) -> Result<Vec<Artifact>, Error> {
    progress.aside("building the tests", || {
        let chaos = ["--features", "pontoon/chaos"];
        cargo::build(&[&["test", "--workspace", "--no-run"][..], &chaos].concat())
    })
}

/// The test executables among what was built.
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
            .expect("a manifest lies in a folder")
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
