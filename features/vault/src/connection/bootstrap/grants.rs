//! What the operator may do in Vault: the policy that bootstrap makes.

use std::collections::BTreeSet;
use std::fmt::Write;

use api::vault::names::SENTINEL;
use serde_json::Value;
use vault_client::AuthMount;

/// What the operator's policy is called.
pub(crate) const POLICY: &str = SENTINEL;

const ALL: &[&str] = &["create", "read", "update", "delete", "list"];

/// How far the policy reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach<'a> {
    /// The login mount.
    pub(crate) login: &'a AuthMount,
    /// Where roles are written, if that is elsewhere.
    pub(crate) roles: Option<&'a AuthMount>,
    /// The Vault namespace of policies and roles below that of the login; empty if it is the same.
    pub(crate) below: &'a str,
}

/// The text of the policy: all the operator needs but KV, of which only people know where it is.
///
/// It carries no owner's marker: once made it is theirs who run Vault, and nobody else changes or
/// deletes it.
pub(crate) fn text(reach: Reach<'_>) -> String {
    let Reach {
        login,
        roles,
        below,
    } = reach;
    let below = match below.trim_matches('/') {
        "" => String::new(),
        below => format!("{below}/"),
    };
    let mut grants: Vec<(String, &[&str])> = vec![(format!("{below}sys/policies/acl/*"), ALL)];
    // The login mount's too, wherever roles are: before it is disabled its roles are listed.
    let places = BTreeSet::from([
        format!("auth/{login}/role/*"),
        format!("{below}auth/{}/role/*", roles.unwrap_or(login)),
    ]);
    grants.extend(places.into_iter().map(|place| (place, ALL)));
    grants.extend([
        // To keep the reviewer token fresh.
        (format!("auth/{login}/config"), &["read", "update"][..]),
        // To disable the mount with its connection.
        ("sys/auth".to_owned(), &["read"]),
        (format!("sys/auth/{login}"), &["delete", "sudo"]),
        // Its own token.
        ("auth/token/lookup-self".to_owned(), &["read"]),
        ("auth/token/renew-self".to_owned(), &["update"]),
        ("auth/token/revoke-self".to_owned(), &["update"]),
    ]);
    let mut text = "# What the operator may do. Made once, and never changed by it.\n".to_owned();
    for (path, capabilities) in grants {
        let (path, capabilities) = (quoted(&path), capabilities.join("\", \""));
        writeln!(
            text,
            "\npath {path} {{\n  capabilities = [\"{capabilities}\"]\n}}"
        )
        .expect("a String takes all text");
    }
    text
}

/// As JSON quotes, which the policy language reads the same way but for `${`.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace("${", "\\u0024{")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Policy;
    use crate::language::text::parse_header;

    fn mount(path: &str) -> AuthMount {
        AuthMount::new(path)
    }

    fn grants(reach: Reach<'_>) -> Policy {
        Policy::parse(&text(reach)).unwrap()
    }

    #[test]
    fn the_policy_grants_what_the_operator_does_and_no_more() {
        let expected = r#"
            path "sys/policies/acl/*" { capabilities = ["create", "read", "update", "delete", "list"] }
            path "auth/eu/k8s/role/*" { capabilities = ["create", "read", "update", "delete", "list"] }
            path "auth/eu/k8s/config" { capabilities = ["read", "update"] }
            path "sys/auth" { capabilities = ["read"] }
            path "sys/auth/eu/k8s" { capabilities = ["delete", "sudo"] }
            path "auth/token/lookup-self" { capabilities = ["read"] }
            path "auth/token/renew-self" { capabilities = ["update"] }
            path "auth/token/revoke-self" { capabilities = ["update"] }
        "#;
        let reach = Reach {
            login: &mount("eu/k8s"),
            roles: Some(&mount("eu/k8s")),
            below: "",
        };
        assert_eq!(grants(reach), Policy::parse(expected).unwrap());
    }

    #[test]
    fn roles_elsewhere_and_in_a_namespace_below_are_granted_there() {
        let reach = Reach {
            login: &mount("k8s"),
            roles: Some(&mount("jwt")),
            below: "team/a/",
        };
        let text = text(reach);
        for path in [
            "team/a/sys/policies/acl/*",
            "team/a/auth/jwt/role/*",
            "auth/k8s/role/*",
            "auth/k8s/config",
        ] {
            assert!(text.contains(&format!("path \"{path}\" {{")), "{text}");
        }
        assert!(!text.contains("\"sys/policies"), "{text}");
    }

    #[test]
    fn an_odd_mount_stays_within_its_quotes() {
        let odd = mount("a\" { capabilities = [\"sudo\"] } path \"b${x}\n");
        let policy = text(Reach {
            login: &odd,
            roles: None,
            below: "",
        });
        let grants = Policy::parse(&policy).unwrap();
        let shown = format!("{grants:?}");
        assert_eq!(policy.matches("\npath ").count(), 8, "{shown}");
    }

    #[test]
    fn the_policy_is_nobodys() {
        let reach = Reach {
            login: &mount("k8s"),
            roles: None,
            below: "",
        };
        assert_eq!(parse_header(&text(reach)), None);
    }
}
