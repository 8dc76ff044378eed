//! `import`: objects for tenants that are in CloudFront and that no object declares.
//!
//! Applied, they change nothing that anybody is served: tenants get our tags, and records of theirs
//! the TXT that says whose they are. What an object cannot say is left out and told.

mod manifest;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use api::tenants::DistributionTenant;
use aws::Fault;
use aws::cloudfront::{CloudFront, ManagedCertificate, TenantSummary};
use clap::ArgMatches;
use engine::cli::flags::{is_set, value};
use engine::cli::{Answer, Failure, Finding, Outcome, counted};
use kernel::{MARKER_CLUSTER, MARKER_OBJECT, ObjectKey};

use super::advice::told;
use super::session::{TenantsSession, kind};
use crate::body::Live;
use crate::holders::Claim;
use crate::tags::Tags;
use manifest::{manifest, object_name};

/// A list has an end; one that does not is cut here.
const PAGES: usize = 1000;
/// What an object's marker has where it was too long.
const HASHED: char = '@';

pub(super) async fn import(session: &TenantsSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let distribution = value(args, "distribution").expect("clap demands it");
    let mut taken = Taken::of(session);
    let cloudfront = session.cloudfront().await;
    let (mut made, mut left) = (Vec::new(), Vec::new());
    for summary in listed(&cloudfront, distribution).await? {
        if taken.is_declared(&summary) {
            continue;
        }
        let name = summary.name.clone();
        let found = whole(&cloudfront, &summary).await?;
        let object = taken
            .key(&found, session)
            .and_then(|key| manifest(&key, &found));
        match object {
            Ok(mut object) => {
                if is_set(args, "dns")
                    && let Err(why) = records::add(&mut object, &found.live, session).await
                {
                    left.push(format!("the records of {name}: {why}"));
                }
                made.push(object);
            }
            Err(why) => left.push(format!("{name}: {why}")),
        }
    }
    let remark = remark(made.len(), distribution, &left);
    match value(args, "out") {
        Some(folder) => written(&made, Path::new(folder), remark),
        None => printed(&made, remark),
    }
}

fn remark(made: usize, distribution: &str, left: &[String]) -> String {
    let made = counted(made, "tenant");
    let mut told = format!(
        "{made} of distribution {distribution} that no object declares; nothing was changed."
    );
    for why in left {
        told.push_str("\nLeft out: ");
        told.push_str(why);
    }
    told
}

fn printed(made: &[DistributionTenant], remark: String) -> Result<Answer, Failure> {
    let findings: Result<Vec<_>, Failure> = made.iter().map(finding).collect();
    Ok(Answer::manifests(&["name", "tenant", "domains"], findings?).with_remark(remark))
}

fn finding(object: &DistributionTenant) -> Result<Finding, Failure> {
    let claim = Claim::of(object);
    let domains: Vec<_> = claim.domains.into_iter().collect();
    Ok(Finding {
        name: format!("DistributionTenant/{}", claim.key),
        cells: vec![claim.key.to_string(), claim.name, domains.join(", ")],
        full: serde_json::to_value(object)?,
    })
}

/// A file for each object.
fn written(made: &[DistributionTenant], folder: &Path, remark: String) -> Result<Answer, Failure> {
    let cannot = |path: &Path, error: std::io::Error| {
        format!(
            "{} cannot be written: {error}; give another --out",
            path.display()
        )
    };
    fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let mut findings = Vec::new();
    for object in made {
        let mut finding = finding(object)?;
        let claim = Claim::of(object);
        let namespace = claim.key.namespace.as_deref().unwrap_or_default();
        let path = folder.join(format!("{namespace}.{}.yaml", claim.key.name));
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = file.map_err(|error| cannot(&path, error))?;
        let text = serde_saphyr::to_string(&finding.full)?;
        let done = file.write_all(format!("{}\n", text.trim_end()).as_bytes());
        done.map_err(|error| cannot(&path, error))?;
        finding.name = path.display().to_string();
        finding.cells.push(finding.name.clone());
        findings.push(finding);
    }
    let columns = &["name", "tenant", "domains", "file"];
    Ok(Answer::table(columns, findings, Outcome::Holds).with_remark(remark))
}

