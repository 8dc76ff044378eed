//! Which kill points a test has chosen: by a variable at the start, and in a file while the process runs.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// How often a waiting execution reads the file.
const POLL: Duration = Duration::from_millis(20);
/// How many executions wait.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// What a test wants at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// The process aborts.
    Abort,
    /// The execution waits until its line is gone.
    Wait,
}

/// Whether an execution waits.
pub(super) fn has_waiting() -> bool {
    WAITING.load(Ordering::SeqCst) > 0
}

/// An execution that waits, and its number.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    name: &'a str,
    execution: u32,
}

/// The file of choices, if the environment names one.
pub(super) fn file() -> Option<&'static Path> {
    static FILE: LazyLock<Option<std::ffi::OsString>> =
        LazyLock::new(|| std::env::var_os("PONTOON_TEST_KILL_FILE"));
    FILE.as_deref().map(Path::new)
}

/// The choice for this execution of `name` in the text of the file. The first line that matches decides;
/// lines of another form are ignored.
///
/// | line           | executions |
/// |----------------|------------|
/// | `name abort`   | every one  |
/// | `name hold`    | every one  |
/// | `name#3 abort` | the third  |
/// | `name#3 hold`  | the third  |
pub(super) fn choice(text: &str, name: &str, execution: u32) -> Option<Choice> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (point, action) = (words.next()?, words.next()?);
        if words.next().is_some() || !is_chosen(point, name, execution) {
            return None;
        }
        match action {
            "abort" => Some(Choice::Abort),
            "hold" => Some(Choice::Wait),
            _ => None,
        }
    })
}

/// Whether `point`, which is `name` or `name#n`, means this execution of `name`.
fn is_chosen(point: &str, name: &str, execution: u32) -> bool {
    match point.strip_prefix(name).map(|end| end.strip_prefix('#')) {
        Some(None) => point == name,
        Some(Some(nth)) => nth.parse() == Ok(execution),
        None => false,
    }
}

/// Counts an execution of `name` and aborts if that is the choice. Returns the execution if it should wait.
pub(super) fn reach<'a>(name: &'a str, file: Option<&Path>) -> Option<Waiting<'a>> {
    static AT_START: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("PONTOON_TEST_KILL_POINT").ok());
    if AT_START.is_none() && file.is_none() {
        return None;
    }
    let execution = count(name);
    // Without a number the variable means the first execution.
    if let Some(point) = AT_START.as_deref()
        && is_chosen(point, name, execution)
    {
        abort(name, execution);
    }
    let text = std::fs::read_to_string(file?).ok()?; // without the file nothing is chosen
    match choice(&text, name, execution)? {
        Choice::Abort => abort(name, execution),
        Choice::Wait => Some(Waiting { name, execution }),
    }
}

/// The number of this execution of `name`, from 1.
fn count(name: &str) -> u32 {
    static EXECUTIONS: LazyLock<Mutex<HashMap<String, u32>>> = LazyLock::new(Mutex::default);
    let mut executions = EXECUTIONS.lock();
    let count = executions.entry(name.to_owned()).or_default();
    *count += 1;
    *count
}

/// The line in the log lets a supervisor remove the choice before it starts the operator again.
fn abort(name: &str, execution: u32) -> ! {
    log(&format!("kill point {name}#{execution}\n"));
    std::process::abort();
}

/// Writes to stderr at once, so that lines of other threads do not come in between.
fn log(line: &str) {
    std::io::stderr().write_all(line.as_bytes()).ok();
}

