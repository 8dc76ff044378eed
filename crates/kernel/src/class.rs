//! Classes of errors, the same for all services.

/// What an error of an external service means for the caller.
///
/// The client of the service classifies the error; no other code reads status codes or messages.
///
/// # When not to use it
/// For texts for the user: use a [`Reason`](crate::Reason), which keeps the original message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Too many calls. Lower the rate of the whole account or connection, then try again.
    Throttled,
    /// The service failed with a transient error. Try again later.
    Transient,
    /// No answer came, so it is unknown whether the call had an effect. Read before repeating it.
    Unreachable,
    /// The resource does not exist. For a deletion this is a success.
    NotFound,
    /// A resource of that name exists already. Check its owner before going on.
    AlreadyExists,
    /// Another owner has or uses the resource. Do not change it, and name the owner.
    Conflict,
    /// We acted on stale data. Read again and decide again.
    Stale,
    /// We lack a permission. A person has to grant it.
    Denied,
    /// The request is not valid. A person has to change the spec.
    Invalid,
    /// A quota is used up. A person has to raise it or delete something.
    LimitExceeded,
    /// Vault is sealed. Everything that depends on it waits until it is unsealed.
    Sealed,
    /// We are no longer the leader. Write nothing and end the pass.
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

    /// Whether the error is expected to end without a change of the spec, a permission or a quota.
    ///
    /// A sealed Vault counts: people unseal it, but nobody has to change our objects afterwards.
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
    fn a_class_has_one_label_and_may_heal_by_itself(
        #[case] class: Class,
        #[case] label: &str,
        #[case] heals: bool,
    ) {
        assert_eq!(class.as_str(), label);
        assert_eq!(class.heals_by_itself(), heals);
    }
}
