//! Writing to a cluster only while it is verified to be the right one.

use std::time::Duration;

use kernel::{CallError, Class, Guard};
use kube::Client;
use parking_lot::Mutex;

use crate::{ClusterIdentity, Verdict, observed, read_identity};

/// The cluster that a connection must lead to, and a guard that is open only while it was recently
/// verified.
///
/// ```text
///             read a               read b                 accept(b)
/// unpinned ───────────▶ pinned: a ───────▶ moved: a to b ───────────▶ pinned: b
///  closed      open for the validity         closed       closed until a read after accept(b) shows b
/// ```
/// # Guarantee
/// No write leaves later than the validity after the last successful verification *was sent*, if its
/// client checks [`IdentityPin::guard`] as its bytes leave. Another UID closes the guard at once, and
/// then no answer opens it, late or new, until a person [accepts](IdentityPin::accept) a cluster.
///
/// # Limits
/// A write that left before may still arrive. Verify at least three times within the validity, so that
/// one lost answer stops nothing; and choose it well above the length of a call, because a call ends
/// when its guard closes.
///
/// # When not to use it
/// As the leader's guard: give a client both.
#[derive(Debug)]
pub struct IdentityPin {
    guard: Guard,
    validity: Duration,
    /// The guard is changed only under this lock.
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// No cluster was read yet.
    Unpinned,
    /// Only this cluster may be written to.
    Pinned {
        cluster: ClusterIdentity,
        /// When a person accepted it, as the guard's own time. A read sent before does not open the guard.
        accepted: Duration,
    },
    /// Another one answered; neither may be written to.
    Moved {
        pinned: ClusterIdentity,
        seen: ClusterIdentity,
    },
}

/// The cluster was not offered for acceptance: another one answers, or none was seen since.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cluster {0} cannot be accepted, because the server does not show it; verify the connection again, \
     and accept the UID that is reported then"
)]
pub struct NotOffered(ClusterIdentity);

impl IdentityPin {
    /// A pin that keeps `guard` open for `validity` after each verification. `pinned` is the cluster as
    /// recorded by an earlier process; without one, the first cluster that answers is pinned.
    ///
    /// `guard` belongs to the pin from now on and is closed; pass [`Guard::closed`].
    pub fn new(guard: Guard, validity: Duration, pinned: Option<ClusterIdentity>) -> Self {
        guard.revoke();
        Self {
            guard,
            validity,
            state: Mutex::new(pinned.map_or(State::Unpinned, State::pinned)),
        }
    }

    /// The guard for all clients that write to the cluster. Read it, but never renew it.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }

    /// The cluster that is pinned. Record it, so that the next process begins with it.
    pub fn pinned(&self) -> Option<ClusterIdentity> {
        match &*self.state.lock() {
            State::Unpinned => None,
            State::Pinned {
                cluster: pinned, ..
            }
            | State::Moved { pinned, .. } => Some(pinned.clone()),
        }
    }

    /// Reads which cluster `client` leads to, and opens or closes the guard. The caller repeats this.
    ///
    /// It may run several times at once, and be dropped at any time.
    ///
    /// # When not to use it
    /// With a client that needs this pin's guard to be open for reads too, or with one that goes another
    /// path to the cluster than the writes.
    pub async fn verify(&self, client: &Client) -> Verdict {
        let sent = self.guard.elapsed();
        let seen = read_identity(client).await;
        self.observe(sent, seen)
    }

    /// The same for an identity that the caller has read. `sent` is the guard's own time before the read
    /// was sent.
    ///
    /// | state         | seen                          | new state     | guard           |
    /// |---------------|-------------------------------|---------------|-----------------|
    /// | unpinned      | a                             | pinned: a     | open, from sent |
    /// | pinned: a     | a                             | pinned: a     | open, from sent |
    /// | pinned: a     | a, sent before the acceptance | the same      | runs out        |
    /// | pinned: a     | b                             | moved: a to b | closed          |
    /// | moved: a to b | a or b                        | moved: a to b | closed          |
    /// | moved: a to b | c                             | moved: a to c | closed          |
    /// | any           | cannot be read                | the same      | runs out        |
    pub fn observe(&self, sent: Duration, seen: Result<ClusterIdentity, CallError>) -> Verdict {
        let mut state = self.state.lock();
        if let State::Moved {
            pinned,
            seen: other,
        } = &mut *state
        {
            match seen {
                Ok(seen) if seen != *pinned => *other = seen,
                Ok(_) => {}
                Err(error) => return Verdict::Unverified(error),
            }
            return Verdict::Another {
                pinned: pinned.clone(),
                seen: other.clone(),
            };
        }
        let (pinned, accepted) = match &*state {
            State::Pinned { cluster, accepted } => (Some(cluster), *accepted),
            State::Unpinned | State::Moved { .. } => (None, Duration::ZERO),
        };
        let verdict = match observed(pinned, seen) {
            Verdict::Same if sent < accepted => Verdict::Unverified(CallError::new(
                Class::Transient,
                "the identity of the cluster was read before the cluster was accepted; it is read again \
                 by itself",
            )),
            verdict => verdict,
        };
        match &verdict {
            Verdict::First(seen) => {
                *state = State::pinned(seen.clone());
                self.guard.renewed(sent, self.validity);
            }
            Verdict::Same => self.guard.renewed(sent, self.validity),
            Verdict::Another { pinned, seen } => {
                self.guard.revoke();
                *state = State::Moved {
                    pinned: pinned.clone(),
                    seen: seen.clone(),
                };
            }
            Verdict::Unverified(_) => {}
        }
        verdict
    }

