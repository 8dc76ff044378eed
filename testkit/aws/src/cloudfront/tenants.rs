//! Distribution tenants: create, read, update, delete, list.

use super::body::Body;
use super::config::{Config, Mode};
use super::error::{domain_taken, exists, invalid, matched, not_disabled, not_found};
use super::judge::Touched;
use super::rules::{self, Surroundings};
use super::store::{Managed, Tags, Tenant, Version};
use super::{At, CloudFront, NAMESPACE, answered};
use crate::protocol::ApiError;
use crate::shelf::View;
use crate::wire::{Request, Response};
use crate::xml::Element;
use crate::xml::read::{self, Node};

const KIND: &str = "distribution tenant";

impl CloudFront {
    pub(super) fn create_tenant(
        &mut self,
        at: &At<'_>,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let body = read::document(
            &request.body,
            "CreateDistributionTenantRequest",
            NAMESPACE,
            Body::created,
        )?;
        let name = body
            .name
            .clone()
            .ok_or_else(|| invalid("Name is required."))?;
        rules::name(&name)?;
        let sent = body.tags.clone().unwrap_or_default();
        rules::tags(&sent)?;
        let parent = body.distribution.as_deref();
        let parent = parent.ok_or_else(|| invalid("DistributionId is required."))?;
        if self.store.distribution(at.account, parent).is_none() {
            return Err(rules::no_distribution(parent));
        }
        // A refused Create changes nothing, so the group that came with it goes again.
        let opened = self.open_default_group(at, "withTenant");
        let config = self.planned(at, &name, &body).inspect_err(|_| {
            if let Some(id) = &opened {
                let held = self.store.account(at.account);
                held.groups.put(id, None, at.moment.now);
            }
        })?;
        let tags: Tags = sent.into_iter().collect();
        let id = format!("dt_3{:026}", self.store.next());
        self.judge_twins(&id, &tags, at.moment.now);
        let managed = body
            .asked
            .map(|asked| self.ask(at.account, asked, &config.domains, &at.moment));
        let tenant = Tenant {
            arn: format!(
                "arn:aws:cloudfront::{}:distribution-tenant/{id}",
                at.account
            ),
            id,
            name,
            config,
            tags,
            managed,
            version: self.version(at, None),
        };
        self.store.put(at.account, tenant.clone(), at.moment.now);
        let told = self.told(&tenant, at, at.write_answered());
        Ok(answered(201, told, Some(&tenant.version.etag)))
    }

    pub(super) fn update_tenant(
        &mut self,
        at: &At<'_>,
        id: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let body = read::optional(
            &request.body,
            "UpdateDistributionTenantRequest",
            NAMESPACE,
            Body::updated,
        )?;
        let live = self.live(at, id)?;
        matched(request.header("if-match"), &live.version.etag)?;
        let mode = Mode::of(at.moment.switches.choice("update"));
        let config = live
            .config
            .updated(&body, mode, &self.default_id(at.account));
        rules::shape(&config)?;
        let free = |domain: &String| {
            let holder = self.store.holder(domain);
            holder.is_none_or(|holder| holder.id == live.id)
        };
        if !config.domains.iter().all(free) {
            return Err(domain_taken());
        }
        self.fits(at, Some(&live), &config, &body)?;
        self.judge
            .foreign("foreignChanged", &touched(at, &live), &at.moment);
        let asked = body.asked.clone();
        let managed = self.asked_again(at.account, &live, asked, &config.domains, &at.moment);
        self.judge_update(at, &live, &config, managed.as_ref(), &body);
        let tenant = Tenant {
            version: self.version(at, Some(&live.version)),
            config,
            managed,
            ..live
        };
        self.store.put(at.account, tenant.clone(), at.moment.now);
        let told = self.told(&tenant, at, at.write_answered());
        Ok(answered(200, told, Some(&tenant.version.etag)))
    }

    pub(super) fn delete_tenant(
        &mut self,
        at: &At<'_>,
        id: &str,
        request: &Request,
    ) -> Result<Response, ApiError> {
        let live = self.live(at, id)?;
        matched(request.header("if-match"), &live.version.etag)?;
        let now = at.moment.now;
        let deployed = live.version.status(now) == "Deployed";
        if live.config.enabled || !deployed {
            let detail = format!("{} deleted {} too early", at.account, live.name);
            self.judge.tell("deletedTooEarly", detail, now);
        }
        let waits = at.moment.switches.flag("deleteNeedsDeployed") && !deployed;
        if live.config.enabled || waits {
            return Err(not_disabled(KIND));
        }
        self.judge
            .foreign("foreignDeleted", &touched(at, &live), &at.moment);
        self.store.remove(at.account, &live.id, now);
        Ok(Response::xml(204, String::new()))
    }

    pub(super) fn get_tenant(&self, at: &At<'_>, named: &str) -> Result<Response, ApiError> {
        let tenant = self
            .store
            .tenant(at.account, named, at.view)
            .ok_or_else(|| not_found(KIND, named))?;
        let told = self.told(tenant, at, Some(at.seen()));
        Ok(answered(200, told, Some(&tenant.version.etag)))
    }

    pub(super) fn tenant_by_domain(&self, at: &At<'_>, domain: &str) -> Result<Response, ApiError> {
        let holder = self.store.holder(domain);
        let own = holder.filter(|holder| holder.is_tenant && holder.account == at.account);
        let own = own.ok_or_else(|| not_found(KIND, domain))?;
        self.get_tenant(at, &own.id)
    }

    pub(super) fn list_tenants(&self, at: &At<'_>, request: &Request) -> Result<Element, ApiError> {
        let root = "ListDistributionTenantsRequest";
        let asked = read::optional(&request.body, root, NAMESPACE, asking)?;
        if let Some(id) = &asked.distribution
            && self.store.distribution(at.account, id).is_none()
        {
            return Err(rules::no_distribution(id));
        }
        if let Some(id) = &asked.group
            && self.store.group(at.account, id, at.view).is_none()
        {
            return Err(rules::no_group(id));
        }
        let most = at.page(asked.most)?;
        let marker = asked.marker.as_deref().unwrap_or_default();
        let held = self.store.accounts.get(at.account).into_iter();
        let all = held.flat_map(|held| held.tenants.list_from(marker, at.view));
        let fits =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let wanted = all
            .filter(|(id, _)| *id != marker)
            .map(|(_, tenant)| tenant)
            .filter(|tenant| fits(&asked.distribution, &tenant.config.distribution))
            .filter(|tenant| fits(&asked.group, &tenant.config.group));
        let mut found: Vec<_> = wanted.take(most.saturating_add(1)).collect();
        let more = found.len() > most;
        found.truncate(most);
        let next = found
            .last()
            .filter(|_| more)
            .map(|tenant| tenant.id.as_str());
        let told = found.iter().map(|tenant| self.summary(tenant, at));
        Ok(Element::new("ListDistributionTenantsResult")
            .leaf_if("NextMarker", next)
            .child(Element::new("DistributionTenantList").children(told)))
    }

    /// The configuration of a new tenant, if nothing speaks against it.
    fn planned(&self, at: &At<'_>, name: &str, body: &Body) -> Result<Config, ApiError> {
        let first = Config {
            enabled: true,
            ..Config::default()
        };
        let config = first.updated(body, Mode::Replace, &self.default_id(at.account));
        rules::shape(&config)?;
        self.unclaimed(at, name, &config)?;
        self.fits(at, None, &config, body)?;
        Ok(config)
    }

    fn live(&self, at: &At<'_>, id: &str) -> Result<Tenant, ApiError> {
        let tenant = self.store.tenant(at.account, id, View::Live);
        tenant.cloned().ok_or_else(|| not_found(KIND, id))
    }

    /// A new version: later Deployed, under another ETag.
    pub(super) fn version(&mut self, at: &At<'_>, before: Option<&Version>) -> Version {
        let now = at.moment.now;
        Version {
            etag: self.store.etag(),
            created: before.map_or(now, |before| before.created),
            modified: now,
            deployed_at: at.deployed_at(),
        }
    }

    /// Name and domains must be nobody's; the switch says which is looked at first.
    fn unclaimed(&self, at: &At<'_>, name: &str, config: &Config) -> Result<(), ApiError> {
        let named = || match self.store.tenant(at.account, name, View::Live) {
            Some(there) if there.name == name => Err(exists(KIND, name)),
            Some(_) | None => Ok(()),
        };
        let domains = || {
            let mut held = config
                .domains
                .iter()
                .map(|domain| self.store.holder(domain));
            held.all(|holder| holder.is_none())
                .then_some(())
                .ok_or_else(domain_taken)
        };
        if at.moment.switches.choice("conflictOrder") == "name" {
            named()?;
            domains()
        } else {
            domains()?;
            named()
        }?;
        let limit = at.moment.switches.count("tenantLimit");
        let count = self.store.count(at.account);
        if u64::try_from(count).unwrap_or(u64::MAX) >= limit {
            let told = format!("You have reached the limit of {limit} distribution tenants.");
            return Err(ApiError::new(400, "EntityLimitExceeded", &told));
        }
        Ok(())
    }

    /// Parents, certificate and domains; of a live tenant only what changed is proved anew.
    fn fits(
        &self,
        at: &At<'_>,
        live: Option<&Tenant>,
        config: &Config,
        body: &Body,
    ) -> Result<(), ApiError> {
        let distribution = self
            .store
            .distribution(at.account, &config.distribution)
            .ok_or_else(|| rules::no_distribution(&config.distribution))?;
        let group = self
            .store
            .group(at.account, &config.group, View::Live)
            .ok_or_else(|| rules::no_group(&config.group))?;
        let (certificates, zones) = (self.certificates.lock(), self.zones.lock());
        let kept = live.and_then(|live| live.managed.as_ref());
        let around = Surroundings {
            account: at.account,
            distribution,
            group,
            certificates: &certificates,
            zones: &zones,
            asked: body.asked.as_ref().or(kept.map(|kept| &kept.asked)),
            now: at.moment.now,
        };
        rules::parent(config, &around)?;
        if let Some(asked) = &body.asked {
            rules::asked(config, asked)?;
        }
        let certified = |config: &Config| {
            let own = config.customizations.certificate.clone();
            (own, config.distribution.clone())
        };
        let known: &[String] = match live {
            Some(live) if certified(&live.config) == certified(config) => &live.config.domains,
            Some(_) | None => {
                rules::certificate(config, &around)?;
                &[]
            }
        };
        let new = config
            .domains
            .iter()
            .filter(|domain| !known.contains(domain));
        let new: Vec<_> = new.cloned().collect();
        rules::ownership(config, &new, &around)
    }

    /// An Update that leaves everything as it was, the managed certificate included.
    fn judge_update(
        &mut self,
        at: &At<'_>,
        live: &Tenant,
        config: &Config,
        managed: Option<&Managed>,
        body: &Body,
    ) {
        let kept = live.managed.as_ref();
        let asked = body.asked.is_none() || body.asked.as_ref() == kept.map(|kept| &kept.asked);
        if config.same_as(&live.config) && asked && managed == kept {
            let detail = format!("{} updated {} to what it was", at.account, live.name);
            self.judge.tell("updateEqualsLive", detail, at.moment.now);
        }
    }
}

fn touched<'a>(at: &At<'a>, tenant: &'a Tenant) -> Touched<'a> {
    Touched {
        account: at.account,
        id: &tenant.id,
        name: &tenant.name,
        tags: &tenant.tags,
    }
}

/// What a list asks for.
#[derive(Default)]
struct Asking {
    distribution: Option<String>,
    group: Option<String>,
    marker: Option<String>,
    most: Option<u64>,
}

fn asking(root: Node<'_, '_>) -> Result<Asking, ApiError> {
    root.only(&["AssociationFilter", "Marker", "MaxItems"])?;
    let filter = root.child("AssociationFilter");
    Ok(Asking {
        distribution: filter.and_then(|filter| filter.leaf("DistributionId")),
        group: filter.and_then(|filter| filter.leaf("ConnectionGroupId")),
        marker: root.leaf("Marker"),
        most: root.number("MaxItems")?,
    })
}
