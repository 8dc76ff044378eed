//! One line of an outlook.

/// One thing that would be done, or why it would not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) does: Does,
    /// What it is about: a field, a tag, a record.
    pub(crate) what: String,
    /// What the spec wants there; none is nothing.
    pub(crate) want: Option<String>,
    /// What was last given to AWS.
    pub(crate) last: Option<String>,
    /// What AWS has.
    pub(crate) live: Option<String>,
    pub(crate) why: String,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Create,
    Adopt,
    Update,
    /// An Update that attaches the managed certificate.
    Attach,
    Tag,
    Untag,
    Disable,
    Delete,
    /// Others changed it: told, and left so.
    Report,
    /// Others changed it, or have it: left alone.
    Leave,
    /// Nothing is done for the object at all.
    Refuse,
}

impl Does {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Adopt => "adopt",
            Self::Update => "update",
            Self::Attach => "attach",
            Self::Tag => "tag",
            Self::Untag => "untag",
            Self::Disable => "disable",
            Self::Delete => "delete",
            Self::Report => "report",
            Self::Leave => "leave",
            Self::Refuse => "refuse",
        }
    }

    /// Whether AWS is not as the object says, or will not stay as it is.
    pub(crate) fn counts(self) -> bool {
        match self {
            Self::Leave => false,
            Self::Create
            | Self::Adopt
            | Self::Update
            | Self::Attach
            | Self::Tag
            | Self::Untag
            | Self::Disable
            | Self::Delete
            | Self::Report
            | Self::Refuse => true,
        }
    }
}

impl Step {
    pub(super) fn new(does: Does, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            does,
            what: what.into(),
            want: None,
            last: None,
            live: None,
            why: why.into(),
        }
    }
}
