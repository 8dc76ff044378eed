//! The policy text that is written to Vault, and the marker at its head.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use super::{
    Refused, hcl,
    policy::{Policy, seconds},
    quoted, quoted_list,
};

/// The template for the object's namespace.
pub const NAMESPACE: &str = "{{namespace}}";
/// The template for the object's name.
pub const NAME: &str = "{{name}}";
/// Who writes: the first line of every marker says so.
pub const SENTINEL: &str = "vault-access-operator";
/// The longest text of a policy's `rawHCL`.
pub const MAX_RAW_BYTES: usize = 64 << 10;

/// Whose policy it is: the marker, written as the first lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The login mount, if there is one.
    pub auth_mount: Option<String>,
    /// The cluster's name or `uid:…`, where the mount alone does not tell clusters apart.
    pub cluster: Option<String>,
    /// `namespace/name`, or `name` of a cluster-wide object.
    pub resource: String,
    /// The object's kind.
    pub kind: String,
}

/// A marker as found in a text; anything but the sentinel may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    /// The login mount.
    pub auth_mount: Option<String>,
    /// The cluster's name or `uid:…`.
    pub cluster: Option<String>,
    /// `namespace/name` or `name`.
    pub resource: Option<String>,
    /// The object's kind.
    pub kind: Option<String>,
}

/// What the templates [`NAMESPACE`] and [`NAME`] stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a> {
    /// Empty for cluster-wide objects.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

impl Names<'_> {
    /// `path` with both templates replaced; other templates are Vault's and stay.
    pub fn fill(&self, path: &str) -> String {
        path.replace(NAMESPACE, self.namespace)
            .replace(NAME, self.name)
    }
}

/// One rule of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The path, with templates.
    pub path: String,
    /// In the order they are printed.
    pub capabilities: Vec<String>,
    /// Values by parameter. The list form of the spec is the parameter `*`.
    pub allowed_parameters: BTreeMap<String, Vec<String>>,
    /// Values by parameter, likewise.
    pub denied_parameters: BTreeMap<String, Vec<String>>,
    /// Names of parameters.
    pub required_parameters: Vec<String>,
    /// The shortest life of a wrapped answer.
    pub min_wrapping_ttl: Option<Duration>,
    /// The longest one.
    pub max_wrapping_ttl: Option<Duration>,
    /// Events that may be subscribed to.
    pub subscribe_event_types: Vec<String>,
}

/// The text of a policy given by rules.
pub fn from_rules(header: &Header, rules: &[Rule], names: Names<'_>) -> String {
    let blocks: Vec<String> = rules.iter().map(|rule| block(rule, names)).collect();
    format!("{}{}", marker_lines(header), blocks.join("\n"))
}

/// The text of a policy given as HCL; templates are replaced in its path labels only.
///
/// # Errors
/// When `raw` is no policy, when it is JSON (which cannot stand below a marker), or when it is
/// longer than [`MAX_RAW_BYTES`].
pub fn from_raw(header: &Header, raw: &str, names: Names<'_>) -> Result<String, Refused> {
    let body = filled_raw(raw, names)?;
    Ok(format!("{}{body}", marker_lines(header)))
}

fn filled_raw(raw: &str, names: Names<'_>) -> Result<String, Refused> {
    if raw.len() > MAX_RAW_BYTES {
        let problem = format!("rawHCL has {} bytes, more than {MAX_RAW_BYTES}", raw.len());
        return Err(Refused::at(raw, 0, problem));
    }
    let tree = hcl::parse(raw)?;
    if tree.form == hcl::Form::Json {
        let problem = "rawHCL is JSON, which cannot carry the owner's marker; write it as HCL";
        return Err(Refused::at(raw, 0, problem));
    }
    let mut filled = String::with_capacity(tree.source.len());
    let mut copied = 0;
    let paths = tree
        .entries
        .iter()
        .filter(|entry| &*entry.key().text == "path");
    for label in paths.filter_map(|entry| entry.keys.get(1)) {
        let text = names.fill(&label.text);
        if text != *label.text {
            filled.push_str(&tree.source[copied..label.span.start]);
            filled.push_str(&quoted(&text));
            copied = label.span.end;
        }
    }
    filled.push_str(&tree.source[copied..]);
    // What is written is what was judged: a policy, also after the labels changed.
    Policy::parse(&filled)?;
    Ok(filled)
}

