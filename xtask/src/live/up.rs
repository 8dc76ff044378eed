//! `cargo xtask up`: Pontoon and its environment on this machine, with every example.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::board::Board;
use super::examples;
use super::screen::{self, Size};
use super::surroundings::{Surroundings, Wanted, ensure_tools};
use crate::cargo::{self, OperatorBuild};
use crate::interrupt::Interrupt;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::verdict::{Error, Verdict, While};

/// How long `--once` waits for every example.
const ONCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_secs(1);

/// How to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    /// Wait until every example is Ready, print the table, tear down
    #[arg(long)]
    once: bool,
    /// Use the cluster in this file instead of starting one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Starts everything, applies the examples, and shows their states.
pub(crate) async fn up(how: Up) -> Result<Verdict, Error> {
    let kubeconfig = how.kubeconfig.map(|path| absolute(&path)).transpose()?;
    let wanted = Wanted {
        kubeconfig,
        feature: None,
    };
    let progress = Progress::new();
    let operator = build(&wanted, &progress)?;
    // From here on we stop the children ourselves; before, Ctrl-C also reached cargo and go.
    let mut interrupt = Interrupt::listen()?;
    let run = async {
        let world = Surroundings::start(&wanted, &operator, &progress).await?;
        let mut board = Board::read(&world, &operator, &progress)?;
        board.refresh(|step| progress.step(step)).await?;
        for (name, value) in world.settings() {
            progress.note(&format!("{name}={value}"));
        }
        if how.once {
            once(&world, board, progress).await
        } else {
            drop(progress);
            watch(&world, board).await
        }
    };
    tokio::select! {
        verdict = run => verdict,
        () = interrupt.wait() => Ok(Verdict::of(!how.once)),
    }
}

/// Builds Pontoon, and beside it the missing tools.
fn build(wanted: &Wanted, progress: &Progress) -> Result<Operator, Error> {
    thread::scope(|scope| {
        let tools = scope.spawn(|| ensure_tools(wanted, progress));
        let operator =
            progress.aside("building pontoon", || cargo::operator(OperatorBuild::Plain))?;
        let panicked = || Err(Error::new("building the tools panicked"));
        tools.join().unwrap_or_else(|_| panicked())?;
        Ok(Operator::at(operator))
    })
}

fn absolute(path: &PathBuf) -> Result<PathBuf, Error> {
    std::fs::canonicalize(path).doing(format_args!(
        "--kubeconfig {} cannot be used",
        path.display()
    ))
}

async fn once(
    world: &Surroundings,
    mut board: Board<'_>,
    progress: Progress,
) -> Result<Verdict, Error> {
    let start = Instant::now();
    progress.step("waiting until every example is Ready");
    loop {
        if let Some(broken) = world.broken() {
            return Err(broken);
        }
        let rows = board.refresh(|step| progress.step(step)).await?;
        let ready = rows.iter().filter(|row| row.is_fine()).count();
        progress.tick(&format!("{ready} of {} examples are Ready", rows.len()));
        let fine = ready == rows.len();
        if fine || start.elapsed() > ONCE {
            drop(progress);
            println!("{}", examples::listing(&rows));
            for row in rows.iter().filter(|row| !row.is_fine()) {
                eprintln!("{} is not Ready after {} s", row.label(), ONCE.as_secs());
            }
            return Ok(Verdict::of(fine));
        }
        sleep(POLL).await;
    }
}

/// Shows the table again whenever it changes.
async fn watch(world: &Surroundings, mut board: Board<'_>) -> Result<Verdict, Error> {
    eprintln!("Ctrl-C stops everything.");
    let mut shown = Vec::new();
    loop {
        if let Some(broken) = world.broken() {
            return Err(broken);
        }
        let rows = board.refresh(|_| {}).await?;
        let size = Size::of_stdout();
        let next = screen::frame(&examples::listing(&rows), size);
        let output = screen::redraw(&shown, &next, size);
        let written = stdout().write_all(output.as_bytes());
        written
            .and_then(|()| stdout().flush())
            .doing("writing the table")?;
        shown = next;
        sleep(POLL).await;
    }
}
