//! Finds the caller, the service, the operation and the fault of a request.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::accounts::{Accounts, Caller};
use crate::clock::Clock;
use crate::exclusive::{ExclusiveResources, ExclusiveUse};
use crate::faults::{Effect, Faults};
use crate::limits::Limits;
use crate::log::{self, Entry, Log};
use crate::oracle::{Oracle, Sent};
use crate::protocol::{ApiError, Protocol, Refusal};
use crate::service::{Call, Moment, Operation, Outcome, Service, Violation};
use crate::shelf::View;
use crate::sigv4::{self, Signed, Unsigned};
use crate::switches::Switches;
use crate::wire::{Request, Response};

/// The state of the emulator. One lock protects it, so requests run one after another.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) accounts: Arc<Mutex<Accounts>>,
    pub(crate) services: Vec<Mounted>,
    pub(crate) faults: Faults,
    pub(crate) limits: Limits,
    pub(crate) exclusive: ExclusiveResources,
    pub(crate) oracle: Oracle,
    pub(crate) log: Log,
    pub(crate) answered: u64,
}

/// A service and its switches.
pub(crate) struct Mounted {
    pub(crate) service: Box<dyn Service>,
    pub(crate) switches: Switches,
}

impl Mounted {
    pub(crate) fn new(service: Box<dyn Service>) -> Self {
        let switches = Switches::new(service.switches());
        Self { service, switches }
    }
}

/// A request that has a service and may be executed.
pub(crate) struct Admitted {
    at: usize,
    operation: Operation,
    signed: Option<Signed>,
    caller: Option<Caller>,
    effect: Option<Effect>,
    /// Why it is not executed: too many calls, or another request has the resource.
    refused: Option<ApiError>,
    /// Excludes other requests until it is answered.
    exclusive_use: Option<ExclusiveUse>,
}

impl Admitted {
    fn new(
        at: usize,
        operation: Operation,
        signed: Option<Signed>,
        caller: Option<Caller>,
    ) -> Self {
        Self {
            at,
            operation,
            signed,
            caller,
            effect: None,
            refused: None,
            exclusive_use: None,
        }
    }

    /// How long to wait, in real time and without the lock, before executing.
    pub(crate) fn delay(&self) -> Duration {
        match self.effect {
            Some(Effect::Delay(delay)) => delay,
            Some(
                Effect::Error(_)
                | Effect::Stale
                | Effect::CutBefore
                | Effect::CutAfter
                | Effect::Throttle
                | Effect::InternalError
                | Effect::Deny
                | Effect::NotFound,
            )
            | None => Duration::ZERO,
        }
    }
}

/// How the connection ends.
#[derive(Debug)]
pub(crate) enum Ending {
    Answer(Response),
    Cut,
}

/// A request that is refused before it reaches a service.
struct RefusedRequest {
    protocol: Protocol,
    error: ApiError,
    signed: Option<Signed>,
    service: Option<&'static str>,
}

impl World {
    /// Finds service, caller and fault, or returns the refusal.
    pub(crate) fn admit(&mut self, request: &Request) -> Result<Admitted, Response> {
        match self.admitted(request) {
            Ok(admitted) => Ok(self.queued(admitted)),
            Err(away) => {
                let entry = Entry {
                    service: away.service.map(str::to_owned),
                    status: Some(away.error.status),
                    code: Some(away.error.code.clone()),
                    ..self.entry(request, away.signed.as_ref())
                };
                self.log.add(entry);
                let id = self.request_id();
                Err(finished(away.protocol.error(&away.error, &id), &id))
            }
        }
    }

    /// Checks the limits of a service, then the faults: a request that is refused uses up no fault.
    fn queued(&mut self, mut admitted: Admitted) -> Admitted {
        let now = self.clock.now();
        let Mounted { service, switches } = &mut self.services[admitted.at];
        let (name, rate) = (service.name(), switches.rate("rate"));
        let account = admitted
            .caller
            .as_ref()
            .map_or("", |caller| caller.account.as_str());
        if !self.limits.admits(name, account, rate, now) {
            admitted.refused = Some(service.protocol().throttled());
            return admitted;
        }
        if let Some(what) = service.exclusive(&admitted.operation) {
            admitted.exclusive_use = self.exclusive.take(name, &what);
            if admitted.exclusive_use.is_none() {
                let moment = Moment {
                    now,
                    switches,
                    declared: &self.oracle.declared,
                };
                admitted.refused = Some(service.overlapped(&moment, &what));
                return admitted;
            }
        }
        admitted.effect = self
            .faults
            .hit(name, &admitted.operation, admitted.caller.as_ref());
        admitted
    }

