//! Record sets as Route 53 keeps them, and how they compare with records of ours.

use std::fmt;

use api::tenants::{DnsRecord, RecordState, RecordType};

use super::{ZoneAccess, names};

/// The zone in which Route 53 looks for the names of CloudFront.
pub(crate) const CLOUDFRONT_ZONE: &str = "Z2FDTNDATAQYW2";
/// How long resolvers keep a mark. Always the same: Route 53 deletes by exact value, and the status
/// has no place for another one.
pub(crate) const MARK_TTL: i64 = 300;

/// All records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordSet {
    /// The name, as [`names::canonical`] gives it.
    pub(crate) name: String,
    /// The type.
    pub(crate) kind: Kind,
    /// What it says.
    pub(crate) content: Content,
    /// Whether it shares name and type with others by a routing policy (it has a set identifier).
    /// Such a set is never ours, and no simple record can take its place.
    pub(crate) routed: bool,
}

/// The type of a record set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One that says where a name leads.
    Pointer(RecordType),
    /// TXT.
    Txt,
    /// Any other, in DNS's word.
    Other(String),
}

impl Kind {
    /// The type DNS calls `word`.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "CNAME" => Self::Pointer(RecordType::Cname),
            "A" => Self::Pointer(RecordType::A),
            "AAAA" => Self::Pointer(RecordType::Aaaa),
            "TXT" => Self::Txt,
            other => Self::Other(other.to_owned()),
        }
    }

    /// DNS's word.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Pointer(kind) => kind.as_str(),
            Self::Txt => "TXT",
            Self::Other(word) => word,
        }
    }
}

/// What a record set says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Plain records.
    Values {
        /// How long resolvers keep them, in seconds.
        ttl: i64,
        /// The values, letter by letter as Route 53 has them.
        values: Vec<String>,
    },
    /// An alias of something in AWS.
    Alias {
        /// The zone of its target.
        zone: String,
        /// Its target.
        target: String,
        /// Whether the target's health counts.
        health: bool,
    },
}

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// What is done.
    pub(crate) action: Action,
    /// To this.
    pub(crate) set: RecordSet,
}

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Makes it; refused if it exists.
    Create,
    /// Makes it, over whatever is there of that type.
    Upsert,
    /// Deletes it; refused unless it is exactly so.
    Delete,
}

impl Change {
    pub(super) fn create(set: RecordSet) -> Self {
        let action = Action::Create;
        Self { action, set }
    }

    pub(super) fn upsert(set: RecordSet) -> Self {
        let action = Action::Upsert;
        Self { action, set }
    }

    pub(super) fn delete(set: RecordSet) -> Self {
        let action = Action::Delete;
        Self { action, set }
    }
}

/// How a live record set compares with a record of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// It is that record.
    Same,
    /// It leads to the same place and differs in the small print: ttl, health.
    SameTarget,
    /// It is something else.
    Other,
}

impl RecordSet {
    /// What is in the zone where `record` is.
    pub(crate) fn of(record: &DnsRecord) -> Self {
        let content = match record.kind {
            RecordType::Cname => Content::Values {
                ttl: record.ttl.unwrap_or(MARK_TTL),
                values: vec![record.target.clone()],
            },
            RecordType::A | RecordType::Aaaa => Content::Alias {
                zone: CLOUDFRONT_ZONE.to_owned(),
                target: record.target.clone(),
                health: false,
            },
        };
        Self {
            name: record.name.clone(),
            kind: Kind::Pointer(record.kind),
            content,
            routed: false,
        }
    }

