//! Objects: what is declared, what they say, and what they said before.

use std::pin::pin;

use api::tenants::{DistributionTenant, DistributionTenantStatus};
use futures::TryStreamExt;
use kube::ResourceExt;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use testkit::stories::{self, events, note};
use testkit::{Result, Sign, Story, is};

use super::Site;

#[allow(unused_imports, reason = "each file uses its part")]
pub(crate) use testkit::stories::{
    change_object as change, condition_message as said, condition_state as word, declare, manifest,
    merge,
};

/// The spec of a tenant of E1 with these domains.
pub(crate) fn serving(domains: &[&str]) -> Value {
    let domains: Vec<_> = domains.iter().map(|one| json!({"domain": one})).collect();
    json!({"distributionId": "E1", "domains": domains})
}

/// The spec of most tenants: E1, a.example.com.
pub(crate) fn acme() -> Value {
    serving(&["a.example.com"])
}

/// The same with its DNS in Z1.
pub(crate) fn acme_with_dns() -> Value {
    with(acme(), in_z1())
}

/// DNS in Z1.
pub(crate) fn in_z1() -> Value {
    json!({"dns": {"provider": "route53", "hostedZoneId": "Z1"}})
}

/// A certificate that CloudFront requests, its token served by `host`.
pub(crate) fn requesting(host: &str) -> Value {
    json!({"managedCertificateRequest": {
        "validationTokenHost": host, "primaryDomainName": "a.example.com",
    }})
}

/// A spec, changed by a merge patch.
pub(crate) fn with(mut spec: Value, change: Value) -> Value {
    merge(&mut spec, &change);
    spec
}

/// Waits for an event of this reason about the object `name`; what it says.
pub(crate) async fn event(story: &Story, name: &str, reason: &str) -> Result<String> {
    let event = stories::event(story, name, reason).await?;
    Ok(note(&event).to_owned())
}

/// What a condition said in the versions of a tenant, each time it said something else.
pub(crate) fn words(past: &[DistributionTenant], type_: &str) -> Vec<String> {
    let conditions = past.iter().filter_map(|one| one.status.as_ref());
    let mut words: Vec<_> = conditions
        .map(|status| word(&status.conditions, type_))
        .filter(|word| !word.is_empty())
        .collect();
    words.dedup();
    words
}

impl Site {
    /// Declares a tenant. Declared again, it is edited to just this.
    pub(crate) async fn declare(&self, name: &str, spec: Value) -> Result<()> {
        declare::<DistributionTenant>(self, name, &spec).await
    }

    /// Edits a tenant's spec by a merge patch.
    pub(crate) async fn edit(&self, name: &str, spec: Value) -> Result<()> {
        change::<DistributionTenant>(self, name, &json!({"spec": spec})).await
    }

    /// Waits until a tenant says so; all that it says.
    pub(crate) async fn sees(
        &self,
        name: &str,
        sign: impl Sign<DistributionTenant>,
    ) -> Result<DistributionTenantStatus> {
        self.until_status::<DistributionTenant>(name, sign).await
    }

    /// Waits until a tenant is deployed as its spec has it.
    pub(crate) async fn ready(&self, name: &str) -> Result<DistributionTenantStatus> {
        self.sees(name, is("Ready", "Deployed")).await
    }

    /// Waits until CloudFront has made a tenant.
    pub(crate) async fn made(&self, name: &str) -> Result<DistributionTenantStatus> {
        let made = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.id.is_some())
        };
        self.sees(name, made).await
    }

    /// Declares a tenant and waits until it is deployed.
    pub(crate) async fn makes(&self, name: &str, spec: Value) -> Result<DistributionTenantStatus> {
        self.declare(name, spec).await?;
        self.ready(name).await
    }

    /// Waits until AWS has accepted the spec as it stands, changed by how many edits.
    pub(crate) async fn accepted(
        &self,
        name: &str,
        generation: i64,
    ) -> Result<DistributionTenantStatus> {
        let accepted = |one: &DistributionTenant| {
            let status = one.status.as_ref();
            status.is_some_and(|status| status.observed_generation == Some(generation))
        };
        self.sees(name, accepted).await
    }

    /// A tenant as it is.
    pub(crate) async fn tenant(&self, name: &str) -> Result<DistributionTenant> {
        let tenants = Api::<DistributionTenant>::namespaced(self.client(), self.name());
        Ok(tenants.get(name).await?)
    }

    /// What a tenant says.
    pub(crate) async fn status(&self, name: &str) -> Result<DistributionTenantStatus> {
        Ok(self.tenant(name).await?.status.unwrap_or_default())
    }

    /// Deletes a tenant and waits until it is gone.
    pub(crate) async fn removes(&self, name: &str) -> Result<()> {
        self.delete::<DistributionTenant>(name).await?;
        self.gone::<DistributionTenant>(name).await
    }

    /// Waits for an event about a tenant; what it says.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> Result<String> {
        event(self, name, reason).await
    }

    /// What events of this reason have said about a tenant.
    pub(crate) async fn notes(&self, name: &str, reason: &str) -> Result<Vec<String>> {
        let events = events(self, name).await?.into_iter();
        let events = events.filter(|event| event.reason.as_deref() == Some(reason));
        Ok(events.map(|event| note(&event).to_owned()).collect())
    }

    /// Every version that a tenant has had in this story.
    pub(crate) async fn past(&self, name: &str) -> Result<Vec<DistributionTenant>> {
        let tenants = Api::<DistributionTenant>::namespaced(self.client(), self.name());
        let now = tenants.get_opt(name).await?;
        let last = now.and_then(|now| now.resource_version());
        let named = WatchParams::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(60);
        let mut changes = pin!(tenants.watch(&named, &self.began).await?);
        let mut past = Vec::new();
        loop {
            let change = changes.try_next().await?;
            let change = change.expect("the last version comes before the watch ends");
            let (version, is_last) = match change {
                WatchEvent::Added(one) | WatchEvent::Modified(one) => {
                    let is_last = one.resource_version() == last;
                    (one, is_last)
                }
                WatchEvent::Deleted(one) => (one, last.is_none()),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(refused) => panic!("the past cannot be had: {refused:?}"),
            };
            past.push(version);
            if is_last {
                return Ok(past);
            }
        }
    }
}
