//! The labels of the series; their order is that of the text.

use kernel::ObjectKey;
use prometheus_client::encoding::EncodeLabelSet;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfConnection {
    connection: String,
}

impl OfConnection {
    pub(super) fn new(connection: &str) -> Self {
        Self {
            connection: connection.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Check {
    connection: String,
    result: &'static str,
}

impl Check {
    pub(super) fn new(connection: &str, result: &'static str) -> Self {
        Self {
            connection: connection.to_owned(),
            result,
        }
    }
}

/// The predecessor's code says `result`, its architecture `status`; both mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Scan {
    connection: String,
    result: &'static str,
    status: &'static str,
}

impl Scan {
    pub(super) fn new(connection: &str, result: &'static str) -> Self {
        Self {
            connection: connection.to_owned(),
            result,
            status: result,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfType {
    connection: String,
    r#type: &'static str,
}

impl OfType {
    pub(super) fn new(connection: &str, what: &'static str) -> Self {
        Self {
            connection: connection.to_owned(),
            r#type: what,
        }
    }
}

/// Objects of a kind in a namespace; the empty one for kinds that have none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfKind {
    kind: String,
    namespace: String,
}

impl OfKind {
    pub(super) fn new(kind: &str, key: &ObjectKey) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn tally(&self, result: &'static str) -> Tally {
        let Self { kind, namespace } = self.clone();
        Tally {
            kind,
            namespace,
            result,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Tally {
    kind: String,
    namespace: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfObject {
    kind: String,
    namespace: String,
    name: String,
}

impl OfObject {
    pub(super) fn new(kind: &str, key: &ObjectKey) -> Self {
        let OfKind { kind, namespace } = OfKind::new(kind, key);
        Self {
            kind,
            namespace,
            name: key.name.as_ref().to_owned(),
        }
    }
}

/// The architecture's word for a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfResource {
    resource: String,
}

impl OfResource {
    pub(super) fn new(kind: &str) -> Self {
        Self {
            resource: kind.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PassEnd {
    resource: String,
    status: &'static str,
}

impl PassEnd {
    pub(super) fn new(kind: &str, status: &'static str) -> Self {
        Self {
            resource: kind.to_owned(),
            status,
        }
    }
}

/// The predecessor's code says `kind`, its architecture `resource`; both mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PassTime {
    kind: String,
    result: &'static str,
    resource: String,
}

impl PassTime {
    pub(super) fn new(kind: &str, result: &'static str) -> Self {
        Self {
            kind: kind.to_owned(),
            result,
            resource: kind.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CleanupTry {
    pub(super) resource_type: &'static str,
    pub(super) result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Call {
    pub(super) operation: &'static str,
    pub(super) status: &'static str,
}
