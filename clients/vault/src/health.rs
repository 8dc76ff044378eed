//! Whether Vault can be used; read without a token and without a namespace.

use serde::Deserialize;

use crate::call::Call;
use crate::transport::Answer;
use crate::{Client, Error, NoNamespaces};

/// The first version of OpenBao with namespaces. Its answer has no field for that.
const OPENBAO_NAMESPACES: (u64, u64) = (2, 3);

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Which calls it can serve now.
    pub state: ServerState,
    /// Its version; empty if the answer has none.
    pub version: String,
    /// Whether it is Vault Enterprise; older servers and OpenBao do not send this.
    pub enterprise: Option<bool>,
    /// The cluster it belongs to, the same through every address; a sealed server does not send it.
    pub cluster_id: Option<String>,
}

/// Which calls a server can serve now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    /// 200: all calls.
    Active,
    /// 429: it forwards calls to the active server.
    Standby,
    /// 473: it serves reads and forwards writes.
    PerformanceStandby,
    /// 472: a disaster recovery secondary, which serves no calls.
    DisasterRecoverySecondary,
    /// 474: a standby that cannot reach the active server.
    StandbyCutOff,
    /// 530: it was removed from its cluster.
    Removed,
    /// 501: it was never initialised.
    Uninitialised,
    /// 503: it is sealed.
    Sealed,
}

impl ServerState {
    fn of(status: u16) -> Option<Self> {
        Some(match status {
            200 => Self::Active,
            429 => Self::Standby,
            472 => Self::DisasterRecoverySecondary,
            473 => Self::PerformanceStandby,
            474 => Self::StandbyCutOff,
            501 => Self::Uninitialised,
            503 => Self::Sealed,
            530 => Self::Removed,
            _ => return None,
        })
    }
}

impl Health {
    /// Whether calls can be made.
    ///
    /// # Errors
    /// [`Error::Sealed`], [`Error::Uninitialised`], or [`Error::Unreachable`] with the reason.
    pub fn usable(&self, address: &str) -> Result<(), Error> {
        let address = address.to_owned();
        let cut_off = |reason: &str| Error::Unreachable {
            address: address.clone(),
            reason: reason.to_owned(),
        };
        match self.state {
            ServerState::Active | ServerState::Standby | ServerState::PerformanceStandby => Ok(()),
            ServerState::DisasterRecoverySecondary => Err(cut_off(
                "it is a DR secondary and serves nobody; give the address of the primary",
            )),
            ServerState::StandbyCutOff => Err(cut_off(
                "it is a standby that cannot reach the active server",
            )),
            ServerState::Removed => Err(cut_off("it was removed from its cluster")),
            ServerState::Uninitialised => Err(Error::Uninitialised { address }),
            ServerState::Sealed => Err(Error::Sealed { address }),
        }
    }

    /// Whether calls may be made in `namespace`.
    ///
    /// # Errors
    /// If the server has no namespaces: it ignores the header and would use the root.
    pub fn takes_namespace(&self, namespace: &str) -> Result<(), NoNamespaces> {
        let has_them = self
            .enterprise
            .unwrap_or_else(|| self.version.contains("+ent") || self.is_recent_openbao());
        if has_them {
            return Ok(());
        }
        Err(NoNamespaces {
            version: self.version.clone(),
            namespace: namespace.to_owned(),
        })
    }

    fn is_recent_openbao(&self) -> bool {
        let mut numbers = self.version.split(['.', '-', '+']).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OPENBAO_NAMESPACES,
            _ => false,
        }
    }
}

/// The body is the same with every status.
#[derive(Deserialize)]
struct HealthBody {
    /// Distinguishes Vault's answer from a load balancer's with the same status.
    #[serde(rename = "initialized")]
    _initialized: bool,
    #[serde(default)]
    version: String,
    enterprise: Option<bool>,
    cluster_id: Option<String>,
}