/// The tenants of a distribution, by name.
async fn listed(
    cloudfront: &CloudFront,
    distribution: &str,
) -> Result<Vec<TenantSummary>, Failure> {
    let (mut all, mut marker) = (Vec::new(), None::<String>);
    for _ in 0..PAGES {
        let page = cloudfront.tenants(Some(distribution), marker.as_deref());
        let page = page.await.map_err(|error| told(&error))?;
        all.extend(page.items);
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// All that CloudFront tells of a tenant.
#[derive(Debug, Clone, Default)]
struct Whole {
    live: Live,
    tags: Tags,
    managed: Option<ManagedCertificate>,
}

async fn whole(cloudfront: &CloudFront, summary: &TenantSummary) -> Result<Whole, Failure> {
    let said = |error: aws::Error| Failure::from(told(&error));
    let live = cloudfront.tenant(&summary.id).await.map_err(said)?;
    let live = Live::from(live);
    let tags = match live.tags.clone() {
        Some(tags) => tags,
        None => cloudfront.tags(&summary.arn).await.map_err(said)?,
    };
    let managed = match cloudfront.managed_certificate(&summary.id).await {
        Ok(managed) => Some(managed),
        Err(error) if error.fault() == Fault::EntityMissing => None,
        Err(error) => return Err(said(error)),
    };
    Ok(Whole {
        live,
        tags,
        managed,
    })
}

/// What there is already, and what was given away.
struct Taken {
    keys: BTreeSet<ObjectKey>,
    names: BTreeSet<String>,
    ids: BTreeSet<String>,
}

impl Taken {
    fn of(session: &TenantsSession) -> Self {
        let all = session.all();
        let objects = all.iter().filter_map(|one| one.parse(&kind()).ok());
        let objects: Vec<DistributionTenant> = objects.collect();
        let ids = objects.iter().filter_map(|one| one.status.as_ref());
        Self {
            keys: all.iter().map(|one| one.key().clone()).collect(),
            names: objects.iter().map(|one| Claim::of(one).name).collect(),
            ids: ids.filter_map(|status| status.id.clone()).collect(),
        }
    }

    fn is_declared(&self, tenant: &TenantSummary) -> bool {
        self.ids.contains(&tenant.id) || self.names.contains(&tenant.name)
    }

    /// The object that is to declare a tenant; or why there is none.
    fn key(&mut self, found: &Whole, session: &TenantsSession) -> Result<ObjectKey, String> {
        let cluster = session.ctx.deck.cluster.as_str();
        let key = match marked(&found.tags, cluster)? {
            Some(key) if self.keys.contains(&key) => {
                return Err(format!(
                    "it is marked for DistributionTenant {key}, which declares another tenant"
                ));
            }
            Some(key) => key,
            None => self.free(
                &session.cluster.scope.namespace,
                &object_name(&found.live.summary.name),
            ),
        };
        self.keys.insert(key.clone());
        Ok(key)
    }

    /// A name that no object has.
    fn free(&self, namespace: &str, name: &str) -> ObjectKey {
        let mut key = ObjectKey::namespaced(namespace, name);
        let mut number = 1;
        while self.keys.contains(&key) {
            number += 1;
            key = ObjectKey::namespaced(namespace, &*format!("{name}-{number}"));
        }
        key
    }
}

/// The object of this cluster that a tenant is marked for; none if it is marked for nobody.
fn marked(tags: &Tags, cluster: &str) -> Result<Option<ObjectKey>, String> {
    let (owner, object) = match (tags.get(MARKER_CLUSTER), tags.get(MARKER_OBJECT)) {
        (None, None) => return Ok(None),
        (owner, object) => {
            let shown = |part: Option<&String>| part.map_or("?", String::as_str).to_owned();
            (shown(owner), shown(object))
        }
    };
    match object.split_once('/') {
        Some((namespace, name)) if owner == cluster && !object.contains(HASHED) => {
            Ok(Some(ObjectKey::namespaced(namespace, name)))
        }
        Some(_) | None => Err(format!(
            "it belongs to {owner}/{object}; if that was this cluster, give --cluster-id {owner}, \
             or declare it yourself with spec.adoption.fromOwner"
        )),
    }
}
