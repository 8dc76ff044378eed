//! Which of the names in Vault are worth a look. Pure but for [`Listed::read`].

use api::vault::{Discovery, names as words};
use vault_client::{AuthMount, Client, Error};

use super::claims::Claims;
use crate::language::glob::Glob;
use crate::names;
use crate::place::Place;

/// All names in Vault.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    pub(super) policies: Vec<String>,
    /// The mount of roles, if there is one, and the names on it.
    pub(super) roles: Option<(AuthMount, Vec<String>)>,
}

impl Listed {
    pub(super) async fn read(client: &Client, mount: Option<AuthMount>) -> Result<Self, Error> {
        let policies = client.list_policies().await?;
        let roles = match mount {
            Some(mount) => {
                let names = client.list_roles(&mount).await?;
                Some((mount, names))
            }
            None => None,
        };
        Ok(Self { policies, roles })
    }

    /// All of them as places: policies first, each in the order of names.
    pub(super) fn places(self) -> Vec<Place> {
        let policies = self.policies.into_iter().map(|name| Place::Policy { name });
        let mut places: Vec<Place> = policies.collect();
        if let Some((mount, names)) = self.roles {
            let role = |name| Place::Role {
                mount: mount.clone(),
                name,
            };
            places.extend(names.into_iter().map(role));
        }
        places.sort();
        places.dedup();
        places
    }
}

/// What may be nobody's: only its marker can still tell.
///
/// | left out                                  | since                                        |
/// |-------------------------------------------|----------------------------------------------|
/// | Vault's own policies, and those that count as such | nobody declares them, unless asked for |
/// | no pattern matches                        | nobody asked for it                          |
/// | on record, here or as a leftover          | it is ours                                   |
/// | `vao.…`                                   | operators give these names, and mark them; an object cannot have one as its external name |
/// | `own`                                     | the operator itself stands on it             |
pub(super) fn candidates(
    listed: Listed,
    discovery: &Discovery,
    claims: &Claims,
    own: &[Place],
) -> Vec<Place> {
    let policies = Patterns::new(&discovery.policy_patterns);
    let roles = Patterns::new(&discovery.role_patterns);
    let is_asked_for = |place: &Place| match place {
        Place::Policy { name } => policies.match_name(name) && !is_system(discovery, name),
        Place::Role { name, .. } => roles.match_name(name),
    };
    let mut places = listed.places();
    places.retain(|place| {
        is_asked_for(place)
            && !is_given_by_operators(place)
            && !own.iter().any(|own| own.is(place))
            && !claims.is_recorded(place)
    });
    places
}

fn is_given_by_operators(place: &Place) -> bool {
    let name = place.name().to_lowercase();
    name.starts_with(words::NAME_PREFIX)
}

/// Whether a policy counts as Vault's own, and these are left out.
fn is_system(discovery: &Discovery, name: &str) -> bool {
    let custom = discovery.custom_system_policies.iter().map(String::as_str);
    let mut all = words::SYSTEM_POLICIES.into_iter().chain(custom);
    discovery.exclude_system_policies && all.any(|own| names::same(own, name))
}

/// Globs over names, in which case does not count; none match all.
struct Patterns(Option<Vec<Glob>>);

impl Patterns {
    /// A glob that makes no sense matches nothing.
    fn new(globs: &[String]) -> Self {
        let read = globs
            .iter()
            .filter_map(|glob| Glob::new(&glob.to_lowercase()).ok());
        Self((!globs.is_empty()).then(|| read.collect()))
    }

    fn match_name(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let globs = self.0.as_ref();
        globs.is_none_or(|globs| globs.iter().any(|glob| glob.matches(&name)))
    }
}

#[cfg(test)]
mod tests {
    use api::vault::VaultConnection;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn listed(policies: &[&str], roles: &[&str]) -> Listed {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Listed {
            policies: owned(policies),
            roles: Some((AuthMount::new("kubernetes"), owned(roles))),
        }
    }

    fn claims(recorded: &[&str]) -> Claims {
        let connection: VaultConnection = serde_json::from_value(json!({
            "metadata": {"name": "c"},
            "spec": {"address": "https://v", "auth": {"kubernetes": {"role": "operator"}}},
        }))
        .unwrap();
        let mut claims = Claims::new(&connection, None);
        for path in recorded {
            claims.add_leftover(&Place::parse(path).unwrap());
        }
        claims
    }

    #[rstest]
    #[case::all_by_default(json!({}), &[], "a app-1 App-2 x | app-1 r")]
    #[case::by_pattern(json!({"policyPatterns": ["app-*"], "rolePatterns": ["x*"]}), &[], "app-1 App-2 |")]
    #[case::patterns_are_of_their_kind(json!({"rolePatterns": ["app-?"]}), &[], "a app-1 App-2 x | app-1")]
    #[case::vaults_own_if_asked(json!({"excludeSystemPolicies": false, "rolePatterns": ["-"]}), &[], "a app-1 App-2 default root x |")]
    #[case::custom_ones_count_as_vaults_own(json!({"customSystemPolicies": ["A", "x"], "rolePatterns": ["-"]}), &[], "app-1 App-2 |")]
    #[case::custom_ones_if_asked(json!({"excludeSystemPolicies": false, "customSystemPolicies": ["a"], "policyPatterns": ["a"], "rolePatterns": ["-"]}), &[], "a |")]
    #[case::recorded_ones_are_ours(json!({"rolePatterns": ["app*"]}), &["sys/policies/acl/app-2", "auth/kubernetes/role/app-1"], "a app-1 x |")]
    #[case::elsewhere_is_not_here(json!({"policyPatterns": ["-"]}), &["auth/jwt/role/r"], "| app-1 r")]
    #[case::a_senseless_pattern_matches_nothing(json!({"policyPatterns": ["[a"], "rolePatterns": ["r"]}), &[], "| r")]
    fn names_are_left_out(
        #[case] discovery: Value,
        #[case] recorded: &[&str],
        #[case] expected: &str,
    ) {
        let discovery: Discovery = serde_json::from_value(discovery).unwrap();
        let all = listed(
            &[
                "root",
                "x",
                "default",
                "app-1",
                "App-2",
                "a",
                "vao.k.team-a.app",
                "vault-access-operator",
            ],
            &["r", "operator", "app-1", "VAO.k._.wide"],
        );
        let own = [
            "sys/policies/acl/vault-access-operator",
            "auth/kubernetes/role/operator",
        ];
        let own = own.map(|path| Place::parse(path).unwrap());
        let left = candidates(all, &discovery, &claims(recorded), &own);
        let (roles, policies): (Vec<_>, Vec<_>) =
            left.iter().partition(|place| place.mount().is_some());
        let mut names: Vec<&str> = policies.iter().map(|place| place.name()).collect();
        names.sort_by_key(|name| name.to_lowercase());
        names.push("|");
        names.extend(roles.iter().map(|place| place.name()));
        assert_eq!(names.join(" "), expected);
    }
}
