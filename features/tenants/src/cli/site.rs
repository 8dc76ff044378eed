//! Where a verb looks: the cluster of the kubeconfig, and AWS as whoever asks.

use std::sync::Arc;

use api::tenants::{DistributionTenant, names};
use aws::cloudfront::CloudFront;
use aws::{Asker, Priority};
use clap::{Arg, ArgMatches, Command};
use engine::{Asked, Health, Index, Kind, Reading, Stored};
use kernel::ObjectKey;

use super::{Failure, flag, switch, text};
use crate::ctx::Ctx;
use crate::settings;
use crate::tenant::{self, BY_DOMAIN, BY_NAME};

const REGION: &str = "aws-region";
/// Flags of the operator that decide what it does.
const JUDGEMENT: [&str; 2] = ["drift-policy", "tenants-policy"];

/// The flags of every verb.
pub(super) fn args() -> Vec<Arg> {
    let all = [
        flag(
            "namespace",
            "NAME",
            "The namespace; default: that of the kubeconfig",
        )
        .short('n'),
        switch("all-namespaces", "All namespaces")
            .short('A')
            .conflicts_with("namespace"),
        flag("operator-namespace", "NAME", "The operator's namespace")
            .default_value("pontoon-system"),
        flag(
            "cluster-id",
            "NAME",
            "This cluster's name in AWS, if the operator has been given one",
        )
        .env("PONTOON_CLUSTER_ID"),
        flag(
            REGION,
            "REGION",
            "Region of AWS calls that have one; default: as the AWS SDK finds it",
        ),
    ];
    all.into_iter().map(|arg| arg.global(true)).collect()
}

/// The operator's flags that a plan depends on.
pub(super) fn judgement() -> Vec<Arg> {
    let own = settings::args().into_iter();
    own.filter(|arg| JUDGEMENT.contains(&arg.get_id().as_str()))
        .collect()
}

/// What a verb sees.
pub(super) struct Site {
    pub(super) ctx: Ctx,
    reading: Reading,
    /// Whether no namespace was asked for.
    pub(super) everywhere: bool,
}

/// A tenant as it is in the cluster or in a file.
pub(super) struct Held {
    pub(super) stored: Arc<Stored>,
    pub(super) object: DistributionTenant,
}

impl Held {
    pub(super) fn read(stored: Arc<Stored>) -> Result<Self, Failure> {
        let object = stored.parse(&kind())?;
        Ok(Self { stored, object })
    }

    pub(super) fn key(&self) -> &ObjectKey {
        self.stored.key()
    }
}

pub(super) fn kind() -> Kind {
    Kind::of::<DistributionTenant>()
}

impl Site {
    /// Reads the objects that the verbs speak of.
    pub(super) async fn open(args: &ArgMatches) -> Result<Self, Failure> {
        let asked = Asked {
            namespace: text(args, "namespace"),
            home: text(args, "operator-namespace").unwrap_or_default(),
            cluster: text(args, "cluster-id"),
        };
        let reading = Reading::open("tenants", asked).await?;
        let ctx = Ctx::new(&reading.deck, settings(args)?);
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
        reading.settle(&needed, names::GROUP).await?;
        Ok(Self {
            everywhere: args.get_flag("all-namespaces"),
            ctx,
            reading,
        })
    }

    /// The namespace of what does not say its own.
    pub(super) fn namespace(&self) -> &str {
        &self.reading.namespace
    }

    /// The tenants that are asked for, by namespace and name.
    pub(super) fn tenants(&self) -> Result<Vec<Held>, Failure> {
        let mut all = self.all();
        all.retain(|one| self.is_asked_for(one.key()));
        all.into_iter().map(Held::read).collect()
    }

    /// Whether an object is where is looked.
    pub(super) fn is_asked_for(&self, key: &ObjectKey) -> bool {
        self.everywhere || key.namespace.as_deref() == Some(self.namespace())
    }

    /// All tenants of the cluster.
    pub(super) fn all(&self) -> Vec<Arc<Stored>> {
        let mut all = self.ctx.caches.tenants.store().all();
        all.sort_by(|one, other| one.key().cmp(other.key()));
        all
    }

    /// The tenant object of this name.
    pub(super) fn tenant(&self, name: &str) -> Result<Held, Failure> {
        let key = ObjectKey::namespaced(self.namespace(), name);
        let held = self.ctx.caches.tenants.store().get(&key);
        let held = held.ok_or_else(|| {
            format!(
                "there is no DistributionTenant {key}; check the name, or give its namespace \
                 with -n"
            )
        })?;
        Held::read(held)
    }

    /// What keeps tenants from being watched, for now.
    pub(super) fn trouble(&self) -> Option<String> {
        let tenants = self.ctx.caches.tenants.key();
        let mut all = self.ctx.deck.hub.health().into_iter();
        match all.find(|(key, _)| key == tenants)?.1 {
            Health::Broken(why) => Some(why),
            Health::Unserved => Some("the API server answers 404".to_owned()),
            Health::Starting | Health::Synced | Health::Absent => None,
        }
    }

    /// Whose turn calls of AWS take.
    pub(super) fn asker(&self) -> Asker {
        Asker::new(Priority::Edit, self.namespace())
    }

    pub(super) async fn cloudfront(&self) -> CloudFront {
        self.ctx.own().await.cloudfront(&self.asker())
    }

    /// Ends the watches.
    pub(super) fn close(self) {
        self.reading.close();
    }
}

/// The operator's settings, as far as a verb is told of them.
fn settings(args: &ArgMatches) -> Result<settings::Settings, Failure> {
    let told = [REGION].into_iter().chain(JUDGEMENT);
    let words = told.filter_map(|name| Some(format!("--{name}={}", text(args, name)?)));
    let command = Command::new("run")
        .no_binary_name(true)
        .args(settings::args());
    Ok(settings::read(&command.try_get_matches_from(words)?)?)
}
