//! Seeds, console edits and forced states; the module above lists the forms.
//!
//! What control makes is Deployed at once and not checked as a call would be; only names and
//! domains stay unique. A console edit is a write like a caller's: new ETag, InProgress.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{Asked, Config, Geo, Parameter, WebAcl};
use super::store::{Definition, Distribution, Tags, Tenant, Version};
use super::{At, CloudFront};
use crate::accounts::DEFAULT_ACCOUNT;
use crate::acm::Status;
use crate::control::read;
use crate::service::{ControlError, Moment};
use crate::shelf::View;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Change {
    Distribution(DistributionSeed),
    DeleteDistribution(String),
    Group(GroupSeed),
    DeleteGroup(String),
    Tenant(Fields),
    Edit(Fields),
    Delete(String),
    State(StateSeed),
    Managed(ManagedSeed),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DistributionSeed {
    id: String,
    #[serde(default)]
    mode: ConnectionMode,
    certificate: Option<String>,
    #[serde(default)]
    parameters: Vec<Definition>,
    #[serde(default)]
    aliases: Vec<String>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum ConnectionMode {
    #[default]
    TenantOnly,
    Direct,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupSeed {
    name: String,
    id: Option<String>,
    endpoint: Option<String>,
    #[serde(default)]
    default: bool,
    ipv6: Option<bool>,
    enabled: Option<bool>,
    tags: Option<Tags>,
}

/// The parts of a tenant that control can set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Fields {
    /// Which one an edit means.
    tenant: Option<String>,
    id: Option<String>,
    name: Option<String>,
    distribution: Option<String>,
    domains: Option<Vec<String>>,
    enabled: Option<bool>,
    group: Option<String>,
    parameters: Option<BTreeMap<String, String>>,
    certificate: Option<String>,
    web_acl: Option<WebAcl>,
    geo: Option<Geo>,
    tags: Option<Tags>,
    request: Option<Asked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateSeed {
    tenant: Option<String>,
    group: Option<String>,
    status: Deployment,
}

#[derive(Deserialize, Clone, Copy)]
enum Deployment {
    Deployed,
    InProgress,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagedSeed {
    tenant: String,
    status: Value,
}

type Done = Result<Value, ControlError>;

impl CloudFront {
    pub(super) fn change(&mut self, moment: &Moment<'_>, mut change: Value) -> Done {
        self.settle(moment);
        let account = change.as_object_mut().and_then(|all| all.remove("account"));
        let account = account.as_ref().and_then(Value::as_str);
        let at = At {
            account: account.unwrap_or(DEFAULT_ACCOUNT),
            moment: *moment,
            view: View::Live,
        };
        match read("mutate cloudfront", change)? {
            Change::Distribution(seed) => Ok(self.seed_distribution(&at, seed)),
            Change::DeleteDistribution(id) => {
                let held = self.store.account(at.account);
                let gone = held.distributions.remove(&id);
                gone.map(|_| json!({}))
                    .ok_or_else(|| unknown("distribution", &id))
            }
            Change::Group(seed) => Ok(self.seed_group(&at, seed)),
            Change::DeleteGroup(named) => {
                let group = self.store.group(at.account, &named, View::Live);
                let id = group.map(|group| group.id.clone());
                let id = id.ok_or_else(|| unknown("group", &named))?;
                let held = self.store.account(at.account);
                held.groups.put(&id, None, moment.now);
                Ok(json!({}))
            }
            Change::Tenant(fields) => self.seed_tenant(&at, fields),
            Change::Edit(fields) => self.edit(&at, fields),
            Change::Delete(named) => {
                let id = self.named(&at, &named)?.id;
                self.store.remove(at.account, &id, moment.now);
                Ok(json!({}))
            }
            Change::State(seed) => self.force(&at, &seed),
            Change::Managed(ManagedSeed { tenant, status }) => {
                let tenant = self.named(&at, &tenant)?;
                if tenant.managed.is_none() {
                    return Err(unknown("managed certificate of", &tenant.name));
                }
                let status: Option<Status> = match status.as_str() {
                    Some("none") => None,
                    _ => Some(read("mutate cloudfront managed", status)?),
                };
                self.certificate_is(at.account, &tenant.id, status, moment);
                Ok(json!({}))
            }
        }
    }

    fn seed_distribution(&mut self, at: &At<'_>, seed: DistributionSeed) -> Value {
        let DistributionSeed {
            id,
            mode,
            certificate,
            parameters,
            aliases,
        } = seed;
        let tenant_only = mode == ConnectionMode::TenantOnly;
        let distribution = Distribution {
            arn: format!("arn:aws:cloudfront::{}:distribution/{id}", at.account),
            id,
            tenant_only,
            certificate,
            parameters,
            aliases,
            etag: self.store.etag(),
            modified: at.moment.now,
            tags: Tags::new(),
        };
        self.store.put_distribution(at.account, distribution);
        if tenant_only {
            self.open_default_group(at, "withDistribution");
        }
        json!({ "defaultGroup": self.store.default_group(at.account) })
    }

    fn seed_group(&mut self, at: &At<'_>, seed: GroupSeed) -> Value {
        let GroupSeed {
            name,
            id,
            endpoint,
            default,
            ipv6,
            enabled,
            tags,
        } = seed;
        if default && let Some(former) = self.store.default_group(at.account).cloned() {
            // There is one default group: the seeded one takes its place.
            let held = self.store.account(at.account);
            held.groups.put(&former.id, None, at.moment.now);
        }
        let version = self.seeded_version(at);
        let mut group = self.new_group(at.account, name, version);
        if let Some(id) = id {
            group.arn = format!("arn:aws:cloudfront::{}:connection-group/{id}", at.account);
            group.id = id;
        }
        group.endpoint = endpoint.unwrap_or(group.endpoint);
        group.is_default = default;
        group.ipv6 = ipv6.unwrap_or(true);
        group.enabled = enabled.unwrap_or(true);
        group.tags = tags.unwrap_or_default();
        let shown = json!(group);
        self.put_group(at.account, group, at.moment.now);
        shown
    }

    fn seed_tenant(&mut self, at: &At<'_>, fields: Fields) -> Done {
        let missing =
            || ControlError::invalid("mutate cloudfront: a tenant has a name and a distribution");
        let name = fields.name.clone().ok_or_else(missing)?;
        let distribution = fields.distribution.clone().ok_or_else(missing)?;
        if self.store.tenant(at.account, &name, View::Live).is_some() {
            return Err(ControlError::invalid(format!("the name {name} is taken")));
        }
        self.open_default_group(at, "withTenant");
        let given = fields.id.clone();
        let id = given.unwrap_or_else(|| format!("dt_3{:026}", self.store.next()));
        let version = self.seeded_version(at);
        let mut tenant = Tenant {
            arn: format!(
                "arn:aws:cloudfront::{}:distribution-tenant/{id}",
                at.account
            ),
            id,
            name,
            config: Config {
                distribution,
                group: self.default_id(at.account),
                enabled: true,
                ..Config::default()
            },
            tags: Tags::new(),
            managed: None,
            version,
        };
        self.set(at, &mut tenant, fields)?;
        let shown = json!(tenant);
        self.store.put(at.account, tenant, at.moment.now);
        Ok(shown)
    }

    fn edit(&mut self, at: &At<'_>, fields: Fields) -> Done {
        let missing = || ControlError::invalid("mutate cloudfront: an edit names its tenant");
        let named = fields.tenant.clone().ok_or_else(missing)?;
        let mut tenant = self.named(at, &named)?;
        let tags_only = tenant.config.clone();
        self.set(at, &mut tenant, fields)?;
        if tenant.config != tags_only {
            tenant.version = self.version(at, Some(&tenant.version));
        }
        let shown = json!(tenant);
        self.store.put(at.account, tenant, at.moment.now);
        Ok(shown)
    }

    fn set(
        &mut self,
        at: &At<'_>,
        tenant: &mut Tenant,
        fields: Fields,
    ) -> Result<(), ControlError> {
        let config = &mut tenant.config;
        let domains = fields.domains.unwrap_or_else(|| config.domains.clone());
        let taken = domains.iter().find(|domain| {
            let holder = self.store.holder(domain);
            holder.is_some_and(|holder| holder.id != tenant.id)
        });
        if let Some(domain) = taken {
            let told = format!("the domain {domain} is taken");
            return Err(ControlError::invalid(told));
        }
        config.domains = domains;
        let distribution = fields.distribution;
        config.distribution = distribution.unwrap_or_else(|| config.distribution.clone());
        config.enabled = fields.enabled.unwrap_or(config.enabled);
        config.group = fields.group.unwrap_or_else(|| config.group.clone());
        if let Some(parameters) = fields.parameters {
            let each = parameters.into_iter();
            config.parameters = each
                .map(|(name, value)| Parameter { name, value })
                .collect();
        }
        let customized = &mut config.customizations;
        if let Some(certificate) = fields.certificate {
            customized.certificate = Some(certificate).filter(|arn| !arn.is_empty());
        }
        customized.web_acl = fields.web_acl.or(customized.web_acl.take());
        customized.geo = fields.geo.or(customized.geo.take());
        tenant.tags = fields.tags.unwrap_or_else(|| tenant.tags.clone());
        if let Some(asked) = fields.request {
            let domains = tenant.config.domains.clone();
            tenant.managed = Some(self.ask(at.account, asked, &domains, &at.moment));
        }
        Ok(())
    }

    fn force(&mut self, at: &At<'_>, seed: &StateSeed) -> Done {
        let now = at.moment.now;
        let deployed_at = match seed.status {
            Deployment::Deployed => now,
            Deployment::InProgress => Timestamp::MAX,
        };
        match (&seed.tenant, &seed.group) {
            (Some(named), None) => {
                let mut tenant = self.named(at, named)?;
                tenant.version.deployed_at = deployed_at;
                self.store.put(at.account, tenant, now);
            }
            (None, Some(named)) => {
                let group = self.store.group(at.account, named, View::Live);
                let mut group = group.cloned().ok_or_else(|| unknown("group", named))?;
                group.version.deployed_at = deployed_at;
                self.put_group(at.account, group, now);
            }
            (Some(_), Some(_)) | (None, None) => {
                let told = "mutate cloudfront: a state is of either a tenant or a group";
                return Err(ControlError::invalid(told));
            }
        }
        Ok(json!({}))
    }

    fn named(&self, at: &At<'_>, named: &str) -> Result<Tenant, ControlError> {
        let tenant = self.store.tenant(at.account, named, View::Live);
        tenant.cloned().ok_or_else(|| unknown("tenant", named))
    }

    fn seeded_version(&mut self, at: &At<'_>) -> Version {
        Version {
            deployed_at: at.moment.now,
            ..self.version(at, None)
        }
    }

    /// Everything an account has.
    pub(super) fn shown(&self, account: &str, now: Timestamp) -> Value {
        let Some(held) = self.store.accounts.get(account) else {
            return json!({ "tenants": [] });
        };
        let tenants = held.tenants.list(View::Live).map(|(_, tenant)| {
            let mut shown = json!(tenant);
            shown["status"] = json!(tenant.version.status(now));
            shown
        });
        let groups = held.groups.list(View::Live).map(|(_, group)| {
            let mut shown = json!(group);
            shown["status"] = json!(group.version.status(now));
            shown
        });
        json!({
            "tenants": tenants.collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
            "distributions": held.distributions.values().collect::<Vec<_>>(),
            "invalidations": held.invalidations,
        })
    }
}

fn unknown(what: &str, named: &str) -> ControlError {
    ControlError::unknown(format!("there is no {what} {named:?}"))
}
