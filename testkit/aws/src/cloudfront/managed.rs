//! Managed certificates: asked for with a tenant, issued later, attached by an Update or by itself.

use jiff::Timestamp;

use super::CloudFront;
use super::config::{Asked, Host};
use super::error::not_found;
use super::store::{Managed, Tenant};
use crate::acm::{Certificate, Status};
use crate::protocol::ApiError;
use crate::service::Moment;
use crate::shelf::View;
use crate::xml::Element;

impl CloudFront {
    /// Asks ACM for a certificate over all domains of a tenant.
    pub(super) fn ask(
        &mut self,
        account: &str,
        asked: Asked,
        domains: &[String],
        moment: &Moment<'_>,
    ) -> Managed {
        let number = self.store.next();
        let arn = format!("arn:aws:acm:us-east-1:{account}:certificate/managed-{number:012}");
        let mut names = domains.to_vec();
        names.sort_by_key(|name| Some(name) != asked.primary.as_ref());
        self.certificates.lock().put(Certificate {
            arn: arn.clone(),
            names,
            status: Status::PendingValidation,
            managed: true,
            since: moment.now,
        });
        let delay = moment.switches.span("issueDelay");
        let issued = moment.now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        Managed {
            asked,
            arn,
            status: Status::PendingValidation,
            issued_at: (!delay.is_zero()).then_some(issued),
        }
    }

    /// What an Update does to the managed certificate there is.
    ///
    /// | request sent | there is | so |
    /// |---|---|---|
    /// | none | none or attached | nothing |
    /// | none | not attached | `certOmit`: kept or cancelled |
    /// | one | none, or for another request | a new one |
    /// | one | for the same request | `certResend`: ignored or a new one |
    pub(super) fn asked_again(
        &mut self,
        account: &str,
        tenant: &Tenant,
        sent: Option<Asked>,
        domains: &[String],
        moment: &Moment<'_>,
    ) -> Option<Managed> {
        let (resend, omit) = (
            moment.switches.choice("certResend"),
            moment.switches.choice("certOmit"),
        );
        match (sent, &tenant.managed) {
            (None, None) => None,
            (None, Some(there)) => {
                let attached =
                    tenant.config.customizations.certificate.as_ref() == Some(&there.arn);
                if omit == "cancel" && !attached {
                    self.certificates.lock().remove(&there.arn);
                    return None;
                }
                Some(there.clone())
            }
            (Some(sent), Some(there)) if sent == there.asked && resend == "ignore" => {
                Some(there.clone())
            }
            (Some(sent), _) => Some(self.ask(account, sent, domains, moment)),
        }
    }

    /// Issues what is due by itself.
    pub(super) fn settle(&mut self, moment: &Moment<'_>) {
        for (account, id) in self.store.due(moment.now) {
            self.certificate_is(&account, &id, Some(Status::Issued), moment);
        }
    }

    /// Changes how a tenant's managed certificate stands; `None` makes its details vanish.
    /// Issued under `autoAttach`, it is attached as well.
    pub(super) fn certificate_is(
        &mut self,
        account: &str,
        id: &str,
        status: Option<Status>,
        moment: &Moment<'_>,
    ) {
        let Some(mut tenant) = self.store.tenant(account, id, View::Live).cloned() else {
            return;
        };
        let Some(mut managed) = tenant.managed.take() else {
            return;
        };
        let mut certificates = self.certificates.lock();
        match status {
            None => {
                certificates.remove(&managed.arn);
            }
            Some(status) => {
                certificates.set(&managed.arn, status);
                managed.status = status;
                managed.issued_at = None;
                let attach = status == Status::Issued
                    && moment.switches.choice("autoAttach") == "on"
                    && tenant.config.customizations.certificate.is_none();
                if attach {
                    tenant.config.customizations.certificate = Some(managed.arn.clone());
                }
                tenant.managed = Some(managed);
            }
        }
        drop(certificates);
        if moment.switches.flag("etagOnCertificate") {
            tenant.version.etag = self.store.etag();
            tenant.version.modified = moment.now;
        }
        self.store.put(account, tenant, moment.now);
    }

    pub(super) fn details(
        &self,
        account: &str,
        named: &str,
        view: View,
    ) -> Result<Element, ApiError> {
        let tenant = self
            .store
            .tenant(account, named, view)
            .ok_or_else(|| not_found("distribution tenant", named))?;
        let managed = tenant
            .managed
            .as_ref()
            .ok_or_else(|| not_found("managed certificate", named))?;
        let certificates = self.certificates.lock();
        let names = certificates
            .get(&managed.arn)
            .map_or(&[][..], |certificate| &certificate.names);
        let host = managed.asked.host;
        let tokens = names.iter().map(|domain| token(domain, account, host));
        Ok(Element::new("ManagedCertificateDetails")
            .leaf("CertificateArn", &managed.arn)
            .leaf("CertificateStatus", managed.status.cloudfront())
            .leaf("ValidationTokenHost", host.word())
            .child(Element::new("ValidationTokenDetails").children(tokens)))
    }
}

/// Where a domain's token is asked for and where it lies; CloudFront serves its own.
fn token(domain: &str, account: &str, host: Host) -> Element {
    let member = Element::new("member").leaf("Domain", domain);
    match host {
        Host::Cloudfront => member,
        Host::SelfHosted => {
            let file = format!(
                ".well-known/pki-validation/{}.txt",
                domain.replace('*', "_")
            );
            let there =
                format!("https://validation.us-east-1.acm-validations.aws/{account}/{file}");
            member
                .leaf("RedirectTo", &there)
                .leaf("RedirectFrom", &format!("http://{domain}/{file}"))
        }
    }
}
