//! The requests, in EC2's variant of the query protocol. Compared with those of botocore.

use super::{NewSnapshot, Tags};
use crate::Operation;
use crate::wire::Form;

/// Of the API.
const VERSION: &str = "2016-11-15";
/// The entries of a page; EC2 accepts no more for volumes.
const PAGE: &str = "500";

/// A filter with more values is refused by EC2.
pub(crate) const LARGEST_FILTER: usize = 200;

/// Selects what a list has: entries with one of the values.
///
/// # When not to use it
/// Without a value: the list would have everything in the region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    name: String,
    /// Without wildcards.
    values: Vec<String>,
}

impl Filter {
    /// The volumes of these ids.
    pub(crate) fn volumes<V: AsRef<str>>(ids: &[V]) -> Self {
        Self::new("volume-id", ids)
    }

    /// The volumes that are attached to one of these instances.
    pub(crate) fn instances<V: AsRef<str>>(ids: &[V]) -> Self {
        Self::new("attachment.instance-id", ids)
    }

    /// What has this tag.
    pub(crate) fn tag(key: &str, value: &str) -> Self {
        Self::new(&format!("tag:{key}"), &[value])
    }

    fn new<V: AsRef<str>>(name: &str, values: &[V]) -> Self {
        let values = values.iter().map(|value| literal(value.as_ref()));
        Self {
            name: name.to_owned(),
            values: values.collect(),
        }
    }
}

/// A value that selects this text alone: `*` and `?` are wildcards in filters.
fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\");
    escaped.replace('*', "\\*").replace('?', "\\?")
}

/// A page of a list, from `next` on.
pub(crate) fn list(operation: Operation, filters: &[Filter], next: Option<&str>) -> Form {
    let mut form = Form::new(operation.name(), VERSION);
    if operation == Operation::DescribeSnapshots {
        // Without it the list has the public snapshots of all accounts too.
        form = form.flat_list("Owner", ["self"]);
    }
    for (n, filter) in (1..).zip(filters) {
        form = form
            .text(format!("Filter.{n}.Name"), &filter.name)
            .flat_list(&format!("Filter.{n}.Value"), &filter.values);
    }
    form = form.text("MaxResults", PAGE);
    match next {
        Some(next) => form.text("NextToken", next),
        None => form,
    }
}

pub(crate) fn create_snapshot(snapshot: &NewSnapshot) -> Form {
    let form = Form::new("CreateSnapshot", VERSION)
        .text("VolumeId", &snapshot.volume)
        .text("Description", &snapshot.description);
    if snapshot.tags.is_empty() {
        return form;
    }
    form.text("TagSpecification.1.ResourceType", "snapshot")
        .structures("TagSpecification.1.Tag", pairs(&snapshot.tags))
}

pub(crate) fn create_tags(resource: &str, tags: &Tags) -> Form {
    Form::new("CreateTags", VERSION)
        .flat_list("ResourceId", [resource])
        .structures("Tag", pairs(tags))
}

/// Without a key EC2 deletes all tags, so there must be one.
pub(crate) fn delete_tags<V: AsRef<str>>(resource: &str, keys: &[V]) -> Form {
    // Without a value the tag is deleted whatever its value is.
    let keys = keys.iter();
    let keys = keys.map(|key| vec![("Key", key.as_ref().to_owned())]);
    Form::new("DeleteTags", VERSION)
        .flat_list("ResourceId", [resource])
        .structures("Tag", keys)
}

/// The same call as a dry run: EC2 only checks whether we may make it.
pub(crate) fn dry_run(form: Form) -> Form {
    form.text("DryRun", "true")
}

fn pairs(tags: &Tags) -> impl Iterator<Item = Vec<(&'static str, String)>> {
    tags.iter()
        .map(|(key, value)| vec![("Key", key.clone()), ("Value", value.clone())])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("vol-1", "vol-1")]
    #[case::star("a*", "a\\*")]
    #[case::question_mark("a?b", "a\\?b")]
    #[case::backslash("a\\*", "a\\\\\\*")]
    fn a_filter_has_no_wildcards(#[case] text: &str, #[case] value: &str) {
        assert_eq!(Filter::tag("k", text).values, [value]);
    }
}
