//! Three-way diff of a connection group: whose doing a difference is, and what is sent for it. Pure.
//!
//! | last applied | live | desired | drift is undone | drift is left         |
//! |--------------|------|---------|-----------------|-----------------------|
//! | any          | a    | a       | only recorded   | only recorded         |
//! | a            | a    | b       | b is sent       | b is sent             |
//! | a            | x    | a       | a is sent       | x stays, and is drift |
//! | a            | x    | b       | b is sent       | b is sent             |
//!
//! What is sent is always complete, so that an Update that replaces and one that merges give the
//! same.

use api::tenants::{DriftedField, GroupBody};
use aws::cloudfront::GroupBody as Body;
use serde_json::{Value, json};

use crate::body::side_by_side;
use crate::tags::Tags;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Anycast,
    Enabled,
    Ipv6,
}

impl Field {
    const ALL: [Self; 3] = [Self::Anycast, Self::Enabled, Self::Ipv6];

    /// As the spec names it.
    fn word(self) -> &'static str {
        match self {
            Self::Anycast => "anycastIpListId",
            Self::Enabled => "enabled",
            Self::Ipv6 => "ipv6Enabled",
        }
    }

    fn of(self, body: &Body) -> Value {
        match self {
            Self::Anycast => json!(body.anycast_ip_list_id),
            Self::Enabled => json!(body.enabled),
            Self::Ipv6 => json!(body.ipv6_enabled),
        }
    }
}

/// What differs and what is to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) update: Option<Update>,
    /// What others changed, whether the Update undoes it or not. Equal lists are one drift.
    pub(super) drift: Vec<DriftedField>,
}

/// One UpdateConnectionGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) body: Body,
    /// It carries an edit of the spec.
    pub(super) edits: bool,
    /// It undoes what others did.
    pub(super) corrects: bool,
}

impl Update {
    /// The same body again: it had no effect.
    pub(super) fn again(body: &Body) -> Self {
        Self {
            body: body.clone(),
            edits: false,
            corrects: false,
        }
    }
}

/// What to do about one group; `corrects` says whether drift is undone.
pub(super) fn plan(last: &Body, live: &Body, desired: &Body, corrects: bool) -> Plan {
    let differs = |field: &Field| field.of(desired) != field.of(live);
    let is_edit = |field: &Field| field.of(desired) != field.of(last);
    let differing = || Field::ALL.into_iter().filter(differs);
    let drift = differing().filter(|field| !is_edit(field));
    let drift: Vec<_> = drift.map(|field| drifted(field, last, live)).collect();
    let body = Body {
        ipv6_enabled: sent(
            &last.ipv6_enabled,
            &live.ipv6_enabled,
            &desired.ipv6_enabled,
            corrects,
        ),
        enabled: sent(&last.enabled, &live.enabled, &desired.enabled, corrects),
        anycast_ip_list_id: sent(
            &last.anycast_ip_list_id,
            &live.anycast_ip_list_id,
            &desired.anycast_ip_list_id,
            corrects,
        ),
    };
    let update = (body != *live).then(|| Update {
        body,
        edits: differing().any(|field| is_edit(&field)),
        corrects: corrects && !drift.is_empty(),
    });
    Plan { update, drift }
}

fn sent<T: PartialEq + Clone>(last: &T, live: &T, desired: &T, corrects: bool) -> T {
    if corrects || desired != last {
        desired.clone()
    } else {
        live.clone()
    }
}

/// What `shown` has otherwise than `sent`.
pub(super) fn differing(sent: &Body, shown: &Body) -> Vec<DriftedField> {
    let fields = Field::ALL.into_iter();
    let fields = fields.filter(|field| field.of(sent) != field.of(shown));
    fields.map(|field| drifted(field, sent, shown)).collect()
}

fn drifted(field: Field, want: &Body, live: &Body) -> DriftedField {
    let (want, live) = side_by_side(Some(&field.of(want)), Some(&field.of(live)));
    DriftedField {
        field: field.word().to_owned(),
        want,
        live,
    }
}

/// The part of a record that is compared field by field; tags have calls and rules of their own.
pub(super) fn body(record: &GroupBody) -> Body {
    let GroupBody {
        ipv6_enabled,
        enabled,
        anycast_ip_list_id,
        tags: _,
    } = record.clone();
    Body {
        ipv6_enabled,
        enabled,
        anycast_ip_list_id: anycast_ip_list_id.filter(|id| !id.is_empty()),
    }
}

