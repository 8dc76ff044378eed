//! The output of one test executable, read line by line.

use std::collections::BTreeSet;

use serde::Deserialize;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
}

/// One test that ran, or should have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ran {
    /// `package::target::path::of::test`.
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
    /// Its output, and why it failed.
    pub(crate) output: String,
}

/// How an executable ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with the results of all tests.
    Exited { success: bool },
    /// By a signal, an abort, or a deadline; the text says which.
    Broken(String),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum OutputLine {
    Suite { event: String },
    Test(Event),
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "event")]
    what: String,
    name: String,
    #[serde(default)]
    exec_time: f64,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    message: String,
}

/// The results of one executable so far.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    target: String,
    running: BTreeSet<String>,
    ran: Vec<Ran>,
    /// Lines that are not events: output of a test's children on the shared stdout.
    stray: Vec<String>,
    complete: bool,
}

impl Suite {
    pub(crate) fn new(target: &str) -> Self {
        Self {
            target: target.to_owned(),
            ..Self::default()
        }
    }

    /// Adds one line of the executable's stdout.
    pub(crate) fn add_line(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(OutputLine::Suite { event }) => self.complete = event != "started",
            Ok(OutputLine::Test(event)) => self.event(event),
            Err(_) => self.stray.push(line.to_owned()),
        }
    }

    fn event(&mut self, event: Event) {
        let outcome = match event.what.as_str() {
            "started" => {
                self.running.insert(event.name);
                return;
            }
            "timeout" => return, // libtest's note after a minute; the test continues
            "ok" => Outcome::Passed,
            _ => Outcome::Failed,
        };
        self.running.remove(&event.name);
        let output = if event.what == "ignored" {
            "it is ignored: no test is ignored in the default run; make it pass or remove it"
                .to_owned()
        } else {
            [event.stdout, event.message].concat()
        };
        self.push(&event.name, outcome, event.exec_time, output);
    }

    fn push(&mut self, name: &str, outcome: Outcome, seconds: f64, output: String) {
        let name = format!("{}::{name}", self.target);
        self.ran.push(Ran {
            name,
            outcome,
            seconds,
            output,
        });
    }

    /// The running tests, the oldest name first.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(String::as_str)
    }

    /// All results after the executable ended; tests without a result count as failed.
    pub(crate) fn finish(mut self, end: &End, stderr: &str) -> Vec<Ran> {
        let why = match end {
            End::Exited { success } if self.complete => {
                let has_failure = self.ran.iter().any(|ran| ran.outcome == Outcome::Failed);
                if *success || has_failure {
                    return self.ran;
                }
                "the executable failed after its last test".to_owned()
            }
            End::Exited { .. } => "the executable ended before it reported the result".to_owned(),
            End::Broken(why) => why.clone(),
        };
        let output = format!("{why}\n{}{stderr}", lines(&self.stray));
        let open = std::mem::take(&mut self.running);
        for name in &open {
            self.push(name, Outcome::Failed, 0.0, output.clone());
        }
        if open.is_empty() {
            self.push("(the executable itself)", Outcome::Failed, 0.0, output);
        }
        self.ran
    }
}

fn lines(stray: &[String]) -> String {
    stray
        .iter()
        .fold(String::new(), |text, line| text + line + "\n")
}

/// Test names from `--list --format terse`.
pub(crate) fn listed(output: &str) -> Vec<String> {
    let tests = output
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    tests.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{End, Outcome, Suite, listed};

    const STARTED: &str = r#"{ "type": "suite", "event": "started", "test_count": 2 }"#;
    const A_STARTED: &str = r#"{ "type": "test", "event": "started", "name": "a" }"#;
    const A_OK: &str = r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 0.25 }"#;
    const B_FAILED: &str = r#"{ "type": "test", "name": "b", "event": "failed", "exec_time": 0.5, "stdout": "boom\n" }"#;
    const C_IGNORED: &str = r#"{ "type": "test", "event": "ignored", "name": "c" }"#;
    const OVER: &str = r#"{ "type": "suite", "event": "ok", "passed": 1, "failed": 0 }"#;
    const LOST: &str = r#"{ "type": "suite", "event": "failed", "passed": 1, "failed": 1 }"#;

    fn suite(lines: &[&str]) -> Suite {
        let mut suite = Suite::new("kernel::lib");
        for line in lines {
            suite.add_line(line);
        }
        suite
    }

    #[test]
    fn times_and_outcomes_are_read_per_test() {
        let ran = suite(&[STARTED, A_STARTED, A_OK, B_FAILED, LOST])
            .finish(&End::Exited { success: false }, "");
        assert_eq!(ran.len(), 2);
        assert_eq!(
            (ran[0].name.as_str(), ran[0].outcome),
            ("kernel::lib::a", Outcome::Passed)
        );
        assert!((ran[0].seconds - 0.25).abs() < f64::EPSILON);
        assert_eq!(
            (ran[1].outcome, ran[1].output.as_str()),
            (Outcome::Failed, "boom\n")
        );
    }

    #[test]
    fn an_ignored_test_counts_as_failed() {
        let ran = suite(&[STARTED, C_IGNORED, OVER]).finish(&End::Exited { success: true }, "");
        assert_eq!(ran[0].outcome, Outcome::Failed);
        assert!(ran[0].output.contains("no test is ignored"));
    }

    #[test]
    fn a_test_that_ends_in_an_abort_fails_with_its_output() {
        let cut = suite(&[STARTED, A_STARTED, "stray words"]);
        let ran = cut.finish(
            &End::Broken("killed by signal 6".into()),
            "panicked twice\n",
        );
        assert_eq!(ran[0].name, "kernel::lib::a");
        assert_eq!(ran[0].outcome, Outcome::Failed);
        assert_eq!(
            ran[0].output,
            "killed by signal 6\nstray words\npanicked twice\n"
        );
    }

    #[test]
    fn an_executable_without_output_fails() {
        let ran = suite(&[]).finish(&End::Exited { success: true }, "");
        assert_eq!(ran.len(), 1);
        assert_eq!(ran[0].outcome, Outcome::Failed);
    }

    #[test]
    fn a_failing_exit_after_passing_tests_is_a_failure() {
        let ran = suite(&[STARTED, A_STARTED, A_OK, OVER])
            .finish(&End::Exited { success: false }, "leak\n");
        assert_eq!(ran.last().map(|ran| ran.outcome), Some(Outcome::Failed));
    }

    #[test]
    fn a_list_names_tests_but_no_benchmarks() {
        assert_eq!(listed("a::b: test\nc: benchmark\n"), vec!["a::b"]);
    }
}
