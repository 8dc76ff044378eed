//! The connections that are in use: one client each, and whether it can be used now.
//!
//! The connection's own pass decides that. Everyone else asks here, makes no call over a connection
//! that is down, and is woken when it is up again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kernel::{ObjectKey, SharedClock};
use parking_lot::Mutex;
use vault_client::{Client, Health};

/// How long after a start nobody says that a connection is not ready: its first pass may be on.
const FIRST_PASS: Duration = Duration::from_secs(30);
/// Those who waited are woken over this time, so that they do not all call at once.
const RECOVERY: Duration = Duration::from_secs(30);

/// One of those behind a connection that is down says so this long after another: a crowd that
/// writes at once would stand in the way of everybody else's edits.
const TELLING: Duration = Duration::from_millis(100);
/// After so many, a large crowd hurries: it is through within some minutes.
const TELLING_SLOWLY: usize = 600;
const TELLING_HURRIED: Duration = Duration::from_millis(33);

/// A kind that depends on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dependent {
    Policy,
    ClusterPolicy,
    Role,
    ClusterRole,
    Seed,
}

impl Dependent {
    pub(crate) const ALL: [Self; 5] = [
        Self::Policy,
        Self::ClusterPolicy,
        Self::Role,
        Self::ClusterRole,
        Self::Seed,
    ];
}

/// Whether a connection can be used, as its last pass found.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    Up(Health),
    Down,
}

/// Why a dependent gets no client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// Nothing is known yet; nothing is to be said yet.
    TooEarly,
    /// The connection is down; its own status says why.
    Down,
}

#[derive(Default)]
struct Entry {
    client: Option<Client>,
    standing: Option<Standing>,
    /// What the server said of itself when it last answered.
    last: Option<Health>,
    /// When somebody first asked and nothing was known.
    asked: Option<Duration>,
    waiting: BTreeSet<(Dependent, ObjectKey)>,
    /// When each says that the connection is down, and when the next one may.
    telling: BTreeMap<(Dependent, ObjectKey), Duration>,
    next_telling: Duration,
}

/// All connections by name.
pub(crate) struct Links {
    clock: SharedClock,
    entries: Mutex<BTreeMap<String, Entry>>,
}

impl Links {
    pub(crate) fn new(clock: SharedClock) -> Arc<Self> {
        let entries = Mutex::default();
        Arc::new(Self { clock, entries })
    }

    /// The client of a connection, whatever its standing; for the connection's own pass.
    pub(crate) fn client(&self, connection: &str) -> Option<Client> {
        self.entries.lock().get(connection)?.client.clone()
    }

    pub(crate) fn set_client(&self, connection: &str, client: Client) {
        let mut entries = self.entries.lock();
        entries.entry(connection.to_owned()).or_default().client = Some(client);
    }

    /// What the server says of itself, if the connection is up as far as is known.
    pub(crate) fn health(&self, connection: &str) -> Option<Health> {
        match self.entries.lock().get(connection)?.standing.as_ref()? {
            Standing::Up(health) => Some(health.clone()),
            Standing::Down => None,
        }
    }

    /// What the server said of itself when it last answered, be it down by now.
    pub(crate) fn last_health(&self, connection: &str) -> Option<Health> {
        self.entries.lock().get(connection)?.last.clone()
    }

    /// `who` is woken when the connection is next found up; answers whether it is held to be up.
    pub(crate) fn wait(&self, connection: &str, who: (Dependent, &ObjectKey)) -> bool {
        let mut entries = self.entries.lock();
        let entry = entries.entry(connection.to_owned()).or_default();
        entry.waiting.insert((who.0, who.1.clone()));
        matches!(entry.standing, Some(Standing::Up(_)))
    }

    /// A client for `who`, or why there is none; then `who` is woken when there is.
    pub(crate) fn vault(
        &self,
        connection: &str,
        who: (Dependent, &ObjectKey),
    ) -> Result<(Client, Health), TurnedAway> {
        let mut entries = self.entries.lock();
        let entry = entries.entry(connection.to_owned()).or_default();
        if let (Some(Standing::Up(health)), Some(client)) = (&entry.standing, &entry.client) {
            return Ok((client.clone(), health.clone()));
        }
        entry.waiting.insert((who.0, who.1.clone()));
        let now = self.clock.elapsed();
        let since = *entry.asked.get_or_insert(now);
        Err(match &entry.standing {
            Some(Standing::Down) => TurnedAway::Down,
            Some(Standing::Up(_)) | None if now.saturating_sub(since) < FIRST_PASS => {
                TurnedAway::TooEarly
            }
            Some(Standing::Up(_)) | None => TurnedAway::Down,
        })
    }

    /// How long `who` should wait before it says that the connection is down; none if it is its turn,
    /// or was since the connection went down.
    pub(crate) fn turn_to_tell(
        &self,
        connection: &str,
        who: (Dependent, &ObjectKey),
    ) -> Option<Duration> {
        let mut entries = self.entries.lock();
        let entry = entries.entry(connection.to_owned()).or_default();
        let now = self.clock.elapsed();
        let who = (who.0, who.1.clone());
        let pause = if entry.telling.len() < TELLING_SLOWLY {
            TELLING
        } else {
            TELLING_HURRIED
        };
        let turn = *entry.telling.entry(who).or_insert_with(|| {
            let turn = entry.next_telling.max(now);
            entry.next_telling = turn + pause;
            turn
        });
        Some(turn.saturating_sub(now)).filter(|wait| !wait.is_zero())
    }

