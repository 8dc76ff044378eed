//! From characters to tokens.

use std::borrow::Cow;

use super::{Form, Number};
use crate::language::Refused;

/// The smallest part of a text that means something.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A bare key or label.
    Word(String),
    Text(String),
    /// A text of several lines; a value, never a key.
    Heredoc(String),
    Number(Number),
    Flag(bool),
    /// JSON only.
    Null,
    /// One of `{ } [ ] , =` and, in JSON, `:`.
    Sign(char),
    End,
}

impl Token {
    /// For messages: what stands there.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Word(word) => format!("the word {word:.40}").into(),
            Self::Text(_) => "a string".into(),
            Self::Heredoc(_) => "a heredoc".into(),
            Self::Number(_) => "a number".into(),
            Self::Flag(flag) => format!("{flag}").into(),
            Self::Null => "null".into(),
            Self::Sign(sign) => format!("`{sign}`").into(),
            Self::End => "the end of the text".into(),
        }
    }
}

/// Reads tokens from `source`, whose lines end in `\n`.
pub(super) struct Scanner<'a> {
    source: &'a str,
    at: usize,
    form: Form,
}

type Scanned<T> = Result<T, Refused>;

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a str, form: Form) -> Self {
        Self {
            source,
            at: 0,
            form,
        }
    }

    /// The byte just behind the last token.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    /// The next token and where it starts.
    pub(super) fn token(&mut self) -> Scanned<(usize, Token)> {
        self.skip_layout()?;
        let start = self.at;
        let hcl = self.form == Form::Hcl;
        let token = match self.peek() {
            None => Token::End,
            Some('"') => Token::Text(self.string()?),
            Some('<') if hcl => Token::Heredoc(self.heredoc()?),
            Some(sign @ ('{' | '}' | '[' | ']' | ',')) => self.sign(sign),
            Some('=') if hcl => self.sign('='),
            Some(':') if !hcl => self.sign(':'),
            Some('-' | '0'..='9') => Token::Number(self.number()?),
            Some(ch) if is_letter(ch) => self.word(start)?,
            Some(ch) => return Err(self.refuse(start, format!("unexpected {ch:?}"))),
        };
        Ok((start, token))
    }

    pub(super) fn refuse(&self, offset: usize, problem: impl Into<String>) -> Refused {
        Refused::at(self.source, offset, problem)
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Scanned<Option<char>> {
        let Some(ch) = self.peek() else {
            return Ok(None);
        };
        if matches!(ch, '\0' | '\u{e123}') {
            return Err(self.refuse(
                self.at,
                format!("{ch:?} may stand in a policy only as an escape"),
            ));
        }
        self.at += ch.len_utf8();
        Ok(Some(ch))
    }

    fn sign(&mut self, sign: char) -> Token {
        self.at += sign.len_utf8();
        Token::Sign(sign)
    }

    fn skip_layout(&mut self) -> Scanned<()> {
        loop {
            let rest = self.rest();
            let start = self.at;
            let hcl = self.form == Form::Hcl;
            match rest.as_bytes() {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'#', ..] | [b'/', b'/', ..] if hcl => {
                    while self.peek().is_some_and(|ch| ch != '\n') {
                        self.bump()?;
                    }
                }
                [b'/', b'*', ..] if hcl => {
                    self.at += 2;
                    while !self.rest().starts_with("*/") {
                        if self.bump()?.is_none() {
                            return Err(self.refuse(start, "expected `*/` to end this comment"));
                        }
                    }
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self, start: usize) -> Scanned<Token> {
        let inside = |ch: char| is_letter(ch) || ch.is_numeric() || matches!(ch, '-' | '.');
        while self.peek().is_some_and(inside) {
            self.bump()?;
        }
        match (&self.source[start..self.at], self.form) {
            ("true", _) => Ok(Token::Flag(true)),
            ("false", _) => Ok(Token::Flag(false)),
            ("null", Form::Json) => Ok(Token::Null),
            (word, Form::Hcl) => Ok(Token::Word(word.to_owned())),
            (word, Form::Json) => {
                let problem = format!("expected a value, found the bare word {word:.40}");
                Err(self.refuse(start, problem))
            }
        }
    }

    fn string(&mut self) -> Scanned<String> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        // Inside `${…}` of HCL quotes and newlines are text, and escapes stay as written.
        let mut braces = 0_usize;
        loop {
            let here = self.at;
            match self.bump()? {
                None => return Err(self.unended(start)),
                Some('\n') if braces == 0 => return Err(self.unended(start)),
                Some('"') if braces == 0 => return Ok(value),
                Some('\\') => {
                    let meant = self.escape(here)?;
                    if braces == 0 {
                        value.push(meant);
                    } else {
                        value.push_str(&self.source[here..self.at]);
                    }
                }
                Some('$') if braces == 0 && self.form == Form::Hcl && self.peek() == Some('{') => {
                    self.at += 1;
                    braces = 1;
                    value.push_str("${");
                }
                Some(ch) => {
                    match ch {
                        '{' if braces > 0 => braces += 1,
                        '}' if braces > 0 => braces -= 1,
                        _ => {}
                    }
                    value.push(ch);
                }
            }
        }
    }

    fn unended(&self, start: usize) -> Refused {
        self.refuse(start, "expected `\"` to end this string on the same line")
    }

    /// The character meant by the escape whose backslash is at `start`.
    fn escape(&mut self, start: usize) -> Scanned<char> {
        let digits = |scanner: &mut Self, from: usize, count: usize, radix: u32| {
            let digits = scanner.source.get(from..from + count)?;
            if !digits.chars().all(|digit| digit.is_digit(radix)) {
                return None;
            }
            scanner.at = from + count;
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)
        };
        let meant = match self.bump()? {
            Some('a') => Some('\u{7}'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('v') => Some('\u{b}'),
            Some(same @ ('\\' | '"')) => Some(same),
            // Bytes beyond ASCII would be half a character.
            Some('0'..='7') => digits(self, start + 1, 3, 8).filter(char::is_ascii),
            Some('x') => digits(self, start + 2, 2, 16).filter(char::is_ascii),
            Some('u') => digits(self, start + 2, 4, 16),
            Some('U') => digits(self, start + 2, 8, 16),
            Some(_) | None => None,
        };
        meant.ok_or_else(|| {
            let known = r#"expected one of \a \b \f \n \r \t \v \\ \" \NNN \xNN \uNNNN \UNNNNNNNN"#;
            self.refuse(start, format!("{known}, for a valid character"))
        })
    }

    fn number(&mut self) -> Scanned<Number> {
        let start = self.at;
        self.at += usize::from(self.rest().starts_with('-'));
        let digits_at = self.at;
        let mut real = false;
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            self.skip(|ch| ch.is_ascii_hexdigit());
        } else {
            self.skip(|ch| ch.is_ascii_digit());
            if self.rest().starts_with('.') {
                real = true;
                self.at += 1;
                self.skip(|ch| ch.is_ascii_digit());
            }
            if self.rest().starts_with(['e', 'E']) {
                real = true;
                self.at += 1;
                self.at += usize::from(self.rest().starts_with(['+', '-']));
                self.skip(|ch| ch.is_ascii_digit());
            }
        }
        let text = &self.source[start..self.at];
        let zero_led =
            self.source[digits_at..self.at].starts_with('0') && self.at > digits_at + 1 && !real;
        let number = match (real, self.form) {
            (true, _) => real_number(text),
            (false, Form::Json) if zero_led => None,
            (false, _) => whole_number(text),
        };
        number.ok_or_else(|| self.refuse(start, "expected a number of at most 64 bits"))
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        while let Some(ch) = self.peek().filter(|ch| wanted(*ch)) {
            self.at += ch.len_utf8();
        }
    }

    /// `<<EOF` and lines up to one that holds just `EOF`, or `<<-EOF` with indented lines.
    fn heredoc(&mut self) -> Scanned<String> {
        let start = self.at;
        let Some(opening) = self.rest().strip_prefix("<<") else {
            return Err(self.refuse(start, "expected `<<` and the word that ends the heredoc"));
        };
        let (anchor, body) = opening.split_once('\n').unwrap_or((opening, ""));
        let (indented, word) = match anchor.strip_prefix('-') {
            Some(word) => (true, word),
            None => (false, anchor),
        };
        if word.is_empty() || !word.chars().all(|ch| is_letter(ch) || ch.is_numeric()) {
            return Err(self.refuse(start, "expected a word alone behind `<<`"));
        }
        // The server's scanner wants the last line as long as the anchor, its `-` included.
        let ends = |line: &str| {
            line.trim_start_matches(['\t', ' ', '\u{b}', '\u{c}']) == word
                && line.len() >= anchor.len()
        };
        let mut length = 0;
        loop {
            let Some((line, _)) = body[length..].split_once('\n') else {
                let problem = format!("expected a line {word:.40} to end this heredoc");
                return Err(self.refuse(start, problem));
            };
            if ends(line) {
                let margin = &line[..line.len() - word.len()];
                let content = &body[..length];
                self.refuse_reserved(start, content)?;
                self.at += "<<".len() + anchor.len() + 1 + length + line.len() + 1;
                return Ok(if indented {
                    without_margin(content, margin)
                } else {
                    format!("{content}{margin}")
                });
            }
            length += line.len() + 1;
        }
    }

    fn refuse_reserved(&self, start: usize, content: &str) -> Scanned<()> {
        if content.contains(['\0', '\u{e123}']) {
            return Err(self.refuse(start, "a heredoc may hold neither U+0000 nor U+E123"));
        }
        Ok(())
    }
}

/// The lines without `margin`, if all of them have it; else as they are.
fn without_margin(content: &str, margin: &str) -> String {
    content
        .split_terminator('\n')
        .map(|line| line.strip_prefix(margin))
        .collect::<Option<Vec<_>>>()
        .map_or_else(
            || content.to_owned(),
            |lines| lines.iter().flat_map(|line| [line, "\n"]).collect(),
        )
}

fn is_letter(ch: char) -> bool {
    ch == '_' || ch.is_alphabetic()
}

fn real_number(text: &str) -> Option<Number> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Number::Real(value))
}

/// Decimal, `0x` hexadecimal or `0` octal.
fn whole_number(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.strip_prefix("0x") {
        Some(hexadecimal) => (16, hexadecimal),
        None if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        None => (10, lower.as_str()),
    };
    let value = i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()?;
    Some(Number::Whole {
        value,
        text: text.to_owned(),
    })
}
