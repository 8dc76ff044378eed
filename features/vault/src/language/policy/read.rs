//! From the tree to the canonical form, refusing what Vault refuses.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{CAPABILITIES, Constant, DENY, Parameters, PathRules, Policy, constant::merge, ttl};
use crate::language::{
    Refused,
    hcl::{Entry, Key, Number, Tree, Value},
};

/// What may stand in a path block and is no [`PathRules::others`].
const KEYS: [&str; 9] = [
    "comment",
    "policy",
    "capabilities",
    "allowed_parameters",
    "denied_parameters",
    "required_parameters",
    "min_wrapping_ttl",
    "max_wrapping_ttl",
    "subscribe_event_types",
];

/// Why, still without the place.
type Problem = String;

pub(super) fn policy(tree: &Tree) -> Result<Policy, Refused> {
    let mut policy = Policy::default();
    for entry in &tree.entries {
        let key = entry.key();
        let refuse = |problem| Refused::at(&tree.source, key.span.start, problem);
        match &*key.text {
            "name" if policy.name.is_some() => return Err(refuse("name is set twice".to_owned())),
            "name" => policy.name = Some(one_text(entry).map_err(refuse)?),
            "path" => {
                let path = path(entry.keys.get(1)).map_err(refuse)?;
                let block = block(tree, entry)?;
                policy.paths.entry(path).or_default().push(block);
            }
            other => {
                let problem = format!("expected `path` or `name`, found {other:.80}");
                return Err(refuse(problem));
            }
        }
    }
    for blocks in policy.paths.values_mut() {
        settle(blocks);
    }
    Ok(policy)
}

/// The path as Vault uses it. Vault takes a block without a label for the path `path`, which hardly
/// anybody means.
fn path(label: Option<&Key>) -> Result<String, Problem> {
    let label = &*label
        .ok_or("path: expected a label, as in `path \"a/b\" {`")?
        .text;
    if !templates_are_balanced(label) {
        return Err(format!("path {label:.80}: `{{{{` and `}}}}` do not pair"));
    }
    let path = label.strip_prefix('/').unwrap_or(label);
    if path.contains("+*") {
        return Err(format!("path {path:.80}: `+*` is forbidden"));
    }
    Ok(path.to_owned())
}

/// Every `{{` is followed by one `}}` before the next.
fn templates_are_balanced(path: &str) -> bool {
    let mut parts = path.split("{{");
    let before = parts.next().unwrap_or_default();
    !before.contains("}}") && parts.all(|part| part.split("}}").count() == 2)
}

/// Merges what has capabilities only; a `deny` leaves nothing else.
fn settle(blocks: &mut Vec<PathRules>) {
    if let Some(deny) = blocks.iter().position(PathRules::is_pure_deny) {
        blocks.swap(0, deny);
        blocks.truncate(1);
        return;
    }
    let (bare, mut settled): (Vec<_>, Vec<_>) = std::mem::take(blocks)
        .into_iter()
        .partition(PathRules::has_only_capabilities);
    let merged = bare.into_iter().reduce(|mut merged, block| {
        merged.capabilities.extend(block.capabilities);
        merged
    });
    settled.extend(merged);
    settled.sort();
    settled.dedup();
    *blocks = settled;
}

/// What stands in a path block, before Vault's own rules are applied.
#[derive(Default)]
struct Draft {
    rules: PathRules,
    capabilities: Vec<String>,
    policy: String,
    min_wrapping_ttl: Option<Value>,
    max_wrapping_ttl: Option<Value>,
}

fn block(tree: &Tree, entry: &Entry) -> Result<PathRules, Refused> {
    let refuse = |key: &Key, problem| Refused::at(&tree.source, key.span.start, problem);
    let Value::Object(entries) = &entry.value else {
        return Err(refuse(entry.key(), "path: expected `{`".to_owned()));
    };
    if let Some(second) = entry.keys.get(2) {
        return Err(refuse(second, "path takes one label".to_owned()));
    }
    let mut draft = Draft::default();
    let mut seen = BTreeSet::new();
    for inner in entries {
        let key = inner.key();
        let known = KEYS.contains(&&*key.text);
        if known && !seen.insert(&*key.text) {
            return Err(refuse(key, format!("{} is set twice", key.text)));
        }
        draft.take(inner).map_err(|problem| refuse(key, problem))?;
    }
    draft
        .finish()
        .map_err(|problem| refuse(entry.key(), problem))
}

