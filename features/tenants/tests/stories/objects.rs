//! Objects: what is declared, what they say, and what they said before.

use std::pin::pin;

use api::tenants::{DistributionTenant, DistributionTenantStatus};
use futures::TryStreamExt;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{
    Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams,
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use testkit::{Result, Sign, Story, eventually, is};

use super::Site;

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

/// As RFC 7386 says.
pub(crate) fn merge(target: &mut Value, change: &Value) {
    let (Value::Object(target), Value::Object(change)) = (&mut *target, change) else {
        *target = change.clone();
        return;
    };
    for (key, value) in change {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// A manifest of an object.
pub(crate) fn manifest<K: Resource<DynamicType = ()>>(name: &str, spec: &Value) -> String {
    let object = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name}, "spec": spec,
    });
    format!("---\n{object}\n")
}

/// Declares an object. Declared again, it is edited to just this.
pub(crate) async fn declare<K>(story: &Story, name: &str, spec: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    story.apply(&manifest::<K>(name, spec)).await.map(drop)
}

/// Changes an object by a merge patch.
pub(crate) async fn change<K>(story: &Story, name: &str, change: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = if story.name().is_empty() {
        Api::all_with(story.client(), &kind)
    } else {
        Api::namespaced_with(story.client(), story.name(), &kind)
    };
    api.patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await?;
    Ok(())
}

/// The events about the object `name`.
pub(crate) async fn events(story: &Story, name: &str) -> Result<Vec<Event>> {
    // Events about cluster-scoped objects lie in `default`.
    let namespace = match story.name() {
        "" => "default",
        name => name,
    };
    let api = Api::<Event>::namespaced(story.client(), namespace);
    let all = api.list(&ListParams::default()).await?.items;
    let about = |event: &Event| {
        let about = event.regarding.as_ref();
        about.and_then(|about| about.name.as_deref()) == Some(name)
    };
    Ok(all.into_iter().filter(about).collect())
}

/// The reasons of the events about the object `name`.
pub(crate) async fn event_reasons(story: &Story, name: &str) -> Result<Vec<String>> {
    let events = events(story, name).await?.into_iter();
    Ok(events.filter_map(|event| event.reason).collect())
}

/// Waits for an event of this reason about the object `name`; what it says.
pub(crate) async fn event(story: &Story, name: &str, reason: &str) -> Result<String> {
    eventually(&format!("event {reason} about {name}"), async || {
        let mut events = events(story, name).await?.into_iter();
        let found = events.find(|event| event.reason.as_deref() == Some(reason));
        Ok(found.map(|event| event.note.unwrap_or_default()))
    })
    .await
}

/// The message of a condition.
pub(crate) fn said(conditions: &[Condition], type_: &str) -> String {
    let one = conditions.iter().find(|one| one.type_ == type_);
    one.map(|one| one.message.clone()).unwrap_or_default()
}

/// A condition in short, such as `False/Deploying`.
pub(crate) fn word(conditions: &[Condition], type_: &str) -> String {
    let one = conditions.iter().find(|one| one.type_ == type_);
    one.map(|one| format!("{}/{}", one.status, one.reason))
        .unwrap_or_default()
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
        let seen = self.until::<DistributionTenant>(name, sign).await?;
        Ok(seen.status.unwrap_or_default())
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
        Ok(events.map(|event| event.note.unwrap_or_default()).collect())
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