    fn admitted(&self, request: &Request) -> Result<Admitted, Box<RefusedRequest>> {
        let signed = match sigv4::signed(request) {
            Ok(signed) => signed,
            Err(unsigned) => return self.unsigned(request, unsigned),
        };
        let found = self
            .services
            .iter()
            .position(|one| one.service.signing_name() == signed.scope.service);
        let Some(at) = found else {
            let error = self.not_emulated(&signed.scope.service);
            return Err(Box::new(RefusedRequest {
                protocol: Protocol::guess(request),
                error,
                signed: Some(signed),
                service: None,
            }));
        };
        let service = &self.services[at].service;
        let (protocol, name) = (service.protocol(), service.name());
        let refused = |refusal: &Refusal| {
            Box::new(RefusedRequest {
                protocol,
                error: protocol.refusal(refusal),
                signed: Some(signed.clone()),
                service: Some(name),
            })
        };
        if service
            .regions()
            .is_some_and(|regions| !regions.contains(&signed.scope.region.as_str()))
        {
            return Err(refused(&Refusal::WrongRegion(signed.scope.region.clone())));
        }
        let caller = self
            .accounts
            .lock()
            .caller(&signed, self.clock.now())
            .map_err(|refusal| refused(&refusal))?;
        match service.operation(request) {
            Some(operation) => Ok(Admitted::new(at, operation, Some(signed), Some(caller))),
            None => Err(Box::new(RefusedRequest {
                protocol,
                error: no_operation(name),
                signed: Some(signed),
                service: Some(name),
            })),
        }
    }

    /// An unsigned request is accepted only for an operation that allows it.
    fn unsigned(
        &self,
        request: &Request,
        unsigned: Unsigned,
    ) -> Result<Admitted, Box<RefusedRequest>> {
        let mut anonymous = self
            .services
            .iter()
            .enumerate()
            .filter_map(|(at, one)| Some((at, one.service.operation(request)?)));
        let found = anonymous.next();
        let refusal = match (unsigned, &found) {
            (Unsigned::Missing, Some((at, operation)))
                if self.services[*at].service.is_anonymous(&operation.name) =>
            {
                None
            }
            (Unsigned::Missing, _) => Some(Refusal::NoSignature),
            (Unsigned::Incomplete(wrong), _) => Some(Refusal::BadSignature(wrong)),
        };
        match (refusal, found) {
            (None, Some((at, operation))) => Ok(Admitted::new(at, operation, None, None)),
            (refusal, found) => {
                let service = found.map(|(at, _)| &self.services[at].service);
                let protocol =
                    service.map_or_else(|| Protocol::guess(request), |service| service.protocol());
                let error = protocol.refusal(&refusal.unwrap_or(Refusal::NoSignature));
                Err(Box::new(RefusedRequest {
                    protocol,
                    error,
                    signed: None,
                    service: service.map(|service| service.name()),
                }))
            }
        }
    }

    fn not_emulated(&self, name: &str) -> ApiError {
        let names: Vec<_> = self
            .services
            .iter()
            .map(|one| one.service.signing_name())
            .collect();
        let message = format!(
            "The emulator has no service that signs as '{name}'; it has: {}.",
            names.join(", ")
        );
        ApiError::new(501, "ServiceNotEmulated", &message)
    }

