//! Who asks, and what a role may do.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Ec2;
use super::error::dry_run;
use super::inventory::Tags;
use crate::accounts::{Caller, DEFAULT_ACCOUNT};
use crate::protocol::{ApiError, Protocol};
use crate::shelf::View;

/// Who asks, when, and how fresh the answer is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) account: &'a str,
    /// Empty for all regions.
    pub(super) region: &'a str,
    pub(super) caller: Option<&'a Caller>,
    pub(super) operation: &'a str,
    pub(super) now: Timestamp,
    pub(super) view: View,
    pub(super) dry_run: bool,
}

impl Asker<'_> {
    /// Somebody of the default account who may do everything, now.
    pub(super) fn anybody(now: Timestamp) -> Self {
        Self {
            account: DEFAULT_ACCOUNT,
            region: "",
            caller: None,
            operation: "",
            now,
            view: View::Live,
            dry_run: false,
        }
    }

    /// How violations and the timeline name the caller.
    pub(super) fn name(&self) -> &str {
        self.caller.map_or("somebody", Caller::name)
    }
}

/// What a role may not do; everything else is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RoleRules {
    /// Actions, without `ec2:`; `*` for all.
    pub(super) deny: Vec<String>,
    /// Tags that a volume or a snapshot must have; an absent value is any.
    pub(super) require_tag: BTreeMap<String, Option<String>>,
}

/// A resource that an action concerns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resource<'a> {
    /// `volume` or `snapshot`.
    pub(super) kind: &'a str,
    pub(super) id: &'a str,
    pub(super) tags: &'a Tags,
}

impl Ec2 {
    /// Refuses an action that is denied to the role of the caller.
    pub(super) fn allow(&self, asker: &Asker<'_>) -> Result<(), ApiError> {
        let denies = |rules: &&RoleRules| {
            let mut denied = rules.deny.iter();
            denied.any(|action| action == "*" || action == asker.operation)
        };
        match self.rules_of(asker.caller).find(denies) {
            Some(_) => Err(unauthorized(asker, None)),
            None => Ok(()),
        }
    }

    /// Refuses an action on a resource without the tags that the role of the caller requires, then ends
    /// a dry run.
    pub(super) fn allow_on(&self, asker: &Asker<'_>, of: Resource<'_>) -> Result<(), ApiError> {
        let mut required = self
            .rules_of(asker.caller)
            .flat_map(|rules| &rules.require_tag);
        let has = |(key, value): (&String, &Option<String>)| {
            let is = of.tags.get(key);
            is.is_some_and(|is| value.as_ref().is_none_or(|value| value == is))
        };
        if !required.all(has) {
            return Err(unauthorized(asker, Some(of)));
        }
        rehearsed(asker)
    }

    fn rules_of(&self, caller: Option<&Caller>) -> impl Iterator<Item = &RoleRules> {
        let roles = self.roles.iter();
        let own = roles.filter(move |(name, _)| caller.is_some_and(|caller| caller.is(name)));
        own.map(|(_, rules)| rules)
    }
}

/// Ends a dry run that everything would have allowed.
pub(super) fn rehearsed(asker: &Asker<'_>) -> Result<(), ApiError> {
    if asker.dry_run {
        Err(dry_run())
    } else {
        Ok(())
    }
}

fn unauthorized(asker: &Asker<'_>, of: Option<Resource<'_>>) -> ApiError {
    let mut error = Protocol::Ec2.denied();
    let arn = asker.caller.map_or("anonymous", |caller| &caller.arn);
    let action = format!("ec2:{}", asker.operation);
    let resource = of.map_or_else(String::new, |Resource { kind, id, .. }| {
        let (region, account) = (asker.region, asker.account);
        format!(" on resource: arn:aws:ec2:{region}:{account}:{kind}/{id}")
    });
    error.message = format!(
        "{} User: {arn} is not authorized to perform: {action}{resource} because no \
         identity-based policy allows the {action} action",
        error.message
    );
    error
}
