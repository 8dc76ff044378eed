//! The end of a mount that bootstrap enabled.

use api::vault::AuthStatus;
use engine::kill_point;
use vault_client::{AuthMount, AuthMountEntry, Client, Error};

use super::marker::MountMarker;
use super::plan::{KUBERNETES, Part, is_recorded};
use crate::names;

/// A message names this many roles; more would say no more.
const NAMED: usize = 20;

/// Why a mount stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDisabled {
    #[error("auth/{mount} stays: bootstrap of this connection did not enable it")]
    NotEnabledByUs { mount: AuthMount },
    #[error(
        "auth/{mount} stays: roles on it are not this connection's ({}); delete them, then disable \
         the mount",
        named(.roles)
    )]
    ForeignRoles {
        mount: AuthMount,
        roles: Vec<String>,
    },
    #[error("auth/{mount} may still be there: {error}")]
    Vault { mount: AuthMount, error: Error },
}

fn named(roles: &[String]) -> String {
    let some: Vec<&str> = roles.iter().take(NAMED).map(String::as_str).collect();
    let more = roles.len() - some.len();
    match more {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

/// Whose a mount is, to decide on its end.
pub(crate) struct Owner<'a> {
    pub(crate) marker: &'a MountMarker,
    pub(crate) status: &'a AuthStatus,
    /// The role by which the operator logs in.
    pub(crate) role: &'a str,
}

/// Disables a mount if bootstrap enabled it and all roles on it are ours: the operator's own, and
/// those that `is_ours` knows by name. One that is gone already is fine.
///
/// Vault revokes every token the mount gave, that of the connection too.
pub(crate) async fn disable_mount(
    vault: &Client,
    mount: &AuthMount,
    owner: Owner<'_>,
    is_ours: impl Fn(&str) -> bool + Send,
) -> Result<(), NotDisabled> {
    let failed = |error| NotDisabled::Vault {
        mount: mount.clone(),
        error,
    };
    let Some(entry) = vault.auth_mounts().await.map_err(failed)?.remove(mount) else {
        return Ok(());
    };
    if !is_enabled_by_us(&entry, &owner) {
        let mount = mount.clone();
        return Err(NotDisabled::NotEnabledByUs { mount });
    }
    let mut roles = vault.list_roles(mount).await.map_err(failed)?;
    roles.retain(|role| !names::same(role, owner.role) && !is_ours(role));
    if !roles.is_empty() {
        let mount = mount.clone();
        return Err(NotDisabled::ForeignRoles { mount, roles });
    }
    kill_point("vault-before-disable");
    vault.disable_auth(mount).await.map_err(failed)?;
    kill_point("vault-after-disable");
    Ok(())
}

/// | type       | marker    | on record | so     |
/// |------------|-----------|-----------|--------|
/// | kubernetes | ours      | any       | ours   |
/// | kubernetes | none      | yes       | ours   |
/// | kubernetes | none      | no        | theirs |
/// | kubernetes | another's | any       | theirs |
/// | other      | any       | any       | theirs |
fn is_enabled_by_us(entry: &AuthMountEntry, owner: &Owner<'_>) -> bool {
    let ours = match MountMarker::parse(&entry.description) {
        Some(found) => found == *owner.marker,
        None => is_recorded(owner.status, Part::Mount.name()),
    };
    entry.kind == KUBERNETES && ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    const OURS: &str = "managed-by=vault-access-operator identity=prod connection=c";
    const ANOTHERS: &str = "managed-by=vault-access-operator identity=test connection=c";

    #[rstest] //                      type          description     on record  ours
    #[case::marked(                   "kubernetes", OURS,           json!({}), true)]
    #[case::marked_and_recorded(      "kubernetes", OURS,           json!({"AuthMountEnabled": true}), true)]
    #[case::of_the_predecessor(       "kubernetes", "k8s auth",     json!({"AuthMountEnabled": "2026-01-02T03:04:05Z"}), true)]
    #[case::not_done_by_it(           "kubernetes", "k8s auth",     json!({"AuthMountEnabled": false}), false)]
    #[case::only_configured(          "kubernetes", "",             json!({"AuthMountConfigured": true}), false)]
    #[case::enabled_anew_by_another(  "kubernetes", ANOTHERS,       json!({"AuthMountEnabled": true}), false)]
    #[case::of_another_type(          "jwt",        OURS,           json!({"AuthMountEnabled": true}), false)]
    fn a_mount_is_ours_when_its_marker_or_else_our_record_says_so(
        #[case] kind: &str,
        #[case] description: &str,
        #[case] steps: serde_json::Value,
        #[case] ours: bool,
    ) {
        let entry = AuthMountEntry {
            kind: kind.into(),
            description: description.into(),
            accessor: String::new(),
        };
        let owner = Owner {
            marker: &MountMarker {
                identity: "prod".into(),
                connection: "c".into(),
            },
            status: &serde_json::from_value(json!({ "bootstrapSteps": steps })).unwrap(),
            role: "r",
        };
        assert_eq!(is_enabled_by_us(&entry, &owner), ours);
    }

    #[test]
    fn a_long_list_of_roles_is_cut() {
        let roles: Vec<String> = (0..22).map(|n| format!("r{n}")).collect();
        assert!(named(&roles).ends_with("r19 and 2 more"));
        assert_eq!(named(&roles[..2]), "r0, r1");
    }
}
