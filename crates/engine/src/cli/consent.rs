//! The user's consent before a verb writes.

use std::io::{BufRead, IsTerminal, Write};

use clap::ArgMatches;

use super::{Failure, flags};

/// Returns once the user has agreed to the plan on stderr: by `--yes`, or by an answer to `question`.
///
/// # Errors
/// The user declined, or stdin is not a terminal and `--yes` is missing.
pub fn confirm(args: &ArgMatches, question: &str) -> Result<(), Failure> {
    if flags::is_set(args, flags::YES) {
        return Ok(());
    }
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    read_consent(question, is_terminal, input.lock(), std::io::stderr())
}

fn read_consent(
    question: &str,
    is_terminal: bool,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Failure> {
    if !is_terminal {
        return Err("stdin is not a terminal; check the plan above and pass --yes".into());
    }
    write!(output, "{question} [y/N] ")?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err("nothing was done".into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::yes("y\n", true)]
    #[case::in_full("yes\n", true)]
    #[case::no("n\n", false)]
    #[case::just_enter("\n", false)]
    #[case::no_answer("", false)]
    fn only_a_yes_is_consent(#[case] answer: &str, #[case] agreed: bool) {
        let mut output = Vec::<u8>::new();
        let result = read_consent("Delete it?", true, answer.as_bytes(), &mut output);
        assert_eq!(result.is_ok(), agreed);
        assert_eq!(output, b"Delete it? [y/N] ");
    }

    #[test]
    fn without_a_terminal_there_is_no_prompt() {
        let mut output = Vec::<u8>::new();
        let error = read_consent("Delete it?", false, &b"y\n"[..], &mut output).unwrap_err();
        assert!(error.to_string().contains("pass --yes"), "{error}");
        assert_eq!(output, b"");
    }

    #[test]
    fn the_flag_yes_is_consent() {
        let command = Command::new("x").arg(flags::yes()).no_binary_name(true);
        let args = command.try_get_matches_from(["--yes"]).unwrap();
        assert!(confirm(&args, "Delete it?").is_ok());
    }
}
