//! A change batch: read whole, checked whole, and carried out whole or not at all.

use std::collections::BTreeMap;

use super::name;
use super::record::{Data, RecordSet, invalid_batch, invalid_input};
use super::zones::Zone;
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::xml::read::Node;

/// The zone CloudFront's names lie in.
const CLOUDFRONT_ZONE: &str = "Z2FDTNDATAQYW2";
const MOST_RECORDS: usize = 1000;
const MOST_CHARACTERS: usize = 32_000;

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Delete,
    Upsert,
}

/// One change of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) action: Action,
    pub(crate) record: RecordSet,
}

/// What a batch leaves: by key, the record set put there, or `None` where it was deleted.
pub(crate) type Edits = BTreeMap<String, Option<RecordSet>>;

/// Reads `ChangeBatch`: the comment and the changes.
pub(crate) fn read(root: Node<'_, '_>) -> Result<(Option<String>, Vec<Change>), ApiError> {
    root.only(&["ChangeBatch"])?;
    let batch = root
        .child("ChangeBatch")
        .ok_or_else(|| invalid_input("ChangeBatch is required."))?;
    batch.only(&["Comment", "Changes"])?;
    let changes = batch
        .list("Changes", &["Change"])?
        .filter(|changes| !changes.is_empty())
        .ok_or_else(|| invalid_input("A ChangeBatch needs at least one Change."))?;
    let changes: Result<Vec<_>, _> = changes.into_iter().map(change).collect();
    Ok((batch.leaf("Comment"), changes?))
}

fn change(node: Node<'_, '_>) -> Result<Change, ApiError> {
    node.only(&["Action", "ResourceRecordSet"])?;
    let sent = node.needed("Action")?;
    let action = match sent.as_str() {
        "CREATE" => Action::Create,
        "DELETE" => Action::Delete,
        "UPSERT" => Action::Upsert,
        other => return Err(invalid_input(&format!("Invalid action '{other}'."))),
    };
    let record = node
        .child("ResourceRecordSet")
        .ok_or_else(|| invalid_input("ResourceRecordSet is required."))?;
    let record = RecordSet::read(record, &sent)?;
    Ok(Change { action, record })
}

/// What `changes` would leave in `zone`, or all that is wrong with them.
pub(crate) fn edits(zone: &Zone, changes: &[Change]) -> Result<Edits, ApiError> {
    weighed(changes)?;
    let mut draft = Draft {
        zone,
        edits: Edits::new(),
    };
    let mut wrong = Vec::new();
    let mut before: BTreeMap<String, Vec<Action>> = BTreeMap::new();
    for change in changes {
        let earlier = before.entry(change.record.key()).or_default();
        let told = match (earlier.as_slice(), change.action) {
            ([], _) | ([Action::Delete], Action::Create) => draft.take(change).err(),
            ([..], _) => Some(format!(
                "The request contains an invalid set of changes for a resource record set '{} {}'",
                change.record.kind, change.record.name
            )),
        };
        earlier.push(change.action);
        wrong.extend(told);
    }
    if wrong.is_empty() {
        Ok(draft.edits)
    } else {
        Err(invalid_batch(&wrong))
    }
}

/// Route 53's limits for one batch; what is upserted counts twice.
fn weighed(changes: &[Change]) -> Result<(), ApiError> {
    let (mut records, mut characters) = (0, 0);
    for Change { action, record } in changes {
        let times = if *action == Action::Upsert { 2 } else { 1 };
        let (elements, length) = record.data.weighs();
        records += times * elements;
        characters += times * length;
    }
    if records > MOST_RECORDS {
        let told = format!("Number of records limit of {MOST_RECORDS} exceeded.");
        return Err(invalid_batch(&[told]));
    }
    if characters > MOST_CHARACTERS {
        let told = format!("Number of characters limit of {MOST_CHARACTERS} exceeded.");
        return Err(invalid_batch(&[told]));
    }
    Ok(())
}

/// A zone with the changes taken so far.
struct Draft<'a> {
    zone: &'a Zone,
    edits: Edits,
}

