//! Values that a policy only passes on.

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
};

use super::{Parameters, quoted};
use crate::language::hcl::{Entry, Number, Value};

/// A value that compares by what it says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    /// A string.
    Text(String),
    /// A number in its shortest decimal form.
    Number(String),
    /// `true` or `false`.
    Flag(bool),
    /// Values in order.
    List(Vec<Constant>),
    /// Values by key; labels are keys of inner objects.
    Object(BTreeMap<String, Constant>),
}

impl Constant {
    /// The constant, or the key that is set twice within it.
    pub(super) fn new(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::Number(Number::Whole { value, .. }) => Self::Number(value.to_string()),
            Value::Number(Number::Real(value)) => Self::Number(format!("{value:?}")),
            Value::Flag(flag) => Self::Flag(*flag),
            Value::List(values) => {
                Self::List(values.iter().map(Self::new).collect::<Result<_, _>>()?)
            }
            Value::Object(entries) => {
                let mut object = BTreeMap::new();
                for entry in entries {
                    let (key, value) = Self::labelled(entry)?;
                    merge(&mut object, key, value)?;
                }
                Self::Object(object)
            }
        })
    }

    /// The key of `entry`, and its value within an object for each label.
    pub(super) fn labelled(entry: &Entry) -> Result<(String, Self), String> {
        let mut value = Self::new(&entry.value)?;
        for label in entry.keys[1..].iter().rev() {
            value = Self::Object(BTreeMap::from([(label.text.to_string(), value)]));
        }
        Ok((entry.key().text.to_string(), value))
    }
}

/// Adds `value`; objects of the same key become one. A key set twice otherwise is the error.
pub(super) fn merge(
    object: &mut BTreeMap<String, Constant>,
    key: String,
    value: Constant,
) -> Result<(), String> {
    match object.entry(key) {
        btree_map::Entry::Vacant(free) => {
            free.insert(value);
            Ok(())
        }
        btree_map::Entry::Occupied(mut taken) => match (taken.get_mut(), value) {
            (Constant::Object(known), Constant::Object(more)) => more
                .into_iter()
                .try_for_each(|(key, value)| merge(known, key, value)),
            _ => Err(taken.key().clone()),
        },
    }
}

/// Parameters as an object of the policy language.
pub(super) fn parameters(parameters: &Parameters) -> impl fmt::Display {
    let lists = parameters.iter().map(|(name, values)| {
        (
            name.clone(),
            Constant::List(values.iter().cloned().collect()),
        )
    });
    Constant::Object(lists.collect())
}

/// As the policy language writes it, on one line.
impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Number(number) => f.write_str(number),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            Self::Object(values) if values.is_empty() => f.write_str("{}"),
            Self::Object(values) => {
                let values: Vec<String> = values
                    .iter()
                    .map(|(key, value)| format!("{} = {value}", quoted(key)))
                    .collect();
                write!(f, "{{ {} }}", values.join(", "))
            }
        }
    }
}