impl Draft {
    fn take(&mut self, entry: &Entry) -> Result<(), Problem> {
        let rules = &mut self.rules;
        match &*entry.key().text {
            "comment" => {}
            "policy" => self.policy = one_text(entry)?,
            "capabilities" => self.capabilities = texts(entry)?,
            "allowed_parameters" => rules.allowed_parameters = parameters(entry)?,
            "denied_parameters" => rules.denied_parameters = parameters(entry)?,
            "required_parameters" => {
                let names = texts(entry)?;
                rules.required_parameters = names.iter().map(|name| name.to_lowercase()).collect();
            }
            "min_wrapping_ttl" => self.min_wrapping_ttl = Some(unlabelled(entry)?.clone()),
            "max_wrapping_ttl" => self.max_wrapping_ttl = Some(unlabelled(entry)?.clone()),
            "subscribe_event_types" => {
                rules.subscribe_event_types = texts(entry)?.into_iter().collect();
            }
            // Vault knows its keys by their case and finds their values without it.
            key if KEYS.iter().any(|known| key.eq_ignore_ascii_case(known)) => {
                return Err(format!("{key}: write it in lower case"));
            }
            _ => {
                let (key, value) = Constant::labelled(entry).map_err(twice)?;
                merge(&mut rules.others, key, value).map_err(twice)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<PathRules, Problem> {
        match self.policy.as_str() {
            "" => {}
            "deny" => self.capabilities = vec![DENY.to_owned()],
            old => {
                let granted: &[&str] = match old {
                    "read" => &["read", "list"],
                    "write" => &["create", "read", "update", "delete", "list"],
                    "sudo" => &["create", "read", "update", "delete", "list", "sudo"],
                    _ => {
                        return Err(format!(
                            "policy: expected deny, read, write or sudo, found {old:.40}"
                        ));
                    }
                };
                let granted = granted.iter().map(|capability| (*capability).to_owned());
                self.capabilities.extend(granted);
            }
        }
        for capability in self.capabilities {
            if capability == DENY {
                return Ok(PathRules {
                    capabilities: BTreeSet::from([capability]),
                    ..PathRules::default()
                });
            }
            if !CAPABILITIES.contains(&capability.as_str()) {
                let known = CAPABILITIES.join(", ");
                return Err(format!("capability {capability:.40} is none of {known}"));
            }
            self.rules.capabilities.insert(capability);
        }
        self.rules.min_wrapping_ttl = time("min_wrapping_ttl", self.min_wrapping_ttl)?;
        self.rules.max_wrapping_ttl = time("max_wrapping_ttl", self.max_wrapping_ttl)?;
        match (self.rules.min_wrapping_ttl, self.rules.max_wrapping_ttl) {
            (Some(min), Some(max)) if max < min => {
                Err("max_wrapping_ttl is less than min_wrapping_ttl".to_owned())
            }
            _ => Ok(self.rules),
        }
    }
}

fn twice(key: String) -> Problem {
    format!("{key:.80} is set twice")
}

fn unlabelled(entry: &Entry) -> Result<&Value, Problem> {
    if entry.keys.len() > 1 {
        return Err(format!("{} takes no label", entry.key().text));
    }
    Ok(&entry.value)
}

/// A string, or a number as it is written: Vault takes both.
fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) | Value::Number(Number::Whole { text, .. }) => Some(text),
        Value::Number(Number::Real(_)) | Value::Flag(_) | Value::List(_) | Value::Object(_) => None,
    }
}

fn one_text(entry: &Entry) -> Result<String, Problem> {
    text(unlabelled(entry)?)
        .map(str::to_owned)
        .ok_or_else(|| format!("{}: expected a string", entry.key().text))
}

fn texts(entry: &Entry) -> Result<Vec<String>, Problem> {
    let strings = match unlabelled(entry)? {
        Value::List(values) => values
            .iter()
            .map(|value| text(value).map(str::to_owned))
            .collect(),
        Value::Text(_) | Value::Number(_) | Value::Flag(_) | Value::Object(_) => None,
    };
    strings.ok_or_else(|| format!("{}: expected a list of strings", entry.key().text))
}

fn parameters(entry: &Entry) -> Result<Parameters, Problem> {
    let key = &entry.key().text;
    let Value::Object(entries) = unlabelled(entry)? else {
        return Err(format!("{key}: expected an object of lists"));
    };
    let mut parameters = BTreeMap::new();
    for inner in entries {
        let name = inner.key().text.to_lowercase();
        let (1, Value::List(values)) = (inner.keys.len(), &inner.value) else {
            return Err(format!("{key}: expected a list for {name:.80}"));
        };
        let values: Result<_, _> = values.iter().map(Constant::new).collect();
        if parameters
            .insert(name.clone(), values.map_err(twice)?)
            .is_some()
        {
            return Err(format!(
                "{key}: {name:.80} is set twice; case does not count"
            ));
        }
    }
    Ok(parameters)
}

/// A time; zero is none.
fn time(key: &str, value: Option<Value>) -> Result<Option<Duration>, Problem> {
    let time = match value {
        None => return Ok(None),
        Some(Value::Text(text)) => ttl::duration(&text),
        Some(Value::Number(Number::Whole { value, .. })) => ttl::whole_seconds(value),
        // Vault cuts the fraction off; a cast saturates, and what is out of range is refused.
        #[expect(clippy::cast_possible_truncation)]
        Some(Value::Number(Number::Real(value))) => ttl::whole_seconds(value as i64),
        Some(Value::Flag(_) | Value::List(_) | Value::Object(_)) => None,
    };
    time.map(|time| Some(time).filter(|time| !time.is_zero()))
        .ok_or_else(|| format!("{key}: expected seconds or a duration such as \"90s\""))
}
