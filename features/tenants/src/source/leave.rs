//! Whether a source may do what it says: make objects in another namespace, and read a table with a
//! role. Deletions of objects that are there already never ask.

use std::collections::BTreeMap;

use api::tenants::{SourceProvider, TenantPolicy, TenantPolicySpec, TenantSource, names, reasons};
use engine::Kind;
use kernel::{ObjectKey, Reason};

use crate::allowed::{Leave, Named, Namespace, Policy, allowed};
use crate::ctx::Ctx;

/// Leave to read the table and to make objects of it.
///
/// # Errors
/// Who refuses what.
pub(super) fn leave(source: &TenantSource, ctx: &Ctx) -> Result<Leave, Reason> {
    let own = source.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = |name: &str| ctx.caches.namespaces.store().get(&ObjectKey::cluster(name));
    if let Some(target) = source
        .spec
        .target_namespace
        .as_deref()
        .filter(|target| *target != own)
    {
        let held = namespace(target).ok_or_else(|| missing(own, target))?;
        let accepts = held.annotation(names::ACCEPT_SOURCES);
        accepted(own, target, accepts.as_deref())?;
    }
    let table = source.spec.dynamodb.as_ref();
    let Some(table) = table.filter(|_| source.spec.provider == SourceProvider::DynamoDb) else {
        return Ok(Leave::default());
    };
    let labels = namespace(own).and_then(|held| held.metadata().labels);
    let labels: BTreeMap<_, _> = labels.unwrap_or_default();
    let policies = policies(ctx);
    let policies: Vec<Policy<'_>> = policies
        .iter()
        .map(|(name, spec)| Policy { name, spec })
        .collect();
    let named = Named {
        role: table.assume_role_arn.as_deref(),
        table: Some(&table.table_name),
        ..Named::default()
    };
    let here = Namespace {
        name: own,
        labels: &labels,
    };
    allowed(&policies, !ctx.settings.open, here, &named)
}

fn missing(own: &str, target: &str) -> Reason {
    denied(format!(
        "there is no namespace {target} to make objects in; correct targetNamespace, or have it \
         created with the annotation {}={own}",
        names::ACCEPT_SOURCES
    ))
}

/// Whether the namespace `target` takes objects from sources in `own`, by its annotation.
fn accepted(own: &str, target: &str, accepts: Option<&str>) -> Result<(), Reason> {
    let mut listed = accepts.unwrap_or_default().split(',').map(str::trim);
    if listed.any(|accepted| accepted == own) {
        return Ok(());
    }
    Err(denied(format!(
        "namespace {target} does not accept sources of {own}; have {own} added to its annotation \
         {}",
        names::ACCEPT_SOURCES
    )))
}

fn denied(message: String) -> Reason {
    Reason::new(reasons::POLICY_DENIED, message)
}

/// All policies. One that cannot be read is there, and allows nothing.
fn policies(ctx: &Ctx) -> Vec<(String, TenantPolicySpec)> {
    let kind = Kind::of::<TenantPolicy>();
    let all = ctx.caches.policies.store().all().into_iter();
    all.map(|held| {
        let spec = held.parse::<TenantPolicy>(&kind).map(|policy| policy.spec);
        (
            held.key().name.to_string(),
            spec.unwrap_or_else(|_| senseless()),
        )
    })
    .collect()
}

fn senseless() -> TenantPolicySpec {
    TenantPolicySpec {
        namespaces: Vec::new(),
        namespace_selector: None,
        distributions: Vec::new(),
        hosted_zones: Vec::new(),
        roles: Vec::new(),
        dynamodb_tables: Vec::new(),
        connection_groups: None,
        domains: None,
        adoption: false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::named(Some("team"), true)]
    #[case::among_others(Some("a, team ,b"), true)]
    #[case::others_only(Some("teams,tea"), false)]
    #[case::empty(Some(""), false)]
    #[case::no_annotation(None, false)]
    fn another_namespace_has_to_accept(#[case] accepts: Option<&str>, #[case] holds: bool) {
        match accepted("team", "web", accepts) {
            Ok(()) => assert!(holds),
            Err(reason) => {
                assert!(!holds);
                assert_eq!(reason.code, reasons::POLICY_DENIED);
                let said = "namespace web does not accept sources of team";
                assert!(reason.message.starts_with(said), "{}", reason.message);
                assert!(reason.message.ends_with(names::ACCEPT_SOURCES));
            }
        }
    }

    #[test]
    fn a_policy_that_cannot_be_read_allows_nothing() {
        let spec = senseless();
        let policy = Policy {
            name: "p",
            spec: &spec,
        };
        let named = Named {
            table: Some("t"),
            ..Named::default()
        };
        let labels = BTreeMap::new();
        let here = Namespace {
            name: "team",
            labels: &labels,
        };
        assert!(allowed(&[policy], false, here, &named).is_err());
    }
}
