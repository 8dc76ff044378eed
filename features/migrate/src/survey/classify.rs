//! What a failed call means for the part of the survey that it was made for.

use engine::{ApiError, Classified};
use kernel::Class;

use crate::preflight::reading::{Obstacle, Outage, Reading};

/// HTTP status of a login that the server does not accept.
pub(super) const UNAUTHORIZED: u16 = 401;

/// Why a call to a cluster gave nothing.
///
/// | error                                   | obstacle                |
/// |-----------------------------------------|-------------------------|
/// | status 401                              | unreachable: the login  |
/// | any other answer that stays the same    | denied                  |
/// | no answer, or one that passes           | unreachable             |
///
/// A change under way (409, 410) passes: a list in pages expires, and is read again with the next survey.
pub(super) fn obstacle(error: &ApiError) -> Obstacle {
    if is_login_refused(error) {
        return Obstacle::Unreachable(Outage::Login(error.to_string()));
    }
    match error.class() {
        Class::Denied
        | Class::NotFound
        | Class::AlreadyExists
        | Class::Conflict
        | Class::Invalid
        | Class::LimitExceeded => Obstacle::Denied(error.to_string()),
        Class::Unreachable
        | Class::Transient
        | Class::Throttled
        | Class::Stale
        | Class::Sealed
        | Class::Deposed => Obstacle::Unreachable(Outage::Cluster(error.to_string())),
    }
}

/// Why a call to EC2 gave nothing: it was denied, or EC2 has an outage for us.
pub(super) fn ec2_obstacle(error: &aws::Error) -> Obstacle {
    ec2_obstacle_of(error.class(), error.to_string())
}

fn ec2_obstacle_of(class: Class, message: String) -> Obstacle {
    match class {
        Class::Denied => Obstacle::Denied(message),
        Class::Unreachable
        | Class::Transient
        | Class::Throttled
        | Class::NotFound
        | Class::AlreadyExists
        | Class::Conflict
        | Class::Stale
        | Class::Invalid
        | Class::LimitExceeded
        | Class::Sealed
        | Class::Deposed => Obstacle::Unreachable(Outage::Ec2(message)),
    }
}

/// What a server answers to a dry run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Trial<T> {
    /// It would do it, with this result.
    Accepted(T),
    /// An object of the name exists.
    Exists,
    /// It refuses it with this message.
    Refused(String),
}

/// The answer to a dry run. A refusal is an answer; a login that is not accepted is none.
///
/// # Errors
/// If no answer came, or one that passes.
pub(super) fn trial<T>(answer: Result<T, ApiError>) -> Result<Trial<T>, Obstacle> {
    let error = match answer {
        Ok(answer) => return Ok(Trial::Accepted(answer)),
        Err(error) => error,
    };
    if error.class() == Class::AlreadyExists {
        return Ok(Trial::Exists);
    }
    match obstacle(&error) {
        Obstacle::Denied(_) => Ok(Trial::Refused(server_message(error))),
        unreachable => Err(unreachable),
    }
}

/// Whether the server does not accept the login.
pub(super) fn is_login_refused(error: &ApiError) -> bool {
    matches!(error, ApiError::Answer { code, .. } if *code == UNAUTHORIZED)
}

/// What the server wrote, without what we add for other messages.
fn server_message(error: ApiError) -> String {
    match error {
        ApiError::Answer { message, .. } => message,
        ApiError::Unreachable { .. }
        | ApiError::Unreadable { .. }
        | ApiError::Stale { .. }
        | ApiError::Refused { .. }
        | ApiError::Deposed { .. } => error.to_string(),
    }
}

/// A part of the survey.
pub(super) fn reading<T>(answer: Result<T, Obstacle>) -> Reading<T> {
    match answer {
        Ok(answer) => Reading::Read(answer),
        Err(Obstacle::Denied(message)) => Reading::Denied(message),
        Err(Obstacle::Unreachable(outage)) => Reading::Unreachable(outage),
        Err(Obstacle::NotRead) => Reading::NotRead,
    }
}

