//! What a read of a cluster or of EC2 gave, and what follows if it gave nothing.

/// A part of the survey.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Reading<T> {
    /// The answer. An object that does not exist is an answer.
    Read(T),
    /// The server refused the read, with this message.
    Denied(String),
    /// No answer came.
    Unreachable(Outage),
    /// The read was not made, because something else must be repaired first.
    #[default]
    NotRead,
}

/// Why no answer came. Each passes without a change of the migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outage {
    /// A cluster did not answer, with this message.
    Cluster(String),
    /// A cluster refused the login, with this message.
    Login(String),
    /// EC2 did not answer, or only with errors that pass, with this message.
    Ec2(String),
}

impl Outage {
    /// The message of the call that failed.
    pub fn message(&self) -> &str {
        match self {
            Self::Cluster(message) | Self::Login(message) | Self::Ec2(message) => message,
        }
    }
}

/// Why a rule could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The server refused the read, with this message.
    Denied(String),
    /// No answer came.
    Unreachable(Outage),
    /// The read was not made.
    NotRead,
}

/// A part of the survey that a rule needs and that was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// What was to be read, such as `nodes of the destination`.
    pub subject: String,
    /// Why it was not.
    pub obstacle: Obstacle,
}

impl<T> Reading<T> {
    /// The answer, or what is missing for rules about `subject`.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn get(&self, subject: impl Into<String>) -> Result<&T, Unread> {
        let obstacle = match self {
            Self::Read(answer) => return Ok(answer),
            Self::Denied(message) => Obstacle::Denied(message.clone()),
            Self::Unreachable(outage) => Obstacle::Unreachable(outage.clone()),
            Self::NotRead => Obstacle::NotRead,
        };
        Err(Unread {
            subject: subject.into(),
            obstacle,
        })
    }
}

impl Obstacle {
    /// For `found …` of a message.
    pub(super) fn found(&self) -> String {
        match self {
            Self::Denied(message) => format!("access denied ({message})"),
            Self::Unreachable(outage) => format!("no answer ({})", outage.message()),
            Self::NotRead => "it was not read".to_owned(),
        }
    }
}
