//! The length of a plan. [`model`](crate::migration::model) compares plans with the runs that follow.

use rstest::rstest;

use super::*;

#[rstest]
#[case::none(0, 0, None)]
#[case::all_that_fit(200, 200, Some("line 199"))]
#[case::one_too_many(201, 200, Some("and 2 more"))]
#[case::many(1_000, 200, Some("and 801 more"))]
fn the_last_line_counts_what_does_not_fit(
    #[case] lines: usize,
    #[case] expected: usize,
    #[case] last: Option<&str>,
) {
    let lines = (0..lines).map(|line| format!("line {line}"));
    let lines = capped(lines.collect());
    assert_eq!(lines.len(), expected);
    assert_eq!(lines.last().map(String::as_str), last);
}
