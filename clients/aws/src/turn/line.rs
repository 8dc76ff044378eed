//! Who may call now: a bucket and those who wait for it. Time is passed in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Priority;
use super::bucket::{Bucket, Limits};
use super::queue::{Place, Queue};

/// A turn offered to a ticket is kept this long; then it is the next one's.
const OFFER: Duration = Duration::from_secs(10);

/// Who takes a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// Stands in the queue and takes the turn at once.
    Present,
    /// Left a ticket of this name, is told, and comes.
    Ticket(Arc<str>),
}

/// A bucket and its queue.
#[derive(Debug)]
pub(crate) struct Line {
    bucket: Bucket,
    queue: Queue,
    standing: HashMap<u64, (Place, Who)>,
    /// Those of `standing` that are tickets, by name.
    tickets: HashMap<Arc<str>, u64>,
    /// Turns kept for tickets, until when. Their tokens are still in the bucket, so they never pile
    /// up beyond what it holds.
    offers: HashMap<Arc<str>, Duration>,
    last: u64,
}

impl Line {
    pub(crate) fn new(limits: Limits, now: Duration) -> Self {
        Self {
            bucket: Bucket::new(limits, now),
            queue: Queue::default(),
            standing: HashMap::new(),
            tickets: HashMap::new(),
            offers: HashMap::new(),
            last: 0,
        }
    }

    /// Gives turns to those who are next, as far as there are any: their numbers.
    pub(crate) fn serve(&mut self, now: Duration) -> Vec<u64> {
        self.bucket.settle(now);
        self.offers.retain(|_, until| *until > now);
        let mut served = Vec::new();
        while self.bucket.has(self.offers.len() + 1)
            && let Some(id) = self.queue.pop()
        {
            match self.standing.remove(&id) {
                Some((_, Who::Present)) => self.bucket.spend(),
                Some((_, Who::Ticket(name))) => {
                    self.tickets.remove(&name);
                    self.offers.insert(name, now.saturating_add(OFFER));
                }
                None => continue,
            }
            served.push(id);
        }
        served
    }

    /// Takes a turn out of the order, if nobody waits and there is one. Serve first.
    pub(crate) fn take(&mut self) -> bool {
        let free = self.queue.is_empty() && self.bucket.has(self.offers.len() + 1);
        if free {
            self.bucket.spend();
        }
        free
    }

    /// Takes the turn that is kept for a ticket. Serve first.
    pub(crate) fn fetch(&mut self, name: &str) -> bool {
        let kept = self.offers.remove(name).is_some();
        if kept {
            self.bucket.spend();
        }
        kept
    }

    /// Stands in the queue; its number there. A ticket that stands there already keeps its place,
    /// unless it is another one now.
    pub(crate) fn join(&mut self, place: Place, who: Who) -> u64 {
        if let Who::Ticket(name) = &who
            && let Some(&id) = self.tickets.get(name)
        {
            let same = |(held, _): &(Place, Who)| *held == place;
            if self.standing.get(&id).is_some_and(same) {
                return id;
            }
            self.leave(id);
        }
        self.last += 1;
        let id = self.last;
        self.queue.push(&place, id);
        if let Who::Ticket(name) = &who {
            self.tickets.insert(Arc::clone(name), id);
        }
        self.standing.insert(id, (place, who));
        id
    }

    /// Leaves the queue.
    pub(crate) fn leave(&mut self, id: u64) {
        let Some((place, who)) = self.standing.remove(&id) else {
            return;
        };
        self.queue.remove(&place, id);
        if let Who::Ticket(name) = who {
            self.tickets.remove(&name);
        }
    }

    /// Gives up a ticket, waiting or offered; its number if it was waiting.
    pub(crate) fn withdraw(&mut self, name: &str) -> Option<u64> {
        self.offers.remove(name);
        let id = self.tickets.get(name).copied()?;
        self.leave(id);
        Some(id)
    }

    /// Gives back a turn that was not used.
    pub(crate) fn refund(&mut self) {
        self.bucket.refund();
    }

    /// AWS said: too many.
    pub(crate) fn throttled(&mut self, now: Duration) {
        self.bucket.throttled(now);
    }

