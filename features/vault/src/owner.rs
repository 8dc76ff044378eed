//! Whose a thing in Vault is: ours, somebody else's, or nobody's.

use std::fmt::Write;

use crate::language::text::{Header, Marker};

/// What an object's status remembers of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded<'a> {
    /// The owner last written there, as [`shown`].
    pub owner: Option<&'a str>,
    /// The name recorded, whoever recorded it.
    pub name: Option<&'a str>,
}

/// Whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// This very object's.
    Ours,
    /// It carries no marker and we have no record of it.
    Unmarked,
    /// It carries this owner's marker.
    Foreign(String),
}

/// Judges the marker found on a live thing.
///
/// | marker found                  | on record | so       |
/// |-------------------------------|-----------|----------|
/// | as last written               | yes       | ours     |
/// | today's                       | any       | ours     |
/// | either, without some lines    | yes       | ours     |
/// | none                          | yes       | ours     |
/// | none                          | no        | unmarked |
/// | another                       | any       | foreign  |
pub fn judge(live: Option<&Marker>, today: &Header, recorded: Recorded<'_>) -> Ownership {
    let Some(live) = live else {
        return if recorded.name.is_some() {
            Ownership::Ours
        } else {
            Ownership::Unmarked
        };
    };
    let found = shown(live);
    // At a recorded place, a line that is missing contradicts nothing.
    let as_written = recorded.owner.is_some_and(|owner| {
        owner == found || (recorded.name.is_some() && !contradicts(live, owner))
    });
    let live = &match recorded.name {
        Some(_) => completed(live, today),
        None => live.clone(),
    };
    // vao.<identity>.…: where the predecessor recorded no owner, the name tells whose it was.
    let as_named = recorded.owner.is_none()
        && names_object(live, today)
        && recorded.name.is_some_and(|name| is_identity(name, live));
    if as_written || as_named || is_today(live, today) {
        Ownership::Ours
    } else {
        Ownership::Foreign(found)
    }
}

/// Whether `live` has a line that is not in the marker that was shown as `owner`.
fn contradicts(live: &Marker, owner: &str) -> bool {
    let written = read(owner);
    let lines = [
        (&live.kind, written.kind),
        (&live.resource, written.resource),
        (&live.auth_mount, written.auth_mount),
        (&live.cluster, written.cluster),
    ];
    let differs = |(live, written): &(&Option<String>, _)| live.is_some() && *live != written;
    lines.iter().any(differs)
}

/// The marker that was [`shown`] as `owner`.
fn read(owner: &str) -> Marker {
    let parts = owner
        .strip_suffix(')')
        .and_then(|text| text.split_once(" ("));
    let (object, places) = parts.unwrap_or((owner, ""));
    let (kind, resource) = object.split_once(' ').unwrap_or((object, ""));
    let place = |name: &str| {
        let mut places = places.split(", ");
        let value = places.find_map(|place| place.strip_prefix(name)?.strip_prefix(' '));
        value.map(str::to_owned)
    };
    Marker {
        auth_mount: place("auth-mount"),
        cluster: place("cluster"),
        resource: Some(resource.to_owned()),
        kind: Some(kind.to_owned()),
    }
}

/// The marker with the object's name and kind where it has none.
fn completed(live: &Marker, today: &Header) -> Marker {
    let or = |line: &Option<String>, today: &str| line.clone().or_else(|| Some(today.to_owned()));
    Marker {
        resource: or(&live.resource, &today.resource),
        kind: or(&live.kind, &today.kind),
        ..live.clone()
    }
}

/// An owner as people read it: `VaultPolicy team-a/app (auth-mount m, cluster c)`.
pub fn shown(marker: &Marker) -> String {
    let kind = marker.kind.as_deref().unwrap_or("object of unknown kind");
    let mut text = format!(
        "{kind} {}",
        marker.resource.as_deref().unwrap_or("of unknown name")
    );
    let places = [
        ("auth-mount", &marker.auth_mount),
        ("cluster", &marker.cluster),
    ];
    let places: Vec<_> = places
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)))
        .collect();
    if !places.is_empty() {
        write!(text, " ({})", places.join(", ")).expect("writing to a string never fails");
    }
    text
}