    /// A TXT record set of one value.
    pub(super) fn txt(name: &str, value: String) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Txt,
            content: Content::Values {
                ttl: MARK_TTL,
                values: vec![value],
            },
            routed: false,
        }
    }

    /// Its type, if it says where its name leads.
    pub(super) fn pointer(&self) -> Option<RecordType> {
        match self.kind {
            Kind::Pointer(kind) => Some(kind),
            Kind::Txt | Kind::Other(_) => None,
        }
    }

    /// Its type, if another simple record can take its place.
    pub(super) fn replaceable(&self) -> Option<RecordType> {
        self.pointer().filter(|_| !self.routed)
    }

    /// The one name it leads to, in canonical form.
    pub(super) fn target(&self) -> Option<String> {
        match (&self.content, self.pointer()) {
            (Content::Alias { target, .. }, Some(_)) => Some(names::canonical(target)),
            (Content::Values { values, .. }, Some(RecordType::Cname)) => match values.as_slice() {
                [value] => Some(names::canonical(value)),
                [] | [_, _, ..] => None,
            },
            (Content::Values { .. }, Some(RecordType::A | RecordType::Aaaa) | None)
            | (Content::Alias { .. }, None) => None,
        }
    }

    /// How it compares with `record`.
    pub(super) fn likeness(&self, record: &DnsRecord) -> Likeness {
        let leads_there = self.target() == Some(names::canonical(&record.target));
        if self.replaceable() != Some(record.kind) || !leads_there {
            return Likeness::Other;
        }
        let same = match (&self.content, record.kind) {
            (Content::Values { ttl, .. }, RecordType::Cname) => Some(*ttl) == record.ttl,
            (Content::Alias { zone, health, .. }, RecordType::A | RecordType::Aaaa) => {
                zone == CLOUDFRONT_ZONE && !health
            }
            (Content::Alias { .. }, RecordType::Cname)
            | (Content::Values { .. }, RecordType::A | RecordType::Aaaa) => {
                return Likeness::Other;
            }
        };
        if same {
            Likeness::Same
        } else {
            Likeness::SameTarget
        }
    }

    /// What status says of it once it is in a zone; `None` if it leads to no single name.
    pub(super) fn recorded(&self, place: &ZoneAccess, state: RecordState) -> Option<DnsRecord> {
        let (ttl, target) = match &self.content {
            Content::Values { ttl, values } => (Some(*ttl), values.first()?.clone()),
            Content::Alias { target, .. } => (None, names::canonical(target)),
        };
        Some(DnsRecord {
            zone_id: place.zone.clone(),
            name: self.name.clone(),
            kind: self.pointer()?,
            ttl,
            target,
            role_arn: place.login.role_arn.clone(),
            external_id: place.login.external_id.clone(),
            state,
            change_id: None,
        })
    }
}

/// Its values, for people.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values { values, .. } => f.write_str(&values.join(", ")),
            Self::Alias { target, .. } => write!(f, "alias of {}", names::canonical(target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::dns::tests::{alias, cname, foreign};

    #[rstest]
    #[case::itself(foreign("CNAME", &["d0.cloudfront.net"]), Likeness::Same)]
    #[case::in_other_spelling(foreign("CNAME", &["D0.cloudfront.NET."]), Likeness::Same)]
    #[case::of_two_values(foreign("CNAME", &["d0.cloudfront.net", "x.net"]), Likeness::Other)]
    #[case::elsewhere(foreign("CNAME", &["x.net"]), Likeness::Other)]
    #[case::of_another_type(foreign("A", &["d0.cloudfront.net"]), Likeness::Other)]
    #[case::kept_longer(
        RecordSet::of(&cname("a.example.com", 600, "d0.cloudfront.net")),
        Likeness::SameTarget
    )]
    #[case::one_of_several(
        RecordSet { routed: true, ..foreign("CNAME", &["d0.cloudfront.net"]) },
        Likeness::Other
    )]
    fn a_set_is_compared_with_our_cname(#[case] live: RecordSet, #[case] likeness: Likeness) {
        let ours = cname("a.example.com", 300, "d0.cloudfront.net");
        assert_eq!(live.likeness(&ours), likeness);
    }

    #[rstest]
    #[case::itself(CLOUDFRONT_ZONE, "d0.cloudfront.net.", false, Likeness::Same)]
    #[case::with_health(CLOUDFRONT_ZONE, "d0.cloudfront.net", true, Likeness::SameTarget)]
    #[case::elsewhere(CLOUDFRONT_ZONE, "d1.cloudfront.net", false, Likeness::Other)]
    fn a_set_is_compared_with_our_alias(
        #[case] zone: &str,
        #[case] target: &str,
        #[case] health: bool,
        #[case] likeness: Likeness,
    ) {
        let live = RecordSet {
            content: Content::Alias {
                zone: zone.to_owned(),
                target: target.to_owned(),
                health,
            },
            ..foreign("A", &[])
        };
        let ours = alias(RecordType::A, "a.example.com", "d0.cloudfront.net");
        assert_eq!(live.likeness(&ours), likeness);
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        for record in [
            cname("a.example.com", 300, "d0.cloudfront.net"),
            alias(RecordType::Aaaa, "a.example.com", "d0.cloudfront.net"),
        ] {
            let place = ZoneAccess {
                zone: record.zone_id.clone(),
                login: crate::dns::login_of(&record),
            };
            let back = RecordSet::of(&record).recorded(&place, record.state);
            assert_eq!(back, Some(record));
        }
    }
}