impl Draft<'_> {
    fn get(&self, key: &str) -> Option<&RecordSet> {
        match self.edits.get(key) {
            Some(edited) => edited.as_ref(),
            None => self.zone.records.get(key, View::Live),
        }
    }

    /// The types at a name.
    fn kinds(&self, name: &str) -> Vec<&str> {
        let untouched = self
            .zone
            .at(name)
            .filter(|record| !self.edits.contains_key(&record.key()));
        let edited = self.edits.values().flatten();
        untouched
            .chain(edited.filter(|record| record.name == name))
            .map(|record| record.kind.as_str())
            .collect()
    }

    fn take(&mut self, change: &Change) -> Result<(), String> {
        let Change { action, record } = change;
        let (zone, name, told) = (&self.zone.name, &record.name, record.told());
        if !name::is_within(name, zone) {
            return Err(format!(
                "RRSet with DNS name {name} is not permitted in zone {zone}"
            ));
        }
        let there = self.get(&record.key());
        match (action, there) {
            (Action::Create, Some(_)) => Err(format!(
                "Tried to create resource record set {told} but it already exists"
            )),
            (Action::Delete, None) => Err(format!(
                "Tried to delete resource record set {told} but it was not found"
            )),
            (Action::Delete, Some(there))
                if !there.data.says(&record.data) || there.weight != record.weight =>
            {
                Err(format!(
                    "Tried to delete resource record set {told} but the values provided do not match the current values"
                ))
            }
            (Action::Delete, Some(_)) => self.delete(record),
            (Action::Create, None) | (Action::Upsert, _) => {
                checked(record)?;
                self.beside(record)?;
                self.edits.insert(record.key(), Some(record.clone()));
                Ok(())
            }
        }
    }

    fn delete(&mut self, record: &RecordSet) -> Result<(), String> {
        if record.name == self.zone.name {
            match record.kind.as_str() {
                "SOA" => return Err("A HostedZone must contain exactly one SOA record.".to_owned()),
                "NS" => {
                    let told =
                        "A HostedZone must contain at least one NS record for the zone itself.";
                    return Err(told.to_owned());
                }
                _ => {}
            }
        }
        self.edits.insert(record.key(), None);
        Ok(())
    }

    /// A CNAME is alone at its name, and never at the apex.
    fn beside(&self, record: &RecordSet) -> Result<(), String> {
        let (zone, name, kind) = (&self.zone.name, &record.name, &record.kind);
        let rrset = format!("RRSet of type {kind} with DNS name {name} is not permitted");
        let kinds = self.kinds(name);
        if kind == "CNAME" && name == zone {
            return Err(format!("{rrset} at apex in zone {zone}"));
        }
        if kind == "CNAME" && kinds.iter().any(|other| *other != "CNAME") {
            return Err(format!(
                "{rrset} as it conflicts with other records with the same DNS name in zone {zone}"
            ));
        }
        if kind != "CNAME" && kinds.contains(&"CNAME") {
            return Err(format!(
                "{rrset} because a conflicting RRSet of type CNAME with the same DNS name already exists in zone {zone}"
            ));
        }
        Ok(())
    }
}

/// Whether values can be those of their type, as far as tenants need it.
fn checked(record: &RecordSet) -> Result<(), String> {
    match &record.data {
        Data::Alias { zone, target, .. } => {
            if zone == CLOUDFRONT_ZONE && !name::is_within(target, "cloudfront.net.") {
                let kind = &record.kind;
                return Err(format!(
                    "Tried to create an alias that targets {target}, type {kind} in zone {zone}, but the alias target name does not lie within the target zone"
                ));
            }
            Ok(())
        }
        Data::Values { values, .. } => match record.kind.as_str() {
            "CNAME" if values.len() > 1 => Err(format!(
                "RRSet of type CNAME with DNS name {} must have exactly one value",
                record.name
            )),
            "CNAME" => values.iter().try_for_each(|value| {
                let kept = name::kept(value).map(|_| ());
                kept.map_err(|wrong| format!("Invalid Resource Record: '{wrong}'"))
            }),
            "TXT" => values.iter().try_for_each(|value| quoted(value)),
            _ => Ok(()),
        },
    }
}

/// A TXT value: strings in quotation marks, each of 255 characters at most.
fn quoted(value: &str) -> Result<(), String> {
    let fatal = |wrong: &str| {
        Err(format!(
            "Invalid Resource Record: 'FATAL problem: {wrong} encountered with '{value}''"
        ))
    };
    let mut rest = value.trim();
    loop {
        let Some(inside) = rest.strip_prefix('"') else {
            return fatal("InvalidCharacterString (Value should be enclosed in quotation marks)");
        };
        let mut escaped = false;
        let end = inside.find(|character| {
            let ends = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        });
        let Some(end) = end else {
            return fatal("InvalidCharacterString (Value should be enclosed in quotation marks)");
        };
        if inside[..end].chars().count() > 255 {
            return fatal("CharacterStringTooLong (Value is too long)");
        }
        rest = inside[end + 1..].trim_start();
        if rest.is_empty() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::one_string("\"a b\"", None)]
    #[case::two_strings("\"a\" \"b\"", None)]
    #[case::an_escaped_mark("\"a\\\"b\"", None)]
    #[case::no_marks("a", Some("enclosed in quotation marks"))]
    #[case::an_open_end("\"a", Some("enclosed in quotation marks"))]
    #[case::as_long_as_can_be(&format!("\"{}\"", "x".repeat(255)), None)]
    #[case::too_long(&format!("\"{}\"", "x".repeat(256)), Some("CharacterStringTooLong"))]
    fn a_txt_value_is_quoted(#[case] value: &str, #[case] told: Option<&str>) {
        match (quoted(value), told) {
            (Ok(()), None) => {}
            (Err(wrong), Some(told)) => assert!(wrong.contains(told), "{wrong}"),
            (is, should) => panic!("{is:?} should be {should:?}"),
        }
    }
}
