//! A managed certificate, from request to attachment: what to say, what to do next. Pure.
//!
//! ```text
//! request ──▶ pending-validation ──▶ issued ──attach──▶ Attaching ──▶ Validated
//!    ▲            │ lost, nothing attached     └ or by itself ┘   all domains active
//!    └────────────┘
//!                 └──▶ failed, timed out, revoked, expired: CertificateFailed
//! ```
//! The spec is never written; a certificate that the spec names is never replaced.

#[cfg(test)]
mod tests;

use std::time::Duration;

use api::tenants::{
    BodyCertificateRequest, DistributionTenantStatus, TenantBody, ValidationToken,
    ValidationTokenHost, conditions, reasons,
};
use kernel::{Backoff, Reason};

use crate::body::LiveDomain;
use crate::words::{FEW, few};

/// How often CloudFront is asked: after 30 s, doubling to 5 min.
const LOOKS: Backoff = Backoff {
    first: Duration::from_secs(30),
    cap: Duration::from_secs(5 * 60),
    jitter: 0.0,
};

/// How long after a request CloudFront is first asked what became of it.
pub(crate) const FIRST_LOOK: Duration = LOOKS.first;
/// The same for one that went out again because CloudFront knew nothing of it: 5 min, doubling to
/// 1 h.
const AGAIN: Backoff = Backoff {
    first: Duration::from_secs(5 * 60),
    cap: Duration::from_secs(60 * 60),
    jitter: 0.0,
};

pub(crate) const ISSUED: &str = "issued";
const PENDING: &str = "pending-validation";

/// How long after a request that went out again so often CloudFront is asked.
pub(crate) fn next_look(resent: u32) -> Duration {
    if resent == 0 {
        FIRST_LOOK
    } else {
        AGAIN.delay(resent, 0.5)
    }
}

/// What CloudFront tells of a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Details {
    pub(crate) arn: Option<String>,
    /// In CloudFront's word.
    pub(crate) status: String,
    /// Who serves the token, in CloudFront's word.
    pub(crate) host: Option<String>,
    pub(crate) tokens: Vec<ValidationToken>,
}

/// Whether details can show that CloudFront has `request` although `recorded` is on record, as
/// after a crash: of a request they tell the token host, and no more.
pub(crate) fn can_be_shown(
    request: &BodyCertificateRequest,
    recorded: Option<&BodyCertificateRequest>,
) -> bool {
    let host = request.validation_token_host;
    recorded.is_none_or(|recorded| recorded.validation_token_host != host)
}

impl Details {
    /// Whether they show it.
    pub(crate) fn show(
        &self,
        request: &BodyCertificateRequest,
        recorded: Option<&BodyCertificateRequest>,
    ) -> bool {
        let is_host = self.host.as_deref() == Some(request.validation_token_host.as_str());
        can_be_shown(request, recorded) && (is_host || recorded.is_none())
    }

    fn stage(&self) -> Stage {
        match self.status.as_str() {
            ISSUED => Stage::Issued,
            "failed" | "validation-timed-out" | "revoked" | "expired" => Stage::Failed,
            // A word of tomorrow is not the end, either.
            _ => Stage::Pending,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Pending,
    Issued,
    Failed,
}

/// All that the verdict is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The request in the spec.
    pub(crate) request: Option<&'a BodyCertificateRequest>,
    /// The certificate that the spec names itself.
    pub(crate) own: Option<&'a str>,
    /// The request that CloudFront last accepted.
    pub(crate) applied: Option<&'a BodyCertificateRequest>,
    /// The certificate that CloudFront last accepted.
    pub(crate) attached: Option<&'a str>,
    /// What CloudFront tells; none if it knows of no managed certificate.
    pub(crate) details: Option<&'a Details>,
    /// The certificate that is live.
    pub(crate) live: Option<&'a str>,
    pub(crate) domains: &'a [LiveDomain],
    /// Where the domains have to point.
    pub(crate) target: Option<&'a str>,
    /// How often CloudFront was asked since the request went out.
    pub(crate) looks: u32,
}

/// What to say and do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Whether CertificateReady holds.
    pub(crate) ready: bool,
    pub(crate) reason: Reason,
    /// For `status.managedCertificateStatus`.
    pub(crate) status: Option<String>,
    pub(crate) tokens: Vec<ValidationToken>,
    /// The certificate to attach, by one Update.
    pub(crate) attach: Option<String>,
    /// Whether the request has to go out again although it did not change.
    pub(crate) resend: bool,
    /// When to ask CloudFront again; none if only the daily look is left.
    pub(crate) again: Option<Duration>,
}

