//! Whether a leftover may be deleted, from what stands in its place. Pure.

use api::vault::names as words;
use engine::leftovers::Judgement;
use kernel::Reason;
use vault_client::KvMetadata;

use super::leftover::{VaultLeftover, VaultPath};
use crate::kv;
use crate::language::text::{Header, Marker};
use crate::owner::{self, Ownership, Recorded};
use crate::place::{Found, Place};

/// What was found, as far as it counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// The owner it names.
    pub(super) marker: Option<Marker>,
    /// SHA-256 of what it means; none for what cannot be understood.
    pub(super) hash: Option<String>,
    /// The newest version of a secret.
    pub(super) version: Option<u64>,
}

impl From<&Found> for Evidence {
    fn from(found: &Found) -> Self {
        Self {
            marker: found.marker(),
            hash: found.hash(),
            version: None,
        }
    }
}

impl From<&KvMetadata> for Evidence {
    fn from(found: &KvMetadata) -> Self {
        Self {
            marker: kv::marker(&found.custom_metadata),
            hash: None,
            version: Some(found.current_version),
        }
    }
}

/// | there     | marker    | so                                                          |
/// |-----------|-----------|-------------------------------------------------------------|
/// | nothing   |           | gone                                                        |
/// | something | another's | leave                                                       |
/// | thing     | ours      | delete                                                      |
/// | thing     | none      | delete if it is as we wrote it; where nobody knows what that |
/// |           |           | was, if its name is one that we give                        |
/// | seed      | ours      | delete if its newest version is the one we wrote            |
/// | seed      | none      | leave                                                       |
pub(super) fn judge(
    leftover: &VaultLeftover,
    found: Option<&Evidence>,
    today: &Header,
) -> Judgement {
    let Some(found) = found else {
        return Judgement::Gone;
    };
    let recorded = Recorded {
        owner: leftover.owner.as_deref(),
        name: match &leftover.path {
            VaultPath::Place(place) if leftover.recorded => Some(place.name()),
            VaultPath::Place(_) | VaultPath::Seed(_) => None,
        },
    };
    let marked = match &found.marker {
        None => false,
        Some(marker) => match owner::judge(Some(marker), today, recorded) {
            Ownership::Ours => true,
            Ownership::Unmarked => false,
            Ownership::Foreign(owner) => return leave(leftover, format!("it belongs to {owner}")),
        },
    };
    match &leftover.path {
        VaultPath::Place(_) if marked => Judgement::Remove,
        VaultPath::Place(place) => unmarked(leftover, place, found),
        VaultPath::Seed(_) => seed(leftover, marked, found),
    }
}

/// It stays in Vault, for this reason.
fn leave(leftover: &VaultLeftover, why: impl Into<String>) -> Judgement {
    let event = match &leftover.path {
        VaultPath::Place(Place::Policy { .. }) => "ForeignPolicyNotDeleted",
        VaultPath::Place(Place::Role { .. }) => "ForeignRoleNotDeleted",
        VaultPath::Seed(_) => "ForeignSecretNotDeleted",
    };
    Judgement::Leave(Reason::new(event, why))
}

fn unmarked(leftover: &VaultLeftover, place: &Place, found: &Evidence) -> Judgement {
    let leave = |why: &str| leave(leftover, why);
    match &leftover.canonical_hash {
        Some(hash) if found.hash.as_ref() == Some(hash) => Judgement::Remove,
        Some(_) => leave("nobody's marker is on it, and it is not as we wrote it"),
        None if leftover.recorded && is_given_by_us(place.name()) => Judgement::Remove,
        None => leave("nobody's marker is on it, and nothing else tells that it is ours"),
    }
}

fn is_given_by_us(name: &str) -> bool {
    name.to_lowercase().starts_with(words::NAME_PREFIX)
}

