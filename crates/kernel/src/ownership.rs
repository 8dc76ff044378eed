//! The owner of an external resource, and whether we may touch it. Pure.
//!
//! Features parse their own marker (tags, comment lines, metadata keys) into an [`Ownership`];
//! the decision is made here, the same for all of them.

/// The owner of an external resource, by its marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// It has the marker of exactly this object.
    Ours,
    /// It has no marker.
    Unmarked,
    /// It has the marker of this owner.
    Foreign(String),
}

/// The user's request to adopt a resource that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdoptionRequest {
    /// The owner it may be taken from; without it only unmarked resources are adopted.
    pub from_owner: Option<String>,
}

/// What may be done with an existing resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    /// It is ours: write and delete it.
    Ours,
    /// The user requested it: set our marker first, then treat it as ours.
    Adopt {
        /// The owner it is taken from; none if it was unmarked.
        from: Option<String>,
    },
    /// Neither write nor delete it. Never [`Ownership::Ours`].
    Refuse(Ownership),
}

/// | marker  | on record | adoption        | touch                    |
/// |---------|-----------|-----------------|--------------------------|
/// | ours    | any       | any             | ours                     |
/// | none    | yes       | any             | ours                     |
/// | none    | no        | requested       | adopt                    |
/// | none    | no        | not requested   | refuse                   |
/// | foreign | any       | from that owner | adopt from it            |
/// | foreign | any       | other or none   | refuse, names the owner  |
///
/// `on_record` means that our status names exactly this resource (by its id, not by its name alone).
/// Pass no adoption if a policy forbids it, and none if the object is being deleted.
pub fn may_touch(
    ownership: Ownership,
    on_record: bool,
    adoption: Option<&AdoptionRequest>,
) -> Touch {
    match (ownership, on_record, adoption) {
        (Ownership::Ours, _, _) | (Ownership::Unmarked, true, _) => Touch::Ours,
        (Ownership::Unmarked, false, Some(_)) => Touch::Adopt { from: None },
        (Ownership::Unmarked, false, None) => Touch::Refuse(Ownership::Unmarked),
        (Ownership::Foreign(owner), _, Some(adoption))
            if adoption.from_owner.as_deref() == Some(&*owner) =>
        {
            Touch::Adopt { from: Some(owner) }
        }
        (Ownership::Foreign(owner), _, _) => Touch::Refuse(Ownership::Foreign(owner)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn foreign(owner: &str) -> Ownership {
        Ownership::Foreign(owner.to_owned())
    }

    fn adopt(from: Option<&str>) -> Touch {
        let from = from.map(str::to_owned);
        Touch::Adopt { from }
    }

    fn request(from_owner: Option<&str>) -> AdoptionRequest {
        let from_owner = from_owner.map(str::to_owned);
        AdoptionRequest { from_owner }
    }

    #[rstest] //                      marker               on record  adoption            so
    #[case::our_marker(Ownership::Ours, false, None, Touch::Ours)]
    #[case::our_marker_on_record(Ownership::Ours, true, Some(request(None)), Touch::Ours)]
    #[case::lost_its_marker(Ownership::Unmarked, true, None, Touch::Ours)]
    #[case::unmarked_and_requested(Ownership::Unmarked, false, Some(request(None)), adopt(None))]
    #[case::unmarked(Ownership::Unmarked, false, None, Touch::Refuse(Ownership::Unmarked))]
    #[case::from_its_owner(foreign("a"), false, Some(request(Some("a"))), adopt(Some("a")))]
    #[case::from_another(
        foreign("a"),
        false,
        Some(request(Some("b"))),
        Touch::Refuse(foreign("a"))
    )]
    #[case::adoption_of_unmarked_only(
        foreign("a"),
        false,
        Some(request(None)),
        Touch::Refuse(foreign("a"))
    )]
    #[case::foreign_though_on_record(foreign("a"), true, None, Touch::Refuse(foreign("a")))]
    fn rule(
        #[case] ownership: Ownership,
        #[case] on_record: bool,
        #[case] adoption: Option<AdoptionRequest>,
        #[case] expected: Touch,
    ) {
        assert_eq!(may_touch(ownership, on_record, adoption.as_ref()), expected);
    }
}
