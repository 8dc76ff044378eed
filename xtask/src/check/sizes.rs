//! Long source files. They are reported but are no failure.

/// A longer file probably has more than one subject.
pub(crate) const LIMIT: usize = 600;

/// The files longer than `limit`, longest first, as lines to print.
pub(crate) fn long(files: &[(String, usize)], limit: usize) -> Vec<String> {
    let mut long: Vec<_> = files.iter().filter(|(_, lines)| *lines > limit).collect();
    long.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    long.into_iter()
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::long;

    #[test]
    fn only_files_beyond_the_limit_are_reported_longest_first() {
        let files = [
            ("a.rs".to_owned(), 600),
            ("b.rs".to_owned(), 601),
            ("c.rs".to_owned(), 900),
        ];
        assert_eq!(
            long(&files, 600),
            vec!["c.rs: 900 lines", "b.rs: 601 lines"]
        );
    }
}
