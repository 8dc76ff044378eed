//! The JSON form of the language.

use super::{Entry, Form, Key, MAX_DEPTH, Value, scan::Scanner, scan::Token};
use crate::language::Refused;

/// The root's entries, in the shape HCL would have given them.
pub(super) fn entries(source: &str) -> Result<Vec<Entry>, Refused> {
    let mut reader = Reader {
        scanner: Scanner::new(source, Form::Json),
    };
    let (start, first) = reader.scanner.token()?;
    if first != Token::Sign('{') {
        return Err(reader.expected(start, "`{`", &first));
    }
    let entries = reader.object(1)?;
    match reader.scanner.token()? {
        (_, Token::End) => Ok(flat(entries)),
        (at, token) => Err(reader.expected(at, "the end of the text", &token)),
    }
}

struct Reader<'a> {
    scanner: Scanner<'a>,
}

impl Reader<'_> {
    fn expected(&self, at: usize, what: &str, found: &Token) -> Refused {
        let problem = format!("expected {what}, found {}", found.name());
        self.scanner.refuse(at, problem)
    }

    /// What follows a `{`.
    fn object(&mut self, depth: usize) -> Result<Vec<Entry>, Refused> {
        let mut entries = Vec::new();
        loop {
            let key = match self.scanner.token()? {
                (_, Token::Sign('}')) => return Ok(entries),
                (at, Token::Text(text)) => Key::new(&self.scanner, text, at)?,
                (at, token) => return Err(self.expected(at, "a key in quotes or `}`", &token)),
            };
            match self.scanner.token()? {
                (_, Token::Sign(':')) => {}
                (at, token) => return Err(self.expected(at, "`:`", &token)),
            }
            let (at, token) = self.scanner.token()?;
            let value = match token {
                // The server reads null as an empty string.
                Token::Null => Value::Text(String::new()),
                Token::Flag(flag) => Value::Flag(flag),
                token => self.value(at, token, depth)?,
            };
            entries.push(Entry {
                keys: vec![key],
                value,
            });
            match self.scanner.token()? {
                (_, Token::Sign('}')) => return Ok(entries),
                (_, Token::Sign(',')) => {}
                (at, token) => return Err(self.expected(at, "`,` or `}`", &token)),
            }
        }
    }

    /// What follows a `[`.
    fn list(&mut self, depth: usize) -> Result<Vec<Value>, Refused> {
        let mut values = Vec::new();
        loop {
            match self.scanner.token()? {
                (_, Token::Sign(']')) => return Ok(values),
                (at, Token::Flag(_) | Token::Null | Token::Sign('[')) => {
                    let problem = "Vault drops booleans, nulls and lists from JSON lists; \
                                   write this policy as HCL";
                    return Err(self.scanner.refuse(at, problem));
                }
                (at, token) => values.push(self.value(at, token, depth)?),
            }
            match self.scanner.token()? {
                (_, Token::Sign(']')) => return Ok(values),
                (_, Token::Sign(',')) => {}
                (at, token) => return Err(self.expected(at, "`,` or `]`", &token)),
            }
        }
    }

    fn value(&mut self, at: usize, token: Token, depth: usize) -> Result<Value, Refused> {
        match token {
            Token::Sign('{' | '[') if depth == MAX_DEPTH => {
                let problem = format!("nested deeper than {MAX_DEPTH} levels");
                Err(self.scanner.refuse(at, problem))
            }
            Token::Text(text) => Ok(Value::Text(text)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Sign('{') => Ok(Value::Object(self.object(depth + 1)?)),
            Token::Sign('[') => Ok(Value::List(self.list(depth + 1)?)),
            token => Err(self.expected(at, "a value", &token)),
        }
    }
}

/// Objects of nothing but objects, and lists of them, are read as labelled blocks: `{"path":
/// {"a": {…}}}` says what `path "a" {…}` says.
fn flat(entries: Vec<Entry>) -> Vec<Entry> {
    let mut flattened = Vec::with_capacity(entries.len());
    for entry in entries {
        flatten(entry, &mut flattened);
    }
    flattened
}

fn flatten(entry: Entry, into: &mut Vec<Entry>) {
    let Entry { keys, value } = entry;
    match value {
        Value::Object(children)
            if !children.is_empty()
                && children
                    .iter()
                    .all(|child| matches!(child.value, Value::Object(_))) =>
        {
            for child in children {
                let keys = keys.iter().cloned().chain(child.keys).collect();
                let value = child.value;
                flatten(Entry { keys, value }, into);
            }
        }
        Value::List(values)
            if !values.is_empty()
                && values.iter().all(|value| matches!(value, Value::Object(_))) =>
        {
            for value in values {
                let keys = keys.clone();
                flatten(Entry { keys, value }, into);
            }
        }
        value => into.push(Entry {
            keys,
            value: inner_flat(value),
        }),
    }
}

fn inner_flat(value: Value) -> Value {
    match value {
        Value::Object(entries) => Value::Object(flat(entries)),
        Value::List(values) => Value::List(values.into_iter().map(inner_flat).collect()),
        Value::Text(_) | Value::Number(_) | Value::Flag(_) => value,
    }
}
