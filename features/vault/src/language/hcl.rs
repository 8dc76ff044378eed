//! HCL 1, and its JSON form, as Vault reads them: from text to a tree.
//!
//! Bounds: [`MAX_BYTES`] ([`MAX_JSON_BYTES`] in JSON), [`MAX_DEPTH`] and [`MAX_KEY_BYTES`].

mod json;
mod scan;

use std::{collections::HashSet, ops::Range, sync::Arc};

use super::Refused;
use scan::{Scanner, Token};

/// The longest text that is read. What 500 rules print to fits in several times over.
pub const MAX_BYTES: usize = 1 << 20;
/// The longest JSON text: flattening it repeats keys.
pub const MAX_JSON_BYTES: usize = 256 << 10;
/// How deep objects, lists and labels may nest.
pub const MAX_DEPTH: usize = 32;
/// The longest key or label.
pub const MAX_KEY_BYTES: usize = 4096;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// HCL 1.
    Hcl,
    /// JSON: what starts with `{`.
    Json,
}

/// A text and what stands in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// The text, its lines ending in `\n`; spans point into it.
    pub source: String,
    /// How it is written.
    pub form: Form,
    /// Its entries in order.
    pub entries: Vec<Entry>,
}

/// `key = value` or `key "label" { … }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, and its labels behind it; never empty.
    pub keys: Vec<Key>,
    /// What it is set to.
    pub value: Value,
}

impl Entry {
    /// The key without its labels.
    pub fn key(&self) -> &Key {
        &self.keys[0]
    }
}

/// A key or label.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// What it says, unescaped.
    pub text: Arc<str>,
    /// Where it stands, quotes included.
    pub span: Range<usize>,
}

impl Key {
    /// The key that `scanner` has just read, from `start` on.
    fn new(scanner: &Scanner<'_>, text: String, start: usize) -> Result<Self, Refused> {
        if text.len() > MAX_KEY_BYTES {
            let problem = format!("a key or path of more than {MAX_KEY_BYTES} bytes");
            return Err(scanner.refuse(start, problem));
        }
        Ok(Self {
            text: text.into(),
            span: start..scanner.offset(),
        })
    }
}

/// What an entry is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string or heredoc; `${…}` is text.
    Text(String),
    /// A number.
    Number(Number),
    /// `true` or `false`.
    Flag(bool),
    /// `[ … ]`
    List(Vec<Value>),
    /// `{ … }`
    Object(Vec<Entry>),
}

/// A number of 64 bits.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// Without fraction or exponent.
    Whole {
        /// Its value.
        value: i64,
        /// As written: where Vault wants a string, it takes that.
        text: String,
    },
    /// With one.
    Real(f64),
}

/// Reads a text. It is taken for JSON if it starts with `{`.
pub fn parse(text: &str) -> Result<Tree, Refused> {
    let form = if text.trim_start().starts_with('{') {
        Form::Json
    } else {
        Form::Hcl
    };
    let limit = match form {
        Form::Hcl => MAX_BYTES,
        Form::Json => MAX_JSON_BYTES,
    };
    if text.len() > limit {
        let problem = format!("the policy has {} bytes, more than {limit}", text.len());
        return Err(Refused::at(text, 0, problem));
    }
    let source = text.replace("\r\n", "\n");
    let entries = match form {
        Form::Hcl => Parser::new(&source).root()?,
        Form::Json => json::entries(&source)?,
    };
    Ok(Tree {
        source,
        form,
        entries,
    })
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    peeked: Option<(usize, Token)>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            scanner: Scanner::new(source, Form::Hcl),
            peeked: None,
        }
    }

    fn token(&mut self) -> Result<(usize, Token), Refused> {
        match self.peeked.take() {
            Some(peeked) => Ok(peeked),
            None => self.scanner.token(),
        }
    }

    fn peek(&mut self) -> Result<&Token, Refused> {
        let token = self.token()?;
        Ok(&self.peeked.insert(token).1)
    }

    fn expected(&self, at: usize, what: &str, found: &Token) -> Refused {
        let problem = format!("expected {what}, found {}", found.name());
        self.scanner.refuse(at, problem)
    }

    fn too_deep(&self, at: usize) -> Refused {
        let problem = format!("nested deeper than {MAX_DEPTH} levels");
        self.scanner.refuse(at, problem)
    }

    fn root(&mut self) -> Result<Vec<Entry>, Refused> {
        self.entries(&Token::End, 0)
    }

    /// Entries up to and including `end`. Commas between them may be left out.
    fn entries(&mut self, end: &Token, depth: usize) -> Result<Vec<Entry>, Refused> {
        let mut entries = Vec::new();
        let mut set = HashSet::new();
        while self.peek()? != end {
            let (entry, assigned) = self.entry(depth)?;
            let key = entry.key();
            if assigned && !set.insert(Arc::clone(&key.text)) {
                let problem = format!("{:.80} is set twice", key.text);
                return Err(self.scanner.refuse(key.span.start, problem));
            }
            entries.push(entry);
            if self.peek()? == &Token::Sign(',') {
                self.token()?;
            }
        }
        self.token()?;
        Ok(entries)
    }

    /// The entry, and whether it is set by `=`.
    fn entry(&mut self, depth: usize) -> Result<(Entry, bool), Refused> {
        let mut keys = Vec::new();
        loop {
            let (at, token) = self.token()?;
            match token {
                // A label nests as an object would.
                Token::Word(_) | Token::Text(_) if depth + keys.len() > MAX_DEPTH => {
                    return Err(self.too_deep(at));
                }
                Token::Word(text) | Token::Text(text) => {
                    keys.push(Key::new(&self.scanner, text, at)?);
                }
                Token::Sign('=') if keys.len() == 1 => {
                    let (at, token) = self.token()?;
                    let value = self.value(at, token, depth)?;
                    return Ok((Entry { keys, value }, true));
                }
                Token::Sign('{') if !keys.is_empty() => {
                    let value = self.value(at, Token::Sign('{'), depth + keys.len() - 1)?;
                    return Ok((Entry { keys, value }, false));
                }
                token => {
                    let what = match keys.len() {
                        0 => "a key",
                        1 => "`=`, `{` or a label",
                        _ => "`{`",
                    };
                    return Err(self.expected(at, what, &token));
                }
            }
        }
    }

    fn value(&mut self, at: usize, token: Token, depth: usize) -> Result<Value, Refused> {
        match token {
            Token::Sign('{' | '[') if depth >= MAX_DEPTH => Err(self.too_deep(at)),
            Token::Text(text) | Token::Heredoc(text) => Ok(Value::Text(text)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Flag(flag) => Ok(Value::Flag(flag)),
            Token::Sign('{') => {
                let entries = self.entries(&Token::Sign('}'), depth + 1)?;
                Ok(Value::Object(entries))
            }
            Token::Sign('[') => Ok(Value::List(self.list(depth + 1)?)),
            token => Err(self.expected(at, "a value", &token)),
        }
    }

    /// What follows a `[`.
    fn list(&mut self, depth: usize) -> Result<Vec<Value>, Refused> {
        let mut values = Vec::new();
        loop {
            let (at, token) = self.token()?;
            if token == Token::Sign(']') {
                return Ok(values);
            }
            values.push(self.value(at, token, depth)?);
            match self.token()? {
                (_, Token::Sign(',')) => {}
                (_, Token::Sign(']')) => return Ok(values),
                (at, token) => return Err(self.expected(at, "`,` or `]`", &token)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
