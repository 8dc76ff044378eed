//! The fields of a [`Body`], by the words that messages and `status.drift` use.

use std::fmt::Write;

use api::tenants::names::DRIFT_VALUE_CHARS;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Body;

/// A field that is compared and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Field {
    Enabled,
    DistributionId,
    ConnectionGroupId,
    Domains,
    Parameters,
    WebAcl,
    Certificate,
    GeoRestrictions,
}

impl Field {
    pub(crate) const ALL: [Self; 8] = [
        Self::Enabled,
        Self::DistributionId,
        Self::ConnectionGroupId,
        Self::Domains,
        Self::Parameters,
        Self::WebAcl,
        Self::Certificate,
        Self::GeoRestrictions,
    ];

    /// Its name in messages and in `status.drift`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::DistributionId => "distributionId",
            Self::ConnectionGroupId => "connectionGroupId",
            Self::Domains => "domains",
            Self::Parameters => "parameters",
            Self::WebAcl => "webAcl",
            Self::Certificate => "certificate",
            Self::GeoRestrictions => "geoRestrictions",
        }
    }

    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.word() == word)
    }

    /// Makes `to` the same as `from` there.
    pub(crate) fn copy(self, from: &Body, to: &mut Body) {
        match self {
            Self::Enabled => to.enabled = from.enabled,
            Self::DistributionId => to.distribution_id.clone_from(&from.distribution_id),
            Self::ConnectionGroupId => {
                to.connection_group_id.clone_from(&from.connection_group_id);
            }
            Self::Domains => to.domains.clone_from(&from.domains),
            Self::Parameters => to.parameters.clone_from(&from.parameters),
            Self::WebAcl => to.web_acl.clone_from(&from.web_acl),
            Self::Certificate => to.certificate_arn.clone_from(&from.certificate_arn),
            Self::GeoRestrictions => to.geo_restrictions.clone_from(&from.geo_restrictions),
        }
    }

    /// What `body` has there. Only a group that nobody chose is null: what is absent elsewhere is
    /// an empty value, because that it is absent is our say, too.
    pub(crate) fn of(self, body: &Body) -> Value {
        match self {
            Self::Enabled => json!(body.enabled),
            Self::DistributionId => json!(body.distribution_id),
            Self::ConnectionGroupId => json!(body.connection_group_id),
            Self::Domains => json!(body.domains),
            Self::Parameters => {
                let pair = |(name, value): (&String, &String)| format!("{name}={value}");
                body.parameters.iter().map(pair).collect()
            }
            Self::WebAcl => body.web_acl.as_ref().map_or(json!(""), |acl| {
                let arn = acl.arn.iter().map(|arn| format!(" {arn}"));
                json!(acl.action.clone() + &arn.collect::<String>())
            }),
            Self::Certificate => json!(body.certificate_arn.as_deref().unwrap_or_default()),
            Self::GeoRestrictions => body.geo_restrictions.as_ref().map_or(json!(""), |geo| {
                let places: Vec<&str> = geo.locations.iter().map(String::as_str).collect();
                json!(format!("{} {}", geo.restriction_type, places.join(" ")).trim_end())
            }),
        }
    }
}

impl Body {
    /// All fields, by their words, for [`kernel::diff3`].
    pub(crate) fn compared(&self) -> Value {
        let fields = Field::ALL.into_iter();
        let fields = fields.map(|field| (field.word().to_owned(), field.of(self)));
        Value::Object(fields.collect())
    }
}

/// Two sides of a field as people read them, at most 256 characters each; none is nothing.
///
/// Of lists too long for that, only what the other side lacks. What is cut ends in a hash of the
/// whole, so that different values never look alike.
pub(crate) fn side_by_side(
    one: Option<&Value>,
    other: Option<&Value>,
) -> (Option<String>, Option<String>) {
    let whole = (text(one), text(other));
    let fits = |side: &Option<String>| side.as_ref().is_none_or(|side| is_short(side));
    if fits(&whole.0) && fits(&whole.1) {
        return whole;
    }
    let short = |side: Option<&Value>, against: Option<&Value>| {
        let text = text(lacking(side, against).as_ref());
        text.map(|text| cut(&text))
    };
    (short(one, other), short(other, one))
}

fn text(side: Option<&Value>) -> Option<String> {
    let text = match side? {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let elements: Vec<&str> = elements.iter().filter_map(Value::as_str).collect();
            elements.join(", ")
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => other.to_string(),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Of a list, the elements that `against` does not have; of all else, itself.
fn lacking(side: Option<&Value>, against: Option<&Value>) -> Option<Value> {
    match (side, against) {
        (Some(Value::Array(own)), Some(Value::Array(others))) => {
            let own = own.iter().filter(|one| !others.contains(one));
            Some(own.cloned().collect())
        }
        (side, _) => side.cloned(),
    }
}

fn is_short(text: &str) -> bool {
    text.chars().count() <= DRIFT_VALUE_CHARS
}

fn cut(text: &str) -> String {
    if is_short(text) {
        return text.to_owned();
    }
    let mut end = "… #".to_owned();
    for byte in Sha256::digest(text).iter().take(4) {
        write!(end, "{byte:02x}").expect("a String takes all text");
    }
    let room = DRIFT_VALUE_CHARS - end.chars().count();
    text.chars().take(room).collect::<String>() + &end
}
