//! Whose a name is, by the TXT records beside it.

use std::fmt;

use aws::route53::{txt_text, txt_value};
use kernel::{ClusterId, ObjectKey};

use super::known::Sight;
use super::record::{Content, Kind, RecordSet};

/// The object of a cluster that a name belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    cluster: String,
    object: String,
}

impl Owner {
    /// The object `key` of `cluster`.
    pub(crate) fn new(cluster: &ClusterId, key: &ObjectKey) -> Self {
        Self {
            cluster: cluster.to_string(),
            object: key.to_string(),
        }
    }

    /// The value of its mark: one text, in quoted strings of a length DNS can carry.
    pub(super) fn txt(&self) -> String {
        let Self { cluster, object } = self;
        txt_value(&format!(
            "heritage=pontoon,owner={cluster},resource={object}"
        ))
    }

    /// The owner a text names; `None` if it is no mark of Pontoon's.
    ///
    /// A mark that says more or less than ours, say of a later release, is still somebody's.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("heritage=pontoon")?;
        let named = rest
            .strip_prefix(",owner=")
            // The name of an object has no comma, that of a cluster may.
            .and_then(|rest| rest.rsplit_once(",resource="));
        let (cluster, object) = named.unwrap_or(("unknown", rest.trim_start_matches(',')));
        Some(Self {
            cluster: cluster.to_owned(),
            object: object.to_owned(),
        })
    }
}

/// The owner for people.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, object } = self;
        write!(f, "DistributionTenant {object} of cluster {cluster}")
    }
}

/// Whose a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder<'s> {
    /// Ours: this is our mark.
    Ours(&'s RecordSet),
    /// Another object's or cluster's: this is its mark.
    Pontoon(Owner, &'s RecordSet),
    /// External-dns has it, for the owner of this name.
    ExternalDns(String),
    /// Nobody's, and this is where our mark belongs.
    Unreadable(&'s RecordSet),
    /// Nobody's.
    Nobody,
}

/// Whose a name is whose mark has the name `mark`.
///
/// | TXT at `mark`                 | other TXT          | so           |
/// |-------------------------------|--------------------|--------------|
/// | another Pontoon's, among more |                    | Pontoon      |
/// | ours, among more              |                    | ours         |
/// | any other or none             | by external-dns    | external-dns |
/// | any other                     | any other or none  | unreadable   |
/// | none                          | any other or none  | nobody       |
pub(super) fn holder<'s>(sight: &'s Sight, mark: &str, us: &Owner) -> Holder<'s> {
    let there = sight
        .sets
        .iter()
        .find(|set| set.name == mark && set.kind == Kind::Txt);
    if let Some(set) = there {
        let owners: Vec<_> = texts(set).filter_map(|text| Owner::parse(&text)).collect();
        if let Some(other) = owners.iter().find(|owner| *owner != us) {
            return Holder::Pontoon(other.clone(), set);
        }
        if !owners.is_empty() {
            return Holder::Ours(set);
        }
    }
    let elsewhere = sight.sets.iter().filter(|set| set.kind == Kind::Txt);
    match (
        elsewhere
            .flat_map(texts)
            .find_map(|text| external_dns(&text)),
        there,
    ) {
        (Some(owner), _) => Holder::ExternalDns(owner),
        (None, Some(set)) => Holder::Unreadable(set),
        (None, None) => Holder::Nobody,
    }
}

/// The owner in `heritage=external-dns,external-dns/owner=<id>,external-dns/resource=<object>`.
fn external_dns(text: &str) -> Option<String> {
    let fields = || text.split(',').filter_map(|field| field.split_once('='));
    let value = |name: &str| {
        fields()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    };
    if value("heritage") != Some("external-dns") {
        return None;
    }
    let owner = value("external-dns/owner").unwrap_or("unknown");
    Some(match value("external-dns/resource") {
        Some(object) => format!("external-dns (owner {owner}, {object})"),
        None => format!("external-dns (owner {owner})"),
    })
}

