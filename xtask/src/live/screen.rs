//! The live table: on a terminal each frame replaces the previous one, elsewhere it is appended.

use console::{Term, measure_text_width, truncate_str};

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    /// The size of the terminal at stdout; `None` if stdout is not a terminal.
    pub(crate) fn of_stdout() -> Option<Self> {
        let (rows, columns) = Term::stdout().size_checked()?;
        Some(Self {
            columns: columns.into(),
            rows: rows.into(),
        })
    }
}

/// The rows of `table` that are shown. On a terminal no row wraps or scrolls away: a long row is cut,
/// and the last row counts those without room.
pub(crate) fn frame(table: &str, size: Option<Size>) -> Vec<String> {
    let mut shown: Vec<String> = table.lines().map(str::to_owned).collect();
    let Some(Size { columns, rows }) = size else {
        return shown;
    };
    // The cursor is below the frame and needs its own row.
    let room = rows.saturating_sub(1).max(1);
    if shown.len() > room {
        let hidden = shown.len() - (room - 1);
        shown.truncate(room - 1);
        shown.push(format!("… {hidden} more; the window is too small"));
    }
    let cut = |row: &String| truncate_str(row, columns, "…").into_owned();
    shown.iter().map(cut).collect()
}

/// The output that replaces `previous`, which was written last, by `next`. Empty if they are equal.
pub(crate) fn redraw(previous: &[String], next: &[String], size: Option<Size>) -> String {
    if previous == next {
        return String::new();
    }
    let back = match size {
        Some(size) if !previous.is_empty() => {
            // In a window that has become narrower the terminal has wrapped the rows.
            let height = |row: &String| measure_text_width(row).div_ceil(size.columns).max(1);
            let height: usize = previous.iter().map(height).sum();
            format!("\x1b[{height}A\x1b[J")
        }
        _ => String::new(),
    };
    format!("{back}{}\n", next.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Size, frame, redraw};

    const HEADER: &str = "KIND         NAME    READY  REASON  MESSAGE";

    /// A model of a terminal that wraps, scrolls, and reflows when it is resized.
    struct Terminal {
        size: Size,
        /// All rows, also those that have scrolled away, and whether each continues in the next one.
        rows: Vec<(String, bool)>,
        cursor: usize,
    }

    impl Terminal {
        fn new(columns: usize, rows: usize) -> Self {
            let size = Size { columns, rows };
            let mut terminal = Self {
                size,
                rows: vec![(String::new(), false)],
                cursor: 0,
            };
            terminal.write("$ cargo xtask up\n");
            terminal
        }

        fn write(&mut self, output: &str) {
            let mut remaining = output;
            while let Some(next) = remaining.chars().next() {
                if let Some(escape) = remaining.strip_prefix("\x1b[") {
                    let end = escape.find(char::is_alphabetic).unwrap();
                    self.escape(&escape[..end], &escape[end..=end]);
                    remaining = &escape[end + 1..];
                    continue;
                }
                remaining = &remaining[next.len_utf8()..];
                if next == '\n' {
                    self.advance();
                    continue;
                }
                if self.rows[self.cursor].0.chars().count() == self.size.columns {
                    self.rows[self.cursor].1 = true;
                    self.advance();
                }
                self.rows[self.cursor].0.push(next);
            }
        }

        fn advance(&mut self) {
            self.cursor += 1;
            if self.cursor == self.rows.len() {
                self.rows.push((String::new(), false));
            }
        }

        fn escape(&mut self, count: &str, command: &str) {
            match command {
                "A" => {
                    let top = self.rows.len().saturating_sub(self.size.rows);
                    let up = self.cursor.saturating_sub(count.parse().unwrap());
                    self.cursor = up.max(top);
                }
                "J" => {
                    self.rows.truncate(self.cursor);
                    self.rows.push((String::new(), false));
                }
                other => panic!("unexpected escape {other}"),
            }
        }

        fn resize(&mut self, columns: usize) {
            let mut text = String::new();
            for (row, continues) in &self.rows {
                text.push_str(row);
                text.push_str(if *continues { "" } else { "\n" });
            }
            let rows = self.size.rows;
            self.size = Size { columns, rows };
            self.rows = vec![(String::new(), false)];
            self.cursor = 0;
            self.write(text.trim_end_matches('\n'));
            self.advance();
        }

        /// Shows `table`, after the frame `previous`.
        fn show(&mut self, previous: &[String], table: &str) -> Vec<String> {
            let next = frame(table, Some(self.size));
            self.write(&redraw(previous, &next, Some(self.size)));
            next
        }

        fn all_rows(&self) -> Vec<&str> {
            let mut rows: Vec<_> = self.rows.iter().map(|(row, _)| row.as_str()).collect();
            assert_eq!(rows.pop(), Some(""), "the cursor stands below the table");
            rows
        }
    }

    /// A table of as many objects as `messages` has.
    fn table(messages: &[&str]) -> String {
        let row = |message: &&str| format!("VaultPolicy  orders  False  Unseen  {message}");
        let rows: Vec<_> = messages.iter().map(row).collect();
        format!("{HEADER}\n{}", rows.join("\n"))
    }

    /// Tables in which rows are added, changed and removed.
    fn tables() -> Vec<String> {
        let long = "the login was refused by Vault with a very long explanation, ".repeat(4);
        vec![
            table(&["not yet"]),
            table(&["not yet", &long]),
            table(&[&long, &long, "not yet", "not yet", &long]),
            table(&["", &long, "", "not yet", ""]),
            table(&["", ""]),
            table(&["", "", "", "", "", ""]),
        ]
    }

    #[test]
    fn each_frame_replaces_the_one_before_in_any_window() {
        for (columns, rows) in [(200, 50), (80, 24), (43, 10), (20, 7), (10, 5), (1, 2)] {
            let mut terminal = Terminal::new(columns, rows);
            let above: Vec<_> = terminal.all_rows().into_iter().map(String::from).collect();
            let mut shown = Vec::new();
            for table in tables() {
                shown = terminal.show(&shown, &table);
                let expected: Vec<_> = above.iter().chain(&shown).collect();
                assert_eq!(terminal.all_rows(), expected, "{columns} x {rows}");
            }
        }
    }

    #[test]
    fn a_resized_window_has_no_second_header() {
        for columns in [30, 60, 200] {
            let mut terminal = Terminal::new(80, 24);
            let mut shown = Vec::new();
            for table in tables() {
                shown = terminal.show(&shown, &table);
            }
            terminal.resize(columns);
            terminal.show(&shown, &table(&["done"]));
            let rows = terminal.all_rows();
            let headers = rows.iter().filter(|row| row.starts_with("KIND"));
            assert_eq!(headers.count(), 1, "{columns}: {rows:#?}");
            assert_eq!(rows[0], "$ cargo xtask up");
            assert_eq!(rows.len(), 3);
        }
    }

    #[test]
    fn a_long_row_is_cut_and_rows_without_room_are_counted() {
        let size = Size {
            columns: 24,
            rows: 4,
        };
        let shown = frame(&table(&["1", "2", "3"]), Some(size));
        let expected = [
            "KIND         NAME    RE…",
            "VaultPolicy  orders  Fa…",
            "… 2 more; the window is…",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_equal_frame_writes_nothing() {
        let shown = frame(&table(&["1"]), None);
        assert_eq!(redraw(&shown, &shown, None), "");
    }

    #[test]
    fn off_a_terminal_each_change_is_a_whole_table() {
        let long = "x".repeat(500);
        let (first, second) = (table(&[&long]), table(&[&long, "2"]));
        let shown = frame(&first, None);
        assert_eq!(redraw(&[], &shown, None), format!("{first}\n"));
        let next = frame(&second, None);
        assert_eq!(redraw(&shown, &next, None), format!("{second}\n"));
    }
}
