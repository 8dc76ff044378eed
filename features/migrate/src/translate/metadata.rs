//! The metadata of an object at the destination.

use std::collections::BTreeMap;

use api::migrate::names::{MIGRATION_ID, RUN};
use serde_json::{Value, json};

use super::{Document, RunMarker};

/// Name, namespace, labels and annotations.
///
/// All other metadata belongs to the server or names objects of the source cluster.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    name: String,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    pub(super) fn new(name: &str, namespace: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }

    /// With the labels and annotations of `source` whose keys are not `is_dropped`.
    pub(super) fn with_user_keys<K>(
        mut self,
        source: &Document<K>,
        is_dropped: fn(&str) -> bool,
    ) -> Self {
        self.annotations = texts(source.field("/metadata/annotations"));
        self.annotations.retain(|key, _| !is_dropped(key));
        for (key, value) in texts(source.field("/metadata/labels")) {
            if !is_dropped(&key) {
                self.label(&key, &value);
            }
        }
        self
    }

    /// With the marker of the run.
    pub(super) fn with_marker(mut self, run: Option<RunMarker<'_>>) -> Self {
        if let Some(run) = run {
            self.annotate(RUN, run.run_id);
            self.annotate(MIGRATION_ID, run.migration_id);
        }
        self
    }

    /// Sets a label; a value that no label may have becomes an annotation of the same key.
    pub(super) fn label(&mut self, key: &str, value: &str) {
        let target = if is_label_value(value) {
            &mut self.labels
        } else {
            &mut self.annotations
        };
        target.insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        self.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// Changes the value of the annotation `key`, if there is one.
    pub(super) fn change_annotation(&mut self, key: &str, changed: impl Fn(&str) -> String) {
        if let Some(value) = self.annotations.get_mut(key) {
            *value = changed(value);
        }
    }

    /// As JSON, without empty maps: the server drops them.
    pub(super) fn into_value(self) -> Value {
        let Self {
            name,
            namespace,
            labels,
            annotations,
        } = self;
        let mut value = json!({ "name": name });
        if let Some(namespace) = namespace {
            value["namespace"] = namespace.into();
        }
        for (field, map) in [("labels", labels), ("annotations", annotations)] {
            if !map.is_empty() {
                value[field] = json!(map);
            }
        }
        value
    }
}

fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Whether the API server accepts `value` as the value of a label.
fn is_label_value(value: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    bytes.len() <= 63
        && is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::empty("", true)]
    #[case::plain("pvc-0_a.B", true)]
    #[case::just_fits(&"a".repeat(63), true)]
    #[case::too_long(&"a".repeat(64), false)]
    #[case::a_dash_at_the_end("a-", false)]
    #[case::a_dot_in_front(".a", false)]
    #[case::a_slash("a/b", false)]
    #[case::not_ascii("ä", false)]
    fn a_value_that_is_no_label_becomes_an_annotation(#[case] value: &str, #[case] is_label: bool) {
        let mut metadata = Metadata::new("a", None);
        metadata.label("k", value);
        let made = metadata.into_value();
        let (expected, other) = if is_label {
            ("labels", "annotations")
        } else {
            ("annotations", "labels")
        };
        assert_eq!(made[expected]["k"], value);
        assert!(made.get(other).is_none());
    }
}