impl Verdict {
    fn yes(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            ready: true,
            reason: Reason::new(code, message),
            status: None,
            tokens: vec![],
            attach: None,
            resend: false,
            again: None,
        }
    }

    fn no(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            ready: false,
            ..Self::yes(code, message)
        }
    }
}

/// | request   | details         | live     | so                                        |
/// |-----------|-----------------|----------|-------------------------------------------|
/// | none      | –               | any      | NotConfigured                             |
/// | changed   | –               | any      | PendingValidation: it is on its way       |
/// | as before | none            | none     | PendingValidation, sent again             |
/// | as before | none            | some     | as if that were the issued one            |
/// | as before | pending         | any      | PendingValidation, with what to do for it |
/// | as before | issued          | it       | Attaching until all is active, Validated  |
/// | as before | issued          | another  | attached once, unless the spec names one  |
/// | as before | failed and such | any      | CertificateFailed                         |
pub(crate) fn verdict(facts: &Facts<'_>) -> Verdict {
    let Some(request) = facts.request else {
        let message = unasked(facts.own, facts.live);
        return Verdict::yes(reasons::NOT_CONFIGURED, message);
    };
    if facts.applied != Some(request) {
        let message = format!(
            "the request for a certificate of {} goes to CloudFront with the next change",
            request.primary_domain_name
        );
        return Verdict::no(reasons::PENDING_VALIDATION, message);
    }
    let again = Some(LOOKS.delay(facts.looks.saturating_add(1), 0.5));
    let Some(details) = facts.details else {
        return lost(facts, request, again);
    };
    let told = match details.stage() {
        Stage::Pending => pending(facts, request, details, again),
        Stage::Failed => Verdict::no(reasons::CERTIFICATE_FAILED, ended(request, details)),
        Stage::Issued => match &details.arn {
            Some(arn) => issued(facts, arn, again),
            None => pending(facts, request, details, again),
        },
    };
    Verdict {
        status: Some(details.status.clone()),
        ..told
    }
}

/// Which certificate serves where no managed one is asked for: the spec's own, one that is live, or
/// the distribution's.
pub(crate) fn unasked(own: Option<&str>, live: Option<&str>) -> String {
    let serves = match (own, live) {
        (Some(own), _) => format!("the spec names {own}"),
        (None, Some(live)) => format!("{live} stays attached"),
        (None, None) => "the distribution's is used".to_owned(),
    };
    format!("no managed certificate is asked for; {serves}")
}

fn lost(facts: &Facts<'_>, request: &BodyCertificateRequest, again: Option<Duration>) -> Verdict {
    if let Some(live) = facts.live {
        return serving(facts, live, again);
    }
    // Right after the request, CloudFront may not tell of it yet.
    let resend = facts.looks > 0;
    let next = if resend {
        "the request is sent again"
    } else {
        "it is asked again before the request is repeated"
    };
    let message = format!(
        "CloudFront knows of no certificate for {} and none is attached; {next}",
        request.primary_domain_name
    );
    Verdict {
        resend,
        again,
        ..Verdict::no(reasons::PENDING_VALIDATION, message)
    }
}

fn pending(
    facts: &Facts<'_>,
    request: &BodyCertificateRequest,
    details: &Details,
    again: Option<Duration>,
) -> Verdict {
    let name = &request.primary_domain_name;
    let word = if details.status == PENDING {
        String::new()
    } else {
        format!(" (it is {})", details.status)
    };
    let (proof, tokens) = match request.validation_token_host {
        ValidationTokenHost::SelfHosted => (redirects(&details.tokens), details.tokens.clone()),
        ValidationTokenHost::Cloudfront => (pointing(facts), vec![]),
    };
    let message = format!("the certificate of {name} waits for validation{word}; {proof}");
    Verdict {
        tokens,
        again,
        ..Verdict::no(reasons::PENDING_VALIDATION, message)
    }
}

fn redirects(tokens: &[ValidationToken]) -> String {
    let redirect = |token: &ValidationToken| {
        let (from, to) = (token.redirect_from.as_ref()?, token.redirect_to.as_ref()?);
        Some(format!("{from} to {to}"))
    };
    let redirects: Vec<String> = tokens.iter().filter_map(redirect).collect();
    if redirects.is_empty() {
        return "CloudFront has not told yet which redirects your server has to answer with"
            .to_owned();
    }
    let more = match redirects.len().saturating_sub(FEW) {
        0 => String::new(),
        more => format!(" and {more} more in status.validationTokens"),
    };
    let shown = &redirects[..redirects.len().min(FEW)];
    format!("let your server redirect {}{more}", shown.join(", "))
}