    /// Takes in what the connection's pass has found. If it is up, answers who waited for that, and
    /// when to wake each: one after another.
    #[must_use]
    pub(crate) fn found(
        &self,
        connection: &str,
        standing: Standing,
    ) -> Vec<(Dependent, ObjectKey, Duration)> {
        let mut entries = self.entries.lock();
        let entry = entries.entry(connection.to_owned()).or_default();
        let up = matches!(standing, Standing::Up(_));
        if let Standing::Up(health) = &standing {
            entry.last = Some(health.clone());
        }
        entry.standing = Some(standing);
        let waiting = if up {
            entry.telling.clear();
            std::mem::take(&mut entry.waiting)
        } else {
            BTreeSet::new()
        };
        drop(entries);
        let count = u32::try_from(waiting.len()).unwrap_or(u32::MAX).max(1);
        let turns = (0..).zip(waiting);
        turns
            .map(|(turn, (kind, key))| (kind, key, RECOVERY * turn / count))
            .collect()
    }

    /// The connection is gone.
    pub(crate) fn forget(&self, connection: &str) -> Option<Client> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(connection)?;
        entry.standing = None;
        entry.last = None;
        entry.asked = None;
        entry.client.take()
    }

    /// `who` is gone, or needs no connection any more.
    pub(crate) fn leave(&self, who: (Dependent, &ObjectKey)) {
        let who = (who.0, who.1.clone());
        for entry in self.entries.lock().values_mut() {
            entry.waiting.remove(&who);
            entry.telling.remove(&who);
        }
    }

    /// Ends all sessions: login tokens are revoked. Last of all, when nobody calls any more.
    pub(crate) async fn end(&self) {
        let clients: Vec<_> = {
            let entries = self.entries.lock();
            let held = entries.values().filter_map(|entry| entry.client.clone());
            held.collect()
        };
        for client in clients {
            if let Err(error) = client.end().await {
                tracing::warn!(%error, "a login token was not revoked; it ends by itself");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::TestClock;
    use vault_client::ServerState;

    fn up() -> Standing {
        Standing::Up(Health {
            state: ServerState::Active,
            version: "1.21.1".to_owned(),
            enterprise: Some(false),
            cluster_id: None,
        })
    }

    fn key(n: usize) -> ObjectKey {
        ObjectKey::namespaced("team-a", format!("p{n}"))
    }

    #[test]
    fn nobody_is_told_anything_until_the_first_pass_or_half_a_minute_later() {
        let clock = Arc::new(TestClock::default());
        let links = Links::new(clock.clone());
        let ask = || links.vault("c", (Dependent::Policy, &key(0))).unwrap_err();
        assert_eq!(ask(), TurnedAway::TooEarly);
        clock.advance(FIRST_PASS);
        assert_eq!(ask(), TurnedAway::Down);
        assert!(links.found("c", Standing::Down).is_empty());
        assert_eq!(ask(), TurnedAway::Down);
    }

    #[test]
    fn a_crowd_says_one_after_another_that_its_connection_is_down() {
        let clock = Arc::new(TestClock::default());
        let links = Links::new(clock.clone());
        let wait = |n| links.turn_to_tell("c", (Dependent::Policy, &key(n)));
        assert_eq!(wait(0), None);
        assert_eq!(wait(1), Some(TELLING));
        assert_eq!(wait(2), Some(TELLING * 2));
        clock.advance(TELLING);
        assert_eq!(wait(1), None, "its turn has come");
        assert_eq!(wait(0), None, "it has said so");
        assert_eq!(wait(2), Some(TELLING));
        drop(links.found("c", up()));
        clock.advance(TELLING * 5);
        assert_eq!(wait(2), None, "the next time begins anew");
        assert_eq!(wait(0), Some(TELLING));
    }

    #[test]
    fn a_large_crowd_hurries() {
        let links = Links::new(Arc::new(TestClock::default()));
        let wait = |n| links.turn_to_tell("c", (Dependent::Policy, &key(n)));
        let waits: Vec<_> = (0..TELLING_SLOWLY + 2).filter_map(wait).collect();
        let [.., before, last] = waits[..] else {
            panic!("a crowd waits");
        };
        assert_eq!(last, before + TELLING_HURRIED);
    }

    #[test]
    fn those_who_waited_are_woken_once_and_one_after_another() {
        let links = Links::new(Arc::new(TestClock::default()));
        for n in 0..3 {
            links.vault("c", (Dependent::Policy, &key(n))).unwrap_err();
        }
        links.leave((Dependent::Policy, &key(1)));
        let woken = links.found("c", up());
        let delays: Vec<_> = woken.iter().map(|(.., delay)| delay.as_secs()).collect();
        assert_eq!(delays, [0, 15]);
        assert!(links.found("c", up()).is_empty());
    }
}
