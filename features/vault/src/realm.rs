//! Which Vault a connection leads to, and which namespace in it. Two connections can lead to one.

use api::vault::VaultConnection;
use reqwest::Url;
use vault_client::Health;

/// A Vault, and a namespace in it.
#[derive(Debug, Clone)]
pub(crate) struct Realm {
    address: String,
    /// As the server last answered; none if it did not yet.
    health: Option<Health>,
    /// From the root; none for the root.
    namespace: Option<String>,
}

impl Realm {
    /// Where an object with this namespace of its own gets over `connection`.
    pub(crate) fn new(
        connection: &VaultConnection,
        health: Option<Health>,
        own: Option<&str>,
    ) -> Self {
        let spec = &connection.spec;
        let namespace = namespace(spec.vault_namespace.as_deref(), own);
        Self::at(&spec.address, health, namespace)
    }

    /// The same by address, and by its namespace from the root.
    pub(crate) fn at(address: &str, health: Option<Health>, namespace: Option<String>) -> Self {
        Self {
            address: normal(address),
            health,
            namespace,
        }
    }

    /// Whether both are the same: by their address, or by the cluster ID that both servers gave.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let id = |realm: &Self| realm.health.as_ref()?.cluster_id.clone();
        let is_one = self.address == other.address || (id(self).is_some() && id(self) == id(other));
        self.namespace == other.namespace && is_one
    }

    /// The same where doubt counts as yes: a server that has not answered may be any.
    pub(crate) fn may_be(&self, other: &Self) -> bool {
        let is_doubtful = self.health.is_none() || other.health.is_none();
        self.is(other) || (is_doubtful && self.namespace == other.namespace)
    }
}

/// Whether both addresses are the same but for case, slashes at the end and a default port.
pub(crate) fn is_same_address(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

fn normal(address: &str) -> String {
    let url = Url::parse(address).map_or_else(|_| address.to_owned(), String::from);
    url.trim_end_matches('/').to_owned()
}

/// The namespace `own` below `parent`, from the root; none for the root.
pub(crate) fn namespace(parent: Option<&str>, own: Option<&str>) -> Option<String> {
    let parts = [parent, own].into_iter().flatten();
    let parts = parts.map(|part| part.trim_matches('/'));
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use vault_client::ServerState;

    use super::*;

    fn answered(cluster_id: Option<&str>) -> Health {
        Health {
            state: ServerState::Active,
            version: "1.21.1".to_owned(),
            enterprise: Some(false),
            cluster_id: cluster_id.map(str::to_owned),
        }
    }

    #[rstest] //                    address                 namespace      answer                 is     may be
    #[case::itself("https://vault", Some("team"), Some(answered(Some("v"))), true, true)]
    #[case::with_a_slash("https://vault/", Some("/team/"), None, true, true)]
    #[case::in_capitals("https://VAULT:443", Some("team"), None, true, true)]
    #[case::by_another_name(
        "https://10.0.0.1",
        Some("team"),
        Some(answered(Some("v"))),
        true,
        true
    )]
    #[case::another("https://other", Some("team"), Some(answered(Some("w"))), false, false)]
    #[case::one_without_an_id("https://other", Some("team"), Some(answered(None)), false, false)]
    #[case::one_that_has_not_answered("https://other", Some("team"), None, false, true)]
    #[case::another_path("https://vault/below", Some("team"), None, false, true)]
    #[case::another_port("https://vault:8200", Some("team"), None, false, true)]
    #[case::the_root("https://vault", None, Some(answered(Some("v"))), false, false)]
    fn one_vault_has_many_addresses(
        #[case] address: &str,
        #[case] own: Option<&str>,
        #[case] health: Option<Health>,
        #[case] is: bool,
        #[case] may_be: bool,
    ) {
        let here = Realm::at(
            "https://vault",
            Some(answered(Some("v"))),
            Some("team".to_owned()),
        );
        let there = Realm::at(address, health, namespace(None, own));
        assert_eq!((there.is(&here), here.is(&there)), (is, is));
        assert_eq!((there.may_be(&here), here.may_be(&there)), (may_be, may_be));
    }

    #[test]
    fn servers_without_an_id_are_not_the_same() {
        let at = |address| Realm::at(address, Some(answered(None)), None);
        assert!(!at("https://a").is(&at("https://b")));
    }
}
