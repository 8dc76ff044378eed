//! What passes would do for a tenant, found out by reading alone: with their own checks and plans.

mod found;
mod records;
mod step;

use std::collections::BTreeSet;

use api::tenants::{DeletionPolicy, DistributionTenant, DriftPolicy, reasons};
use aws::{Caller, Fault};
use engine::Pass;
use kernel::{Marker, ObjectKey};

use super::draft::Draft;
use super::ground::{self, Ground};
use super::managed::told_details;
use super::stop::Stop;
use super::taken::tags_of;
use super::validate::{Candidate, validate};
use super::{dns, facts, removal, target};
use crate::body::{Body, Field, Live, side_by_side};
use crate::certificate::{self, Facts};
use crate::ctx::Ctx;
use crate::diff::{self, FieldChange, Last, Plan, needs_default_group};
use crate::dns::Target;
use crate::dns::plan::Served;
use crate::tags::{self, Standing, Tags};
use found::{Found, found};
use records::{changed, foreseen, records};
pub(crate) use records::{taking_over, zones};
pub(crate) use step::{Does, Step};

/// What is ahead, or in words why that cannot be told.
type Told = Result<Vec<Step>, String>;

/// What all parts of an outlook stand on.
struct Look<'a> {
    object: &'a DistributionTenant,
    ground: &'a Ground,
    asker: &'a Caller,
    ctx: &'a Ctx,
    pass: &'a Pass,
}

