//! Whom a role may admit, and which policies it may bind.

use api::vault::{
    CrossNamespaceRefs, Duration, JwtRole, NamespaceChoice, Permission, PolicyKind,
    PolicyReference, RoleSpec,
};

use super::{Guard, Refusal, chosen, unless};

impl<'a> Guard<'a> {
    /// Whether a role may be what it is. The policies it binds are asked for one by one: see
    /// [`Guard::may_bind`].
    pub(crate) fn role(&self, spec: &RoleSpec) -> Result<(), Refusal> {
        self.admits()?;
        self.role_name(spec.external_name.as_deref())?;
        self.vault_namespace(spec.vault_namespace.as_deref())?;
        self.overrides(spec.jwt.as_ref())
    }

    /// A subject or claims of the role's own choice may be anybody's, of any namespace.
    fn overrides(&self, jwt: Option<&JwtRole>) -> Result<(), Refusal> {
        let allowed = self
            .tenancy
            .is_none_or(|tenancy| tenancy.jwt_overrides == Permission::Allow);
        let subject = jwt.and_then(|jwt| jwt.bound_subject.as_deref());
        let names_subject = subject.is_some_and(|subject| !subject.is_empty());
        let names_claims = jwt
            .is_some_and(|jwt| !jwt.bound_claims.is_empty() || !jwt.bound_claims_list.is_empty());
        unless(allowed || !(names_subject || names_claims), || {
            "jwt.boundSubject and bound claims are refused: the connection's tenancy.jwtOverrides \
             is Deny; name serviceAccounts instead"
                .to_owned()
        })
    }

    /// Whether a role here may bind the policy it refers to; `bindable_from` is that policy's.
    ///
    /// One that may not be bound is left out, and the role is written without it.
    pub(crate) fn may_bind(
        &self,
        reference: &PolicyReference,
        bindable_from: Option<&NamespaceChoice>,
    ) -> Result<(), Refusal> {
        let PolicyReference {
            kind,
            name,
            namespace,
        } = reference;
        let here = self.namespace.name;
        let there = match kind {
            PolicyKind::External => return self.external_policy(name),
            PolicyKind::VaultClusterPolicy => None,
            PolicyKind::VaultPolicy => {
                let given = namespace.as_deref().filter(|given| !given.is_empty());
                Some(given.unwrap_or(here))
            }
        };
        let asked = self
            .tenancy
            .is_some_and(|tenancy| tenancy.cross_namespace_refs == CrossNamespaceRefs::Granted);
        let granted = !asked
            || there == Some(here)
            || bindable_from.is_some_and(|choice| chosen(choice, &self.namespace));
        unless(granted, || {
            let policy = match there {
                Some(there) => format!("VaultPolicy {there}/{name}"),
                None => format!("VaultClusterPolicy {name}"),
            };
            format!(
                "{policy} may not be bound from namespace {here}: the connection's \
                 tenancy.crossNamespaceRefs is Granted, and the policy's bindableFrom does not \
                 pick {here}; have it added there"
            )
        })
    }

    /// The longest TTL, max TTL and period of a role's tokens. A max TTL that is unset, or 0 and so
    /// unset to Vault, becomes this. Nor is 0 a limit here: as a cap it would lift all others.
    pub(crate) fn max_token_ttl(&self) -> Option<&'a Duration> {
        self.tenancy
            .and_then(|tenancy| tenancy.max_token_ttl.as_ref())
            .filter(|longest| longest.as_secs() > 0)
    }
}
