//! Parameters of a request, and the forms that they must have.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::{bad, invalid, missing};
use super::filter::Filter;
use super::inventory::Tags;
use crate::protocol::ApiError;
use crate::wire::Request;

/// The longest list in one answer.
pub(super) const LONGEST_PAGE: usize = 1000;
const SHORTEST_PAGE: usize = 5;
const TAGS: usize = 50;

/// The parameters of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Params<'a>(pub(super) &'a Request);

/// Which resources a Describe call is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Selection {
    pub(super) ids: Vec<String>,
    pub(super) filters: Vec<Filter>,
    pub(super) page: Page,
}

/// A part of a list.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// The first id.
    pub(super) start: String,
    pub(super) limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            start: String::new(),
            limit: usize::MAX,
        }
    }
}

impl Page {
    /// The elements of this page of a list in the order of its ids, and the token of the next page.
    pub(super) fn of<T>(
        &self,
        list: impl Iterator<Item = T>,
        id: impl Fn(&T) -> &str,
    ) -> (Vec<T>, Option<String>) {
        let mut list = list.skip_while(|one| id(one) < self.start.as_str());
        let page: Vec<_> = list.by_ref().take(self.limit).collect();
        (
            page,
            list.next().map(|next| URL_SAFE_NO_PAD.encode(id(&next))),
        )
    }
}

/// A tag that DeleteTags names: any value, or only this one.
pub(super) type TagToDelete = (String, Option<String>);

impl<'a> Params<'a> {
    /// A parameter; an empty one counts as absent.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.0.param(name).filter(|value| !value.is_empty())
    }

    pub(super) fn needed(self, name: &str) -> Result<&'a str, ApiError> {
        self.text(name).ok_or_else(|| missing(name))
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(invalid(&format!("Invalid value '{text}' for {name}"))),
        }
    }

    pub(super) fn number(self, name: &str) -> Result<Option<u64>, ApiError> {
        let read = |text: &str| {
            text.parse()
                .map_err(|_| invalid(&format!("Invalid value '{text}' for {name}")))
        };
        self.text(name).map(read).transpose()
    }

    /// A list: `<name>.1`, `<name>.2`, …
    pub(super) fn list(self, name: &str) -> Vec<&'a str> {
        let numbered = (1..).map_while(|n| self.0.param(&format!("{name}.{n}")));
        numbered.collect()
    }

    /// The tags of a list: `<name>.1.Key`, `<name>.1.Value`, …
    pub(super) fn tags(self, name: &str) -> Result<Tags, ApiError> {
        let mut tags = Tags::new();
        for (key, value) in self.tag_list(name) {
            checked_tag(&key, value.as_deref().unwrap_or_default())?;
            if tags.contains_key(&key) {
                return Err(invalid(&format!("Duplicate tag key '{key}' specified.")));
            }
            tags.insert(key, value.unwrap_or_default());
        }
        Ok(tags)
    }

    /// The same as written: a value may be absent.
    pub(super) fn tag_list(self, name: &str) -> Vec<TagToDelete> {
        let one = |n: usize| {
            let key = self.0.param(&format!("{name}.{n}.Key"))?;
            let value = self.0.param(&format!("{name}.{n}.Value"));
            Some((key.to_owned(), value.map(str::to_owned)))
        };
        (1..).map_while(one).collect()
    }

    /// The tags with which a resource of this type is created.
    pub(super) fn created_with(self, kind: &str) -> Result<Tags, ApiError> {
        let mut tags = Tags::new();
        for n in 1.. {
            let name = format!("TagSpecification.{n}");
            let Some(of) = self.0.param(&format!("{name}.ResourceType")) else {
                break;
            };
            if of != kind {
                let message =
                    format!("'{of}' is not a valid taggable resource type for this operation.");
                return Err(invalid(&message));
            }
            tags.extend(self.tags(&format!("{name}.Tag"))?);
        }
        checked_count(&tags)?;
        Ok(tags)
    }

    fn filters(self) -> Result<Vec<Filter>, ApiError> {
        let one = |n: usize| {
            let name = self.0.param(&format!("Filter.{n}.Name"))?;
            let values = self.list(&format!("Filter.{n}.Value"));
            Some(Filter::new(name, values))
        };
        let filters: Vec<_> = (1..).map_while(one).collect();
        let values: usize = filters.iter().map(Filter::len).sum();
        if values > 200 {
            let message = "The maximum number of filter values specified on a single call is 200";
            return Err(bad("FilterLimitExceeded", message));
        }
        Ok(filters)
    }

    /// Ids, filters and page of a Describe call. `list` is what AWS calls the ids in messages.
    pub(super) fn selection(
        self,
        ids: &str,
        list: &str,
        longest: usize,
    ) -> Result<Selection, ApiError> {
        let ids: Vec<_> = self.list(ids).into_iter().map(str::to_owned).collect();
        let limit = self.number("MaxResults")?;
        if limit.is_some() && !ids.is_empty() {
            let message =
                format!("The parameter {list} cannot be used with the parameter maxResults");
            return Err(bad("InvalidParameterCombination", &message));
        }
        let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if let Some(small) = limit.filter(|limit| *limit < SHORTEST_PAGE) {
            return Err(invalid(&format!(
                "Value ( {small} ) for parameter maxResults is invalid. Expecting a value greater than {SHORTEST_PAGE}."
            )));
        }
        let start = self.text("NextToken").map(started_at).transpose()?;
        Ok(Selection {
            ids,
            filters: self.filters()?,
            page: Page {
                start: start.unwrap_or_default(),
                limit: limit.unwrap_or(longest).min(longest),
            },
        })
    }
}

