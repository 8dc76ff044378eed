//! Three-way diff of a connection group: separates edits from drift, and plans the update. Pure.
//!
//! | last applied | live | desired | drift corrected | drift not corrected   |
//! |--------------|------|---------|-----------------|-----------------------|
//! | any          | a    | a       | only recorded   | only recorded         |
//! | a            | a    | b       | b is sent       | b is sent             |
//! | a            | x    | a       | a is sent       | x stays, and is drift |
//! | a            | x    | b       | b is sent       | b is sent             |
//!
//! An update always has all fields, so it does not matter whether CloudFront replaces or merges.

use api::tenants::{DriftedField, GroupBody};
use aws::cloudfront::GroupBody as Body;
use serde_json::{Value, json};

use crate::body::side_by_side;
use crate::tags::Tags;

/// A field that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Anycast,
    Enabled,
    Ipv6,
}

impl Field {
    const ALL: [Self; 3] = [Self::Anycast, Self::Enabled, Self::Ipv6];

    /// The name of the field in the spec.
    fn name(self) -> &'static str {
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

/// The differences, and the update that removes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) update: Option<Update>,
    /// What others changed, whether the update corrects it or not.
    pub(super) drift: Vec<DriftedField>,
}

/// One UpdateConnectionGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) body: Body,
    /// It sends an edit of the spec.
    pub(super) edits: bool,
    /// It corrects drift.
    pub(super) corrects: bool,
}

impl Update {
    /// Sends a body again that had no effect.
    pub(super) fn again(body: &Body) -> Self {
        Self {
            body: body.clone(),
            edits: false,
            corrects: false,
        }
    }
}

/// The plan for one group. `corrects`: drift is corrected.
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

/// The fields of `shown` that differ from `sent`.
pub(super) fn differing(sent: &Body, shown: &Body) -> Vec<DriftedField> {
    let fields = Field::ALL.into_iter();
    let fields = fields.filter(|field| field.of(sent) != field.of(shown));
    fields.map(|field| drifted(field, sent, shown)).collect()
}

fn drifted(field: Field, want: &Body, live: &Body) -> DriftedField {
    let (want, live) = side_by_side(Some(&field.of(want)), Some(&field.of(live)));
    DriftedField {
        field: field.name().to_owned(),
        want,
        live,
    }
}

/// The fields of a record without tags. Tags have their own calls and rules.
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

/// The record in `status.lastApplied`.
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

    /// A body with these fields; an empty `list` means no Anycast IP list.
    fn body_of(ipv6_enabled: bool, enabled: bool, list: &str) -> Body {
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
    #[case::already_equal(ON, ON, ON, true, None)]
    #[case::only_recorded(ON, OFF, OFF, true, None)]
    #[case::an_edit_is_sent(ON, ON, OFF, false, Some((OFF, true, false)))]
    #[case::drift_is_corrected(ON, OFF, ON, true, Some((ON, false, true)))]
    #[case::drift_is_left(ON, OFF, ON, false, None)]
    #[case::an_edit_wins_over_drift(ON, OFF, V4, true, Some((V4, true, true)))]
    #[case::an_edit_carries_drift_along(ON, OFF, V4, false, Some(((false, false, ""), true, false)))]
    fn an_update_is_sent(
        #[case] last: (bool, bool, &str),
        #[case] live: (bool, bool, &str),
        #[case] desired: (bool, bool, &str),
        #[case] corrects: bool,
        #[case] sent: Option<((bool, bool, &str), bool, bool)>,
    ) {
        let of = |(ipv6, enabled, list): (bool, bool, &str)| body_of(ipv6, enabled, list);
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
            &body_of(true, true, "list-1"),
            &body_of(true, false, ""),
            &body_of(true, true, "list-1"),
            false,
        );
        let expected = vec![
            drift("anycastIpListId", Some("list-1"), None),
            drift("enabled", Some("true"), Some("false")),
        ];
        assert_eq!(plan.drift, expected);
    }

    #[test]
    fn an_empty_anycast_ip_list_is_none() {
        let record = GroupBody {
            anycast_ip_list_id: Some(String::new()),
            ..GroupBody::default()
        };
        assert_eq!(body(&record).anycast_ip_list_id, None);
    }

    fn any_body() -> impl Strategy<Value = Body> {
        (any::<bool>(), any::<bool>(), "[ab]?")
            .prop_map(|(ipv6, enabled, list)| body_of(ipv6, enabled, &list))
    }

    proptest! {
        #[test]
        fn no_update_equals_the_live_group(
            last in any_body(),
            live in any_body(),
            desired in any_body(),
            corrects: bool
        ) {
            let plan = plan(&last, &live, &desired, corrects);
            prop_assert!(plan.update.is_none_or(|update| update.body != live));
        }

        #[test]
        fn correcting_drift_gives_the_desired_state(
            last in any_body(),
            live in any_body(),
            desired in any_body(),
        ) {
            let plan = plan(&last, &live, &desired, true);
            prop_assert_eq!(plan.update.map_or(live, |update| update.body), desired);
        }

        #[test]
        fn uncorrected_drift_stays_and_is_reported(
            last in any_body(),
            live in any_body(),
            desired in any_body(),
        ) {
            let first = plan(&last, &live, &desired, false);
            let now = first.update.map_or(live, |update| update.body);
            // Once the edit is recorded, the same drift remains and nothing is sent.
            let next = plan(&desired, &now, &desired, false);
            prop_assert_eq!(next.update, None);
            prop_assert_eq!(next.drift, first.drift);
        }

        #[test]
        fn a_record_reads_back(sent in any_body()) {
            prop_assert_eq!(body(&record(&sent, Tags::new())), sent);
        }
    }
}