/// What is written today, as it will be found.
pub fn marker(header: &Header) -> Marker {
    Marker {
        auth_mount: header.auth_mount.clone(),
        cluster: header.cluster.clone(),
        resource: Some(header.resource.clone()),
        kind: Some(header.kind.clone()),
    }
}

fn names_object(live: &Marker, today: &Header) -> bool {
    live.resource.as_ref() == Some(&today.resource) && live.kind.as_ref() == Some(&today.kind)
}

/// Mount and cluster must agree where both sides have them, and one must be shared, unless the live
/// marker has neither: then there is nothing to tell clusters apart by.
fn is_today(live: &Marker, today: &Header) -> bool {
    let places = [
        (&live.auth_mount, &today.auth_mount),
        (&live.cluster, &today.cluster),
    ];
    let shared = places
        .iter()
        .any(|(live, today)| live.is_some() && live == today);
    let differs = places
        .iter()
        .any(|(live, today)| live.is_some() && today.is_some() && live != today);
    let bare = live.auth_mount.is_none() && live.cluster.is_none();
    names_object(live, today) && !differs && (shared || bare)
}

fn is_identity(name: &str, live: &Marker) -> bool {
    let identity = name.split('.').nth(1).unwrap_or_default();
    [&live.cluster, &live.auth_mount]
        .into_iter()
        .flatten()
        .any(|place| place.eq_ignore_ascii_case(identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn today() -> Header {
        Header {
            auth_mount: Some("m".into()),
            cluster: Some("c".into()),
            resource: "team-a/app".into(),
            kind: "VaultPolicy".into(),
        }
    }

    fn found(resource: &str, mount: Option<&str>, cluster: Option<&str>) -> Marker {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Marker {
            auth_mount: owned(mount),
            cluster: owned(cluster),
            resource: Some(resource.into()),
            kind: Some("VaultPolicy".into()),
        }
    }

    #[rstest]
    #[case::todays(found("team-a/app", Some("m"), Some("c")), true)]
    #[case::before_the_cluster_had_a_name(found("team-a/app", Some("m"), None), true)]
    #[case::before_the_mount_moved(found("team-a/app", None, Some("c")), true)]
    #[case::with_nothing_to_tell_clusters_apart(found("team-a/app", None, None), true)]
    #[case::another_object(found("team-b/app", Some("m"), Some("c")), false)]
    #[case::another_cluster(found("team-a/app", Some("m"), Some("d")), false)]
    #[case::another_mount(found("team-a/app", Some("n"), None), false)]
    fn a_marker_is_ours_when_it_names_us_and_nothing_contradicts(
        #[case] live: Marker,
        #[case] ours: bool,
    ) {
        let judged = judge(Some(&live), &today(), Recorded::default());
        assert_eq!(
            judged,
            if ours {
                Ownership::Ours
            } else {
                Ownership::Foreign(shown(&live))
            }
        );
    }

    #[test]
    fn the_marker_last_written_stays_ours_after_a_move() {
        let live = found("team-a/app", Some("old"), Some("elsewhere"));
        let owner = shown(&live);
        let recorded = Recorded {
            owner: Some(&owner),
            name: Some("vao.old.team-a.app"),
        };
        assert_eq!(judge(Some(&live), &today(), recorded), Ownership::Ours);
    }

    fn without(lines: &[&str], marker: Marker) -> Marker {
        let kept = |name: &str, line: Option<String>| line.filter(|_| !lines.contains(&name));
        Marker {
            auth_mount: kept("auth-mount", marker.auth_mount),
            cluster: kept("cluster", marker.cluster),
            resource: kept("k8s-resource", marker.resource),
            kind: kept("k8s-kind", marker.kind),
        }
    }

    const NOT_RECORDED: Recorded<'_> = Recorded {
        owner: None,
        name: None,
    };
    const RECORDED: Recorded<'_> = Recorded {
        owner: Some("VaultPolicy team-a/app (auth-mount m, cluster c)"),
        name: Some("vao.c.team-a.app"),
    };
    const RECORDED_BEFORE_A_MOVE: Recorded<'_> = Recorded {
        owner: Some("VaultPolicy team-a/app (auth-mount old)"),
        name: Some("vao.old.team-a.app"),
    };
    const RECORDED_BEFORE_THE_CLUSTER_WAS_RENAMED: Recorded<'_> = Recorded {
        owner: Some("VaultPolicy team-a/app (auth-mount m, cluster before)"),
        name: Some("vao.before.team-a.app"),
    };
    const RECORDED_BY_PREDECESSOR: Recorded<'_> = Recorded {
        owner: None,
        name: Some("vao.old.team-a.app"),
    };

    #[rstest]
    #[case::without_its_kind(&["k8s-kind"], found("team-a/app", Some("m"), Some("c")), RECORDED, true)]
    #[case::without_its_name(&["k8s-resource"], found("", Some("m"), Some("c")), RECORDED, true)]
    #[case::with_the_sentinel_alone(
        &["k8s-kind", "k8s-resource", "auth-mount", "cluster"],
        found("", None, None), RECORDED, true)]
    #[case::without_kind_and_mount(
        &["k8s-kind", "auth-mount"], found("team-a/app", None, Some("c")), RECORDED, true)]
    #[case::as_before_a_move(
        &["k8s-kind"], found("team-a/app", Some("old"), None), RECORDED_BEFORE_A_MOVE, true)]
    #[case::without_its_mount_before_the_cluster_was_renamed(
        &["auth-mount"], found("team-a/app", None, Some("before")),
        RECORDED_BEFORE_THE_CLUSTER_WAS_RENAMED, true)]
    #[case::of_a_cluster_that_was_never_recorded(
        &[], found("team-a/app", Some("old"), Some("d")), RECORDED_BEFORE_A_MOVE, false)]
    #[case::as_the_predecessor_wrote_it(
        &["k8s-kind"], found("team-a/app", Some("old"), None), RECORDED_BY_PREDECESSOR, true)]
    #[case::of_another_object(&["k8s-kind"], found("team-b/app", Some("m"), Some("c")), RECORDED, false)]
    #[case::of_another_cluster(&["k8s-kind"], found("team-a/app", Some("m"), Some("d")), RECORDED, false)]
    #[case::where_nothing_is_recorded(
        &["k8s-kind"], found("team-a/app", Some("m"), Some("c")), NOT_RECORDED, false)]
    fn a_marker_that_lacks_lines(
        #[case] lines: &[&str],
        #[case] whole: Marker,
        #[case] recorded: Recorded<'_>,
        #[case] ours: bool,
    ) {
        let live = without(lines, whole);
        let judged = judge(Some(&live), &today(), recorded);
        let expected = if ours {
            Ownership::Ours
        } else {
            Ownership::Foreign(shown(&live))
        };
        assert_eq!(judged, expected);
    }

    #[test]
    fn a_predecessors_record_tells_by_its_name() {
        let live = found("team-a/app", Some("old"), None);
        let named = |name| {
            judge(
                Some(&live),
                &today(),
                Recorded {
                    owner: None,
                    name: Some(name),
                },
            )
        };
        assert_eq!(named("vao.OLD.team-a.app"), Ownership::Ours);
        assert_eq!(
            named("vao.other.team-a.app"),
            Ownership::Foreign(shown(&live))
        );
    }

    #[test]
    fn without_a_marker_the_record_decides() {
        let recorded = Recorded {
            owner: None,
            name: Some("vao.m.team-a.app"),
        };
        assert_eq!(judge(None, &today(), recorded), Ownership::Ours);
        assert_eq!(
            judge(None, &today(), Recorded::default()),
            Ownership::Unmarked
        );
    }

    #[rstest]
    #[case::whole(marker(&today()))]
    #[case::cluster_wide(found("app", None, None))]
    #[case::by_its_cluster_alone(found("team-a/app", None, Some("uid:42")))]
    fn an_owner_reads_back(#[case] marker: Marker) {
        assert_eq!(read(&shown(&marker)), marker);
    }

    #[test]
    fn owners_are_shown_for_people() {
        assert_eq!(
            shown(&marker(&today())),
            "VaultPolicy team-a/app (auth-mount m, cluster c)"
        );
        assert_eq!(shown(&found("x", None, None)), "VaultPolicy x");
    }
}
