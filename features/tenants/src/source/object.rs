//! The object of a tenant: what its row and the source's template make of it, how that compares
//! with the object there is, and whose that is.

use std::collections::BTreeMap;

use api::tenants::{
    DistributionTenant, ManagedCertificateRequest, Parameter, Tag, TenantSettings, TenantSource,
    TenantSourceSpec, names,
};
use engine::{Kind, Stored};
use kernel::{APPLIED, ObjectKey};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rows::Tenant;
use super::valid;
use crate::body::domain;

/// The longest value of a label.
const LABEL_CHARS: usize = 63;
/// Bytes of the mark that are written.
const MARK_BYTES: usize = 8;

/// The source whose objects are made, and where.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The source's own name.
    pub(super) name: String,
    pub(super) uid: String,
    /// The namespace of the objects.
    pub(super) target: String,
    pub(super) spec: TenantSourceSpec,
}

impl Origin {
    pub(super) fn new(source: &TenantSource) -> Self {
        let meta = &source.metadata;
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            target: super::target(source).to_owned(),
            spec: source.spec.clone(),
        }
    }

    /// What the label says: the source's name, or a short form of one that no label can hold.
    pub(super) fn label(&self) -> String {
        if self.name.len() <= LABEL_CHARS {
            self.name.clone()
        } else {
            kernel::label(&[&self.name])
        }
    }

    /// The object of that name.
    pub(super) fn key(&self, tenant: &str) -> ObjectKey {
        ObjectKey::namespaced(self.target.clone(), tenant)
    }
}

/// An object there is, as far as it matters here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) deleting: bool,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    pub(super) spec: Value,
}

impl Held {
    /// None if it cannot be read at all; the API server would not have stored it so.
    pub(super) fn read(stored: &Stored) -> Option<Self> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            #[serde(default)]
            spec: Value,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            labels: BTreeMap<String, String>,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        let object: Object = stored.parse(&Kind::of::<DistributionTenant>()).ok()?;
        Some(Self {
            name: stored.key().name.to_string(),
            uid: stored.uid().to_owned(),
            version: stored.version(),
            deleting: stored.is_deleting(),
            labels: object.metadata.labels,
            annotations: object.metadata.annotations,
            spec: object.spec,
        })
    }

    /// Whether it carries the mark of this source: the label, and the annotation with its UID.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        self.annotations.get(names::SOURCE_UID) == Some(&origin.uid)
            && self.labels.get(names::SOURCE_LABEL) == Some(&origin.label())
    }

    /// Whose it is, if it is not this source's.
    pub(super) fn owner(&self) -> String {
        let label = self.labels.get(names::SOURCE_LABEL);
        let uid = self.annotations.get(names::SOURCE_UID);
        match (label, uid) {
            (Some(name), Some(uid)) => format!("of a source {name} with the UID {uid}"),
            (Some(_), None) | (None, Some(_)) => "half marked as a source's".to_owned(),
            (None, None) => "not made from a table".to_owned(),
        }
    }

    fn domains(&self) -> Vec<String> {
        let listed = self.spec["domains"].as_array().into_iter().flatten();
        let texts = listed.filter_map(|one| one["domain"].as_str());
        texts.map(domain).collect()
    }
}

/// What is sent to the API server for one tenant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desired {
    body: Value,
}

impl Desired {
    /// The object of `tenant`. Its row wins over the template. Tables have no order, so domains
    /// that `live` has stay in its order, or a certificate would be named anew after each reading.
    ///
    /// # Errors
    /// Why the API server would refuse it, and what to do.
    pub(super) fn new(
        tenant: &Tenant,
        origin: &Origin,
        live: Option<&Held>,
    ) -> Result<Self, String> {
        let known = live.map(Held::domains).unwrap_or_default();
        let domains = in_order(&tenant.domains, &known);
        let spec = spec(tenant, &domains, &origin.spec)?;
        let mut body = json!({
            "apiVersion": Kind::of::<DistributionTenant>().api_version(),
            "kind": "DistributionTenant",
            "metadata": {
                "name": tenant.name,
                "namespace": origin.target,
                "labels": {names::SOURCE_LABEL: origin.label()},
                "annotations": {names::SOURCE_UID: origin.uid},
            },
            "spec": spec,
        });
        body["metadata"]["annotations"][APPLIED] = json!(mark(&body));
        Ok(Self { body })
    }

    /// The fields in which `live` is not as desired; none if nothing is to be sent.
    ///
    /// What others set and we do not say is theirs. What we said before and say no longer shows by
    /// the mark alone.
    pub(super) fn differs_from(&self, live: &Held) -> Vec<String> {
        let wanted = self.body["spec"].as_object().into_iter().flatten();
        let wrong = wanted.filter(|(field, want)| !contains(&live.spec[field.as_str()], want));
        let mut fields: Vec<String> = wrong.map(|(field, _)| field.clone()).collect();
        if fields.is_empty() && live.annotations.get(APPLIED).map(String::as_str) != self.mark() {
            fields.push("what is no longer said".to_owned());
        }
        fields
    }

    /// A short hash of all that is said.
    pub(super) fn mark(&self) -> Option<&str> {
        self.body["metadata"]["annotations"][APPLIED].as_str()
    }

