//! The picture of one migration on a terminal, drawn again and again.

use std::io::Write;
use std::time::Duration;

use api::migrate::StatefulSetMigration;
use engine::cli::ReadyCondition;
use jiff::Timestamp;
use kernel::ObjectKey;

use super::ordinals;

/// How often the picture is drawn: running times have tenths of seconds.
const PERIOD: Duration = Duration::from_millis(200);
/// The characters of the bar.
const BAR_WIDTH: usize = 20;

/// The picture: a bar, the reason of Ready, and the ordinals.
pub(super) fn frame(
    key: &ObjectKey,
    migration: &StatefulSetMigration,
    now: Timestamp,
) -> Vec<String> {
    let status = migration.status.clone().unwrap_or_default();
    let phase = status.phase.map(|phase| phase.to_string());
    let total = status.total_replicas.unwrap_or_default();
    let bar = bar(status.current_index, total, BAR_WIDTH);
    let ready = ReadyCondition::new(&status.conditions, migration.metadata.generation);
    let phase = phase.unwrap_or_default();
    let mut lines = vec![
        format!("{key}  {phase}  {bar} {}/{total}", status.current_index),
        format!("{}: {}", ready.reason, ready.message),
        String::new(),
    ];
    let headings = ordinals::COLUMNS
        .iter()
        .map(|heading| heading.to_uppercase());
    let rows = ordinals::rows(key, migration, Some(now));
    let rows = rows.into_iter().map(|row| row.finding.cells);
    let table: Vec<Vec<String>> = [headings.collect()].into_iter().chain(rows).collect();
    lines.extend(aligned(&table));
    lines
}

/// The last sentence about a migration, after its bar on a terminal.
pub(super) fn summary(
    key: &ObjectKey,
    migration: &StatefulSetMigration,
    is_terminal: bool,
) -> String {
    let status = migration.status.clone().unwrap_or_default();
    let ready = ReadyCondition::new(&status.conditions, migration.metadata.generation);
    let phase = status
        .phase
        .map_or("(no phase)", api::migrate::Phase::as_str);
    let total = status.total_replicas.unwrap_or_default();
    let bar = if is_terminal {
        bar(status.current_index, total, BAR_WIDTH) + "\n"
    } else {
        String::new()
    };
    format!(
        "{bar}{key}: {phase}, {} of {total} at the destination; {}: {}",
        status.current_index, ready.reason, ready.message
    )
}

/// `[#####---------------]`
fn bar(done: i32, total: i32, width: usize) -> String {
    let (done, total) = (usize::try_from(done), usize::try_from(total));
    let (done, total) = (done.unwrap_or_default(), total.unwrap_or_default());
    let filled = (width * done.min(total)).checked_div(total);
    let filled = filled.unwrap_or_default();
    format!("[{}{}]", "#".repeat(filled), "-".repeat(width - filled))
}

/// Lines whose cells begin below each other.
fn aligned(rows: &[Vec<String>]) -> impl Iterator<Item = String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter().map(move |row| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    })
}

/// Draws the picture over the one before it, until `end`, and once more then.
pub(super) async fn draw(
    frame: impl Fn() -> Option<Vec<String>>,
    mut end: impl Future<Output = bool> + Unpin,
) {
    let (mut drawn, mut has_ended) = (0, false);
    loop {
        let lines = frame().unwrap_or_default();
        let mut out = std::io::stdout();
        let text = redrawn(drawn, &lines);
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            return; // nobody reads it
        }
        if has_ended {
            return;
        }
        drawn = lines.len();
        has_ended = tokio::time::timeout(PERIOD, &mut end).await.is_ok();
    }
}

/// The text that replaces the last `drawn` lines of the terminal. A line that is too long is cut by the
/// terminal, so that the count of lines stays right.
fn redrawn(drawn: usize, lines: &[String]) -> String {
    let up = if drawn > 0 {
        format!("\x1b[{drawn}A")
    } else {
        String::new()
    };
    let lines = lines.iter().map(|line| format!("{line}\x1b[K\n"));
    format!("\x1b[?7l{up}{}\x1b[J\x1b[?7h", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cli::tests::{key, migration};

    #[rstest]
    #[case::none(0, 4, "[--------]")]
    #[case::some(1, 4, "[##------]")]
    #[case::all(4, 4, "[########]")]
    #[case::no_replicas(0, 0, "[--------]")]
    #[case::more_than_all(5, 4, "[########]")]
    #[case::negative(-1, 4, "[--------]")]
    fn the_bar_is_filled(#[case] done: i32, #[case] total: i32, #[case] expected: &str) {
        assert_eq!(bar(done, total, 8), expected);
    }

    #[test]
    fn the_picture_has_the_bar_the_reason_and_every_ordinal() {
        let status = json!({
            "phase": "MigratingPods", "currentIndex": 1, "totalReplicas": 2,
            "ordinals": [
                {"ordinal": 0, "place": "Destination", "step": "ready"},
                {"ordinal": 1, "place": "Source"},
            ],
        });
        let migration = migration(json!({}), status);
        let lines = frame(&key(), &migration, Timestamp::UNIX_EPOCH);
        assert_eq!(
            lines[0],
            "ops/move-web  MigratingPods  [##########----------] 1/2"
        );
        assert!(lines[1].starts_with("NotLookedAt: "), "{lines:?}");
        assert!(
            lines[3].starts_with("ORDINAL  PLACE        STEP"),
            "{lines:?}"
        );
        assert!(
            lines[4].starts_with("0        Destination  ready"),
            "{lines:?}"
        );
        assert_eq!(lines[5], "1        Source");
        assert_eq!(lines.len(), 6);
        let summary = summary(&key(), &migration, false);
        assert!(
            summary.starts_with("ops/move-web: MigratingPods, 1 of 2"),
            "{summary}"
        );
    }

    #[test]
    fn a_picture_replaces_the_one_before() {
        let line = ["a".to_owned()];
        assert_eq!(redrawn(0, &line), "\x1b[?7la\x1b[K\n\x1b[J\x1b[?7h");
        assert_eq!(redrawn(3, &line), "\x1b[?7l\x1b[3Aa\x1b[K\n\x1b[J\x1b[?7h");
    }
}