fn seed(leftover: &VaultLeftover, marked: bool, found: &Evidence) -> Judgement {
    match (leftover.seeded_version, found.version) {
        _ if !marked => leave(leftover, "it does not carry our marker"),
        (Some(ours), Some(live)) if ours == live => Judgement::Remove,
        (Some(ours), Some(live)) => {
            let why = format!("version {live} is not the one we wrote, which was {ours}");
            leave(leftover, why)
        }
        (None, _) | (_, None) => leave(leftover, "it is not known to be ours"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    const OURS: &str = "sys/policies/acl/vao.m.team-a.app";
    const OTHER: &str = "sys/policies/acl/team-a-app";
    const SEED: &str = "secret/metadata/team-a/seed";

    fn today(kind: &str) -> Header {
        Header {
            auth_mount: Some("m".to_owned()),
            cluster: None,
            resource: "team-a/app".to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn left(path: &str, hash: Option<&str>) -> VaultLeftover {
        VaultLeftover {
            kind: "VaultPolicy".to_owned(),
            resource: "team-a/app".to_owned(),
            path: VaultPath::parse(path).unwrap(),
            vault_namespace: None,
            connection: "c".to_owned(),
            address: None,
            owner: None,
            canonical_hash: hash.map(str::to_owned),
            seeded_version: Some(1),
            recorded: true,
        }
    }

    fn marked(resource: &str, kind: &str) -> Evidence {
        Evidence {
            marker: Some(Marker {
                resource: Some(resource.to_owned()),
                ..owner::marker(&today(kind))
            }),
            version: Some(1),
            ..Evidence::default()
        }
    }

    fn bare(hash: &str) -> Evidence {
        Evidence {
            hash: Some(hash.to_owned()),
            version: Some(1),
            ..Evidence::default()
        }
    }

    fn stays(judged: &Judgement) -> bool {
        match judged {
            Judgement::Leave(_) => true,
            Judgement::Gone | Judgement::Remove => false,
        }
    }

    #[rstest]
    #[case::marked_as_ours(left(OTHER, Some("a")), marked("team-a/app", "VaultPolicy"))]
    #[case::unmarked_and_as_written(left(OTHER, Some("a")), bare("a"))]
    #[case::unmarked_without_hash_under_a_name_of_ours(left(OURS, None), bare("x"))]
    fn what_is_ours_goes(#[case] left: VaultLeftover, #[case] found: Evidence) {
        assert_eq!(
            judge(&left, Some(&found), &today("VaultPolicy")),
            Judgement::Remove
        );
    }

    #[rstest]
    #[case::marked_by_another(left(OURS, None), marked("team-b/app", "VaultPolicy"))]
    #[case::marked_as_another_kind(left(OURS, None), marked("team-a/app", "VaultRole"))]
    #[case::unmarked_and_changed(left(OURS, Some("a")), bare("b"))]
    #[case::unmarked_and_not_understood(left(OURS, Some("a")), Evidence::default())]
    #[case::unmarked_without_hash_under_another_name(left(OTHER, None), bare("x"))]
    #[case::unmarked_and_only_suspected(
        VaultLeftover { recorded: false, ..left(OURS, None) },
        bare("x")
    )]
    fn what_is_not_ours_stays(#[case] left: VaultLeftover, #[case] found: Evidence) {
        let judged = judge(&left, Some(&found), &today("VaultPolicy"));
        assert!(stays(&judged), "{judged:?}");
    }

    #[test]
    fn the_marker_last_written_is_ours_whatever_todays_is() {
        let mut found = marked("team-a/app", "VaultPolicy");
        let marker = found.marker.as_mut().unwrap();
        marker.auth_mount = Some("old".to_owned());
        let mut left = left(OTHER, None);
        assert!(stays(&judge(&left, Some(&found), &today("VaultPolicy"))));
        left.owner = Some("VaultPolicy team-a/app (auth-mount old)".to_owned());
        let judged = judge(&left, Some(&found), &today("VaultPolicy"));
        assert_eq!(judged, Judgement::Remove);
    }

    #[test]
    fn what_was_only_announced_goes_if_it_is_as_announced() {
        let suspected = VaultLeftover {
            recorded: false,
            ..left(OURS, Some("a"))
        };
        let judged = judge(&suspected, Some(&bare("a")), &today("VaultPolicy"));
        assert_eq!(judged, Judgement::Remove);
    }

    #[test]
    fn what_is_absent_is_gone() {
        let judged = judge(&left(OURS, None), None, &today("VaultPolicy"));
        assert_eq!(judged, Judgement::Gone);
    }

    #[rstest]
    #[case::as_we_left_it(Some(1), marked("team-a/app", "VaultKVSecret"), true)]
    #[case::written_since(Some(2), marked("team-a/app", "VaultKVSecret"), false)]
    #[case::never_recorded(None, marked("team-a/app", "VaultKVSecret"), false)]
    #[case::unmarked(Some(1), bare("x"), false)]
    #[case::marked_by_another(Some(1), marked("team-b/app", "VaultKVSecret"), false)]
    fn a_seed_goes_only_as_we_left_it(
        #[case] seeded: Option<u64>,
        #[case] found: Evidence,
        #[case] goes: bool,
    ) {
        let left = VaultLeftover {
            seeded_version: seeded,
            ..left(SEED, None)
        };
        let judged = judge(&left, Some(&found), &today("VaultKVSecret"));
        assert_eq!(judged == Judgement::Remove, goes, "{judged:?}");
    }

    #[test]
    fn a_seeds_marker_is_in_its_custom_metadata() {
        let found: KvMetadata = serde_json::from_value(json!({
            "current_version": 4,
            "custom_metadata": {
                "managed-by": "vault-access-operator",
                "k8s-resource": "team-a/app",
                "auth-mount": "m",
            },
        }))
        .unwrap();
        let evidence = Evidence::from(&found);
        assert_eq!(evidence.version, Some(4));
        assert_eq!(
            evidence.marker,
            Some(owner::marker(&today("VaultKVSecret")))
        );
    }
}
