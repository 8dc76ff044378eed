//! What the feature asks AWS for and may know from a while ago: distributions, connection groups,
//! hosted zones, certificates.

use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{Distribution, Group, GroupSummary};
use aws::route53::Zone;
use aws::{Account, Asker, Error, acm};
use kernel::SharedClock;

use crate::told::{KEPT, Told};

/// A list has an end; one that does not is cut here.
const PAGES: usize = 1000;

/// What AWS told of things that many objects name.
pub(crate) struct Outside {
    distributions: Told<String, Distribution>,
    groups: Told<String, Group>,
    /// All groups there are.
    all_groups: Told<(), Vec<GroupSummary>>,
    /// By role, empty for our own account, and id.
    zones: Told<(String, String), Zone>,
    all_zones: Told<String, Vec<Zone>>,
    certificates: Told<String, acm::Certificate>,
}

impl Outside {
    pub(crate) fn new(clock: &SharedClock) -> Self {
        Self {
            distributions: Told::new(clock.clone()),
            groups: Told::new(clock.clone()),
            all_groups: Told::new(clock.clone()),
            zones: Told::new(clock.clone()),
            all_zones: Told::new(clock.clone()),
            certificates: Told::new(clock.clone()),
        }
    }

    /// A distribution, as told within `longest`.
    pub(crate) async fn distribution(
        &self,
        account: &Account,
        asker: &Asker,
        id: &str,
        longest: Duration,
    ) -> Result<Arc<Distribution>, Error> {
        let ask = async || account.cloudfront(asker).distribution(id).await;
        self.distributions.get(id.to_owned(), longest, ask).await
    }

    /// A connection group by its id.
    pub(crate) async fn group(
        &self,
        account: &Account,
        asker: &Asker,
        id: &str,
    ) -> Result<Arc<Group>, Error> {
        let ask = async || account.cloudfront(asker).group(id).await;
        self.groups.get(id.to_owned(), KEPT, ask).await
    }

    /// The account's default group; none while the account has none.
    pub(crate) async fn default_group(
        &self,
        account: &Account,
        asker: &Asker,
    ) -> Result<Option<GroupSummary>, Error> {
        let ask = async || {
            let cloudfront = account.cloudfront(asker);
            let (mut all, mut marker) = (Vec::new(), None::<String>);
            for _ in 0..PAGES {
                let page = cloudfront.groups(marker.as_deref()).await?;
                all.extend(page.items);
                marker = page.next;
                if marker.is_none() {
                    break;
                }
            }
            Ok(all)
        };
        let all = self.all_groups.get((), KEPT, ask).await?;
        let default = all.iter().find(|group| group.is_default).cloned();
        if default.is_none() {
            self.all_groups.forget(&()); // the next tenant may bring it into being
        }
        Ok(default)
    }

    /// A group was made, changed or deleted.
    pub(crate) fn forget_group(&self, id: &str) {
        self.groups.forget(&id.to_owned());
        self.all_groups.forget(&());
    }

    /// A hosted zone of `account`, which is reached as `role`.
    pub(crate) async fn zone(
        &self,
        account: &Account,
        role: &str,
        asker: &Asker,
        id: &str,
    ) -> Result<Arc<Zone>, Error> {
        let ask = async || account.route53(asker).zone(id).await;
        let key = (role.to_owned(), id.to_owned());
        self.zones.get(key, KEPT, ask).await
    }

    /// All hosted zones of `account`, which is reached as `role`.
    pub(crate) async fn zones(
        &self,
        account: &Account,
        role: &str,
        asker: &Asker,
    ) -> Result<Arc<Vec<Zone>>, Error> {
        let ask = async || {
            let route53 = account.route53(asker);
            let (mut all, mut marker) = (Vec::new(), None::<String>);
            for _ in 0..PAGES {
                let page = route53.zones(marker.as_deref()).await?;
                all.extend(page.items);
                marker = page.next;
                if marker.is_none() {
                    break;
                }
            }
            Ok(all)
        };
        self.all_zones.get(role.to_owned(), KEPT, ask).await
    }

    /// A certificate in us-east-1.
    pub(crate) async fn certificate(
        &self,
        account: &Account,
        asker: &Asker,
        arn: &str,
        longest: Duration,
    ) -> Result<Arc<acm::Certificate>, Error> {
        let ask = async || account.acm(asker).certificate(arn).await;
        self.certificates.get(arn.to_owned(), longest, ask).await
    }
}