/// What passes over `object` would do until all is as its spec says.
pub(crate) async fn outlook(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Told {
    let mut draft = Draft::new(object);
    let asker = dns::asker(key);
    if object.metadata.deletion_timestamp.is_some() {
        return leaving(object, key, &asker, ctx, &mut draft, pass).await;
    }
    acquaint(object, key, ctx).await?;
    let ground = match ground::ground(object, key, ctx, &mut draft) {
        Ok(ground) => ground,
        Err(stop) => return stopped(&stop, &draft),
    };
    let look = Look {
        object,
        ground: &ground,
        asker: &asker,
        ctx,
        pass,
    };
    match found(&look, &mut draft).await? {
        Found::Nothing => create(&look, &mut draft).await,
        Found::Refused(step) => Ok(vec![step]),
        Found::Tenant { live, first } => keep(&look, *live, first, &mut draft).await,
    }
}

/// Where the records of `object` have to lead; none while the default group does not exist.
pub(crate) async fn endpoint(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
) -> Result<Option<Target>, String> {
    acquaint(object, key, ctx).await?;
    let mut draft = Draft::new(object);
    let Ok(ground) = ground::ground(object, key, ctx, &mut draft) else {
        let why = draft.refusal().map(|reason| reason.message);
        return Err(why.unwrap_or_default());
    };
    let asker = dns::asker(key);
    let found = target::found(&ground, &draft.status, &asker, ctx).await;
    found.map_err(|error| error.to_string())
}

/// Finds out which group is the default one, if leave depends on it.
async fn acquaint(object: &DistributionTenant, key: &ObjectKey, ctx: &Ctx) -> Result<(), String> {
    if ground::hinges_on_default(object, key, ctx) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let learnt = ctx.learn_default_group(namespace).await;
        learnt.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A stage ended the pass: it refuses, or AWS could not be read.
fn stopped(stop: &Stop, draft: &Draft) -> Told {
    if let Stop::Failed(error) = stop {
        return Err(error.to_string());
    }
    let reason = draft.refusal();
    let reason = reason.ok_or("AWS asks to wait; ask again in a minute")?;
    if reason.code == reasons::ACCESS_DENIED || reason.code == reasons::AWS_ERROR {
        return Err(reason.message);
    }
    let refuse = Step::new(Does::Refuse, reason.code.to_string(), reason.message);
    Ok(vec![refuse])
}

async fn create(look: &Look<'_>, draft: &mut Draft) -> Told {
    let Look {
        object,
        ground,
        asker,
        ctx,
        pass,
    } = *look;
    draft.held_up = true;
    let desired = Body::from(&ground.declared);
    let candidate = Candidate {
        desired: &desired,
        last: None,
    };
    if let Err(stop) = validate(object, ground, &candidate, asker, ctx, draft, pass).await {
        return stopped(&stop, draft);
    }
    let mut steps = vec![Step::new(
        Does::Create,
        format!("tenant {}", ground.name),
        "it is not in CloudFront",
    )];
    steps.extend(Field::ALL.into_iter().filter_map(|field| {
        let (want, _) = side_by_side(Some(&field.of(&desired)), None);
        let mut step = Step::new(Does::Create, field.word(), "");
        step.want = Some(want?);
        Some(step)
    }));
    if let Some(request) = &ground.declared.managed_certificate_request {
        steps.push(requested(&request.primary_domain_name, Does::Create));
    }
    let tags = tags::at_creation(&ground.declared.tags, &ground.marker);
    steps.extend(tags.into_iter().map(|(key, value)| {
        let mut step = Step::new(Does::Tag, key, "");
        step.want = Some(value);
        step
    }));
    steps.extend(records(look, BTreeSet::new(), draft).await?);
    Ok(steps)
}

fn requested(primary: &str, does: Does) -> Step {
    let mut step = Step::new(does, "managedCertificateRequest", "");
    step.want = Some(primary.to_owned());
    step
}

async fn keep(look: &Look<'_>, live: Live, first: Option<Step>, draft: &mut Draft) -> Told {
    let Look {
        object,
        ground,
        asker,
        ctx,
        pass,
    } = *look;
    facts::note(&mut draft.status, &live.summary);
    let body = live.body();
    let last = Last::of(&draft.status, ground.generation, &ground.declared, &body);
    let default_group = if needs_default_group(&ground.declared, &last) {
        let group = ctx.outside.default_group(ctx.own().await, asker).await;
        group
            .map_err(|error| error.to_string())?
            .map(|group| group.id)
    } else {
        None
    };
    let (verdict, issued) = managed(look, &last, &live, draft).await?;
    let plan = diff::plan(&diff::Ground {
        declared: &ground.declared,
        last: &last,
        live: &body,
        default_group: default_group.as_deref(),
        issued: issued.as_deref(),
        resend: verdict.resend,
        policy: ground.drift,
    });
    if let Some(update) = &plan.update
        && plan.changes.iter().any(FieldChange::is_edit)
    {
        let candidate = Candidate {
            desired: &update.body,
            last: Some(&last.body),
        };
        if let Err(stop) = validate(object, ground, &candidate, asker, ctx, draft, pass).await {
            return stopped(&stop, draft);
        }
    }
    let mut steps: Vec<Step> = first.into_iter().collect();
    steps.extend(updates(&plan, verdict.attach.is_some(), ground.drift));
    let known = live.tags.as_ref();
    let declared = &ground.declared.tags;
    let changes = tags::changes(&last.tags, known, declared, &ground.marker, ground.drift);
    steps.extend(tagging(&changes, &last.tags, known));
    let served = plan
        .update
        .map_or(body.domains, |update| update.body.domains);
    steps.extend(records(look, served, draft).await?);
    Ok(steps)
}

/// What is known of the managed certificate.
async fn managed(
    look: &Look<'_>,
    last: &Last,
    live: &Live,
    draft: &Draft,
) -> Result<(certificate::Verdict, Option<String>), String> {
    let declared = &look.ground.declared;
    let request = declared.managed_certificate_request.as_ref();
    let mut details = None;
    if request.is_some() && last.request.as_ref() == request {
        let cloudfront = look.ctx.own().await.cloudfront(look.asker);
        match cloudfront.managed_certificate(&live.summary.id).await {
            Ok(told) => details = Some(told_details(told)),
            Err(error) if error.fault() == Fault::EntityMissing => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let issued = certificate::known_issued(details.as_ref(), &draft.status);
    let issued = issued.map(str::to_owned);
    let verdict = certificate::verdict(&Facts {
        request,
        own: declared.certificate_arn.as_deref(),
        applied: last.request.as_ref(),
        attached: last.body.certificate_arn.as_deref(),
        details: details.as_ref(),
        live: live.summary.certificate_arn.as_deref(),
        domains: &live.summary.domains,
        target: draft.status.dns_target.as_deref(),
        looks: 0,
    });
    Ok((verdict, issued))
}

/// The fields that differ, and what is done about each.
fn updates(plan: &Plan, attaches: bool, policy: DriftPolicy) -> Vec<Step> {
    let update = plan.update.as_ref();
    let corrects = update.is_some_and(|update| update.cause.corrects());
    let fields = plan.changes.iter().filter_map(|change| {
        let is_sent = update.is_some() && (change.is_edit() || corrects);
        let does = match (is_sent, policy) {
            (true, _) if attaches && change.field == Field::Certificate => Does::Attach,
            (true, _) => Does::Update,
            (false, _) if !change.is_drift() => return None, // it is so already
            (false, DriftPolicy::Report) => Does::Report,
            (false, DriftPolicy::Suspend) => Does::Leave,
            (false, DriftPolicy::Enforce) => return None,
        };
        let why = match (does, change.is_edit(), change.is_drift()) {
            (Does::Attach, ..) => "the managed certificate is issued",
            (_, true, true) => "the spec was edited, and AWS, too",
            (_, true, false) => "the spec was edited",
            (_, false, _) => "changed in AWS",
        };
        let [want, last, live] = change.sides();
        Some(Step {
            want,
            last,
            live,
            ..Step::new(does, change.field.word(), why)
        })
    });
    let request = update.and_then(|update| update.request.as_ref());
    let request = request.map(|request| requested(&request.primary_domain_name, Does::Update));
    fields.chain(request).collect()
}

fn tagging(changes: &tags::TagChanges, last: &Tags, live: Option<&Tags>) -> Vec<Step> {
    let step = |does: Does, key: &String, want: Option<&String>| Step {
        want: want.cloned(),
        last: last.get(key).cloned(),
        live: live.and_then(|live| live.get(key)).cloned(),
        ..Step::new(does, key.clone(), "")
    };
    let set = changes.set.iter();
    let set = set.map(|(key, value)| step(Does::Tag, key, Some(value)));
    let removed = changes.remove.iter();
    set.chain(removed.map(|key| step(Does::Untag, key, None)))
        .collect()
}

/// What goes with an object that is being deleted.
async fn leaving(
    object: &DistributionTenant,
    key: &ObjectKey,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Told {
    if object.spec.deletion_policy == DeletionPolicy::Retain {
        let why = "the object goes, and this stays (Retain)";
        let id = draft.status.id.clone().unwrap_or_default();
        return Ok(vec![Step::new(Does::Leave, format!("tenant {id}"), why)]);
    }
    let mut steps = Vec::new();
    let why = "the object is being deleted";
    if removal::is_in_cloudfront(draft) {
        let cloudfront = ctx.own().await.cloudfront(asker);
        let found = removal::found(object, key, &cloudfront, draft).await;
        if let Some(found) = found.map_err(|error| error.to_string())? {
            let tags = tags_of(&found, &cloudfront)
                .await
                .map_err(|error| error.to_string())?;
            let marker = Marker::new(&ctx.deck.cluster, key);
            let on_record = draft.status.id.as_ref() == Some(&found.id);
            let what = format!("tenant {} ({})", found.name, found.id);
            match tags::standing(tags::whose(&tags, &marker), on_record, None) {
                Standing::NotOwned(whose) => {
                    let reason = tags::not_owned(&what, &whose);
                    return Ok(vec![Step::new(Does::Leave, what, reason.message)]);
                }
                Standing::Ours | Standing::Adopt { .. } => {
                    if found.enabled {
                        steps.push(Step::new(Does::Disable, what.clone(), why));
                    }
                    steps.push(Step::new(Does::Delete, what, why));
                }
            }
        }
    }
    let inherited = dns::inheritance(object, key, ctx, draft, pass).await;
    let wish = match inherited {
        Ok(wish) => wish.unwrap_or_else(|| dns::Wish::nothing(Vec::new(), Vec::new())),
        Err(stop) => return stopped(&stop, draft),
    };
    let served = Served::These(BTreeSet::new());
    let found = foreseen(key, &draft.status.dns_records, &wish, &served, asker, ctx).await?;
    steps.extend(changed(&found, DriftPolicy::Enforce));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use api::tenants::TenantBody;
    use rstest::rstest;

    use super::*;

    fn body(domains: &[&str]) -> TenantBody {
        TenantBody {
            distribution_id: "E1".to_owned(),
            domains: domains.iter().map(|one| (*one).to_owned()).collect(),
            enabled: true,
            ..TenantBody::default()
        }
    }

    #[rstest]
    #[case::nothing(&["a"], &["a"], &["a"], DriftPolicy::Enforce, None)]
    #[case::an_edit(&["a", "b"], &["a"], &["a"], DriftPolicy::Report, Some((Does::Update, "the spec was edited")))]
    #[case::drift_put_right(&["a"], &["a"], &["a", "x"], DriftPolicy::Enforce, Some((Does::Update, "changed in AWS")))]
    #[case::drift_reported(&["a"], &["a"], &["a", "x"], DriftPolicy::Report, Some((Does::Report, "changed in AWS")))]
    #[case::drift_left(&["a"], &["a"], &["a", "x"], DriftPolicy::Suspend, Some((Does::Leave, "changed in AWS")))]
    fn a_field_is_told_with_what_is_done_about_it(
        #[case] want: &[&str],
        #[case] last: &[&str],
        #[case] live: &[&str],
        #[case] policy: DriftPolicy,
        #[case] expected: Option<(Does, &str)>,
    ) {
        let last = Last {
            body: Body::from(&body(last)),
            ..Last::default()
        };
        let plan = diff::plan(&diff::Ground {
            declared: &body(want),
            last: &last,
            live: &Body::from(&body(live)),
            default_group: None,
            issued: None,
            resend: false,
            policy,
        });
        let steps = updates(&plan, false, policy);
        let told: Vec<_> = steps.iter().map(|one| (one.does, &*one.why)).collect();
        assert_eq!(told, Vec::from_iter(expected));
        for step in steps {
            assert_eq!(step.what, "domains");
            assert_eq!(step.want, Some(want.join(", ")));
            assert_eq!(step.live, Some(live.join(", ")));
        }
    }
}
