//! Whether distribution and certificate suit a tenant, before anything is written for it.

use std::sync::Arc;
use std::time::Duration;

use api::tenants::DistributionTenant;
use aws::{Caller, Fault};
use engine::Pass;

use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, blocked, count, failed};
use crate::body::Body;
use crate::check::{self, Definition, Distribution, Subject, Told};
use crate::ctx::Ctx;
use crate::failure::Way;
use crate::told::{FRESH, KEPT};

/// What is checked: the body that is to be sent, beside the last one.
pub(super) struct Candidate<'a> {
    pub(super) desired: &'a Body,
    pub(super) last: Option<&'a Body>,
}

/// Ends the pass if the spec cannot work.
pub(super) async fn validate(
    object: &DistributionTenant,
    ground: &Ground,
    candidate: &Candidate<'_>,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<(), Stop> {
    let subject = subject(object, ground, candidate);
    let mut looks = [KEPT, FRESH].into_iter();
    // A failing verdict from an older answer is confirmed by a fresh one.
    loop {
        let longest = looks.next();
        let distribution = read(ground, longest.unwrap_or(FRESH), asker, ctx).await;
        if let Read::Failed(error) = &distribution
            && error.fault() == Fault::Throttled
        {
            return Err(failed(error.clone(), Way::Validation, draft, ctx, pass));
        }
        let failures = check::failures(&subject, distribution.told());
        if failures.is_some() && looks.len() > 0 {
            continue;
        }
        distribution.count(ctx);
        if let Some(failures) = failures {
            let both = [Question::Ready, Question::Synced];
            return Err(blocked(&failures.reason(), &both, draft, ctx, &ground.key));
        }
        return names(ground, candidate, &distribution, asker, ctx, draft).await;
    }
}

fn subject<'a>(
    object: &DistributionTenant,
    ground: &'a Ground,
    candidate: &Candidate<'a>,
) -> Subject<'a> {
    let given_name = object.spec.tenant_name.is_none();
    Subject {
        object_name: given_name.then_some(&*ground.key.name),
        declared: &ground.declared,
        certificate: candidate.desired.certificate_arn.as_deref(),
    }
}

/// Whether [`validate`] makes no call to CloudFront: the cached answer holds nothing against the
/// spec that would have to be confirmed. A refusal to show the distribution does not, either.
pub(super) fn passes_by_cache(
    object: &DistributionTenant,
    ground: &Ground,
    candidate: &Candidate<'_>,
    ctx: &Ctx,
) -> bool {
    let cached = ctx
        .outside
        .cached_distribution(&ground.declared.distribution_id);
    cached.is_some_and(|answer| {
        let subject = subject(object, ground, candidate);
        check::failures(&subject, Read::from(answer).told()).is_none()
    })
}

/// What came of looking at the distribution.
enum Read {
    Known(Distribution),
    Missing(aws::Error),
    /// Its checks are left out.
    Failed(aws::Error),
}

impl Read {
    fn told(&self) -> Told<'_> {
        match self {
            Self::Known(distribution) => Told::Known(distribution),
            Self::Missing(_) => Told::Missing,
            Self::Failed(_) => Told::Unread,
        }
    }

    fn count(&self, ctx: &Ctx) {
        match self {
            Self::Known(_) => {}
            Self::Missing(error) | Self::Failed(error) => count(error, Way::Validation, ctx),
        }
    }
}

impl From<Result<Arc<aws::cloudfront::Distribution>, aws::Error>> for Read {
    fn from(answer: Result<Arc<aws::cloudfront::Distribution>, aws::Error>) -> Self {
        let error = match answer {
            Ok(told) => return Self::Known(seen(&told)),
            Err(error) => error,
        };
        match error.fault() {
            Fault::DistributionMissing | Fault::EntityMissing => Self::Missing(error),
            Fault::DomainTaken
            | Fault::NameTaken
            | Fault::Denied
            | Fault::Credentials
            | Fault::OwnershipUnverified
            | Fault::InvalidSpec
            | Fault::ZoneMissing
            | Fault::ChangeMissing
            | Fault::OtherMissing
            | Fault::LimitExceeded
            | Fault::Stale
            | Fault::NotDisabled
            | Fault::InUse
            | Fault::ZoneBusy
            | Fault::InvalidRecords
            | Fault::Refused
            | Fault::Throttled
            | Fault::Passing
            | Fault::Deposed => Self::Failed(error),
        }
    }
}

async fn read(ground: &Ground, longest: Duration, asker: &Caller, ctx: &Ctx) -> Read {
    let id = &ground.declared.distribution_id;
    let own = ctx.own().await;
    let answer = ctx.outside.distribution(own, asker, id, longest).await;
    answer.into()
}

fn seen(told: &aws::cloudfront::Distribution) -> Distribution {
    Distribution {
        id: told.id.clone(),
        tenant_only: told.is_tenant_only(),
        certificate_arn: told.certificate_arn.clone(),
        parameters: told
            .parameters
            .iter()
            .map(|one| Definition {
                name: one.name.clone(),
                required: one.required,
                default: one.default.clone(),
            })
            .collect(),
    }
}

/// Whether the certificate names every domain, where that may have changed.
async fn names(
    ground: &Ground,
    candidate: &Candidate<'_>,
    distribution: &Read,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
) -> Result<(), Stop> {
    let asked = ground.declared.managed_certificate_request.is_some();
    if !check::names_are_due(candidate.last, candidate.desired, asked) {
        return Ok(());
    }
    let own = candidate.desired.certificate_arn.as_deref();
    let arn = match (own, distribution) {
        (Some(own), _) => own,
        (None, Read::Known(distribution)) => match &distribution.certificate_arn {
            Some(arn) => arn,
            None => return Ok(()),
        },
        (None, Read::Missing(error) | Read::Failed(error)) => {
            let id = &ground.declared.distribution_id;
            let certificate = format!("the certificate of distribution {id}");
            draft.unchecked = Some(check::unchecked(&certificate, &error.to_string()));
            return Ok(());
        }
    };
    let account = ctx.own().await;
    for longest in [KEPT, FRESH] {
        let told = ctx.outside.certificate(account, asker, arn, longest).await;
        let told = match told {
            Ok(told) => told,
            Err(error) => {
                let certificate = format!("certificate {arn}");
                draft.unchecked = Some(check::unchecked(&certificate, &error.to_string()));
                return Ok(());
            }
        };
        let Some(reason) = check::uncovered(arn, &told.names, &candidate.desired.domains) else {
            break;
        };
        if longest == FRESH {
            let key = &ground.key;
            return Err(blocked(&reason, &[Question::Ready], draft, ctx, key));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn refused(status: u16, code: &str) -> Read {
        let refusal = aws::Refusal {
            operation: aws::Operation::GetDistribution,
            resource: "E1".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            status,
            request_id: None,
        };
        Read::from(Err(aws::Error::Refused(Box::new(refusal))))
    }

    #[rstest]
    #[case::denied(403, "AccessDenied", false)]
    #[case::missing(404, "NoSuchDistribution", true)]
    fn a_denied_distribution_is_not_held_against_the_spec(
        #[case] status: u16,
        #[case] code: &str,
        #[case] fails: bool,
    ) {
        let declared = api::tenants::TenantBody::default();
        let subject = Subject {
            object_name: Some("acme"),
            declared: &declared,
            certificate: None,
        };
        let failures = check::failures(&subject, refused(status, code).told());
        assert_eq!(failures.is_some(), fails);
    }
}