fn pointing(facts: &Facts<'_>) -> String {
    let waiting = facts.domains.iter().filter(|one| !one.is_active());
    let waiting: Vec<&str> = waiting.map(|one| one.domain.as_str()).collect();
    let target = facts.target.unwrap_or("the connection group's endpoint");
    if waiting.is_empty() {
        return format!("CloudFront proves the domains itself once their DNS points to {target}");
    }
    let waiting = few(&waiting);
    format!("CloudFront proves the domains itself once DNS points to {target}: {waiting}")
}

fn issued(facts: &Facts<'_>, arn: &str, again: Option<Duration>) -> Verdict {
    match (facts.own, facts.live) {
        (Some(own), _) if own != arn => {
            let message = format!(
                "the managed certificate {arn} is issued and not attached, because the spec names \
                 {own}; remove that to use it"
            );
            Verdict::yes(reasons::VALIDATED, message)
        }
        (_, Some(live)) if live == arn => serving(facts, arn, again),
        // We attached it and somebody took it off: the drift policy decides, not the certificate.
        (None, _) if facts.attached == Some(arn) => {
            let message = format!(
                "the managed certificate {arn} is issued and was detached in CloudFront; attach it \
                 there, or set driftPolicy to enforce"
            );
            Verdict {
                again,
                ..Verdict::no(reasons::ATTACHING, message)
            }
        }
        (own, _) => Verdict {
            // Where the spec names it, its own Update attaches it.
            attach: own.is_none().then(|| arn.to_owned()),
            again,
            ..Verdict::no(
                reasons::ATTACHING,
                format!("the managed certificate {arn} is issued and is being attached"),
            )
        },
    }
}

/// `arn` is live: whether it serves every domain by now.
fn serving(facts: &Facts<'_>, arn: &str, again: Option<Duration>) -> Verdict {
    let waiting = facts.domains.iter().filter(|one| !one.is_active());
    let waiting: Vec<&str> = waiting.map(|one| one.domain.as_str()).collect();
    if waiting.is_empty() {
        let message = format!("the managed certificate {arn} serves every domain");
        return Verdict::yes(reasons::VALIDATED, message);
    }
    let message = format!(
        "the managed certificate {arn} is attached; CloudFront does not serve yet: {}",
        few(&waiting)
    );
    Verdict {
        again,
        ..Verdict::no(reasons::ATTACHING, message)
    }
}

fn ended(request: &BodyCertificateRequest, details: &Details) -> String {
    let status = &details.status;
    let arn = details.arn.as_deref().unwrap_or("without an ARN");
    format!(
        "the managed certificate of {} ({arn}) is {status}; see to its DNS, then change \
         spec.managedCertificateRequest, or name a certificate in spec.customizations.certificate",
        request.primary_domain_name
    )
}

/// The managed certificate, if it is known to be issued: as CloudFront just told, else as the
/// status remembers. For [`crate::diff::Ground`].
pub(crate) fn known_issued<'a>(
    details: Option<&'a Details>,
    status: &'a DistributionTenantStatus,
) -> Option<&'a str> {
    if let Some(details) = details {
        let issued = details.stage() == Stage::Issued;
        return details.arn.as_deref().filter(|_| issued);
    }
    let issued = status.managed_certificate_status.as_deref() == Some(ISSUED);
    status.certificate_arn.as_deref().filter(|_| issued)
}

/// Whether a pass can do without asking CloudFront: no request, or one that has come to its end
/// for this very spec. Only the daily look is left then.
pub(crate) fn is_settled(
    declared: &TenantBody,
    generation: Option<i64>,
    status: &DistributionTenantStatus,
) -> bool {
    let Some(request) = &declared.managed_certificate_request else {
        return true;
    };
    let applied = status.last_applied.as_ref();
    let applied = applied.and_then(|body| body.managed_certificate_request.as_ref());
    let told = kernel::find(&status.conditions, conditions::CERTIFICATE_READY);
    let ended = told.is_some_and(|told| {
        [reasons::VALIDATED, reasons::CERTIFICATE_FAILED].contains(&told.reason.as_str())
    });
    ended && applied == Some(request) && status.observed_generation == generation
}