/// As `status.lastApplied` keeps it.
pub(super) fn record(body: &Body, tags: Tags) -> GroupBody {
    let Body {
        ipv6_enabled,
        enabled,
        anycast_ip_list_id,
    } = body.clone();
    GroupBody {
        ipv6_enabled,
        enabled,
        anycast_ip_list_id,
        tags,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// IPv6, enabled, and the list of addresses if it has a name.
    fn of(ipv6_enabled: bool, enabled: bool, list: &str) -> Body {
        Body {
            ipv6_enabled,
            enabled,
            anycast_ip_list_id: Some(list.to_owned()).filter(|list| !list.is_empty()),
        }
    }

    fn drift(field: &str, want: Option<&str>, live: Option<&str>) -> DriftedField {
        DriftedField {
            field: field.to_owned(),
            want: want.map(str::to_owned),
            live: live.map(str::to_owned),
        }
    }

    const ON: (bool, bool, &str) = (true, true, "");
    const OFF: (bool, bool, &str) = (true, false, "");
    const V4: (bool, bool, &str) = (false, true, "");

    #[rstest]
    #[case::true_already(ON, ON, ON, true, None)]
    #[case::only_recorded(ON, OFF, OFF, true, None)]
    #[case::an_edit_is_sent(ON, ON, OFF, false, Some((OFF, true, false)))]
    #[case::drift_is_undone(ON, OFF, ON, true, Some((ON, false, true)))]
    #[case::drift_is_left(ON, OFF, ON, false, None)]
    #[case::an_edit_wins_over_drift(ON, OFF, V4, true, Some((V4, true, true)))]
    #[case::an_edit_carries_drift_along(ON, OFF, V4, false, Some(((false, false, ""), true, false)))]
    fn what_is_sent(
        #[case] last: (bool, bool, &str),
        #[case] live: (bool, bool, &str),
        #[case] desired: (bool, bool, &str),
        #[case] corrects: bool,
        #[case] sent: Option<((bool, bool, &str), bool, bool)>,
    ) {
        let of = |(ipv6, enabled, list): (bool, bool, &str)| of(ipv6, enabled, list);
        let plan = plan(&of(last), &of(live), &of(desired), corrects);
        let sent = sent.map(|(body, edits, corrects)| Update {
            body: of(body),
            edits,
            corrects,
        });
        assert_eq!(plan.update, sent);
    }

    #[test]
    fn drift_names_field_and_both_sides() {
        let plan = plan(
            &of(true, true, "list-1"),
            &of(true, false, ""),
            &of(true, true, "list-1"),
            false,
        );
        let expected = vec![
            drift("anycastIpListId", Some("list-1"), None),
            drift("enabled", Some("true"), Some("false")),
        ];
        assert_eq!(plan.drift, expected);
    }

    #[test]
    fn an_empty_list_of_addresses_is_none() {
        let record = GroupBody {
            anycast_ip_list_id: Some(String::new()),
            ..GroupBody::default()
        };
        assert_eq!(body(&record).anycast_ip_list_id, None);
    }

    fn any_body() -> impl Strategy<Value = Body> {
        (any::<bool>(), any::<bool>(), "[ab]?")
            .prop_map(|(ipv6, enabled, list)| of(ipv6, enabled, &list))
    }

    proptest! {
        #[test]
        fn nothing_is_sent_that_is_there(last in any_body(), live in any_body(), desired in any_body(), corrects: bool) {
            let plan = plan(&last, &live, &desired, corrects);
            prop_assert!(plan.update.is_none_or(|update| update.body != live));
        }

        #[test]
        fn undoing_drift_gives_what_is_desired(last in any_body(), live in any_body(), desired in any_body()) {
            let plan = plan(&last, &live, &desired, true);
            prop_assert_eq!(plan.update.map_or(live, |update| update.body), desired);
        }

        #[test]
        fn drift_that_is_left_stays_and_is_told(last in any_body(), live in any_body(), desired in any_body()) {
            let first = plan(&last, &live, &desired, false);
            let now = first.update.map_or(live, |update| update.body);
            // With the edit on record, what still differs is the same drift, and nothing is sent.
            let next = plan(&desired, &now, &desired, false);
            prop_assert_eq!(next.update, None);
            prop_assert_eq!(next.drift, first.drift);
        }

        #[test]
        fn a_record_gives_back_what_was_sent(sent in any_body()) {
            prop_assert_eq!(body(&record(&sent, Tags::new())), sent);
        }
    }
}
