//! Asking before something is written.

use std::io::{BufRead, IsTerminal, Write};

use clap::ArgMatches;

use super::Failure;

/// Whether whoever asked for it agrees. `--yes` has agreed already.
pub(super) fn agrees(args: &ArgMatches, question: &str) -> Result<bool, Failure> {
    if args.get_flag("yes") {
        return Ok(true);
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err("nobody is there to be asked; look at the plan above and say --yes".into());
    }
    let mut said = std::io::stderr();
    write!(said, "{question} [y/N] ")?;
    said.flush()?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
