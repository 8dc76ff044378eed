//! `adopt`: lets an object take over what Vault already has under its name.

use api::vault::{VaultClusterPolicy, VaultClusterRole, VaultPolicy, VaultRole, names as words};
use clap::ArgMatches;
use engine::cli::flags::value;
use engine::cli::{Answer, Failure, Finding, ObjectRef, Outcome, confirm};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::plan::planned;
use super::session::VaultSession;
use crate::links::Dependent;
use crate::sync::{Ahead, Outlook, Step};

pub(super) async fn adopt(session: &VaultSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let target = session.target(args)?;
    let ahead = ahead(session, &target).await?;
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
    let (annotation, consent) = wish(&target, &taken, value(args, "from"))?;
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
    let question = format!("Annotate {target} with {annotation}={consent}?");
    confirm(args, &question)?;
    annotate(session, &target, annotation, &consent).await?;
    let why = format!("{annotation}={consent}; the operator writes it at its next pass");
    Ok(done(&target, "annotated", &why))
}

async fn ahead(session: &VaultSession, target: &ObjectRef<Dependent>) -> Result<Outlook, Failure> {
    let object = target.object()?;
    match target.id {
        Dependent::Policy => planned::<VaultPolicy>(session, target, object).await,
        Dependent::ClusterPolicy => planned::<VaultClusterPolicy>(session, target, object).await,
        Dependent::Role => planned::<VaultRole>(session, target, object).await,
        Dependent::ClusterRole => planned::<VaultClusterRole>(session, target, object).await,
        Dependent::Seed => {
            Err("a VaultKVSecret takes nothing over: what stands at its path is left alone".into())
        }
    }
}

/// The annotation that lets it happen, if what was asked for is what there is.
fn wish(
    target: &ObjectRef<Dependent>,
    taken: &[(&Ahead, Option<String>)],
    from: Option<&str>,
) -> Result<(&'static str, String), Failure> {
    let named = target.argument();
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
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    annotation: &str,
    value: &str,
) -> Result<(), Failure> {
    session.cluster.allow_writes();
    let kind = target.kind();
    let resource = ApiResource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        api_version: kind.api_version(),
        kind: kind.kind.clone(),
        plural: kind.plural.clone(),
    };
    let client = session.ctx.deck.client.clone();
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

fn done(target: &ObjectRef<Dependent>, what: &str, why: &str) -> Answer {
    let (kind, key) = (&*target.kind().kind, &target.key);
    let cells = [kind, &key.to_string(), what, why].map(str::to_owned);
    let full = json!({"done": what, "why": why});
    let finding = Finding::about(kind, key, cells.into(), full);
    let columns = &["kind", "name", "done", "why"];
    Answer::table(columns, vec![finding], Outcome::Holds)
}