    /// A person decided that `cluster` is the right one. It is pinned; the guard opens with a verification
    /// that is sent later. Call it for nothing but an explicit decision, which names the UID.
    ///
    /// # Errors
    /// Unless `cluster` is pinned already or is one of the two that the last verdict named.
    pub fn accept(&self, cluster: &ClusterIdentity) -> Result<(), NotOffered> {
        let mut state = self.state.lock();
        match &*state {
            State::Pinned {
                cluster: pinned, ..
            } if pinned == cluster => Ok(()),
            State::Moved { pinned, seen } if pinned == cluster || seen == cluster => {
                *state = State::Pinned {
                    cluster: cluster.clone(),
                    accepted: self.guard.elapsed(),
                };
                Ok(())
            }
            State::Unpinned | State::Pinned { .. } | State::Moved { .. } => {
                Err(NotOffered(cluster.clone()))
            }
        }
    }

    /// Whether writing is allowed now, with the reason if not: the guard's own error names no cluster.
    /// Ask before a write; the guard then decides as its bytes leave.
    pub fn check(&self) -> Result<(), CallError> {
        let state = self.state.lock();
        if let State::Moved { pinned, seen } = &*state {
            let (pinned, seen) = (pinned.clone(), seen.clone());
            return Verdict::Another { pinned, seen }
                .error()
                .map_or(Ok(()), Err);
        }
        match self.guard.left() {
            Some(Duration::ZERO) => Err(CallError::new(
                Class::Unreachable,
                format!(
                    "the cluster was not verified within the last {} s, so nothing is written; it is \
                     verified again by itself",
                    self.validity.as_secs()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl State {
    /// Pinned without a person's acceptance.
    fn pinned(cluster: ClusterIdentity) -> Self {
        Self::Pinned {
            cluster,
            accepted: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kernel::{Deposed, TestClock};
    use proptest::prelude::*;

    use super::*;

    const VALIDITY: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    fn cluster(uid: &str) -> ClusterIdentity {
        ClusterIdentity::new(uid).unwrap()
    }

    fn away() -> CallError {
        CallError::new(Class::Unreachable, "no answer")
    }

    struct World {
        pin: IdentityPin,
        clock: Arc<TestClock>,
    }

    impl World {
        fn new(pinned: Option<&str>) -> Self {
            let clock = Arc::new(TestClock::new());
            let pin = IdentityPin::new(Guard::new(clock.clone()), VALIDITY, pinned.map(cluster));
            Self { pin, clock }
        }

        fn sees(&self, uid: &str) -> Verdict {
            self.pin
                .observe(self.pin.guard().elapsed(), Ok(cluster(uid)))
        }

        fn is_open(&self) -> bool {
            self.pin.guard().check().is_ok()
        }
    }

    #[test]
    fn nothing_is_written_before_the_first_verification() {
        let world = World::new(Some("a"));
        assert!(!world.is_open());
        let error = world.pin.check().unwrap_err();
        assert_eq!(error.class, Class::Unreachable);
        assert_eq!(world.sees("a"), Verdict::Same);
        assert!(world.is_open());
        assert_eq!(world.pin.check(), Ok(()));
    }

    #[test]
    fn a_guard_that_was_open_is_closed() {
        let pin = IdentityPin::new(Guard::always(), VALIDITY, None);
        assert_eq!(pin.guard().check(), Err(Deposed));
    }

    #[test]
    fn the_first_cluster_is_pinned_and_opens_the_guard() {
        let world = World::new(None);
        assert_eq!(world.pin.pinned(), None);
        assert_eq!(world.sees("a"), Verdict::First(cluster("a")));
        assert_eq!(world.pin.pinned(), Some(cluster("a")));
        assert!(world.is_open());
    }

    #[test]
    fn the_validity_counts_from_when_the_read_was_sent() {
        let world = World::new(Some("a"));
        let sent = world.pin.guard().elapsed();
        world.clock.advance(20 * SECOND);
        world.pin.observe(sent, Ok(cluster("a")));
        world.clock.advance(9 * SECOND);
        assert!(world.is_open());
        world.clock.advance(SECOND);
        assert!(!world.is_open());
    }

    #[test]
    fn a_failed_read_neither_opens_nor_closes_the_guard() {
        let world = World::new(Some("a"));
        let now = world.pin.guard().elapsed();
        let unread = Verdict::Unverified(away());
        assert_eq!(world.pin.observe(now, Err(away())), unread);
        assert!(!world.is_open());
        world.sees("a");
        assert_eq!(world.pin.observe(now, Err(away())), unread);
        assert!(world.is_open());
        world.clock.advance(VALIDITY);
        assert!(!world.is_open());
    }

    #[test]
    fn another_cluster_closes_the_guard_at_once_and_for_good() {
        let world = World::new(Some("a"));
        let sent = world.pin.guard().elapsed();
        world.sees("a");
        let another = world.sees("b");
        assert!(!world.is_open());
        assert_eq!(world.pin.check().unwrap_err().class, Class::Conflict);

        // An answer that was on its way, and the first cluster again.
        assert_eq!(world.pin.observe(sent, Ok(cluster("a"))), another);
        assert_eq!(world.sees("a"), another);
        assert!(!world.is_open());
        assert_eq!(world.pin.pinned(), Some(cluster("a")));
    }

    #[test]
    fn an_accepted_cluster_is_written_to_once_verified() {
        let world = World::new(Some("a"));
        world.sees("a");
        world.sees("b");
        world.pin.accept(&cluster("b")).unwrap();
        assert!(!world.is_open());
        assert_eq!(world.pin.pinned(), Some(cluster("b")));
        assert_eq!(world.sees("b"), Verdict::Same);
        assert!(world.is_open());
        assert!(matches!(world.sees("a"), Verdict::Another { .. }));
    }

    #[test]
    fn a_read_sent_before_the_acceptance_does_not_open_the_guard() {
        let world = World::new(Some("a"));
        world.sees("b");
        let sent = world.pin.guard().elapsed();
        world.clock.advance(SECOND);
        world.pin.accept(&cluster("b")).unwrap();
        let verdict = world.pin.observe(sent, Ok(cluster("b")));
        assert!(matches!(verdict, Verdict::Unverified(_)), "{verdict:?}");
        assert!(!world.is_open());
        assert_eq!(world.sees("b"), Verdict::Same);
        assert!(world.is_open());
    }

    #[test]
    fn only_a_cluster_that_was_seen_can_be_accepted() {
        let world = World::new(None);
        assert!(world.pin.accept(&cluster("a")).is_err());
        world.sees("a");
        assert_eq!(world.pin.accept(&cluster("a")), Ok(()));
        let error = world.pin.accept(&cluster("b")).unwrap_err();
        assert!(error.to_string().contains("cluster b cannot"), "{error}");
        world.sees("b");
        world.sees("c");
        assert!(world.pin.accept(&cluster("b")).is_err());
        world.pin.accept(&cluster("a")).unwrap();
        assert_eq!(world.sees("a"), Verdict::Same);
        assert!(world.is_open());
    }

    #[derive(Debug, Clone)]
    enum Event {
        Reads(u8),
        ReadsLate(u8),
        ReadsNothing,
        Accepts(u8),
        Passes(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => (0..3_u8).prop_map(Event::Reads),
            2 => (0..3_u8).prop_map(Event::ReadsLate),
            1 => Just(Event::ReadsNothing),
            1 => (0..3_u8).prop_map(Event::Accepts),
            3 => (1..40_u64).prop_map(Event::Passes),
        ]
    }

    proptest! {
        #[test]
        fn an_open_guard_was_verified_and_is_not_disputed(events in proptest::collection::vec(event(), 1..60)) {
            let world = World::new(None);
            // What a simple model says: who is pinned, when it was verified, whether another was seen,
            // and when a person accepted one.
            let (mut pinned, mut verified, mut moved) = (None::<u8>, None::<Duration>, None::<u8>);
            let mut accepted = Duration::ZERO;
            for event in events {
                let now = world.pin.guard().elapsed();
                let uid = |n: u8| cluster(&format!("uid-{n}"));
                match event {
                    Event::Reads(n) | Event::ReadsLate(n) => {
                        let late = matches!(event, Event::ReadsLate(_));
                        let sent = if late { now.saturating_sub(10 * SECOND) } else { now };
                        world.pin.observe(sent, Ok(uid(n)));
                        let right = *pinned.get_or_insert(n) == n;
                        if !right {
                            (moved, verified) = (Some(n), None);
                        } else if moved.is_none() && sent >= accepted {
                            verified = verified.max(Some(sent));
                        }
                    }
                    Event::ReadsNothing => drop(world.pin.observe(now, Err(away()))),
                    Event::Accepts(n) => {
                        if world.pin.accept(&uid(n)).is_ok() {
                            prop_assert!(pinned == Some(n) || moved == Some(n));
                            if moved.is_some() {
                                accepted = now;
                            }
                            (pinned, moved) = (Some(n), None);
                        }
                    }
                    Event::Passes(seconds) => world.clock.advance(Duration::from_secs(seconds)),
                }
                let now = world.pin.guard().elapsed();
                let valid = verified.is_some_and(|sent| now < sent + VALIDITY);
                prop_assert_eq!(world.is_open(), valid);
                prop_assert_eq!(world.pin.check().is_ok(), valid);
                prop_assert_eq!(world.pin.pinned(), pinned.map(uid));
            }
        }
    }
}
