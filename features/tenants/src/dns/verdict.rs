//! What the condition DNSReady says of a plan.

use std::collections::BTreeSet;
use std::fmt;

use api::tenants::{DriftedField, reasons};
use kernel::Reason;

use super::want::Want;

/// How many names a message shows.
const SHOWN: usize = 5;

/// A record that is not ours, where ours should be or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clash {
    /// The id of its zone.
    pub(crate) zone: String,
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) kind: String,
    /// Its value.
    pub(crate) value: String,
    /// Who claims it, if anybody does.
    pub(crate) owner: Option<String>,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            zone,
            name,
            kind,
            value,
            owner,
        } = self;
        write!(
            f,
            "{name} in hosted zone {zone} has a {kind} record, {value}, "
        )?;
        match owner {
            Some(owner) => write!(f, "that belongs to {owner}"),
            None => f.write_str("that is not ours"),
        }
    }
}

/// What DNSReady says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No records are wanted.
    NotConfigured {
        /// How many are still there.
        leaving: usize,
    },
    /// Every record is in place on all name servers.
    Ready {
        /// How many names have theirs.
        names: usize,
    },
    /// Records are planned or on their way to Route 53.
    Creating {
        /// The names.
        names: Vec<String>,
    },
    /// Route 53 has them all and tells its name servers.
    Propagating {
        /// The changes that are under way.
        changes: BTreeSet<String>,
    },
    /// Records are not ours.
    Conflict(Vec<Clash>),
    /// Route 53 refused, in these words.
    Failed(Vec<String>),
    /// Others changed records, and the policy says `report`.
    Drift(Vec<DriftedField>),
}

impl Verdict {
    /// Reason and message of the condition.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::NotConfigured { leaving: 0 } => Reason::new(
                reasons::DNS_NOT_CONFIGURED,
                "the spec asks for no DNS records",
            ),
            Self::NotConfigured { leaving } => Reason::new(
                reasons::DNS_NOT_CONFIGURED,
                format!("the spec asks for no DNS records; {leaving} are being removed"),
            ),
            Self::Ready { names } => Reason::new(
                reasons::DNS_READY,
                format!(
                    "the records of {} are on all name servers",
                    count(*names, "name")
                ),
            ),
            Self::Creating { names } => Reason::new(
                reasons::DNS_RECORD_CREATING,
                format!("records on their way to Route 53: {}", some(names, ", ")),
            ),
            Self::Propagating { changes } => {
                let changes: Vec<_> = changes.iter().cloned().collect();
                Reason::new(
                    reasons::DNS_PROPAGATING,
                    format!("Route 53 tells its name servers: {}", some(&changes, ", ")),
                )
            }
            Self::Conflict(clashes) => Reason::new(reasons::DNS_CONFLICT, conflict(clashes)),
            Self::Failed(texts) => Reason::new(reasons::DNS_ERROR, some(texts, "; ")),
            Self::Drift(fields) => {
                let told: Vec<_> = fields.iter().map(drifted).collect();
                Reason::new(
                    reasons::DNS_DRIFT,
                    format!("changed by others: {}", some(&told, "; ")),
                )
            }
        }
    }
}

/// The clashes, and what to do about them.
fn conflict(clashes: &[Clash]) -> String {
    let told: Vec<_> = clashes.iter().map(Clash::to_string).collect();
    let remedy = if clashes.iter().all(|clash| clash.owner.is_none()) {
        "delete it, or let dns.recordAdoption take it over"
    } else {
        "remove it where it belongs; what is owned is never taken over"
    };
    format!("{}; {remedy}", some(&told, "; "))
}

fn drifted(field: &DriftedField) -> String {
    let live = field.live.as_deref().unwrap_or("gone");
    match &field.want {
        Some(want) => format!("{} is {live} instead of {want}", field.field),
        None => format!("{} is {live}, which was not there", field.field),
    }
}

fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

fn some(texts: &[String], between: &str) -> String {
    let shown = texts[..texts.len().min(SHOWN)].join(between);
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}{between}{more} more"),
    }
}

