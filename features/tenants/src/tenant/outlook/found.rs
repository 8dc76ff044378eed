//! What CloudFront has for an object, and whether it may be touched.

use api::tenants::{AdoptBy, DriftPolicy, reasons};
use aws::Fault;
use aws::cloudfront::{CloudFront, Tenant};

use super::Look;
use super::step::{Does, Step};
use crate::body::{Live, domain};
use crate::tags::{self, Standing, Whose};
use crate::tenant::draft::Draft;
use crate::tenant::facts;
use crate::tenant::taken::tags_of;

/// What CloudFront has for the object.
pub(super) enum Found {
    Nothing,
    /// Something that is not to be touched.
    Refused(Step),
    Tenant {
        live: Box<Live>,
        /// That it becomes the object's, if it is not yet.
        first: Option<Step>,
    },
}

/// Looks for it as a pass would.
pub(super) async fn found(look: &Look<'_>, draft: &mut Draft) -> Result<Found, String> {
    let Look { object, ground, .. } = *look;
    let cloudfront = look.ctx.own().await.cloudfront(look.asker);
    let adoption = object.spec.adoption.as_ref();
    let id = draft.status.id.clone();
    let first = object.spec.domains.first().map(|one| domain(&one.domain));
    let asked = match (&id, adoption.map(|one| one.by), first) {
        (Some(id), ..) => cloudfront.tenant(id).await,
        (None, Some(AdoptBy::Domain), Some(first)) => cloudfront.tenant_by_domain(&first).await,
        (None, ..) => cloudfront.tenant(&ground.name).await,
    };
    let found = match asked {
        Ok(found) => found,
        Err(error) if error.fault() != Fault::EntityMissing => return Err(error.to_string()),
        Err(_) => match &id {
            Some(id) => match anew(look, id, &cloudfront, draft).await? {
                Ok(found) => found,
                Err(found) => return Ok(found),
            },
            None => return Ok(Found::Nothing),
        },
    };
    let on_record = id.is_some();
    let tags = match tags_of(&found, &cloudfront).await {
        Ok(tags) => Some(tags),
        // As in a pass: the id on record is proof.
        Err(error) if on_record && error.fault() == Fault::Denied => None,
        Err(error) => return Err(error.to_string()),
    };
    let whose = tags::whose(&tags.clone().unwrap_or_default(), &ground.marker);
    let what = format!("tenant {} ({})", found.name, found.id);
    let first = match tags::standing(whose, on_record, adoption) {
        Standing::NotOwned(whose) => {
            let reason = tags::not_owned(&what, &whose);
            let code = reason.code.to_string();
            return Ok(Found::Refused(Step::new(
                Does::Refuse,
                code,
                reason.message,
            )));
        }
        Standing::Ours if on_record => None,
        Standing::Ours => Some(Step::new(Does::Adopt, what, "it carries our marker")),
        Standing::Adopt { from: None } => {
            Some(Step::new(Does::Adopt, what, "spec.adoption says so"))
        }
        Standing::Adopt { from: Some(owner) } => {
            let why = format!("spec.adoption takes it from {owner}");
            Some(Step::new(Does::Adopt, what, why))
        }
    };
    if !on_record && ground.declared.managed_certificate_request.is_some() {
        match cloudfront.managed_certificate(&found.id).await {
            Ok(details) => draft.status.managed_certificate_status = Some(details.status),
            Err(error) if error.fault() == Fault::EntityMissing => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let mut live = Live::from(found);
    live.tags = tags;
    let live = Box::new(live);
    Ok(Found::Tenant { live, first })
}

/// CloudFront has no tenant of the id on record: one of its name that is ours, or what follows.
async fn anew(
    look: &Look<'_>,
    id: &str,
    cloudfront: &CloudFront,
    draft: &mut Draft,
) -> Result<Result<Tenant, Found>, String> {
    match cloudfront.tenant(&look.ground.name).await {
        Ok(found) => {
            let tags = tags_of(&found, cloudfront)
                .await
                .map_err(|error| error.to_string())?;
            if tags::whose(&tags, &look.ground.marker) == Whose::Ours {
                return Ok(Ok(found));
            }
        }
        Err(error) if error.fault() == Fault::EntityMissing => {}
        Err(error) => return Err(error.to_string()),
    }
    Ok(Err(match look.ground.drift {
        DriftPolicy::Enforce => {
            facts::forget(&mut draft.status);
            Found::Nothing
        }
        policy @ (DriftPolicy::Report | DriftPolicy::Suspend) => {
            let why = format!(
                "{id} was deleted in AWS and is not made anew, because driftPolicy is {}",
                policy.as_str()
            );
            Found::Refused(Step::new(Does::Refuse, reasons::EXTERNALLY_DELETED, why))
        }
    }))
}
