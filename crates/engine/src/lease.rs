//! Leadership: one process acts, the others are warm.
//!
//! # Protocol
//! The holder writes its Lease every `retry`. Others watch for a change: a Lease that has not
//! changed for its whole duration, *by their own clock since they saw it*, is free. Nobody trusts
//! another machine's clock, so skew does no harm.
//! # What holds
//! The guard lets writes through only until `deadline` after the last renewal was *sent*. The
//! duration is longer, so a holder that was frozen, cut off or slow has stopped writing before
//! anyone else may begin.
//! # Permissions
//! get, create, update on `leases` in the Lease's namespace.
//! # Misuse
//! A deadline that is not well below the duration: then both may write for a moment.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kernel::{Guard, SharedClock};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;

/// A Lease that others hold is looked at this often at least.
const LOOK: Duration = Duration::from_secs(2);

/// How leadership is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Where the Lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; no other process has the same.
    pub identity: String,
    /// After this long without a change it is free.
    pub duration: Duration,
    /// After this long without a renewal we stop writing.
    pub deadline: Duration,
    /// How often it is written or looked at.
    pub retry: Duration,
}

/// Who says so, and how long ago we saw it change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    holder: String,
    version: String,
    duration: Duration,
    at: Duration,
}

/// What to do about a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Renew,
    Take,
    Wait,
}

/// | holder            | unchanged for     | so    |
/// |-------------------|-------------------|-------|
/// | we                | any               | renew |
/// | nobody            | any               | take  |
/// | another           | its duration      | take  |
/// | a fellow          | any               | take  |
/// | another           | less              | wait  |
fn judge(seen: &Seen, identity: &str, fellow: Option<&str>, now: Duration) -> Move {
    if seen.holder == identity {
        Move::Renew
    } else if seen.holder.is_empty()
        || now.saturating_sub(seen.at) >= seen.duration
        || fellow.is_some_and(|prefix| seen.holder.starts_with(prefix))
    {
        Move::Take
    } else {
        Move::Wait
    }
}

/// How long to wait before the next look: until the Lease runs out, if that comes first. A look one
/// period later would leave the cluster without a leader for that much longer.
fn pause(seen: Option<&Seen>, held: bool, retry: Duration, now: Duration) -> Duration {
    let look = retry.min(LOOK);
    match seen {
        Some(seen) if !held => {
            let left = (seen.at + seen.duration).saturating_sub(now);
            left.clamp(look / 20, look) // one that cannot be taken is not asked for in a spin
        }
        None if !held => look,
        Some(_) | None => retry,
    }
}

/// A claim on one Lease, and the guard that follows it.
pub(crate) struct Claim {
    settings: LeaseSettings,
    api: Api<Lease>,
    guard: Guard,
    clock: SharedClock,
    seen: Option<Seen>,
    /// Holders with this prefix are of our own Lease: theirs is ours once we lead.
    fellow: Option<String>,
}