/// A part of the survey, as a cluster answered.
pub(super) fn of_cluster<T>(answer: Result<T, ApiError>) -> Reading<T> {
    reading(answer.map_err(|error| obstacle(&error)))
}

/// A part of the survey, as EC2 answered.
pub(super) fn of_ec2<T>(answer: Result<T, aws::Error>) -> Reading<T> {
    reading(answer.map_err(|error| ec2_obstacle(&error)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn answer(code: u16, reason: &str) -> ApiError {
        ApiError::Answer {
            what: "list nodes".to_owned(),
            code,
            reason: reason.to_owned(),
            message: "why".to_owned(),
        }
    }

    fn unreachable() -> ApiError {
        ApiError::Unreachable {
            what: "list nodes".to_owned(),
            message: "refused".to_owned(),
        }
    }

    fn unreadable() -> ApiError {
        ApiError::Unreadable {
            what: "list nodes".to_owned(),
            message: "EOF".to_owned(),
        }
    }

    #[derive(Debug, PartialEq)]
    enum Kind {
        Denied,
        Login,
        Cluster,
        Ec2,
    }

    fn kind(obstacle: &Obstacle) -> Kind {
        match obstacle {
            Obstacle::Denied(_) => Kind::Denied,
            Obstacle::Unreachable(Outage::Login(_)) => Kind::Login,
            Obstacle::Unreachable(Outage::Cluster(_)) => Kind::Cluster,
            Obstacle::Unreachable(Outage::Ec2(_)) => Kind::Ec2,
            Obstacle::NotRead => panic!("a call was made"),
        }
    }

    #[rstest]
    #[case::forbidden(answer(403, "Forbidden"), Kind::Denied)]
    #[case::login(answer(401, "Unauthorized"), Kind::Login)]
    #[case::unknown_kind(answer(404, "NotFound"), Kind::Denied)]
    #[case::invalid(answer(400, "BadRequest"), Kind::Denied)]
    #[case::throttled(answer(429, "TooManyRequests"), Kind::Cluster)]
    #[case::expired_list(answer(410, "Expired"), Kind::Cluster)]
    #[case::internal(answer(500, "InternalError"), Kind::Cluster)]
    #[case::gateway(answer(503, "ServiceUnavailable"), Kind::Cluster)]
    #[case::away(unreachable(), Kind::Cluster)]
    #[case::garbage(unreadable(), Kind::Cluster)]
    fn a_failed_call_has_an_obstacle(#[case] error: ApiError, #[case] expected: Kind) {
        let obstacle = obstacle(&error);
        assert_eq!(kind(&obstacle), expected);
        let reading = of_cluster::<()>(Err(error));
        assert_eq!(reading.get("nodes").unwrap_err().obstacle, obstacle);
    }

    #[rstest]
    #[case::denied(Class::Denied, Kind::Denied)]
    #[case::throttled(Class::Throttled, Kind::Ec2)]
    #[case::transient(Class::Transient, Kind::Ec2)]
    #[case::away(Class::Unreachable, Kind::Ec2)]
    #[case::invalid(Class::Invalid, Kind::Ec2)]
    fn a_failed_call_to_ec2_has_an_obstacle(#[case] class: Class, #[case] expected: Kind) {
        assert_eq!(kind(&ec2_obstacle_of(class, "why".to_owned())), expected);
    }

    #[rstest]
    #[case::accepted(Ok(1), Some(Trial::Accepted(1)))]
    #[case::policy(Err(answer(403, "Forbidden")), Some(Trial::Refused("why".to_owned())))]
    #[case::invalid(Err(answer(422, "Invalid")), Some(Trial::Refused("why".to_owned())))]
    #[case::exists(Err(answer(409, "AlreadyExists")), Some(Trial::Exists))]
    #[case::login(Err(answer(401, "Unauthorized")), None)]
    #[case::webhook_away(Err(answer(500, "InternalError")), None)]
    #[case::away(Err(unreachable()), None)]
    fn a_refused_dry_run_is_an_answer(
        #[case] answer: Result<i32, ApiError>,
        #[case] expected: Option<Trial<i32>>,
    ) {
        assert_eq!(trial(answer).ok(), expected);
    }
}