fn marker_lines(header: &Header) -> String {
    let Header {
        auth_mount,
        cluster,
        resource,
        kind,
    } = header;
    let keys = [
        ("managed-by", Some(SENTINEL)),
        ("auth-mount", auth_mount.as_deref()),
        ("cluster", cluster.as_deref()),
        ("k8s-resource", Some(resource)),
        ("k8s-kind", Some(kind)),
    ];
    let mut lines = String::new();
    for (key, value) in keys {
        if let Some(value) = value {
            // A line break would end the comment, and the rest would be policy.
            let value = value.replace(char::is_control, " ");
            line(&mut lines, format_args!("# {key}: {value}"));
        }
    }
    lines.push('\n');
    lines
}

fn block(rule: &Rule, names: Names<'_>) -> String {
    let mut text = String::new();
    let path = quoted(&names.fill(&rule.path));
    let capabilities = quoted_list(&rule.capabilities);
    line(&mut text, format_args!("path {path} {{"));
    line(&mut text, format_args!("  capabilities = {capabilities}"));
    let limits = limits(rule);
    if !limits.is_empty() {
        text.push('\n');
        text.push_str(&limits);
    }
    text.push_str("}\n");
    text
}

/// All of a rule but path and capabilities.
fn limits(rule: &Rule) -> String {
    let Rule {
        path: _,
        capabilities: _,
        allowed_parameters,
        denied_parameters,
        required_parameters,
        min_wrapping_ttl,
        max_wrapping_ttl,
        subscribe_event_types,
    } = rule;
    let mut text = String::new();
    parameters(&mut text, "allowed_parameters", allowed_parameters);
    parameters(&mut text, "denied_parameters", denied_parameters);
    list(&mut text, "required_parameters", required_parameters);
    time(&mut text, "min_wrapping_ttl", *min_wrapping_ttl);
    time(&mut text, "max_wrapping_ttl", *max_wrapping_ttl);
    list(&mut text, "subscribe_event_types", subscribe_event_types);
    text
}

fn parameters(text: &mut String, key: &str, parameters: &BTreeMap<String, Vec<String>>) {
    if parameters.is_empty() {
        return;
    }
    line(text, format_args!("  {key} = {{"));
    for (name, values) in parameters {
        let (name, values) = (quoted(name), quoted_list(values));
        line(text, format_args!("    {name} = {values}"));
    }
    line(text, format_args!("  }}"));
}

fn list(text: &mut String, key: &str, values: &[String]) {
    if !values.is_empty() {
        line(text, format_args!("  {key} = {}", quoted_list(values)));
    }
}

fn time(text: &mut String, key: &str, time: Option<Duration>) {
    if let Some(time) = time {
        line(text, format_args!("  {key} = \"{}\"", seconds(time)));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes all text");
}

/// The marker at the head of `text`, if it is one of ours or of another cluster's operator.
///
/// Only the lines before the first that does not start with `#` count, and of a key its first.
pub fn parse_header(text: &str) -> Option<Marker> {
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    for (key, value) in lines.filter_map(|line| line.split_once(':')) {
        found.entry(key.trim()).or_insert(value.trim());
    }
    let value = |key| found.get(key).map(|value| (*value).to_owned());
    (found.get("managed-by") == Some(&SENTINEL)).then(|| Marker {
        auth_mount: value("auth-mount"),
        cluster: value("cluster"),
        resource: value("k8s-resource"),
        kind: value("k8s-kind"),
    })
}

#[cfg(test)]
mod tests;
