//! Whether the tests that a `CASES.md` names exist.
//!
//! A `CASES.md` is a table, one row per acceptance case of the contract:
//!
//! ```text
//! | n | case | test |
//! |---|---|---|
//! | 9 | many edits of one object make a handful of passes | `engine::tests::integration::queue::edits_collapse` |
//! ```
//!
//! A test is named `<package>::<file>::<function>`. The file is its path below `src` without `.rs`
//! and without a last `mod` (`queue::wheel` for `src/queue/wheel.rs`); below `tests` the same with
//! `tests::` in front. A named rstest case may follow the function. Several tests in one row are
//! separated by commas.

use std::collections::BTreeSet;

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) tests: Vec<String>,
}

/// The rows of a `CASES.md`, or what is wrong with its format.
pub(crate) fn rows(text: &str) -> Result<Vec<Row>, String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('|'));
    let body = lines.skip(2); // the heading and the line below it
    body.map(row).collect()
}

fn row(line: &str) -> Result<Row, String> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [number, _, tests] = cells[..] else {
        return Err(format!(
            "this row needs three columns, n | case | test: {line}"
        ));
    };
    let tests = tests
        .split(',')
        .map(|test| test.trim().trim_matches('`').to_owned());
    let tests: Vec<String> = tests.filter(|test| !test.is_empty()).collect();
    if tests.is_empty() {
        return Err(format!("case {number} names no test"));
    }
    Ok(Row {
        case: number.to_owned(),
        tests,
    })
}

/// What is wrong with a `CASES.md`: rows that name a test that is not in `known`.
pub(crate) fn missing(path: &str, text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let rows = match rows(text) {
        Ok(rows) => rows,
        Err(why) => return vec![format!("{path}: {why}")],
    };
    let named = rows
        .iter()
        .flat_map(|row| row.tests.iter().map(move |test| (row, test)));
    named
        .filter(|(_, test)| !known.contains(*test))
        .map(|(row, test)| {
            format!(
                "{path}: case {} names {test}, which does not exist; name the test that covers it",
                row.case
            )
        })
        .collect()
}

/// The tests in a source file, named as in `CASES.md`. `file` is relative to its package.
pub(crate) fn tests(package: &str, file: &str, source: &str) -> Vec<String> {
    let module = file.trim_end_matches(".rs");
    let module = module.strip_prefix("src/").unwrap_or(module);
    let module = module
        .strip_suffix("/mod")
        .unwrap_or(module)
        .replace('/', "::");
    let mut found = Vec::new();
    let mut is_test = false;
    let mut cases = Vec::new();
    for line in source.lines().map(str::trim_start) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute
                .split(['(', ']', ' ', '='])
                .next()
                .unwrap_or_default();
            is_test |= matches!(path.rsplit("::").next(), Some("test" | "rstest"));
            is_test |= path == "case";
            if let Some(case) = path.strip_prefix("case::") {
                is_test = true;
                cases.push(case.to_owned());
            }
        } else if let Some(name) = function(line).filter(|_| std::mem::take(&mut is_test)) {
            let test = format!("{package}::{module}::{name}");
            found.extend(cases.drain(..).map(|case| format!("{test}::{case}")));
            found.push(test);
        }
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{missing, tests};

    const SOURCE: &str = "
        #[cfg(test)]
        fn fixture() {}
        #[test]
        fn a_rule() {}
        #[tokio::test(flavor = \"multi_thread\")]
        async fn a_story() {}
        fn plain() {}
        #[rstest]
        #[case::both(1,
            2)]
        #[case::none(0)]
        fn a_table(#[case] n: u8) {}
    ";

    #[test]
    fn tests_are_found_by_their_attribute() {
        let found = tests("engine", "src/queue/mod.rs", SOURCE);
        let names = [
            "a_rule",
            "a_story",
            "a_table::both",
            "a_table::none",
            "a_table",
        ];
        assert_eq!(found, names.map(|name| format!("engine::queue::{name}")));
    }

    #[test]
    fn stories_are_named_below_tests() {
        let found = tests("engine", "tests/integration/queue.rs", SOURCE);
        assert_eq!(found[0], "engine::tests::integration::queue::a_rule");
    }

    #[test]
    fn a_case_whose_test_is_gone_is_named() {
        let text = "# Cases\n\n| n | case | test |\n|---|---|---|\n\
                    | 1 | here | `engine::queue::a_rule`, `engine::queue::gone` |\n";
        let known: BTreeSet<String> = tests("engine", "src/queue.rs", SOURCE)
            .into_iter()
            .collect();
        let wrong = missing("crates/engine/CASES.md", text, &known);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].contains("case 1 names engine::queue::gone"),
            "{}",
            wrong[0]
        );
    }

    #[test]
    fn a_case_without_a_test_is_an_error() {
        let text = "| n | case | test |\n|---|---|---|\n| 7 | two leaders |  |\n";
        let wrong = missing("CASES.md", text, &BTreeSet::new());
        assert_eq!(wrong, vec!["CASES.md: case 7 names no test"]);
    }
}
