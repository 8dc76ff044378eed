//! What a connection says of itself.

use std::time::Duration;

use api::vault::{
    Phase, VaultConnection, VaultConnectionStatus, conditions, names as words, reasons,
};
use engine::{Classified, Note, Pass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Class, Progress, Reason, cap, find};

use super::interval;
use super::look::Look;
use crate::ctx::Ctx;
use crate::sync::{Error, Stop, reason as reason_of};

/// Nobody looks at a token more often.
const SHORTEST_UPKEEP: Duration = Duration::from_secs(1);

/// Why the connection cannot be used; none where that is not known.
pub(super) fn reason(stop: &Stop) -> Option<Reason> {
    match stop {
        Stop::Again => None,
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => Some(reason.clone()),
        Stop::Failed(Error::Api(_)) => None,
        Stop::Failed(Error::Vault(error)) => {
            let code = reason_of(error)?;
            Some(Reason::new(code, error.to_string()))
        }
    }
}

pub(super) async fn write(
    connection: &VaultConnection,
    look: Look,
    ended: Result<(), Stop>,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    if let Err(Stop::Failed(Error::Api(error))) = &ended
        && matches!(error.class(), Class::Stale | Class::Deposed)
    {
        return ended.map_or_else(Stop::progress, |()| Ok(Progress::Again));
    }
    let before = connection.status.clone().unwrap_or_default();
    let name = &*pass.key().name;
    let Look {
        mut status,
        mut conditions,
        attempted,
        stepped,
        upkeep,
        ..
    } = look;
    let mut failed = false;
    match &ended {
        Ok(()) if stepped => {
            status.phase = Some(Phase::Syncing);
        }
        Ok(()) => {
            let fine = Reason::new(reasons::SUCCEEDED, "Vault is there and we are logged in");
            conditions.yes(conditions::READY, &fine);
            status.phase = Some(Phase::Active);
            status.healthy = Some(true);
            status.message = None;
            status.health_check_error = None;
            status.consecutive_fails = status.consecutive_fails.map(|_| 0);
            ctx.metrics.health(name, true, 0);
        }
        Err(stop) => {
            if let Some(reason) = reason(stop) {
                failed = attempted;
                conditions.no(conditions::READY, &reason);
                status.phase = Some(Phase::Error);
                status.healthy = Some(false);
                let said = cap(&reason.message, words::MESSAGE_BYTES);
                status.message = Some(said.clone());
                status.health_check_error = Some(said);
                let fails = status.consecutive_fails.unwrap_or_default();
                let fails = fails + i64::from(attempted);
                status.consecutive_fails = Some(fails);
                ctx.metrics.health(name, false, fails);
            }
        }
    }
    status.conditions = conditions.into_parts().0;
    events(connection, &before, &status, pass);
    if failed || status != before {
        stamp(&mut status, ctx, pass);
        pass.write_status(&status).await?;
    }
    match ended {
        Ok(()) if stepped => Ok(Progress::Again),
        Ok(()) => {
            let upkeep = upkeep.map(|real| ctx.in_our_time(real.max(SHORTEST_UPKEEP)));
            let interval = interval(connection);
            let recheck = upkeep.map_or(interval, |upkeep| upkeep.min(interval));
            Ok(Progress::Done {
                recheck: Some(recheck),
            })
        }
        Err(stop) => stop.progress(),
    }
}

/// Times and IDs go only with something else.
fn stamp(status: &mut VaultConnectionStatus, ctx: &Ctx, pass: &Pass) {
    let now = Some(Time(ctx.now()));
    status.last_reconcile_id = Some(pass.id().to_owned());
    status.last_heartbeat.clone_from(&now);
    status.last_health_check.clone_from(&now);
    if status.healthy == Some(true) {
        status.last_healthy_time = now;
    }
}

fn events(
    connection: &VaultConnection,
    before: &VaultConnectionStatus,
    after: &VaultConnectionStatus,
    pass: &Pass,
) {
    let ready = |status: &VaultConnectionStatus| {
        let one = find(&status.conditions, conditions::READY)?;
        Some((one.status.clone(), one.reason.clone(), one.message.clone()))
    };
    let was = ready(before);
    let Some((status, reason, message)) = ready(after) else {
        return;
    };
    let same = was
        .as_ref()
        .is_some_and(|was| (&was.0, &was.1) == (&status, &reason));
    if same {
        return;
    }
    let sealed = [reasons::VAULT_SEALED, reasons::VAULT_NOT_INITIALIZED];
    let was_sealed = was.is_some_and(|was| sealed.contains(&&*was.1));
    if status != "True" {
        pass.event(Note::warning("SyncFailed", message));
        return;
    }
    if was_sealed {
        pass.event(Note::normal("VaultUnsealed", "Vault can be used again"));
    }
    pass.event(Note::normal("Synced", message));
    let spec = &connection.spec;
    let unverified = spec.tls.as_ref().and_then(|tls| tls.skip_verify) == Some(true);
    if spec.address.starts_with("http://") || unverified {
        pass.event(Note::warning(
            "InsecureConnection",
            "whoever stands between us and Vault can read every token; use https and verify it",
        ));
    }
}