impl Waiting<'_> {
    /// Waits until the line is gone. A line that says `abort` by then aborts.
    pub(super) async fn end(self, file: Option<&Path>) {
        let Self { name, execution } = self;
        let _counted = Counted::new();
        log(&format!("kill point {name} held\n"));
        loop {
            let text = file.and_then(|file| std::fs::read_to_string(file).ok());
            match choice(&text.unwrap_or_default(), name, execution) {
                None => return,
                Some(Choice::Abort) => abort(name, execution),
                Some(Choice::Wait) => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// An execution that waits is counted, also if it is given up.
struct Counted;

impl Counted {
    fn new() -> Self {
        WAITING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use rstest::rstest;

    use super::*;

    /// The variable that makes [`dies_in_a_process_of_its_own`] reach this point.
    const REACHED: &str = "ENGINE_TEST_REACHED_POINT";

    #[rstest]
    #[case::abort("put.before abort", Some(Choice::Abort))]
    #[case::wait("put.before hold\n", Some(Choice::Wait))]
    #[case::the_third("put.before#3 abort", Some(Choice::Abort))]
    #[case::not_the_second("put.before#2 abort", None)]
    #[case::a_later_line("put.after abort\n\n  put.before   hold", Some(Choice::Wait))]
    #[case::the_first_match_decides("put.before hold\nput.before abort", Some(Choice::Wait))]
    #[case::a_longer_name("put.before2 abort\nput.before.x abort", None)]
    #[case::a_shorter_name("put abort", None)]
    #[case::no_number("put.before#x abort", None)]
    #[case::no_action("put.before", None)]
    #[case::an_unknown_action("put.before explode", None)]
    #[case::too_many_words("put.before abort now", None)]
    #[case::an_empty_file("", None)]
    fn a_line_chooses(#[case] text: &str, #[case] expected: Option<Choice>) {
        assert_eq!(choice(text, "put.before", 3), expected);
    }

    #[test]
    fn executions_are_counted_per_point() {
        let counts = ["one", "one", "two", "one"].map(|name| count(&format!("counted-{name}")));
        assert_eq!(counts, [1, 2, 1, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_execution_waits_until_its_line_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kill");
        std::fs::write(&file, "waits#2 hold\nother hold\n").unwrap();
        assert!(reach("waits", Some(&file)).is_none(), "the first one");
        let second = reach("waits", Some(&file)).expect("the second one waits");
        let mut second = Box::pin(second.end(Some(&file)));
        assert!(!has_waiting());
        let early = tokio::time::timeout(Duration::from_secs(60), &mut second).await;
        assert!(early.is_err() && has_waiting());
        std::fs::write(&file, "other hold\n").unwrap();
        let released = tokio::time::timeout(Duration::from_secs(60), second).await;
        assert!(released.is_ok() && !has_waiting());
        std::fs::remove_file(&file).unwrap();
        assert!(reach("other", Some(&file)).is_none(), "there is no file");
    }

    /// Not a test by itself: [`an_abort_ends_the_process_once_its_line_is_there`] runs it.
    #[test]
    fn dies_in_a_process_of_its_own() {
        let Ok(point) = std::env::var(REACHED) else {
            return;
        };
        for _ in 0..2 {
            assert!(reach(&point, file()).is_none());
            println!("went on");
        }
    }

    #[rstest]
    #[case::by_the_file("put#2 abort", "", true)]
    #[case::by_the_variable("", "put#2", true)]
    #[case::by_the_variable_without_a_number("", "put", true)]
    #[case::another_point("get abort", "get", false)]
    fn an_abort_ends_the_process(#[case] text: &str, #[case] point: &str, #[case] dies: bool) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kill");
        std::fs::write(&file, text).unwrap();
        let own = std::env::current_exe().unwrap();
        let mut run = Command::new(own);
        run.args([
            "kill::choices::tests::dies_in_a_process_of_its_own",
            "--exact",
        ]);
        run.arg("--nocapture").env(REACHED, "put");
        run.env("PONTOON_TEST_KILL_FILE", &file)
            .env("PONTOON_TEST_KILL_POINT", point);
        let output = run.output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let aborted = output.status.signal() == Some(6);
        assert_eq!(aborted, dies, "{}: {log}", output.status);
        assert_eq!(log.contains("kill point put#"), dies, "{log}");
        assert_eq!(output.status.success(), !dies, "{log}");
    }
}
