//! Whether a source may do what it says: make such objects, perhaps in another namespace, and read
//! a table with a role.
//!
//! | what it names                                           | is judged in              |
//! |---------------------------------------------------------|---------------------------|
//! | its DynamoDB table, and the role to read it             | its own namespace         |
//! | its distribution; the template's zones, role and group, |                           |
//! | and whether records are adopted                         | the namespace it aims at  |
//!
//! Where both are one, a single policy has to allow all of it. What rows name, and domains, are
//! judged with each object. Deletions of objects that are there already never ask.

use std::collections::BTreeMap;

use api::tenants::{
    Dns, DnsProvider, RecordAdoption, SourceProvider, TenantSource, TenantSourceSpec, names,
    reasons,
};
use kernel::{ObjectKey, Reason};

use super::given;
use crate::allowed::{Group, Leave, Named, Namespace, Policy, allowed};
use crate::ctx::Ctx;

/// Leave to read the table and to make objects of it.
///
/// # Errors
/// Who refuses what.
pub(super) fn leave(source: &TenantSource, ctx: &Ctx) -> Result<Leave, Reason> {
    Wish::of(source, ctx).judged(ctx)
}

/// Whether leave depends on which group is the default one, and that is not known yet.
pub(super) fn hinges_on_default(source: &TenantSource, ctx: &Ctx) -> bool {
    let wish = Wish::of(source, ctx);
    let group = wish.objects.group.filter(|group| !group.default);
    let Some(group) = group else {
        return false;
    };
    let default = Group {
        default: true,
        ..group
    };
    let mut as_default = wish.clone();
    as_default.objects.group = Some(default);
    wish.judged(ctx).is_err() && as_default.judged(ctx).is_ok()
}

/// All that a source names, and where.
#[derive(Debug, Clone)]
struct Wish<'a> {
    own: &'a str,
    target: &'a str,
    /// What all its objects name.
    objects: Named<'a>,
    /// What reading names, if that needs leave.
    table: Option<Named<'a>>,
}

impl<'a> Wish<'a> {
    fn of(source: &'a TenantSource, ctx: &Ctx) -> Self {
        Self {
            own: super::own(source),
            target: super::target(source),
            objects: objects(&source.spec, |id| ctx.group(id)),
            table: table(&source.spec),
        }
    }

    fn judged(&self, ctx: &Ctx) -> Result<Leave, Reason> {
        let (own, target) = (self.own, self.target);
        if own != target {
            let namespaces = ctx.caches.namespaces.store();
            let held = namespaces.get(&ObjectKey::cluster(target));
            let held = held.ok_or_else(|| missing(own, target))?;
            let accepts = held.annotation(names::ACCEPT_SOURCES);
            accepted(own, target, accepts.as_deref())?;
        }
        let (held, required) = ctx.policies();
        let policies = held.iter().map(|(name, spec)| Policy { name, spec });
        let law = Law {
            policies: &policies.collect::<Vec<_>>(),
            required,
            own: &ctx.labels(own),
            target: &ctx.labels(target),
        };
        law.judged(self)
    }
}

/// What all objects of a source name; `group` knows groups by their ids.
fn objects<'a>(
    spec: &'a TenantSourceSpec,
    group: impl FnOnce(Option<&'a str>) -> Group<'a>,
) -> Named<'a> {
    let settings = spec.template.as_ref().map(|template| &template.settings);
    let dns = settings.and_then(|settings| settings.dns.as_ref());
    let dns = dns.filter(|dns| dns.provider == DnsProvider::Route53);
    let id = settings.and_then(|settings| given(settings.connection_group_id.as_deref()));
    let refers = settings.is_some_and(|settings| settings.connection_group_ref.is_some());
    Named {
        distribution: Some(&spec.distribution_id),
        zones: dns.into_iter().flat_map(Dns::zones).collect(),
        role: dns.and_then(Dns::role),
        // One that is referred to is judged with each object, by its id.
        group: (!refers || id.is_some()).then(|| group(id)),
        adoption: dns.is_some_and(|dns| dns.record_adoption != RecordAdoption::Never),
        ..Named::default()
    }
}

fn table(spec: &TenantSourceSpec) -> Option<Named<'_>> {
    let table = spec.dynamodb.as_ref();
    let table = table.filter(|_| spec.provider == SourceProvider::DynamoDb)?;
    Some(Named {
        role: given(table.assume_role_arn.as_deref()),
        table: Some(&table.table_name),
        ..Named::default()
    })
}

/// By what is judged.
struct Law<'a> {
    policies: &'a [Policy<'a>],
    required: bool,
    /// The labels of the source's namespace.
    own: &'a BTreeMap<String, String>,
    /// Those of the namespace it aims at.
    target: &'a BTreeMap<String, String>,
}

impl Law<'_> {
    /// Leave to read: the external id is that of the table's role.
    fn judged(&self, wish: &Wish<'_>) -> Result<Leave, Reason> {
        let Wish {
            own,
            target,
            ref objects,
            ref table,
        } = *wish;
        let here = Namespace {
            name: own,
            labels: self.own,
        };
        let there = Namespace {
            name: target,
            labels: self.target,
        };
        let by = |policies: &[Policy<'_>], namespace, named: &Named<'_>| {
            allowed(policies, self.required, namespace, named)
        };
        let Some(table) = table else {
            return by(self.policies, there, objects);
        };
        if own != target {
            by(self.policies, there, objects)?;
            return by(self.policies, here, table);
        }
        // Both may name a role: among the policies that allow all else, one has to allow the
        // table's, too.
        let objects = Named {
            table: table.table,
            ..objects.clone()
        };
        by(self.policies, here, &objects)?;
        let each = self.policies.iter().copied();
        let granting = each.filter(|policy| by(&[*policy], here, &objects).is_ok());
        by(&granting.collect::<Vec<_>>(), here, table)
    }
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

#[cfg(test)]
mod tests;
