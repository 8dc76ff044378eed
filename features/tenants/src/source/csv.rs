//! Reads CSV as RFC 4180 has it: fields by commas, quotes around what holds commas, quotes (doubled)
//! or line ends. A byte order mark and empty lines are skipped; lines end in LF, CRLF or CR.

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use super::rows::{Cell, Place, Row, check_columns, is_ours};

/// One record, and the line it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    line: usize,
    fields: Vec<String>,
}

/// The rows below the header line of `text`.
///
/// # Errors
/// What is wrong with the text as a whole, with the line; also that it has more than `max` rows.
pub(super) fn rows(text: &str, max: usize) -> Result<Vec<Row>, String> {
    let mut records = Reader::new(text);
    let Some(header) = records.next().transpose()? else {
        return Err("it is empty; begin with a header line such as name,domain".to_owned());
    };
    let columns: Vec<Arc<str>> = header.fields.iter().map(|one| one.trim().into()).collect();
    check_columns(columns.iter().map(|one| &**one))?;
    let mut rows = Vec::new();
    for record in records {
        let Record { line, fields } = record?;
        if fields.len() != columns.len() {
            return Err(format!(
                "line {line} has {} fields and the header has {}; give each line as many",
                fields.len(),
                columns.len()
            ));
        }
        if rows.len() == max {
            return Err(super::too_many(max));
        }
        let cells = columns.iter().cloned().zip(fields);
        rows.push(Row {
            place: Place::Line(line),
            cells: cells
                .filter(|(column, text)| is_ours(column) && !text.is_empty())
                .map(|(column, text)| (column, Cell::Text(text)))
                .collect(),
        });
    }
    Ok(rows)
}