impl Claim {
    pub(crate) fn new(
        settings: LeaseSettings,
        client: Client,
        guard: Guard,
        clock: SharedClock,
        fellow: Option<String>,
    ) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self {
            settings,
            api,
            guard,
            clock,
            seen: None,
            fellow,
        }
    }

    /// Tries once to hold the Lease; answers whether we do.
    pub(crate) async fn hold(&mut self) -> Result<bool, kube::Error> {
        let sent = self.guard.elapsed();
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            self.api
                .create(&PostParams::default(), &self.fresh())
                .await?;
            self.guard.renewed(sent, self.settings.deadline);
            return Ok(true);
        };
        let seen = self.see(&lease);
        let what = judge(
            &seen,
            &self.settings.identity,
            self.fellow.as_deref(),
            self.guard.elapsed(),
        );
        if what == Move::Wait {
            self.guard.revoke();
            return Ok(false);
        }
        let sent = self.guard.elapsed();
        let written = self
            .api
            .replace(
                &self.settings.name,
                &PostParams::default(),
                &self.held(lease, what),
            )
            .await?;
        self.guard.renewed(sent, self.settings.deadline);
        self.see(&written);
        Ok(true)
    }

    /// Gives the Lease up, so that the next holder need not wait. A renewal that was on its way may
    /// come between: then once more.
    pub(crate) async fn release(&mut self) -> Result<(), kube::Error> {
        self.guard.revoke();
        match self.give_up().await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.give_up().await,
            other => other,
        }
    }

    async fn give_up(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.settings.name).await? else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.settings.identity) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let params = PostParams::default();
        let written = self.api.replace(&self.settings.name, &params, &lease);
        written.await.map(drop)
    }

    pub(crate) fn describe(&self) -> String {
        match &self.seen {
            Some(seen) => format!(
                "{}/{} held by {}",
                self.settings.namespace, self.settings.name, seen.holder
            ),
            None => format!(
                "{}/{} not read yet",
                self.settings.namespace, self.settings.name
            ),
        }
    }

    fn pause(&self, held: bool) -> Duration {
        pause(
            self.seen.as_ref(),
            held,
            self.settings.retry,
            self.guard.elapsed(),
        )
    }

    fn see(&mut self, lease: &Lease) -> Seen {
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let at = match &self.seen {
            Some(seen) if seen.version == version => seen.at,
            _ => self.guard.elapsed(),
        };
        let holder = spec.holder_identity.unwrap_or_default();
        let seen = Seen {
            holder,
            version,
            duration: Duration::from_secs(seconds),
            at,
        };
        self.seen = Some(seen.clone());
        seen
    }

    fn fresh(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.settings.name.clone()),
            ..ObjectMeta::default()
        };
        self.held(
            Lease {
                metadata,
                spec: None,
            },
            Move::Take,
        )
    }

    fn held(&self, mut lease: Lease, what: Move) -> Lease {
        let now: Timestamp = self.clock.now();
        let before = lease.spec.take().unwrap_or_default();
        let taken = what == Move::Take;
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            renew_time: Some(MicroTime(now)),
            acquire_time: if taken {
                Some(MicroTime(now))
            } else {
                before.acquire_time
            },
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(taken)),
            ..before
        });
        lease
    }
}

/// Holds the Lease whenever it can, telling `leading`, until dropped.
pub(crate) async fn keep(claim: &tokio::sync::Mutex<Claim>, leading: &watch::Sender<bool>) {
    loop {
        let (held, pause) = {
            let mut claim = claim.lock().await;
            let held = match tokio::time::timeout(claim.settings.deadline / 2, claim.hold()).await {
                Ok(Ok(held)) => held,
                Ok(Err(error)) => {
                    tracing::debug!(%error, lease = claim.settings.name, "lease not renewed");
                    claim.guard.check().is_ok()
                }
                Err(_) => claim.guard.check().is_ok(),
            };
            (held, claim.pause(held))
        };
        leading.send_if_modified(|leads| {
            let flips = *leads != held;
            if flips {
                tracing::info!(leading = held, "leadership");
            }
            *leads = held;
            flips
        });
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest] //                      holder   age fellow         so
    #[case::ours_is_renewed("me", 99, None, Move::Renew)]
    #[case::a_free_one_is_taken("", 0, None, Move::Take)]
    #[case::a_live_one_is_waited_for("you", 14, None, Move::Wait)]
    #[case::a_dead_one_is_taken("you", 15, None, Move::Take)]
    #[case::a_fellows_is_taken("p/you", 1, Some("p/"), Move::Take)]
    #[case::a_strangers_is_not("you", 1, Some("p/"), Move::Wait)]
    fn rule(
        #[case] holder: &str,
        #[case] age: u64,
        #[case] fellow: Option<&str>,
        #[case] so: Move,
    ) {
        let seen = Seen {
            holder: holder.into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        assert_eq!(
            judge(&seen, "me", fellow, Duration::from_secs(100 + age)),
            so
        );
    }

    #[rstest]
    #[case::a_holder_renews_in_its_own_rhythm(true, 14_500, 20_000)]
    #[case::a_standby_looks_more_often(false, 1_000, 2_000)]
    #[case::and_is_there_when_the_lease_runs_out(false, 14_500, 500)]
    #[case::and_never_spins(false, 20_000, 100)]
    fn next_look(#[case] held: bool, #[case] age: u64, #[case] millis: u64) {
        let seen = Seen {
            holder: "you".into(),
            version: "1".into(),
            duration: Duration::from_secs(15),
            at: Duration::from_secs(100),
        };
        let now = seen.at + Duration::from_millis(age);
        let retry = Duration::from_secs(20);
        assert_eq!(
            pause(Some(&seen), held, retry, now),
            Duration::from_millis(millis)
        );
    }
}
