//! Specs as they are stored: one that an older definition let in may break a rule of today.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{GoDuration, StatefulSetMigrationSpec};

/// The most characters of a key of a tag in EC2.
pub(super) const TAG_KEY_CHARS: usize = 128;
/// How keys of tags begin that belong to AWS or to us.
pub(super) const RESERVED_TAGS: [&str; 3] = ["aws:", "pontoon.io/", "migration.aqua.io/"];

/// A StatefulSetMigration as a controller reads it: a spec that breaks a rule is an error of this object alone.
///
/// Status and metadata are not here; the engine reads them apart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StoredMigration {
    /// The spec, or the rule that it breaks.
    #[serde(default = "missing", deserialize_with = "checked")]
    pub spec: Result<StatefulSetMigrationSpec, InvalidSpec>,
}

/// A stored spec breaks a rule. It prints as a sentence that names the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSpec(String);

impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSpec {}

fn missing() -> Result<StatefulSetMigrationSpec, InvalidSpec> {
    Err(InvalidSpec("spec is missing".into()))
}

fn checked<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Result<StatefulSetMigrationSpec, InvalidSpec>, D::Error> {
    let stored = Value::deserialize(source)?;
    let spec = read::<StatefulSetMigrationSpec>(&stored);
    Ok(spec.and_then(|spec| spec.check().map(|()| spec)))
}

fn read<T: DeserializeOwned>(stored: &Value) -> Result<T, InvalidSpec> {
    T::deserialize(stored).map_err(|error| InvalidSpec(format!("spec cannot be read: {error}")))
}

impl StatefulSetMigrationSpec {
    /// Checks what the definition of the kind checks of a spec by itself.
    ///
    /// # Errors
    /// The rules that it breaks, each with its field.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        let broken = self.rules().into_iter().filter(|rule| !rule.is_met);
        let broken: Vec<_> = broken
            .map(|Rule { field, need, .. }| format!("spec.{field} must be {need}"))
            .collect();
        if broken.is_empty() {
            return Ok(());
        }
        Err(InvalidSpec(broken.join("; ")))
    }

    fn rules(&self) -> Vec<Rule> {
        let mut rules = self.rules_of_names();
        rules.extend(self.rules_of_durations());
        rules.extend(self.rules_of_bounds());
        rules
    }

    fn rules_of_names(&self) -> Vec<Rule> {
        let label = |field, name| Rule::new(is_label(name), field, "a DNS label");
        let subdomain = |field, name| Rule::new(is_subdomain(name), field, "a DNS subdomain");
        let key = |field, name| Rule::new(is_key(name), field, "a key of a Secret");
        let (source, dest) = (&self.source_cluster, &self.dest_cluster);
        vec![
            label("sourceNamespace", &self.source_namespace),
            label("destNamespace", &self.dest_namespace),
            subdomain("statefulSetName", &self.stateful_set_name),
            subdomain("sourceCluster.kubeConfigSecret", &source.kube_config_secret),
            subdomain("destCluster.kubeConfigSecret", &dest.kube_config_secret),
            key("sourceCluster.kubeConfigKey", &source.kube_config_key),
            key("destCluster.kubeConfigKey", &dest.kube_config_key),
        ]
    }

    fn rules_of_durations(&self) -> Vec<Rule> {
        let fields = [
            ("volumeDetachTimeout", Some(&self.volume_detach_timeout)),
            ("podReadyTimeout", Some(&self.pod_ready_timeout)),
            (
                "podTerminationTimeout",
                self.pod_termination_timeout.as_ref(),
            ),
            ("attachTimeout", Some(&self.attach_timeout)),
            ("sourceCleanup.soak", Some(&self.source_cleanup.soak)),
        ];
        let rule = |(field, duration): (_, Option<&GoDuration>)| {
            Rule::new(
                duration.is_none_or(GoDuration::is_valid),
                field,
                "a duration such as 5m",
            )
        };
        fields.into_iter().map(rule).collect()
    }

    fn rules_of_bounds(&self) -> Vec<Rule> {
        let classes = &self.storage_class_mapping;
        let tags = &self.snapshots.tags;
        let fence = self.fence.clone().unwrap_or_default();
        let fence = (fence.source_cluster_name, fence.dest_cluster_name);
        let is_fence = match &fence {
            (None, None) => true,
            (Some(source), Some(dest)) => [source, dest].iter().all(|name| is_within(name, 1, 100)),
            (Some(_), None) | (None, Some(_)) => false,
        };
        vec![
            Rule::new(
                classes.len() <= 64 && classes.values().all(|class| is_within(class, 0, 253)),
                "storageClassMapping",
                "at most 64 names of at most 253 characters",
            ),
            Rule::new(self.retry >= 0, "retry", "at least 0"),
            Rule::new(
                self.ordinal_limit.is_none_or(|limit| limit >= 0),
                "ordinalLimit",
                "at least 0",
            ),
            Rule::new(
                self.acknowledge.len() <= 64
                    && self.acknowledge.iter().all(|id| is_acknowledged(id)),
                "acknowledge",
                "at most 64 texts of the form <id> or <id>/<ordinal>",
            ),
            Rule::new(
                tags.len() <= 20 && tags.iter().all(|(key, value)| is_tag(key, value)),
                "snapshots.tags",
                "at most 20 tags that EC2 takes and that are not reserved",
            ),
            Rule::new(
                is_fence,
                "fence",
                "both names of 1 to 100 characters, or neither",
            ),
        ]
    }
}

/// A rule, and whether the spec keeps it.
struct Rule {
    is_met: bool,
    field: &'static str,
    need: &'static str,
}

impl Rule {
    fn new(is_met: bool, field: &'static str, need: &'static str) -> Self {
        Self {
            is_met,
            field,
            need,
        }
    }
}

/// Whether the text has so many characters, as the API server counts them.
fn is_within(text: &str, least: usize, most: usize) -> bool {
    (least..=most).contains(&text.chars().count())
}

fn is_label(text: &str) -> bool {
    is_within(text, 1, 63) && has_label_form(text)
}

fn is_subdomain(text: &str) -> bool {
    is_within(text, 1, 253) && text.split('.').all(has_label_form)
}

fn has_label_form(text: &str) -> bool {
    let is_outer = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|c| is_outer(*c))
        && bytes.last().is_some_and(|c| is_outer(*c))
        && bytes.iter().all(|c| is_outer(*c) || *c == b'-')
}

fn is_key(text: &str) -> bool {
    is_within(text, 0, 253)
        && text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || b"-._".contains(&c))
}

fn is_acknowledged(text: &str) -> bool {
    let (id, ordinal) = text.split_once('/').unwrap_or((text, "0"));
    text.len() <= 64
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.bytes().all(|c| c.is_ascii_alphanumeric())
        && !ordinal.is_empty()
        && ordinal.bytes().all(|c| c.is_ascii_digit())
}

fn is_tag(key: &str, value: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    is_within(key, 1, TAG_KEY_CHARS)
        && is_within(value, 0, 256)
        && !RESERVED_TAGS.iter().any(|start| lower.starts_with(start))
}