struct Reader<'a> {
    left: Peekable<Chars<'a>>,
    line: usize,
    broken: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            left: text.chars().peekable(),
            line: 1,
            broken: false,
        }
    }

    /// The next character; a line end of any form is one LF, and counted.
    fn take(&mut self) -> Option<char> {
        let taken = match self.left.next()? {
            '\r' => {
                self.left.next_if_eq(&'\n');
                '\n'
            }
            other => other,
        };
        self.line += usize::from(taken == '\n');
        Some(taken)
    }

    /// Whether a record ends here; takes its line end.
    fn ends(&mut self) -> bool {
        match self.left.peek() {
            None => true,
            Some('\n' | '\r') => {
                self.take();
                true
            }
            Some(_) => false,
        }
    }

    fn record(&mut self) -> Result<Vec<String>, String> {
        let mut fields = vec![self.field()?];
        while !self.ends() {
            self.take(); // a field ends at a comma or where the record does
            fields.push(self.field()?);
        }
        Ok(fields)
    }

    fn field(&mut self) -> Result<String, String> {
        if self.left.next_if_eq(&'"').is_some() {
            return self.quoted();
        }
        let line = self.line;
        let mut field = String::new();
        while let Some(next) = self.left.next_if(|c| !matches!(c, ',' | '\n' | '\r')) {
            if next == '"' {
                return Err(format!(
                    "line {line}: a quote stands inside a field; put the field in quotes and \
                     double the quote"
                ));
            }
            field.push(next);
        }
        Ok(field)
    }

    /// A field whose opening quote is taken. Its line ends stay as they are.
    fn quoted(&mut self) -> Result<String, String> {
        let line = self.line;
        let mut field = String::new();
        loop {
            match self.left.next() {
                None => {
                    return Err(format!(
                        "line {line}: a quoted field does not end; close it"
                    ));
                }
                Some('"') if self.left.next_if_eq(&'"').is_some() => field.push('"'),
                Some('"') => break,
                Some(other) => {
                    let half = other == '\r' && self.left.peek() == Some(&'\n');
                    self.line += usize::from(matches!(other, '\n' | '\r') && !half);
                    field.push(other);
                }
            }
        }
        match self.left.peek() {
            None | Some(',' | '\n' | '\r') => Ok(field),
            Some(_) => Err(format!(
                "line {}: something follows a closing quote; put a comma between",
                self.line
            )),
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, String>;

    fn next(&mut self) -> Option<Self::Item> {
        while matches!(self.left.peek(), Some('\n' | '\r')) {
            self.take();
        }
        self.left.peek().filter(|_| !self.broken)?;
        let line = self.line;
        let record = self.record();
        self.broken = record.is_err();
        Some(record.map(|fields| Record { line, fields }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn read(text: &str) -> Result<Vec<Record>, String> {
        Reader::new(text).collect()
    }

    fn fields(text: &str) -> Vec<Vec<String>> {
        let records = read(text).unwrap().into_iter();
        records.map(|record| record.fields).collect()
    }

    #[rstest]
    #[case::plain("a,b\nc,d\n", vec![vec!["a", "b"], vec!["c", "d"]])]
    #[case::no_final_line_end("a,b\nc,d", vec![vec!["a", "b"], vec!["c", "d"]])]
    #[case::crlf("a,b\r\nc,d\r\n", vec![vec!["a", "b"], vec!["c", "d"]])]
    #[case::cr("a,b\rc,d\r", vec![vec!["a", "b"], vec!["c", "d"]])]
    #[case::byte_order_mark("\u{feff}a,b", vec![vec!["a", "b"]])]
    #[case::empty_lines("\n\na,b\n\r\n\nc,d\n\n", vec![vec!["a", "b"], vec!["c", "d"]])]
    #[case::empty_fields(",\na,", vec![vec!["", ""], vec!["a", ""]])]
    #[case::a_quoted_nothing_is_a_record("\"\"\n", vec![vec![""]])]
    #[case::comma_in_quotes("\"a,b\",c", vec![vec!["a,b", "c"]])]
    #[case::doubled_quote("\"a\"\"b\"", vec![vec!["a\"b"]])]
    #[case::line_end_in_quotes("\"a\r\nb\",c\nd,e", vec![vec!["a\r\nb", "c"], vec!["d", "e"]])]
    #[case::blanks_are_kept(" a , b ", vec![vec![" a ", " b "]])]
    #[case::nothing("", vec![])]
    #[case::only_a_mark("\u{feff}\n", vec![])]
    fn records_are_read(#[case] text: &str, #[case] wanted: Vec<Vec<&str>>) {
        assert_eq!(fields(text), wanted);
    }

    #[rstest]
    #[case::open_quote("a\nb,\"c\nd", "line 2: a quoted field does not end")]
    #[case::quote_inside("a\n\nb\"c", "line 3: a quote stands inside a field")]
    #[case::text_after_quote("\"a\nb\"c", "line 2: something follows a closing quote")]
    fn what_is_wrong_is_told_with_its_line(#[case] text: &str, #[case] said: &str) {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn lines_are_counted_as_editors_do() {
        let lines: Vec<usize> = read("a\r\n\"b\nb\r\nb\"\n\nc\rd")
            .unwrap()
            .iter()
            .map(|record| record.line)
            .collect();
        assert_eq!(lines, [1, 2, 6, 7]);
    }

    #[test]
    fn a_table_is_its_header_and_its_rows() {
        let rows = rows(
            " name ,id,domain\nacme,7,a.example.com\n\nbeta,,b.example.com\n",
            9,
        );
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].place.to_string(), "line 2");
        assert_eq!(rows[1].place.to_string(), "line 4");
        assert_eq!(rows[0].cells["name"], Cell::Text("acme".into()));
        assert_eq!(rows[0].cells.len(), 2);
    }

    #[rstest]
    #[case::empty("", "it is empty")]
    #[case::no_domain("name\nacme", "it has no column domain")]
    #[case::short_line("name,domain\nacme", "line 2 has 1 fields and the header has 2")]
    #[case::long_line("name,domain\na,b,c", "line 2 has 3 fields and the header has 2")]
    #[case::too_many("name,domain\na,b\nc,d\ne,f", "it has more than 2 rows")]
    fn a_table_that_cannot_be_read_is_told_as_a_whole(#[case] text: &str, #[case] said: &str) {
        let error = rows(text, 2).unwrap_err();
        assert!(error.starts_with(said), "{error}");
    }

    /// As a spreadsheet writes it; `quote` quotes also what needs none.
    fn written(records: &[Vec<String>], line_end: &str, quote: bool) -> String {
        let field = |text: &String| {
            let lone = text.is_empty(); // a lone empty field would be an empty line
            if quote || lone || text.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.clone()
            }
        };
        let line = |record: &Vec<String>| record.iter().map(field).collect::<Vec<_>>().join(",");
        let lines: Vec<String> = records.iter().map(line).collect();
        lines.join(line_end)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            records in vec(vec("[a, \"\n\rä]{0,5}", 1..4), 0..5),
            line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n")],
            quote in any::<bool>(),
        ) {
            let text = written(&records, line_end, quote);
            prop_assert_eq!(fields(&text), records.clone());
            prop_assert_eq!(fields(&format!("\u{feff}{text}{line_end}")), records);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a,\"\n\r\u{feff}]{0,40}") {
            if let Ok(records) = read(&text) {
                prop_assert!(records.iter().all(|record| !record.fields.is_empty()));
            }
            let _ = rows(&text, 3);
        }
    }
}
