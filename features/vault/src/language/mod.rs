//! Vault's policy language: reading it, printing it, and judging how far it reaches.
//!
//! ```text
//! text ──▶ hcl (a tree) ──▶ policy (canonical form) ──▶ hash, diff, rules
//! rules ──▶ text (what is written to Vault)
//! cover, glob: which paths and names a grant admits
//! ```
//! # Promises
//! - What is accepted here, Vault reads the same way. Where Vault's reading of a text is not what
//!   the text seems to say, the text is refused.
//! - Hostile text costs a bounded amount of memory and time, and never panics.

pub mod cover;
pub mod glob;
pub mod hcl;
pub mod policy;
pub mod text;

pub use policy::{PathRules, Policy};

/// Why a text is not taken for a policy, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct Refused {
    line: usize,
    column: usize,
    problem: String,
}

impl Refused {
    /// The problem at the byte `offset` of `source`.
    fn at(source: &str, offset: usize, problem: impl Into<String>) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem: problem.into(),
        }
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> usize {
        self.column
    }
}

/// `text` in quotes, as the policy language writes strings.
///
/// `${` is broken up by an escape: the language would otherwise keep everything up to the closing
/// brace as it is, quotes included.
fn quoted(text: &str) -> String {
    use std::fmt::Write;

    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    let mut rest = text.chars().peekable();
    while let Some(ch) = rest.next() {
        match ch {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '$' if rest.peek() == Some(&'{') => quoted.push_str("\\u0024"),
            // HCL reserves U+E123 for itself.
            ch if ch.is_control() || ch == '\u{e123}' => {
                write!(quoted, "\\u{:04x}", u32::from(ch)).expect("a String takes all text");
            }
            ch => quoted.push(ch),
        }
    }
    quoted.push('"');
    quoted
}

/// `["a", "b"]`.
fn quoted_list<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts
        .into_iter()
        .map(|text| quoted(text.as_ref()))
        .collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where() {
        let refused = Refused::at("ab\ncdé f", 8, "no");
        assert_eq!(refused.to_string(), "line 2, column 5: no");
        assert_eq!((refused.line(), refused.column()), (2, 5));
    }

    #[test]
    fn strings_are_escaped_so_that_they_mean_themselves() {
        assert_eq!(quoted("a\"b\\c\n${x}"), r#""a\"b\\c\n\u0024{x}""#);
        assert_eq!(quoted("\u{1}$ {"), r#""\u0001$ {""#);
    }
}
