//! The marker on a mount that bootstrap enabled: the mount's description.

use std::fmt;

use api::vault::names::SENTINEL;

/// Which cluster enabled a mount, and for which connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountMarker {
    /// How the cluster is called in names, see [`identity`](crate::names::identity).
    pub(crate) identity: String,
    /// The VaultConnection.
    pub(crate) connection: String,
}

impl MountMarker {
    /// The marker in a description. People may have added words of their own.
    pub(crate) fn parse(description: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut pairs = description.split_whitespace().filter_map(pair);
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        (value("managed-by")? == SENTINEL).then_some(())?;
        Some(Self {
            identity: value("identity")?.to_owned(),
            connection: value("connection")?.to_owned(),
        })
    }

    /// Whether a description carries this very marker.
    pub(crate) fn is_on(&self, description: &str) -> bool {
        Self::parse(description).as_ref() == Some(self)
    }
}

fn pair(word: &str) -> Option<(&str, &str)> {
    word.split_once('=')
}

impl fmt::Display for MountMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            identity,
            connection,
        } = self;
        write!(
            f,
            "managed-by={SENTINEL} identity={identity} connection={connection}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn ours() -> MountMarker {
        MountMarker {
            identity: "prod".into(),
            connection: "c".into(),
        }
    }

    #[rstest]
    #[case::as_written("managed-by=vault-access-operator identity=prod connection=c", true)]
    #[case::with_words_added(
        "Prod, ask ops. managed-by=vault-access-operator identity=prod connection=c do not touch",
        true
    )]
    #[case::another_cluster("managed-by=vault-access-operator identity=test connection=c", false)]
    #[case::another_connection(
        "managed-by=vault-access-operator identity=prod connection=d",
        false
    )]
    #[case::another_operator("managed-by=somebody identity=prod connection=c", false)]
    #[case::half_of_it("managed-by=vault-access-operator identity=prod", false)]
    #[case::nothing("", false)]
    fn only_the_whole_marker_is_ours(#[case] description: &str, #[case] is_ours: bool) {
        assert_eq!(ours().is_on(description), is_ours);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(identity in "[a-z0-9_-]{1,20}", connection in "[a-z0-9][a-z0-9.-]{0,20}") {
            let marker = MountMarker { identity, connection };
            prop_assert_eq!(MountMarker::parse(&marker.to_string()), Some(marker));
        }

        #[test]
        fn any_description_is_read_without_panic(description in ".{0,80}") {
            MountMarker::parse(&description);
        }
    }
}