fn read(call: &Call, answer: Answer, address: &str) -> Result<Health, Error> {
    let body = serde_json::from_slice::<HealthBody>(&answer.body);
    let (Some(state), Ok(body)) = (ServerState::of(answer.status), body) else {
        let status = answer.status;
        return Err(match call.classified(answer, address, "") {
            Err(error) => error,
            Ok(_) => Error::Failed {
                call: call.name(),
                status,
                message: "the answer is not from Vault; check the address".to_owned(),
            },
        });
    };
    Ok(Health {
        state,
        version: body.version,
        enterprise: body.enterprise,
        cluster_id: body.cluster_id,
    })
}

impl Client {
    /// The state of the server. The call is sent whatever the breaker and the limits say, and its
    /// answer allows other calls again.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no answer comes: a refused connection, a reset or a time-out.
    pub async fn health(&self) -> Result<Health, Error> {
        let connection = self.connection();
        let call = Call::get("health", &["sys/health"])?;
        let health = match connection.bare(&call).await {
            Ok(answer) => read(&call, answer, connection.address()),
            Err(Error::NoAnswer {
                address, reason, ..
            }) => Err(Error::Unreachable { address, reason }),
            Err(error) => Err(error),
        };
        connection.report(&call, health.as_ref().err());
        health
    }
}

#[cfg(test)]
mod tests {
    use kernel::Class;
    use rstest::rstest;

    use super::*;

    fn health(status: u16, body: &str) -> Result<Health, Error> {
        let answer = Answer {
            status,
            retry_after: None,
            body: body.as_bytes().to_vec(),
        };
        read(
            &Call::get("health", &["sys/health"]).unwrap(),
            answer,
            "http://vault",
        )
    }

    const BODY: &str = r#"{"initialized":true,"sealed":false,"version":"1.21.1"}"#;

    #[rstest]
    #[case::active(200, None)]
    #[case::standby(429, None)]
    #[case::performance_standby(473, None)]
    #[case::disaster_recovery(472, Some(Class::Unreachable))]
    #[case::cut_off(474, Some(Class::Unreachable))]
    #[case::removed(530, Some(Class::Unreachable))]
    #[case::uninitialised(501, Some(Class::Sealed))]
    #[case::sealed(503, Some(Class::Sealed))]
    fn every_status_of_health_has_a_meaning(#[case] status: u16, #[case] class: Option<Class>) {
        let usable = health(status, BODY).unwrap().usable("http://vault");
        assert_eq!(usable.err().map(|error| error.class()), class);
    }

    #[rstest]
    #[case::too_many(429, "slow down", Class::Throttled)]
    #[case::gateway(503, "<html>no backend</html>", Class::Transient)]
    #[case::web_page(200, "<html>hello</html>", Class::Transient)]
    fn an_answer_not_from_vault_is_an_error(
        #[case] status: u16,
        #[case] body: &str,
        #[case] class: Class,
    ) {
        assert_eq!(health(status, body).unwrap_err().class(), class);
    }

    #[rstest] //                           version       enterprise  takes
    #[case::community("1.21.1", Some(false), false)]
    #[case::enterprise("1.21.1+ent", Some(true), true)]
    #[case::old_enterprise("1.14.0+ent.hsm", None, true)]
    #[case::old_community("1.14.0", None, false)]
    #[case::openbao("2.3.0", None, true)]
    #[case::recent_openbao("2.10.1-beta", None, true)]
    #[case::old_openbao("2.2.9", None, false)]
    #[case::silent("", None, false)]
    fn only_some_servers_have_namespaces(
        #[case] version: &str,
        #[case] enterprise: Option<bool>,
        #[case] takes: bool,
    ) {
        let health = Health {
            state: ServerState::Active,
            version: version.to_owned(),
            enterprise,
            cluster_id: None,
        };
        assert_eq!(health.takes_namespace("team").is_ok(), takes);
    }
}