    /// The body to send; bound to this very object, if it is there already.
    pub(super) fn bound_to(&self, uid: Option<&str>) -> Value {
        let mut body = self.body.clone();
        if let Some(uid) = uid {
            body["metadata"]["uid"] = json!(uid);
        }
        body
    }
}

/// The tenant's domains: those that are known first, as they stand there.
fn in_order(domains: &[String], known: &[String]) -> Vec<String> {
    let stay = known.iter().filter(|one| domains.contains(one));
    let come = domains.iter().filter(|one| !known.contains(one));
    let mut order: Vec<String> = Vec::with_capacity(domains.len());
    for one in stay.chain(come) {
        if !order.contains(one) {
            order.push(one.clone());
        }
    }
    order
}

fn spec(tenant: &Tenant, domains: &[String], source: &TenantSourceSpec) -> Result<Value, String> {
    let template = source.template.clone().unwrap_or_default();
    let settings = settings(tenant, template.settings);
    at_most(valid::DOMAINS, domains.len(), "domains")?;
    at_most(valid::PARAMETERS, settings.parameters.len(), "parameters")?;
    at_most(valid::TAGS, settings.tags.len(), "tags")?;

    let spec = serde_json::from_value::<Map<_, _>>(value(&settings));
    let mut spec = spec.expect("a struct is written as an object");
    let distribution = tenant.distribution_id.as_ref();
    let distribution = distribution.unwrap_or(&source.distribution_id);
    let listed: Vec<Value> = domains.iter().map(|one| json!({"domain": one})).collect();
    spec.insert("distributionId".into(), json!(distribution));
    spec.insert("domains".into(), json!(listed));
    let mut say = |field: &str, said: Option<Value>| {
        spec.extend(said.map(|said| (field.to_owned(), said)));
    };
    say(
        "enabled",
        tenant.enabled.or(template.enabled).map(Value::Bool),
    );
    say(
        "deletionPolicy",
        template.deletion_policy.as_ref().map(value),
    );
    if let Some(request) = template.managed_certificate_request {
        let primary = primary(request.primary_domain_name.as_deref(), domains)?;
        let request = ManagedCertificateRequest {
            validation_token_host: request.validation_token_host,
            primary_domain_name: primary.to_owned(),
            certificate_transparency_logging_preference: request
                .certificate_transparency_logging_preference,
        };
        say("managedCertificateRequest", Some(value(&request)));
    }
    Ok(Value::Object(spec))
}

/// The template's settings, overruled by the row.
fn settings(tenant: &Tenant, template: TenantSettings) -> TenantSettings {
    let mut settings = template;
    if let Some(group) = &tenant.connection_group_id {
        settings.connection_group_id = Some(group.clone());
        settings.connection_group_ref = None; // only one of both may be said
    }
    for (name, value) in &tenant.parameters {
        let value = value.clone();
        match settings.parameters.iter_mut().find(|one| one.name == *name) {
            Some(same) => same.value = value,
            None => settings.parameters.push(Parameter {
                name: name.clone(),
                value,
            }),
        }
    }
    for (key, value) in &tenant.tags {
        let value = Some(value.clone());
        match settings.tags.iter_mut().find(|one| one.key == *key) {
            Some(same) => same.value = value,
            None => settings.tags.push(Tag {
                key: key.clone(),
                value,
            }),
        }
    }
    settings
}

/// The domain a managed certificate is named after.
fn primary<'a>(named: Option<&'a str>, domains: &'a [String]) -> Result<&'a str, String> {
    let first = domains.first().map(String::as_str).unwrap_or_default();
    let Some(named) = named else {
        return Ok(first);
    };
    if domains.contains(&domain(named)) {
        return Ok(named);
    }
    Err(format!(
        "the template's primaryDomainName {named} is none of its domains; leave it out of the \
         template, and each tenant's first domain is used"
    ))
}

fn at_most(limit: usize, count: usize, what: &str) -> Result<(), String> {
    if count <= limit {
        return Ok(());
    }
    Err(format!(
        "with the template's it has {count} {what}; an object holds {limit} at most, so leave \
         some out or make it two tenants"
    ))
}

fn value(said: &impl serde::Serialize) -> Value {
    serde_json::to_value(said).expect("types of the API are always JSON")
}

/// serde_json keeps keys sorted, so equal bodies hash alike.
fn mark(body: &Value) -> String {
    super::digest(&body.to_string(), MARK_BYTES)
}

/// Whether `live` says all that `want` says. Lists are whole: the schema gives them no keys, so the
/// API server takes and gives them as one value.
fn contains(live: &Value, want: &Value) -> bool {
    let empty = Map::new();
    match (live, want) {
        (Value::Null, Value::Object(want)) => contains_all(&empty, want),
        (Value::Object(live), Value::Object(want)) => contains_all(live, want),
        (live, want) => live == want,
    }
}

fn contains_all(live: &Map<String, Value>, want: &Map<String, Value>) -> bool {
    let mut wanted = want.iter();
    wanted.all(|(field, want)| contains(live.get(field).unwrap_or(&Value::Null), want))
}

#[cfg(test)]
mod tests;