/// How one name stands.
pub(super) enum Standing {
    Ready,
    Creating,
    Propagating(BTreeSet<String>),
    Unread,
    Conflict(Clash),
    Failed(String),
    Drift(Vec<DriftedField>),
}

/// The gravest of what is to be said of names; `None` if one must be read first. `records` is how
/// many are recorded.
pub(super) fn gravest(
    want: &Want,
    standings: Vec<(String, Standing)>,
    records: usize,
) -> Option<Verdict> {
    let (mut clashes, mut texts, mut drift) = (Vec::new(), Vec::new(), Vec::new());
    let (mut creating, mut changes) = (Vec::new(), BTreeSet::new());
    let mut unread = false;
    for (name, standing) in standings {
        match standing {
            Standing::Ready => {}
            Standing::Creating => creating.push(name),
            Standing::Propagating(more) => changes.extend(more),
            Standing::Unread => unread = true,
            Standing::Conflict(clash) => clashes.push(clash),
            Standing::Failed(text) => texts.push(text),
            Standing::Drift(fields) => drift.extend(fields),
        }
    }
    texts.dedup();
    Some(if !clashes.is_empty() {
        Verdict::Conflict(clashes)
    } else if !texts.is_empty() {
        Verdict::Failed(texts)
    } else if unread {
        return None;
    } else if !creating.is_empty() {
        Verdict::Creating { names: creating }
    } else if !changes.is_empty() {
        Verdict::Propagating { changes }
    } else if !drift.is_empty() {
        Verdict::Drift(drift)
    } else {
        match want {
            Want::These { names, .. } => Verdict::Ready { names: names.len() },
            Want::Nothing | Want::Unmarked => Verdict::NotConfigured { leaving: records },
        }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn clash(owner: Option<&str>) -> Clash {
        Clash {
            zone: "Z1".to_owned(),
            name: "a.example.com".to_owned(),
            kind: "CNAME".to_owned(),
            value: "x.net".to_owned(),
            owner: owner.map(str::to_owned),
        }
    }

    fn drift() -> DriftedField {
        DriftedField {
            field: "dns a.example.com CNAME".to_owned(),
            want: Some("d0.cloudfront.net (ttl 300)".to_owned()),
            live: None,
        }
    }

    #[rstest]
    #[case::nothing_wanted(
        Verdict::NotConfigured { leaving: 0 },
        "DNSNotConfigured: the spec asks for no DNS records"
    )]
    #[case::leaving(
        Verdict::NotConfigured { leaving: 2 },
        "DNSNotConfigured: the spec asks for no DNS records; 2 are being removed"
    )]
    #[case::ready(
        Verdict::Ready { names: 1 },
        "DNSReady: the records of 1 name are on all name servers"
    )]
    #[case::some_are_shown(
        Verdict::Creating { names: (0..7).map(|n| format!("n{n}")).collect() },
        "DNSRecordCreating: records on their way to Route 53: n0, n1, n2, n3, n4, 2 more"
    )]
    #[case::under_way(
        Verdict::Propagating { changes: BTreeSet::from(["C1".to_owned()]) },
        "DNSPropagating: Route 53 tells its name servers: C1"
    )]
    #[case::nobodys(
        Verdict::Conflict(vec![clash(None)]),
        "DNSConflict: a.example.com in hosted zone Z1 has a CNAME record, x.net, that is not ours; \
         delete it, or let dns.recordAdoption take it over"
    )]
    #[case::somebodys(
        Verdict::Conflict(vec![clash(Some("external-dns (owner x)"))]),
        "DNSConflict: a.example.com in hosted zone Z1 has a CNAME record, x.net, that belongs to \
         external-dns (owner x); remove it where it belongs; what is owned is never taken over"
    )]
    #[case::refused(Verdict::Failed(vec!["no".to_owned()]), "DNSError: no")]
    #[case::drift(
        Verdict::Drift(vec![drift()]),
        "DNSDrift: changed by others: dns a.example.com CNAME is gone instead of \
         d0.cloudfront.net (ttl 300)"
    )]
    fn the_condition_says(#[case] verdict: Verdict, #[case] told: &str) {
        assert_eq!(verdict.reason().to_string(), told);
    }
}
