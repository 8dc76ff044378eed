//! Why a kubeconfig is refused.

/// A kubeconfig that is not used.
///
/// Prints the field, why it is refused, and what to write instead. No value of the kubeconfig can be in
/// it: besides the path of the field it is made of constants only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}; {instead}")]
pub struct RefusedKubeconfig {
    field: String,
    why: &'static str,
    instead: &'static str,
}

impl RefusedKubeconfig {
    pub(crate) fn new(field: impl Into<String>, why: &'static str, instead: &'static str) -> Self {
        Self {
            field: field.into(),
            why,
            instead,
        }
    }

    /// The path of the field, such as `users[0].user.exec`; `the kubeconfig` if it is refused whole, and
    /// `line 3` if it is no YAML from there on.
    ///
    /// The name of a field that no kubeconfig has is `***` unless it consists of up to 32 letters and
    /// dashes: it could be a secret in the wrong column.
    pub fn field(&self) -> &str {
        &self.field
    }
}
