//! Storage classes at the destination.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keys::LEGACY_CLASS;

/// `spec.storageClassMapping`: classes of the source and their names at the destination.
///
/// It renames only; the EBS type of a volume stays. A class without an entry keeps its name. The empty class
/// means that nothing is provisioned, so it is never renamed, and no class is renamed to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassMapping(BTreeMap<String, String>);

impl ClassMapping {
    /// The mapping with these entries.
    pub fn new(entries: BTreeMap<String, String>) -> Self {
        let is_name = |from: &String, to: &mut String| !from.is_empty() && !to.is_empty();
        let mut entries = entries;
        entries.retain(is_name);
        Self(entries)
    }

    /// The class at the destination.
    pub fn renamed<'a>(&'a self, class: &'a str) -> &'a str {
        self.0.get(class).map_or(class, String::as_str)
    }

    /// Renames `storageClassName` in the spec of a volume or claim. Unset stays unset.
    pub(super) fn rename_in_spec(&self, spec: &mut Map<String, Value>) {
        if let Some(Value::String(class)) = spec.get_mut("storageClassName") {
            *class = self.renamed(class).to_owned();
        }
    }

    /// Renames the class in the old annotation, in the metadata of a template.
    pub(super) fn rename_in_metadata(&self, metadata: &mut Value) {
        let annotation = metadata
            .get_mut("annotations")
            .and_then(|annotations| annotations.get_mut(LEGACY_CLASS));
        if let Some(Value::String(class)) = annotation {
            *class = self.renamed(class).to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn mapping(entries: &[(&str, &str)]) -> ClassMapping {
        let entries = entries.iter();
        let entries = entries.map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
        ClassMapping::new(entries.collect())
    }

    #[rstest]
    #[case::mapped_is_renamed("gp2", "gp3")]
    #[case::unmapped_passes("io1", "io1")]
    #[case::a_chain_is_one_step("gp3", "io2")]
    #[case::empty_stays_empty("", "")]
    #[case::empty_is_no_target("st1", "st1")]
    fn a_class_at_the_destination(#[case] source: &str, #[case] dest: &str) {
        let mapping = mapping(&[("gp2", "gp3"), ("gp3", "io2"), ("", "gp3"), ("st1", "")]);
        assert_eq!(mapping.renamed(source), dest);
    }

    #[rstest]
    #[case::mapped(json!({"storageClassName": "gp2"}), json!({"storageClassName": "gp3"}))]
    #[case::unset_stays_unset(json!({}), json!({}))]
    #[case::empty_stays_empty(json!({"storageClassName": ""}), json!({"storageClassName": ""}))]
    fn a_spec_with_a_class(#[case] mut spec: Value, #[case] expected: Value) {
        let mapping = mapping(&[("gp2", "gp3")]);
        mapping.rename_in_spec(spec.as_object_mut().unwrap());
        assert_eq!(spec, expected);
    }

    #[test]
    fn the_old_annotation_is_renamed() {
        let mut metadata = json!({"annotations": {LEGACY_CLASS: "gp2", "a": "gp2"}});
        mapping(&[("gp2", "gp3")]).rename_in_metadata(&mut metadata);
        assert_eq!(
            metadata,
            json!({"annotations": {LEGACY_CLASS: "gp3", "a": "gp2"}})
        );
    }
}
