//! What can surprise a pass, and what it means to the object.

use std::time::Duration;

use api::vault::reasons;
use engine::{ApiError, Classified, Pass};
use kernel::{Class, Reason};
use vault_client::Health;

use crate::ctx::Ctx;
use crate::links::Dependent;

/// How often a sealed Vault is looked at.
const SEALED: Duration = Duration::from_secs(10);

/// Said by nobody: Vault wants to be asked later.
pub(crate) const THROTTLED: &str = "Throttled";

pub(crate) type Stop = kernel::Stop<Error>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Vault(#[from] vault_client::Error),
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Vault(error) => error.class(),
        }
    }
}

/// What a dependent reports while its connection cannot be used.
///
/// The text is the same whoever noticed the outage and whatever it looked like, so that each dependent
/// writes its status once. The details are in the connection's status.
pub(crate) fn connection_not_ready() -> Reason {
    Reason::new(
        reasons::CONNECTION_NOT_READY,
        "the VaultConnection is not ready; its status says why",
    )
}

/// Whether an error says that the connection is not what its object says: its own pass should look.
pub(crate) fn doubts_connection(error: &vault_client::Error) -> bool {
    reason(error) == Some(reasons::CONNECTION_NOT_READY)
}

/// Whether a pass stopped because a connection cannot be used.
pub(super) fn is_outage(stop: &Stop) -> bool {
    match stop {
        Stop::Blocked { reason } | Stop::Waiting { reason, .. } => {
            reason.code == reasons::CONNECTION_NOT_READY
        }
        Stop::Again | Stop::Failed(_) => false,
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        let Error::Vault(error) = error else {
            return Self::Failed(error);
        };
        let said = error.to_string();
        if let Some(after) = error.retry_after() {
            return Self::waiting(Reason::new(THROTTLED, said), after);
        }
        match reason(&error) {
            Some(reasons::CONNECTION_NOT_READY) if error.class() == Class::Sealed => {
                Self::waiting(connection_not_ready(), SEALED)
            }
            Some(reasons::CONNECTION_NOT_READY) => Self::blocked(connection_not_ready()),
            Some(reasons::VALIDATION_FAILED) => {
                Self::blocked(Reason::new(reasons::VALIDATION_FAILED, said))
            }
            Some(_) | None => Self::Failed(error.into()),
        }
    }
}