    /// How long until there may be someone to serve, as last served; `None` while nobody waits.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        if self.queue.is_empty() {
            return None;
        }
        let token = self.bucket.until(self.offers.len() + 1);
        let offer = self.offers.values().min();
        let offer = offer.map(|until| until.saturating_sub(now));
        [token, offer].into_iter().flatten().min()
    }

    /// When the last of this class may be served, if those ahead make one call each.
    pub(crate) fn outlook(&self, priority: Priority) -> Duration {
        let classes = Priority::ALL.into_iter().zip(self.queue.depth());
        let ahead: usize = classes
            .filter(|(class, _)| *class <= priority)
            .map(|(_, waiting)| waiting)
            .sum();
        let ahead = f64::from(u32::try_from(ahead).unwrap_or(u32::MAX));
        Duration::try_from_secs_f64(ahead / self.bucket.rate()).unwrap_or(Duration::MAX)
    }

    /// Calls a second, as last served.
    pub(crate) fn rate(&self) -> f64 {
        self.bucket.rate()
    }

    /// How many wait, by class.
    pub(crate) fn depth(&self) -> [usize; 4] {
        self.queue.depth()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn line(rate: f64) -> Line {
        Line::new(Limits::new(rate, rate, rate), NOW)
    }

    fn place(priority: Priority) -> Place {
        Place {
            priority,
            namespace: "a".into(),
            begun: false,
        }
    }

    fn ticket(name: &str) -> Who {
        Who::Ticket(name.into())
    }

    fn emptied(line: &mut Line) {
        while line.take() {}
    }

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_free_turn_is_taken_at_once_and_a_queue_is_not_passed() {
        let mut line = line(1.0);
        assert!(line.take());
        assert!(!line.take());
        let first = line.join(place(Priority::Sweep), Who::Present);
        assert_eq!(line.due(NOW), Some(second(1)));
        assert_eq!(line.serve(second(1)), [first]);
        assert_eq!(line.due(second(1)), None);
    }

    #[test]
    fn a_ticket_is_offered_its_turn_and_fetches_it_once() {
        let mut line = line(2.0);
        emptied(&mut line);
        let id = line.join(place(Priority::Edit), ticket("x"));
        assert!(!line.fetch("x"));
        assert_eq!(line.serve(second(1)), [id]);
        assert!(line.fetch("x"));
        assert!(!line.fetch("x"));
        // Two came in, one was fetched.
        assert!(line.take());
        assert!(!line.take());
    }

    #[test]
    fn an_offer_keeps_its_token_from_others_and_ends() {
        let mut line = line(1.0);
        emptied(&mut line);
        line.join(place(Priority::Edit), ticket("gone"));
        line.serve(second(1));
        let next = line.join(place(Priority::Edit), Who::Present);
        assert_eq!(line.serve(second(5)), Vec::<u64>::new());
        assert_eq!(line.due(second(5)), Some(second(6)));
        assert_eq!(line.serve(second(11)), [next]);
        assert!(!line.fetch("gone"));
    }

    #[test]
    fn who_asks_again_with_a_ticket_keeps_its_place() {
        let mut line = line(1.0);
        emptied(&mut line);
        let first = line.join(place(Priority::Edit), ticket("x"));
        let second_in = line.join(place(Priority::Edit), ticket("y"));
        assert_eq!(line.join(place(Priority::Edit), ticket("x")), first);
        assert_eq!(line.serve(second(1)), [first]);
        assert!(line.fetch("x"));
        assert_eq!(line.serve(second(2)), [second_in]);
    }

    #[test]
    fn a_ticket_that_became_urgent_moves() {
        let mut line = line(1.0);
        emptied(&mut line);
        line.join(place(Priority::Edit), ticket("x"));
        let urgent = line.join(place(Priority::Delete), ticket("x"));
        assert_eq!(line.depth(), [1, 0, 0, 0]);
        assert_eq!(line.serve(second(1)), [urgent]);
    }

    #[test]
    fn a_withdrawn_ticket_is_neither_served_nor_kept() {
        let mut line = line(1.0);
        emptied(&mut line);
        let waiting = line.join(place(Priority::Edit), ticket("x"));
        assert_eq!(line.withdraw("x"), Some(waiting));
        assert_eq!(line.serve(second(1)), Vec::<u64>::new());
        assert!(line.take());
    }

    #[test]
    fn the_outlook_counts_those_ahead() {
        let mut line = line(2.0);
        emptied(&mut line);
        for priority in [Priority::Delete, Priority::Edit, Priority::Edit] {
            line.join(place(priority), Who::Present);
        }
        line.join(place(Priority::Sweep), Who::Present);
        assert_eq!(line.outlook(Priority::Edit), Duration::from_millis(1500));
    }

    #[derive(Debug, Clone)]
    enum Event {
        Pass(u64),
        Join(u8),
        Ticket(u8),
        Fetch(u8),
        Take,
        Throttle,
        Withdraw(u8),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            (1..3_000_u64).prop_map(Event::Pass),
            (0..4_u8).prop_map(Event::Join),
            (0..6_u8).prop_map(Event::Ticket),
            (0..6_u8).prop_map(Event::Fetch),
            Just(Event::Take),
            Just(Event::Throttle),
            (0..6_u8).prop_map(Event::Withdraw),
        ];
        proptest::collection::vec(event, 0..100)
    }

    proptest! {
        /// Calls made never exceed what the fastest rate gives, whoever makes them, and after a
        /// while without news everyone has been served.
        #[test]
        fn turns_are_never_more_than_tokens_and_nobody_is_forgotten(events in events()) {
            let limits = Limits::new(4.0, 1.0, 8.0);
            let mut line = Line::new(limits, NOW);
            let (mut now, mut calls) = (NOW, 0_u32);
            for event in events {
                match event {
                    Event::Pass(millis) => now += Duration::from_millis(millis),
                    Event::Join(class) => {
                        line.join(place(Priority::ALL[usize::from(class)]), Who::Present);
                    }
                    Event::Ticket(name) => {
                        line.join(place(Priority::Edit), ticket(&name.to_string()));
                    }
                    Event::Fetch(name) => calls += u32::from(line.fetch(&name.to_string())),
                    Event::Take => calls += u32::from(line.take()),
                    Event::Throttle => line.throttled(now),
                    Event::Withdraw(name) => {
                        line.withdraw(&name.to_string());
                    }
                }
                let is_present = |(_, (_, who)): &(&u64, &(Place, Who))| *who == Who::Present;
                let present: HashSet<u64> =
                    line.standing.iter().filter(is_present).map(|(id, _)| *id).collect();
                let served = line.serve(now);
                let made = served.iter().filter(|id| present.contains(id)).count();
                calls += u32::try_from(made).unwrap();
                let most = now.as_secs_f64().mul_add(8.0, 8.0 + 4.0);
                prop_assert!(f64::from(calls) <= most, "{calls} calls in {now:?}");
                prop_assert_eq!(line.standing.len(), line.depth().iter().sum::<usize>());
            }
            let mut rounds = 0;
            while let Some(wait) = line.due(now) {
                now += wait;
                line.serve(now);
                rounds += 1;
                prop_assert!(rounds < 5_000, "{line:?}");
            }
            prop_assert!(line.standing.is_empty() && line.tickets.is_empty());
        }
    }
}