    /// Executes an admitted request, as far as its fault allows, and writes the log.
    pub(crate) fn execute(&mut self, mut admitted: Admitted, request: &Request) -> Ending {
        let id = self.request_id();
        let protocol = self.services[admitted.at].service.protocol();
        let resource = admitted.operation.resource.as_deref();
        let effect = admitted.effect.as_ref();
        let injected = effect.and_then(|effect| effect.error(protocol, resource));
        let result = match admitted.refused.take().or(injected) {
            Some(refused) => Some(Err(refused)),
            None if admitted.effect == Some(Effect::CutBefore) => None,
            None => Some(self.called(&admitted, request, &id)),
        };
        let code = result
            .as_ref()
            .and_then(|result| result.as_ref().err())
            .map(|error| error.code.clone());
        let answer =
            result.map(|result| result.unwrap_or_else(|error| protocol.error(&error, &id)));
        let cut = matches!(admitted.effect, Some(Effect::CutBefore | Effect::CutAfter));
        let answer = answer.filter(|_| !cut);
        let status = answer.as_ref().map(|answer| answer.status);
        self.judge(&admitted, request, status, code.as_deref());
        let entry = Entry {
            service: Some(self.services[admitted.at].service.name().to_owned()),
            status,
            code,
            fault: admitted.effect.as_ref().map(Effect::name),
            ..self.entry(request, admitted.signed.as_ref())
        };
        self.log.add(Entry {
            caller: admitted
                .caller
                .as_ref()
                .map(|caller| caller.name().to_owned()),
            account: admitted.caller.map(|caller| caller.account),
            operation: Some(admitted.operation.name),
            resource: admitted.operation.resource,
            ..entry
        });
        answer.map_or(Ending::Cut, |answer| Ending::Answer(finished(answer, &id)))
    }

    fn called(
        &mut self,
        admitted: &Admitted,
        request: &Request,
        id: &str,
    ) -> Result<Response, ApiError> {
        let now = self.clock.now();
        let Mounted { service, switches } = &mut self.services[admitted.at];
        let signed = admitted.signed.as_ref();
        let call = Call {
            moment: Moment {
                now,
                switches,
                declared: &self.oracle.declared,
            },
            operation: &admitted.operation.name,
            caller: admitted.caller.as_ref(),
            region: signed.map_or("", |signed| &signed.scope.region),
            view: if admitted.effect == Some(Effect::Stale) {
                View::Previous
            } else {
                View::Live
            },
            request_id: id,
        };
        service.call(&call, request)
    }

    /// Reports the outcome of a request to the oracles.
    fn judge(
        &mut self,
        admitted: &Admitted,
        request: &Request,
        status: Option<u16>,
        code: Option<&str>,
    ) {
        let now = self.clock.now();
        let Mounted { service, switches } = &mut self.services[admitted.at];
        let (name, operation) = (service.name(), &admitted.operation);
        let caller = admitted.caller.as_ref();
        let moment = Moment {
            now,
            switches,
            declared: &self.oracle.declared,
        };
        let outcome = Outcome {
            operation,
            caller,
            status,
            code,
        };
        let dry_run = service.is_dry_run(request);
        if !dry_run {
            service.seen(&moment, &outcome);
        }
        let sent = Sent {
            service: name,
            account: caller.map_or("", |caller| &caller.account),
            operation: &operation.name,
            resource: operation.resource.as_deref().unwrap_or_default(),
            body: &request.body,
            is_write: !dry_run && service.is_write(&operation.name),
            code,
            disturbed: admitted.effect.is_some() || status.is_none(),
        };
        let stray = !service.is_for_roles();
        if let Some(caller) = caller.filter(|caller| stray && caller.borrowed) {
            let detail = format!("{} called {} of {name}", caller.arn, operation.name);
            let rule = "roleElsewhere";
            let time = now;
            self.oracle.report(name, Violation { time, rule, detail });
        }
        if self.oracle.declared.is_operator(caller) {
            self.oracle.see(&sent, now);
        }
    }

    /// The time for control requests.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn entry(&self, request: &Request, signed: Option<&Signed>) -> Entry {
        Entry {
            time: self.clock.now(),
            key: signed.map(|signed| signed.key.clone()),
            scope: signed.map(|signed| signed.scope.to_string()),
            body: log::kept(&request.body),
            ..Entry::default()
        }
    }

    fn request_id(&mut self) -> String {
        self.answered += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.answered)
    }
}

fn no_operation(service: &str) -> ApiError {
    let message =
        format!("The emulated {service} does not know the operation this request asks for.");
    ApiError::new(400, "InvalidAction", &message)
}

fn finished(answer: Response, id: &str) -> Response {
    answer.with("x-amzn-requestid", id.to_owned())
}