/// Why a pass of `kind` over `connection` really stopped. A call without an answer, or with that of a
/// server that fails, may be the first sign of an outage: Vault's health tells, so that the outage is
/// not reported twice.
pub(crate) async fn or_outage(
    stop: Stop,
    connection: &str,
    kind: Dependent,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Stop {
    let client = ctx.links.client(connection);
    let Some(client) = client.filter(|_| may_be_outage(&stop)) else {
        return stop;
    };
    let is_known_down = ctx.links.health(connection).is_none();
    if is_known_down || is_away(pass.outside(client.health()).await) {
        ctx.wait_for(connection, (kind, pass.key()));
        return Stop::blocked(connection_not_ready());
    }
    stop
}

fn may_be_outage(stop: &Stop) -> bool {
    match stop {
        Stop::Failed(Error::Vault(error)) => error.class() == Class::Transient,
        Stop::Failed(Error::Api(_)) | Stop::Again | Stop::Waiting { .. } | Stop::Blocked { .. } => {
            false
        }
    }
}

/// Whether a look at the health of Vault shows that nobody can use it. An error of which nobody is
/// told shows nothing.
pub(crate) fn is_away(health: Result<Health, vault_client::Error>) -> bool {
    let usable = health.and_then(|health| health.usable(""));
    usable.is_err_and(|error| reason(&error).is_some())
}

/// When to try again after a stop that passes by itself; none for any other. What does not say when is
/// tried again after `retry`.
pub(super) fn passes_after(stop: &Stop, retry: Duration) -> Option<Duration> {
    match stop {
        Stop::Waiting { after, .. } => Some(*after),
        Stop::Failed(Error::Vault(error)) => {
            let class = error.class();
            let passes = class.heals_by_itself() && class != Class::Deposed;
            passes.then_some(retry)
        }
        Stop::Failed(Error::Api(_)) | Stop::Again | Stop::Blocked { .. } => None,
    }
}

/// The reason a dependent gives; none where its status stays as it is.
pub(crate) fn reason(error: &vault_client::Error) -> Option<&'static str> {
    use vault_client::Error as E;
    Some(match error {
        E::Unreachable { .. }
        | E::Sealed { .. }
        | E::Uninitialised { .. }
        | E::AuthFailed { .. }
        | E::Credentials { .. } => reasons::CONNECTION_NOT_READY,
        E::Denied { .. } => reasons::VAULT_PERMISSION_DENIED,
        E::Invalid { .. } | E::Redirect { .. } | E::Settings { .. } => reasons::VALIDATION_FAILED,
        E::NoAnswer { .. }
        | E::NotFound { .. }
        | E::AlreadyExists { .. }
        | E::Stale { .. }
        | E::CheckAndSet { .. }
        | E::Failed { .. } => reasons::FAILED,
        E::Throttled { .. } | E::Deposed(_) | E::Ended { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use vault_client::{Error as E, ServerState};

    use super::*;

    const ADDRESS: &str = "https://vault";

    fn unreachable(reason: &str) -> E {
        E::Unreachable {
            address: ADDRESS.to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[rstest]
    #[case::the_first_call(unreachable("connection refused"))]
    #[case::the_breaker(unreachable("connection refused; it is asked again in a while"))]
    #[case::a_sealed_vault(E::Sealed { address: ADDRESS.to_owned() })]
    #[case::a_new_vault(E::Uninitialised { address: ADDRESS.to_owned() })]
    #[case::a_refused_login(E::AuthFailed { login: "login".to_owned(), message: "no".to_owned() })]
    fn whatever_notices_an_outage_says_the_same(#[case] error: E) {
        assert!(doubts_connection(&error));
        let stop = Stop::from(Error::from(error));
        assert!(is_outage(&stop));
        let (Stop::Waiting { reason, .. } | Stop::Blocked { reason }) = stop else {
            panic!("an outage is no surprise");
        };
        // Who finds the connection down without a call says this, too.
        assert_eq!(reason, connection_not_ready());
    }

    fn no_answer() -> E {
        E::NoAnswer {
            call: String::new(),
            address: ADDRESS.to_owned(),
            reason: String::new(),
        }
    }

    fn failed(status: u16) -> E {
        E::Failed {
            call: String::new(),
            status,
            message: String::new(),
        }
    }

    fn denied() -> E {
        E::Denied {
            call: String::new(),
            message: String::new(),
        }
    }

    fn throttled(retry_after: Option<Duration>) -> E {
        E::Throttled {
            call: String::new(),
            retry_after,
        }
    }

    fn answered(state: ServerState) -> Health {
        Health {
            state,
            version: String::new(),
            enterprise: None,
            cluster_id: None,
        }
    }

    #[rstest]
    #[case::nobody_answers(Err(unreachable("timed out")), true)]
    #[case::sealed(Ok(answered(ServerState::Sealed)), true)]
    #[case::a_standby_without_a_leader(Ok(answered(ServerState::StandbyCutOff)), true)]
    #[case::a_gateway_without_a_vault(Err(failed(502)), true)]
    #[case::well(Ok(answered(ServerState::Active)), false)]
    #[case::busy(Err(throttled(None)), false)]
    #[case::deposed(Err(E::Deposed(kernel::Deposed)), false)]
    #[case::ended(Err(E::Ended { address: ADDRESS.to_owned() }), false)]
    fn health_tells_an_outage_from_a_lost_answer(
        #[case] health: Result<Health, E>,
        #[case] away: bool,
    ) {
        assert_eq!(is_away(health), away);
    }

    #[rstest]
    #[case::lost(no_answer(), true)]
    #[case::refused(denied(), false)]
    #[case::broken(failed(502), true)]
    #[case::throttled(throttled(None), false)]
    fn health_is_asked_for_when_no_answer_came(#[case] error: E, #[case] asked: bool) {
        assert_eq!(may_be_outage(&Stop::from(Error::from(error))), asked);
    }

    const RETRY: Duration = Duration::from_secs(30);
    const LATER: Duration = Duration::from_secs(7);

    #[rstest]
    #[case::lost(no_answer(), Some(RETRY))]
    #[case::broken(failed(500), Some(RETRY))]
    #[case::throttled(throttled(None), Some(RETRY))]
    #[case::throttled_for_a_while(throttled(Some(LATER)), Some(LATER))]
    #[case::sealed(E::Sealed { address: ADDRESS.to_owned() }, Some(SEALED))]
    #[case::denied(denied(), None)]
    #[case::deposed(E::Deposed(kernel::Deposed), None)]
    fn what_passes_by_itself_is_tried_again(#[case] error: E, #[case] after: Option<Duration>) {
        assert_eq!(passes_after(&Error::from(error).into(), RETRY), after);
    }
}