fn texts(set: &RecordSet) -> impl Iterator<Item = String> {
    let values = match &set.content {
        Content::Values { values, .. } => values.as_slice(),
        Content::Alias { .. } => &[],
    };
    values.iter().map(|value| txt_text(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::dns::tests::txt;

    const MARK: &str = "_pontoon-owner.a.example.com";
    const OURS: &str = "\"heritage=pontoon,owner=c1,resource=web/acme\"";
    const OTHERS: &str = "\"heritage=pontoon,owner=c1,resource=web/other\"";
    const EXTERNAL: &str = "\"heritage=external-dns,external-dns/owner=default\"";

    fn us() -> Owner {
        Owner {
            cluster: "c1".to_owned(),
            object: "web/acme".to_owned(),
        }
    }

    #[test]
    fn a_mark_names_cluster_and_object() {
        assert_eq!(us().txt(), OURS);
        let cluster = ClusterId::new("c1").unwrap();
        assert_eq!(
            Owner::new(&cluster, &ObjectKey::namespaced("web", "acme")),
            us()
        );
    }

    #[rstest] //                       at the mark's name      elsewhere                    holder
    #[case::our_mark(                  &[OURS],                &[],                         "ours")]
    #[case::in_two_strings(            &["\"heritage=pontoon,owner=c1,res\" \"ource=web/acme\""], &[], "ours")]
    #[case::beside_other_text(         &["\"x\"", OURS],       &[("a.example.com", EXTERNAL)], "ours")]
    #[case::of_another_object(         &[OTHERS],              &[],                         "DistributionTenant web/other of cluster c1")]
    #[case::of_another_beside_ours(    &[OURS, OTHERS],        &[],                         "DistributionTenant web/other of cluster c1")]
    #[case::of_another_cluster(        &["\"heritage=pontoon,owner=c2,resource=web/acme\""], &[], "DistributionTenant web/acme of cluster c2")]
    #[case::of_a_later_release(        &["\"heritage=pontoon-2,x\""], &[],                  "DistributionTenant -2,x of cluster unknown")]
    #[case::external_dns_at_the_name(  &[],                    &[("a.example.com", EXTERNAL)], "external-dns (owner default)")]
    #[case::external_dns_by_type(      &[],                    &[("cname-a.example.com", EXTERNAL)], "external-dns (owner default)")]
    #[case::external_dns_with_object(  &[],                    &[("a-a.example.com", "\"heritage=external-dns,external-dns/owner=x,external-dns/resource=ingress/a/b\"")], "external-dns (owner x, ingress/a/b)")]
    #[case::other_text_there(          &["\"v=spf1\""],        &[],                         "unreadable")]
    #[case::other_text_elsewhere(      &[],                    &[("a.example.com", "\"v=spf1\"")], "nobody")]
    #[case::our_text_elsewhere(        &[],                    &[("a.example.com", OURS)],  "nobody")]
    #[case::nothing(                   &[],                    &[],                         "nobody")]
    #[rustfmt::skip]
    fn a_name_has_a_holder(#[case] mark: &[&str], #[case] others: &[(&str, &str)], #[case] holder: &str) {
        let mut sets: Vec<_> = others.iter().map(|(name, value)| txt(name, &[value])).collect();
        if !mark.is_empty() {
            sets.push(txt(MARK, mark));
        }
        let told = match super::holder(&Sight { sets }, MARK, &us()) {
            Holder::Ours(_) => "ours".to_owned(),
            Holder::Pontoon(owner, _) => owner.to_string(),
            Holder::ExternalDns(owner) => owner,
            Holder::Unreadable(_) => "unreadable".to_owned(),
            Holder::Nobody => "nobody".to_owned(),
        };
        assert_eq!(told, holder);
    }

    #[test]
    fn a_long_mark_comes_in_several_strings() {
        let owner = Owner {
            cluster: "c".repeat(63),
            object: format!("{}/{}", "n".repeat(63), "x".repeat(253)),
        };
        let value = owner.txt();
        let strings: Vec<_> = value.split("\" \"").collect();
        assert_eq!(strings.len(), 2);
        assert!(strings.iter().all(|one| one.trim_matches('"').len() <= 255));
        assert_eq!(Owner::parse(&txt_text(&value)), Some(owner));
    }

    proptest! {
        #[test]
        fn a_mark_is_read_as_it_was_written(cluster in "[!-~]{1,63}", object in "[a-z.-]{1,9}/[a-z.-]{1,250}") {
            let owner = Owner { cluster, object };
            prop_assert_eq!(Owner::parse(&txt_text(&owner.txt())), Some(owner));
        }
    }
}
