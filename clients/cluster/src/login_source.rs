//! Where a login is read from, and which of two readings counts.

use std::fmt;

use kernel::ObjectKey;

use crate::{Login, VettedKubeconfig};

/// The key of a Secret that a login is read from. Connections with different sources do not share a login.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoginSource {
    /// The Secret.
    pub secret: ObjectKey,
    /// Its key.
    pub key: String,
}

impl fmt::Display for LoginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.secret, self.key)
    }
}

/// A login, and the resourceVersion of the Secret that it was read from.
#[derive(Debug, Clone)]
pub struct VersionedLogin {
    login: Login,
    version: String,
}

impl VersionedLogin {
    /// The login of a kubeconfig from a Secret of this resourceVersion.
    pub fn of(kubeconfig: &VettedKubeconfig, version: Option<&str>) -> Self {
        Self {
            login: kubeconfig.login().clone(),
            version: version.unwrap_or_default().to_owned(),
        }
    }

    /// Replaces the login by one that was read later. `relogin` makes another login effective.
    ///
    /// Concurrent passes may read different versions of the Secret: an older one changes nothing. A version that
    /// is not a number is never older. After a restore of etcd, new versions may be lower for a while: the login
    /// then stays the same until the operator restarts or the versions are higher.
    ///
    /// # Errors
    /// That of `relogin`. The login is then the same as before.
    pub fn replace<E>(
        &mut self,
        read: Self,
        relogin: impl FnOnce(&Login) -> Result<(), E>,
    ) -> Result<(), E> {
        if is_older(&read.version, &self.version) {
            return Ok(());
        }
        if self.login != read.login {
            relogin(&read.login)?;
        }
        *self = read;
        Ok(())
    }
}

fn is_older(read: &str, used: &str) -> bool {
    let numbers = (read.parse::<u64>(), used.parse::<u64>());
    matches!(numbers, (Ok(read), Ok(used)) if read < used)
}

#[cfg(test)]
mod tests {
    use kernel::Redacted;
    use rstest::rstest;

    use super::*;

    fn login(token: &str, version: &str) -> VersionedLogin {
        VersionedLogin {
            login: Login::Token(Redacted::from(token.to_owned())),
            version: version.to_owned(),
        }
    }

    #[rstest] // token and version of the read Secret
    #[case::older("b", "9", false, "10")]
    #[case::the_same("a", "10", false, "10")]
    #[case::newer("b", "11", true, "11")]
    #[case::newer_with_the_same_login("a", "11", false, "11")]
    #[case::not_a_number("b", "a9", true, "a9")]
    fn an_older_secret_changes_no_login(
        #[case] token: &str,
        #[case] version: &str,
        #[case] is_changed: bool,
        #[case] expected: &str,
    ) {
        let mut used = login("a", "10");
        let mut relogins = 0;
        let replaced = used.replace(login(token, version), |_| {
            relogins += 1;
            Ok::<_, ()>(())
        });
        assert_eq!(replaced, Ok(()));
        assert_eq!((relogins > 0, &*used.version), (is_changed, expected));
    }

    #[test]
    fn a_login_that_cannot_be_used_replaces_nothing() {
        let mut used = login("a", "10");
        assert_eq!(
            used.replace(login("b", "11"), |_| Err("refused")),
            Err("refused")
        );
        assert_eq!(used.version, "10");
    }

    #[test]
    fn a_source_prints_secret_and_key() {
        let source = LoginSource {
            secret: ObjectKey::namespaced("ops", "src"),
            key: "kubeconfig".to_owned(),
        };
        assert_eq!(source.to_string(), "ops/src (kubeconfig)");
    }
}
