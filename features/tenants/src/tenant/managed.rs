//! The managed certificate of a tenant: when CloudFront is asked about it, and what is said then.

use std::time::Duration;

use api::tenants::{BodyCertificateRequest, ValidationToken, reasons};
use aws::Fault;
use aws::cloudfront::ManagedCertificate;
use engine::Pass;
use kernel::Reason;

use super::create::way;
use super::draft::{Draft, Question};
use super::keep::Look;
use super::stop::{Stop, failed};
use crate::body::Live;
use crate::certificate::{self, Details, Facts};
use crate::check;
use crate::ctx::Ctx;
use crate::diff::Last;
use crate::failure::Missing;

/// What is known of the managed certificate, and what follows.
pub(super) struct Managed {
    /// None: what the status says still holds.
    pub(super) verdict: Option<certificate::Verdict>,
    pub(super) issued: Option<String>,
    /// The request that CloudFront has.
    pub(super) request: Option<BodyCertificateRequest>,
    /// Whether it has to go out again.
    pub(super) resend: bool,
    /// When to ask CloudFront again.
    pub(super) again: Option<Duration>,
}

/// Asks CloudFront about the certificate, if it is time to.
pub(super) async fn managed(
    look: &Look<'_>,
    last: &Last,
    live: &Live,
    moved: bool,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Managed, Stop> {
    let Look {
        object,
        ground,
        asker,
        whole,
    } = *look;
    let now = ctx.deck.clock.elapsed();
    let request = ground.declared.managed_certificate_request.as_ref();
    let settled = certificate::is_settled(&ground.declared, ground.generation, &draft.status);
    let due = ctx.memory.of(&ground.key).certificate_due;
    let left = due.map_or(Duration::ZERO, |due| due.saturating_sub(now));
    let is_due = left.is_zero() || moved || pass.is_urgent() || is_unattached(live, draft);
    let recorded = last.request.as_ref();
    let is_sent = request.is_some() && recorded == request;
    // A new request may have gone out before, and nobody lived to record it.
    let is_new = request.is_some_and(|request| certificate::can_be_shown(request, recorded));
    let is_time = if settled { whole || moved } else { is_due };
    let asks = is_new || is_sent && is_time;
    if is_sent && !asks {
        return Ok(Managed {
            verdict: None,
            issued: certificate::known_issued(None, &draft.status).map(str::to_owned),
            request: last.request.clone(),
            resend: false,
            again: (!settled).then_some(left),
        });
    }
    let mut details = None;
    if asks {
        let cloudfront = ctx.own().await.cloudfront(asker);
        match cloudfront.managed_certificate(&live.summary.id).await {
            Ok(told) => details = Some(told_details(told)),
            Err(error) if error.fault() == Fault::EntityMissing => {}
            Err(error) => {
                let on_way = way(object, Missing::Distribution);
                return Err(failed(error, on_way, draft, ctx, pass));
            }
        }
    }
    let looks = ctx.memory.of(&ground.key).certificate_polls;
    let found = request.filter(|request| {
        let details = details.as_ref();
        details.is_some_and(|details| details.show(request, recorded))
    });
    // What is told of an older request says nothing of this one.
    let details = details.filter(|_| is_sent || found.is_some());
    let applied = found.or(recorded);
    let verdict = certificate::verdict(&Facts {
        request,
        own: ground.declared.certificate_arn.as_deref(),
        applied,
        attached: last.body.certificate_arn.as_deref(),
        details: details.as_ref(),
        live: live.summary.certificate_arn.as_deref(),
        domains: &live.summary.domains,
        target: draft.status.dns_target.as_deref(),
        looks,
    });
    ctx.memory.note(&ground.key, |memory| {
        memory.certificate_polls = if asks { looks.saturating_add(1) } else { 0 };
        memory.certificate_due = verdict.again.map(|again| now + again);
        if details.is_some() {
            memory.resent = 0;
        }
    });
    let issued = certificate::known_issued(details.as_ref(), &draft.status);
    Ok(Managed {
        issued: issued.map(str::to_owned),
        request: applied.cloned(),
        resend: verdict.resend && left.is_zero(),
        again: verdict.again,
        verdict: Some(verdict),
    })
}

/// Whether the certificate was issued and is still to be attached: only CloudFront knows its ARN.
fn is_unattached(live: &Live, draft: &Draft) -> bool {
    let status = draft.status.managed_certificate_status.as_deref();
    status == Some(certificate::ISSUED) && live.summary.certificate_arn.is_none()
}

pub(super) fn told_details(told: ManagedCertificate) -> Details {
    let tokens = told.tokens.into_iter();
    Details {
        arn: told.arn,
        status: told.status,
        host: told.validation_token_host,
        tokens: tokens
            .map(|one| ValidationToken {
                domain: one.domain,
                redirect_from: one.redirect_from,
                redirect_to: one.redirect_to,
            })
            .collect(),
    }
}

/// Says how the certificate stands.
pub(super) fn say_certificate(managed: &Managed, draft: &mut Draft) {
    let Some(verdict) = &managed.verdict else {
        draft.restate(Question::Certificate);
        return;
    };
    draft.status.validation_tokens.clone_from(&verdict.tokens);
    if verdict.status.is_some() {
        draft
            .status
            .managed_certificate_status
            .clone_from(&verdict.status);
    }
    let is_old = draft.told(Question::Certificate).is_some_and(|told| {
        told.reason == verdict.reason.code && check::is_unchecked(&told.message)
    });
    if is_old {
        draft.restate(Question::Certificate);
        return;
    }
    let reason = verdict.reason.clone();
    if verdict.ready {
        draft.yes(Question::Certificate, reason);
    } else {
        draft.no(Question::Certificate, reason);
    }
}

/// Says that the certificate's names were not compared, if they should have been.
pub(super) fn say_unchecked(draft: &mut Draft) {
    if let Some(message) = draft.unchecked.take() {
        let reason = Reason::new(reasons::NOT_CONFIGURED, message);
        draft.yes(Question::Certificate, reason);
    }
}
