//! A short text of a diff for people.

use serde_json::Value;

use super::{Change, ChangeKind, Diff};

/// Values longer than this, in characters, are cut.
const VALUE_LIMIT: usize = 60;

impl Diff {
    /// The differences, one per line, at most `max_lines`; the last line counts the omitted ones.
    ///
    /// ```text
    /// ~ /spec/size: 3 -> 5 (edit)
    /// - /spec/tags/old: "old" (edit)
    /// + /spec/zone: "a" (drift)
    /// ```
    /// # When not to use it
    /// On documents that contain secrets: values are printed unchanged.
    pub fn summary(&self, max_lines: usize) -> String {
        let lines: Vec<String> = self.changes.iter().filter_map(change_line).collect();
        if lines.len() <= max_lines {
            return lines.join("\n");
        }
        let Some(shown) = max_lines.checked_sub(1) else {
            return String::new();
        };
        let more = format!("… and {} more", lines.len() - shown);
        let mut shown = lines[..shown].to_vec();
        shown.push(more);
        shown.join("\n")
    }
}

fn change_line(change: &Change) -> Option<String> {
    let kind = match change.kind {
        ChangeKind::Edit => "edit",
        ChangeKind::Drift => "drift",
        ChangeKind::Both => "edit and drift",
        ChangeKind::Same => return None,
    };
    let path = if change.path.is_empty() {
        "/"
    } else {
        &change.path
    };
    let (sign, values) = match (&change.live, &change.desired) {
        (Some(live), Some(desired)) => ('~', format!("{} -> {}", short(live), short(desired))),
        (None, Some(desired)) => ('+', short(desired)),
        (Some(live), None) => ('-', short(live)),
        // Equal; or the whole document is missing and nothing is desired.
        (None, None) => ('-', "nothing".to_owned()),
    };
    Some(format!("{sign} {path}: {values} ({kind})"))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= VALUE_LIMIT {
        return text;
    }
    let kept: String = text.chars().take(VALUE_LIMIT - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use crate::{Rules, diff3};
    use serde_json::{Value, json};

    fn summary(last: &Value, live: &Value, desired: &Value, lines: usize) -> String {
        diff3(Some(last), Some(live), desired, &Rules::new().set("/tags")).summary(lines)
    }

    #[test]
    fn a_summary_shows_what_differs_and_why() {
        let last = json!({"name": "a", "size": 3, "zone": "a", "tags": ["old"], "mode": 1});
        let live = json!({"name": "a", "size": 3, "tags": ["old", "foreign"], "mode": 2});
        let desired = json!({"name": "a", "size": 5, "zone": "a", "tags": [], "mode": 3});
        insta::assert_snapshot!(summary(&last, &live, &desired, 9), @r#"
        ~ /mode: 2 -> 3 (edit and drift)
        ~ /size: 3 -> 5 (edit)
        - /tags/old: "old" (edit)
        + /zone: "a" (drift)
        "#);
    }

    #[test]
    fn a_summary_counts_what_it_omits() {
        let (live, desired) = (
            json!({"a": 1, "b": 1, "c": 1}),
            json!({"a": 2, "b": 2, "c": 2}),
        );
        let lines = |max| summary(&live, &live, &desired, max);
        assert_eq!(lines(2), "~ /a: 1 -> 2 (edit)\n… and 2 more");
        assert_eq!(lines(3).lines().count(), 3);
        assert_eq!(lines(0), "");
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let text = summary(&json!({}), &json!({}), &json!({"a": "ü".repeat(99)}), 1);
        assert_eq!(text, format!("+ /a: \"{}… (edit)", "ü".repeat(58)));
    }

    #[test]
    fn a_missing_document_is_one_line() {
        let diff = diff3(None, None, &json!({"a": 1}), &Rules::new());
        assert_eq!(diff.summary(5), r#"+ /: {"a":1} (edit)"#);
    }
}
