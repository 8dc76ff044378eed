//! `adopt`: lets an object take over what Vault already has under its name.

use api::vault::{VaultClusterPolicy, VaultClusterRole, VaultPolicy, VaultRole, names as words};
use clap::ArgMatches;
use engine::{Answer, Finding, Outcome};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::consent;
use super::plan::outlook;
use super::site::Site;
use super::target::{self, Target};
use super::{Failure, text};
use crate::links::Dependent;
use crate::sync::{Ahead, Outlook, Step, Stop};

pub(super) async fn adopt(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    let target = Target::parse(text(args, "object").unwrap_or_default(), site.namespace())?;
    let ahead = ahead(site, &target).await?;
    let taken: Vec<_> = ahead
        .places
        .iter()
        .filter_map(|one| match &one.step {
            Step::Conflict { owner } => Some((one, owner.clone())),
            Step::Keep { .. }
            | Step::Leave
            | Step::Write { .. }
            | Step::Report { .. }
            | Step::Block { .. }
            | Step::Unsupported { .. } => None,
        })
        .collect();
    if taken.is_empty() {
        return Ok(done(&target, "nothing", "nobody else holds its name"));
    }
    let (annotation, value) = wish(&target, &taken, text(args, "from"))?;
    if annotation == words::ADOPT
        && let Some(refusal) = &ahead.adoption_refused
    {
        return Err(refusal.clone().into());
    }
    for (one, _) in &taken {
        let diff = if one.diff.is_empty() {
            "  it is as wanted"
        } else {
            &one.diff
        };
        eprintln!("{}:\n{diff}", one.place);
    }
    let named = format!("{} {}", target::name(target.kind), target.key);
    let question = format!("Annotate {named} with {annotation}={value}?");
    if !consent::agrees(args, &question)? {
        return Err("nothing was done".into());
    }
    annotate(site, &target, annotation, &value).await?;
    let why = format!("{annotation}={value}; the operator writes it at its next pass");
    Ok(done(&target, "annotated", &why))
}

async fn ahead(site: &Site, target: &Target) -> Result<Outlook, Failure> {
    let object = target.object(site)?;
    let ahead = match target.kind {
        Dependent::Policy => outlook::<VaultPolicy>(site, target, object).await?.1,
        Dependent::ClusterPolicy => outlook::<VaultClusterPolicy>(site, target, object).await?.1,
        Dependent::Role => outlook::<VaultRole>(site, target, object).await?.1,
        Dependent::ClusterRole => outlook::<VaultClusterRole>(site, target, object).await?.1,
        Dependent::Seed => {
            return Err(
                "a VaultKVSecret takes nothing over: what stands at its path is left alone".into(),
            );
        }
    };
    ahead.map_err(|stop| match stop {
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => reason.message.into(),
        Stop::Failed(error) => error.into(),
        Stop::Again => "it changed meanwhile; ask again".into(),
    })
}

/// The annotation that lets it happen, if what was asked for is what there is.
fn wish(
    target: &Target,
    taken: &[(&Ahead, Option<String>)],
    from: Option<&str>,
) -> Result<(&'static str, String), Failure> {
    let named = format!("{}/{}", target::name(target.kind), target.key);
    let owners = taken
        .iter()
        .filter_map(|(one, owner)| Some((one, owner.as_ref()?)));
    let other = owners
        .clone()
        .find(|(_, owner)| Some(owner.as_str()) != from);
    match (other, from) {
        (Some((one, owner)), _) => Err(format!(
            "{} belongs to {owner}; to take it from there: \
             pontoon vault adopt {named} --from {owner:?}",
            one.place
        )
        .into()),
        (None, Some(from)) if owners.count() > 0 => Ok((words::ADOPT_FROM, from.to_owned())),
        (None, Some(_)) => {
            Err("what is there has no owner to take it from; leave --from out".into())
        }
        (None, None) => Ok((words::ADOPT, "true".to_owned())),
    }
}

async fn annotate(
    site: &Site,
    target: &Target,
    annotation: &str,
    value: &str,
) -> Result<(), Failure> {
    site.allow_writes();
    let kind = &site.ctx.caches.of(target.kind).key().kind;
    let resource = ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
    };
    let client = site.ctx.deck.client.clone();
    let api: Api<DynamicObject> = match &target.key.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let change = json!({"metadata": {"annotations": {annotation: value}}});
    let how = PatchParams::default();
    api.patch(&target.key.name, &how, &Patch::Merge(change))
        .await?;
    Ok(())
}

fn done(target: &Target, what: &str, why: &str) -> Answer {
    let (kind, key) = (target::name(target.kind), &target.key);
    Answer {
        columns: &["kind", "name", "done", "why"],
        findings: vec![Finding {
            name: format!("{kind}/{key}"),
            cells: [kind, &key.to_string(), what, why]
                .map(str::to_owned)
                .into(),
            full: json!({
                "kind": kind,
                "namespace": key.namespace.as_deref(),
                "name": &*key.name,
                "done": what,
                "why": why,
            }),
        }],
        outcome: Outcome::Holds,
        documents: false,
        remark: None,
    }
}