fn started_at(token: &str) -> Result<String, ApiError> {
    let id = URL_SAFE_NO_PAD.decode(token).ok();
    id.and_then(|id| String::from_utf8(id).ok()).ok_or_else(|| {
        let message = "The specified pagination token is invalid or expired.";
        bad("InvalidPaginationToken", message)
    })
}

/// Refuses tags that AWS would not take.
pub(super) fn checked_tag(key: &str, value: &str) -> Result<(), ApiError> {
    if key.is_empty() {
        return Err(invalid("Tag keys must not be empty."));
    }
    if key.starts_with("aws:") {
        let message = "Tag keys starting with 'aws:' are reserved for internal use";
        return Err(invalid(message));
    }
    if key.chars().count() > 128 {
        return Err(invalid(
            "Tag key exceeds the maximum length of 128 characters",
        ));
    }
    if value.chars().count() > 256 {
        return Err(invalid(
            "Tag value exceeds the maximum length of 256 characters",
        ));
    }
    Ok(())
}

/// Refuses more tags than a resource can have.
pub(super) fn checked_count(tags: &Tags) -> Result<(), ApiError> {
    if tags.len() <= TAGS {
        return Ok(());
    }
    let message = format!("The maximum number of tags of a resource is {TAGS}.");
    Err(bad("TagLimitExceeded", &message))
}

/// An id in the form of volumes. `name` is what AWS calls the parameter in messages.
pub(super) fn volume_id<'a>(id: &'a str, name: &str) -> Result<&'a str, ApiError> {
    if is_id(id, "vol-") {
        return Ok(id);
    }
    let message = format!("Value ({id}) for parameter {name} is invalid. Expected: 'vol-...'.");
    Err(invalid(&message))
}

/// An id in the form of snapshots.
pub(super) fn snapshot_id<'a>(id: &'a str, name: &str) -> Result<&'a str, ApiError> {
    if is_id(id, "snap-") {
        return Ok(id);
    }
    let message = format!("Value ({id}) for parameter {name} is invalid. Expected: 'snap-...'.");
    Err(invalid(&message))
}

/// An id in the form of instances.
pub(super) fn instance_id(id: &str) -> Result<&str, ApiError> {
    if is_id(id, "i-") {
        return Ok(id);
    }
    Err(bad(
        "InvalidInstanceID.Malformed",
        &format!("Invalid id: \"{id}\""),
    ))
}

/// Whether an id is the prefix and 8 or 17 hexadecimal digits.
pub(super) fn is_id(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|digits| {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        matches!(digits.len(), 8 | 17) && digits.bytes().all(is_hex)
    })
}
