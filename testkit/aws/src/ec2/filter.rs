//! Filters of Describe calls.

use super::error::invalid;
use super::inventory::{Instance, Snapshot, Tags};
use super::volume::{Attachment, Volume};
use crate::protocol::ApiError;

/// A filter: one of the values must match. `*` stands for any characters, `?` for one.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    name: String,
    values: Vec<String>,
}

/// A resource that filters can find.
pub(super) trait Filtered {
    /// The names of its filters beside those of tags.
    const FILTERS: &'static [&'static str];

    fn tags(&self) -> &Tags;

    /// The values that it has under the name of a filter.
    fn values(&self, name: &str) -> Vec<String>;
}

impl Filter {
    pub(super) fn new<V: Into<String>>(name: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self {
            name: name.to_owned(),
            values: values.into_iter().map(Into::into).collect(),
        }
    }

    /// How many values it has.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    fn matches<T: Filtered>(&self, one: &T) -> bool {
        let is = match self.name.strip_prefix("tag:") {
            Some(key) => one.tags().get(key).cloned().into_iter().collect(),
            None if self.name == "tag-key" => one.tags().keys().cloned().collect(),
            None => one.values(&self.name),
        };
        let any = |wanted: &String| is.iter().any(|is| fits(wanted, is));
        self.values.iter().any(any)
    }
}

/// Whether all filters match.
pub(super) fn all_match<T: Filtered>(filters: &[Filter], one: &T) -> bool {
    filters.iter().all(|filter| filter.matches(one))
}

/// Refuses filters that the resource does not have.
pub(super) fn checked<T: Filtered>(filters: &[Filter]) -> Result<(), ApiError> {
    let is_valid = |filter: &&Filter| {
        let name = filter.name.as_str();
        name.starts_with("tag:") || name == "tag-key" || T::FILTERS.contains(&name)
    };
    match filters.iter().find(|filter| !is_valid(filter)) {
        None => Ok(()),
        Some(Filter { name, .. }) => Err(invalid(&format!("The filter '{name}' is invalid"))),
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| fits(rest.as_str(), &text[at..]))
        }
        Some(first) => {
            let (literal, rest) = match (first, rest.clone().next()) {
                ('\\', Some(escaped)) => (Some(escaped), &rest.as_str()[escaped.len_utf8()..]),
                ('?', _) => (None, rest.as_str()),
                _ => (Some(first), rest.as_str()),
            };
            let mut left = text.chars();
            let is = left.next();
            is.is_some_and(|is| literal.is_none_or(|literal| literal == is))
                && fits(rest, left.as_str())
        }
    }
}

impl Filtered for Volume {
    const FILTERS: &'static [&'static str] = &[
        "attachment.delete-on-termination",
        "attachment.device",
        "attachment.instance-id",
        "attachment.status",
        "availability-zone",
        "encrypted",
        "multi-attach-enabled",
        "size",
        "snapshot-id",
        "status",
        "volume-id",
        "volume-type",
    ];

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn values(&self, name: &str) -> Vec<String> {
        let attached = |value: fn(&Attachment) -> String| -> Vec<String> {
            self.attachments.iter().map(value).collect()
        };
        let one = match name {
            "attachment.delete-on-termination" => {
                return attached(|one| one.delete_on_termination.to_string());
            }
            "attachment.device" => return attached(|one| one.device.clone()),
            "attachment.instance-id" => return attached(|one| one.instance.clone()),
            "attachment.status" => return attached(|one| one.state().to_owned()),
            "availability-zone" => self.zone.clone(),
            "encrypted" => self.kms_key_id.is_some().to_string(),
            "multi-attach-enabled" => self.multi_attach.to_string(),
            "size" => self.size.to_string(),
            "snapshot-id" => self.snapshot_id.clone().unwrap_or_default(),
            "status" => self.state().to_owned(),
            "volume-id" => self.id.clone(),
            "volume-type" => self.kind.clone(),
            _ => return Vec::new(),
        };
        vec![one]
    }
}

impl Filtered for Snapshot {
    const FILTERS: &'static [&'static str] = &[
        "description",
        "encrypted",
        "owner-id",
        "snapshot-id",
        "volume-id",
        "volume-size",
    ];

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn values(&self, name: &str) -> Vec<String> {
        let one = match name {
            "description" => self.description.clone(),
            "encrypted" => self.kms_key.is_some().to_string(),
            "owner-id" => self.account.clone(),
            "snapshot-id" => self.id.clone(),
            "volume-id" => self.volume.clone(),
            "volume-size" => self.size.to_string(),
            _ => return Vec::new(),
        };
        vec![one]
    }
}

impl Filtered for Instance {
    const FILTERS: &'static [&'static str] = &[
        "availability-zone",
        "instance-id",
        "instance-state-name",
        "instance-type",
    ];

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn values(&self, name: &str) -> Vec<String> {
        let one = match name {
            "availability-zone" => &self.zone,
            "instance-id" => &self.id,
            "instance-state-name" => &self.state,
            "instance-type" => &self.kind,
            _ => return Vec::new(),
        };
        vec![one.clone()]
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::fits;

    #[rstest]
    #[case::itself("vol-1", "vol-1", true)]
    #[case::case_matters("A", "a", false)]
    #[case::star("vol-*", "vol-12", true)]
    #[case::star_in_the_middle("a*c", "abbc", true)]
    #[case::star_with_another_end("a*c", "abb", false)]
    #[case::one_character("vol-?", "vol-1", true)]
    #[case::one_character_of_none("vol-?", "vol-", false)]
    #[case::escaped_star("a\\*", "a*", true)]
    #[case::escaped_star_is_no_pattern("a\\*", "ab", false)]
    fn a_filter_value_matches(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(fits(pattern, text), expected);
    }
}
