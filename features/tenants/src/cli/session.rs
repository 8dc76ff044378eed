//! The session of a verb: the cluster of the kubeconfig, and AWS as the user.

use std::sync::Arc;

use api::tenants::DistributionTenant;
use aws::cloudfront::CloudFront;
use aws::{Caller, Priority};
use clap::{Arg, ArgMatches};
use engine::cli::flags::{self, value};
use engine::cli::{Failure, Kinds, ObjectKind, Session};
use engine::flags::aws_region;
use engine::{Index, Kind, Stored};
use kernel::ObjectKey;

use crate::ctx::Ctx;
use crate::settings;
use crate::tenant::{self, BY_DOMAIN, BY_NAME};

/// Flags of the operator that decide what it does.
const DECIDING: [&str; 2] = ["drift-policy", "tenants-policy"];

/// The flags of every verb beside those of all features.
pub(super) fn args() -> [Arg; 1] {
    [aws_region().global(true)]
}

/// The operator's flags that a plan depends on.
pub(super) fn deciding() -> impl Iterator<Item = Arg> {
    let own = settings::args().into_iter();
    own.filter(|arg| DECIDING.contains(&arg.get_id().as_str()))
}

/// What a verb works with.
pub(super) struct TenantsSession {
    pub(super) ctx: Ctx,
    pub(super) cluster: Session,
}

pub(super) fn kind() -> Kind {
    Kind::of::<DistributionTenant>()
}

impl TenantsSession {
    /// Reads the objects that the verbs are about.
    pub(super) async fn open(args: &ArgMatches) -> Result<Self, Failure> {
        let settings = settings(args)?;
        let cluster = Session::open("tenants", args).await?;
        let ctx = Ctx::new(&cluster.deck, settings);
        let caches = &ctx.caches;
        let store = caches.tenants.store();
        store.index(Index::by(BY_NAME, tenant::name_of));
        store.index(Index::by(BY_DOMAIN, tenant::domains_of));
        let needed = [
            &caches.tenants,
            &caches.groups,
            &caches.policies,
            &caches.namespaces,
        ];
        cluster.settle(&needed).await?;
        Ok(Self { ctx, cluster })
    }

    /// The kinds that have a plan. A bare name is a tenant's.
    pub(super) fn kinds(&self) -> Kinds<()> {
        let tenants = &self.ctx.caches.tenants;
        let all = vec![ObjectKind::of::<DistributionTenant>((), tenants, &["dt"])];
        let others = &[
            "ConnectionGroup",
            "Invalidation",
            "TenantPolicy",
            "TenantSource",
        ];
        Kinds::new(all, others).with_default_kind()
    }

    /// The tenants that the verb's arguments select.
    pub(super) fn tenants(
        &self,
        args: &ArgMatches,
    ) -> Result<Vec<(ObjectKey, DistributionTenant)>, Failure> {
        let selected = self.kinds().select(&self.cluster.scope, args)?;
        let mut tenants = Vec::new();
        for (target, stored) in selected {
            tenants.push((target.key, stored.parse(&kind())?));
        }
        Ok(tenants)
    }

    /// All tenants of the cluster, by namespace and name.
    pub(super) fn all(&self) -> Vec<Arc<Stored>> {
        let mut all = self.ctx.caches.tenants.store().all();
        all.sort_by(|one, other| one.key().cmp(other.key()));
        all
    }

    /// The caller of AWS, to its limits.
    pub(super) fn asker(&self) -> Caller {
        Caller::new(Priority::Edit, &*self.cluster.scope.namespace)
    }

    pub(super) async fn cloudfront(&self) -> CloudFront {
        self.ctx.own().await.cloudfront(&self.asker())
    }
}

/// The operator's settings, as far as a verb is given them.
fn settings(args: &ArgMatches) -> Result<settings::Settings, Failure> {
    let region = aws_region();
    let given = [region.get_id().as_str()].into_iter().chain(DECIDING);
    let given = given.map(|name| (name, value(args, name)));
    let run = flags::as_run(args, settings::args(), given)?;
    Ok(settings::read(&run)?)
}
