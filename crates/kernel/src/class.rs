//! What an error means to us, whoever raised it.

/// What an error from outside means for the caller.
///
/// A client gives an error its class where the error enters; nothing further up reads status codes
/// or messages.
///
/// # When not to use it
/// For what the user gets to read: that is a [`Reason`](crate::Reason), and it keeps the original
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Too many calls. Slow down the whole account or connection, then try again.
    Throttled,
    /// The other side failed in a way that passes. Try again later.
    Transient,
    /// No answer came, so it is unknown whether the call had an effect. Look before repeating it.
    Unreachable,
    /// The thing asked for does not exist. When deleting, this is success.
    NotFound,
    /// Something of that name exists already. Find out whose it is before going on.
    AlreadyExists,
    /// Someone else owns or holds what we would change. Leave it and name the owner.
    Conflict,
    /// We acted on an old view of the world. Read again and decide anew.
    Stale,
    /// We are not permitted to. A person has to grant it.
    Denied,
    /// The request itself is wrong. A person has to change the spec.
    Invalid,
    /// A quota is used up. A person has to raise it or free something.
    LimitExceeded,
    /// Vault is sealed. Everything that depends on it waits until it is unsealed.
    Sealed,
    /// We are no longer the leader. Write nothing, and drop the work in hand.
    Deposed,
}

impl Class {
    /// The class as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Transient => "transient",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Stale => "stale",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::LimitExceeded => "limit_exceeded",
            Self::Sealed => "sealed",
            Self::Deposed => "deposed",
        }
    }

    /// Whether time alone is expected to cure it, without anyone changing the spec, a permission or
    /// a quota.
    ///
    /// A sealed Vault counts: it is unsealed by people, but our objects need no touch afterwards.
    pub fn heals_by_itself(self) -> bool {
        match self {
            Self::Throttled
            | Self::Transient
            | Self::Unreachable
            | Self::Stale
            | Self::Sealed
            | Self::Deposed => true,
            Self::NotFound
            | Self::AlreadyExists
            | Self::Conflict
            | Self::Denied
            | Self::Invalid
            | Self::LimitExceeded => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest] //                      class                 label              heals
    #[case::too_many_calls(Class::Throttled, "throttled", true)]
    #[case::passing_failure(Class::Transient, "transient", true)]
    #[case::no_answer(Class::Unreachable, "unreachable", true)]
    #[case::missing(Class::NotFound, "not_found", false)]
    #[case::name_taken(Class::AlreadyExists, "already_exists", false)]
    #[case::foreign(Class::Conflict, "conflict", false)]
    #[case::old_view(Class::Stale, "stale", true)]
    #[case::not_permitted(Class::Denied, "denied", false)]
    #[case::wrong_request(Class::Invalid, "invalid", false)]
    #[case::quota(Class::LimitExceeded, "limit_exceeded", false)]
    #[case::sealed_vault(Class::Sealed, "sealed", true)]
    #[case::lost_lease(Class::Deposed, "deposed", true)]
    fn a_class_has_one_label_and_one_cure(
        #[case] class: Class,
        #[case] label: &str,
        #[case] heals: bool,
    ) {
        assert_eq!(class.as_str(), label);
        assert_eq!(class.heals_by_itself(), heals);
    }
}
