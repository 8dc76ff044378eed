//! Who may call now: a bucket and the callers that wait for its tokens. Time is passed in.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Priority;
use super::bucket::{Bucket, RateRange};
use super::queue::{Queue, QueueKey};

/// A permit offered to a ticket is reserved for this long; then the next caller gets it.
const OFFER: Duration = Duration::from_secs(10);

/// Who waits for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// A caller that blocks and takes its permit at once.
    Present,
    /// The owner of the ticket of this name, who is woken and then fetches the permit.
    Ticket(Arc<str>),
}

/// A bucket and its queue.
#[derive(Debug)]
pub(crate) struct PermitQueue {
    bucket: Bucket,
    queue: Queue,
    waiting: HashMap<u64, (QueueKey, Who)>,
    /// The tickets among `waiting`, by name.
    tickets: HashMap<Arc<str>, u64>,
    /// Permits reserved for tickets, and until when. Their tokens are still in the bucket, so there
    /// are never more offers than the bucket holds tokens.
    offers: HashMap<Arc<str>, Duration>,
    last: u64,
}

impl PermitQueue {
    pub(crate) fn new(rates: RateRange, now: Duration) -> Self {
        Self {
            bucket: Bucket::new(rates, now),
            queue: Queue::default(),
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            offers: HashMap::new(),
            last: 0,
        }
    }

    /// Gives the free permits to the next callers; returns their ids.
    pub(crate) fn serve(&mut self, now: Duration) -> Vec<u64> {
        self.bucket.settle(now);
        self.offers.retain(|_, until| *until > now);
        let mut served = Vec::new();
        while self.bucket.has(self.offers.len() + 1)
            && let Some(id) = self.queue.pop()
        {
            match self.waiting.remove(&id) {
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

    /// Takes a permit without queueing, if nobody waits and one is free. Call `serve` first.
    pub(crate) fn take(&mut self) -> bool {
        let free = self.queue.is_empty() && self.bucket.has(self.offers.len() + 1);
        if free {
            self.bucket.spend();
        }
        free
    }

    /// Takes the permit that is reserved for a ticket. Call `serve` first.
    pub(crate) fn fetch(&mut self, name: &str) -> bool {
        let kept = self.offers.remove(name).is_some();
        if kept {
            self.bucket.spend();
        }
        kept
    }

    /// Joins the queue; returns the id there. A ticket that is already queued keeps its position,
    /// unless its key has changed.
    pub(crate) fn join(&mut self, key: QueueKey, who: Who) -> u64 {
        if let Who::Ticket(name) = &who
            && let Some(&id) = self.tickets.get(name)
        {
            let same = |(queued, _): &(QueueKey, Who)| *queued == key;
            if self.waiting.get(&id).is_some_and(same) {
                return id;
            }
            self.leave(id);
        }
        self.last += 1;
        let id = self.last;
        self.queue.push(&key, id);
        if let Who::Ticket(name) = &who {
            self.tickets.insert(Arc::clone(name), id);
        }
        self.waiting.insert(id, (key, who));
        id
    }

    /// Leaves the queue.
    pub(crate) fn leave(&mut self, id: u64) {
        let Some((key, who)) = self.waiting.remove(&id) else {
            return;
        };
        self.queue.remove(&key, id);
        if let Who::Ticket(name) = who {
            self.tickets.remove(&name);
        }
    }

    /// Removes a ticket, waiting or offered; returns its id if it was waiting.
    pub(crate) fn withdraw(&mut self, name: &str) -> Option<u64> {
        self.offers.remove(name);
        let id = self.tickets.get(name).copied()?;
        self.leave(id);
        Some(id)
    }

    /// Returns a permit that was not used.
    pub(crate) fn refund(&mut self) {
        self.bucket.refund();
    }

    /// AWS throttled a call.
    pub(crate) fn throttled(&mut self, now: Duration) {
        self.bucket.throttled(now);
    }

    /// How long until the next caller may be served, as last served; `None` while nobody waits.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        if self.queue.is_empty() {
            return None;
        }
        let token = self.bucket.until(self.offers.len() + 1);
        let offer = self.offers.values().min();
        let offer = offer.map(|until| until.saturating_sub(now));
        [token, offer].into_iter().flatten().min()
    }

    /// How long the last caller of this class waits if every caller ahead makes one call.
    pub(crate) fn expected_wait(&self, priority: Priority) -> Duration {
        let classes = Priority::ALL.into_iter().zip(self.queue.depth());
        let ahead: usize = classes
            .filter(|(class, _)| *class <= priority)
            .map(|(_, waiting)| waiting)
            .sum();
        let ahead = f64::from(u32::try_from(ahead).unwrap_or(u32::MAX));
        Duration::try_from_secs_f64(ahead / self.bucket.rate()).unwrap_or(Duration::MAX)
    }

    /// Calls per second, as last served.
    pub(crate) fn rate(&self) -> f64 {
        self.bucket.rate()
    }

    /// How many callers wait, by class.
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

    fn queue(rate: f64) -> PermitQueue {
        PermitQueue::new(RateRange::new(rate, rate, rate), NOW)
    }

    fn key(priority: Priority) -> QueueKey {
        QueueKey {
            priority,
            namespace: "a".into(),
            begun: false,
        }
    }

    fn ticket(name: &str) -> Who {
        Who::Ticket(name.into())
    }

    fn emptied(queue: &mut PermitQueue) {
        while queue.take() {}
    }

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_free_permit_is_taken_at_once_unless_others_wait() {
        let mut queue = queue(1.0);
        assert!(queue.take());
        assert!(!queue.take());
        let first = queue.join(key(Priority::Sweep), Who::Present);
        assert_eq!(queue.due(NOW), Some(second(1)));
        assert_eq!(queue.serve(second(1)), [first]);
        assert_eq!(queue.due(second(1)), None);
    }

    #[test]
    fn a_ticket_is_offered_a_permit_and_fetches_it_once() {
        let mut queue = queue(2.0);
        emptied(&mut queue);
        let id = queue.join(key(Priority::Edit), ticket("x"));
        assert!(!queue.fetch("x"));
        assert_eq!(queue.serve(second(1)), [id]);
        assert!(queue.fetch("x"));
        assert!(!queue.fetch("x"));
        // Two tokens arrived, one was fetched.
        assert!(queue.take());
        assert!(!queue.take());
    }

    #[test]
    fn an_offer_reserves_its_token_and_expires() {
        let mut queue = queue(1.0);
        emptied(&mut queue);
        queue.join(key(Priority::Edit), ticket("gone"));
        queue.serve(second(1));
        let next = queue.join(key(Priority::Edit), Who::Present);
        assert_eq!(queue.serve(second(5)), Vec::<u64>::new());
        assert_eq!(queue.due(second(5)), Some(second(6)));
        assert_eq!(queue.serve(second(11)), [next]);
        assert!(!queue.fetch("gone"));
    }

    #[test]
    fn a_repeated_ticket_keeps_its_position() {
        let mut queue = queue(1.0);
        emptied(&mut queue);
        let first = queue.join(key(Priority::Edit), ticket("x"));
        let second_in = queue.join(key(Priority::Edit), ticket("y"));
        assert_eq!(queue.join(key(Priority::Edit), ticket("x")), first);
        assert_eq!(queue.serve(second(1)), [first]);
        assert!(queue.fetch("x"));
        assert_eq!(queue.serve(second(2)), [second_in]);
    }

    #[test]
    fn a_ticket_moves_when_its_priority_changes() {
        let mut queue = queue(1.0);
        emptied(&mut queue);
        queue.join(key(Priority::Edit), ticket("x"));
        let urgent = queue.join(key(Priority::Delete), ticket("x"));
        assert_eq!(queue.depth(), [1, 0, 0, 0]);
        assert_eq!(queue.serve(second(1)), [urgent]);
    }

    #[test]
    fn a_withdrawn_ticket_is_not_served() {
        let mut queue = queue(1.0);
        emptied(&mut queue);
        let waiting = queue.join(key(Priority::Edit), ticket("x"));
        assert_eq!(queue.withdraw("x"), Some(waiting));
        assert_eq!(queue.serve(second(1)), Vec::<u64>::new());
        assert!(queue.take());
    }

    #[test]
    fn the_expected_wait_counts_the_callers_ahead() {
        let mut queue = queue(2.0);
        emptied(&mut queue);
        for priority in [Priority::Delete, Priority::Edit, Priority::Edit] {
            queue.join(key(priority), Who::Present);
        }
        queue.join(key(Priority::Sweep), Who::Present);
        assert_eq!(
            queue.expected_wait(Priority::Edit),
            Duration::from_millis(1500)
        );
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
        /// The number of calls never exceeds the highest rate, and every waiting caller is served
        /// in the end.
        #[test]
        fn permits_never_exceed_tokens_and_no_caller_is_lost(events in events()) {
            let rates = RateRange::new(4.0, 1.0, 8.0);
            let mut queue = PermitQueue::new(rates, NOW);
            let (mut now, mut calls) = (NOW, 0_u32);
            for event in events {
                match event {
                    Event::Pass(millis) => now += Duration::from_millis(millis),
                    Event::Join(class) => {
                        queue.join(key(Priority::ALL[usize::from(class)]), Who::Present);
                    }
                    Event::Ticket(name) => {
                        queue.join(key(Priority::Edit), ticket(&name.to_string()));
                    }
                    Event::Fetch(name) => calls += u32::from(queue.fetch(&name.to_string())),
                    Event::Take => calls += u32::from(queue.take()),
                    Event::Throttle => queue.throttled(now),
                    Event::Withdraw(name) => {
                        queue.withdraw(&name.to_string());
                    }
                }
                let is_present = |(_, (_, who)): &(&u64, &(QueueKey, Who))| *who == Who::Present;
                let present: HashSet<u64> =
                    queue.waiting.iter().filter(is_present).map(|(id, _)| *id).collect();
                let served = queue.serve(now);
                let made = served.iter().filter(|id| present.contains(id)).count();
                calls += u32::try_from(made).unwrap();
                let most = now.as_secs_f64().mul_add(8.0, 8.0 + 4.0);
                prop_assert!(f64::from(calls) <= most, "{calls} calls in {now:?}");
                prop_assert_eq!(queue.waiting.len(), queue.depth().iter().sum::<usize>());
            }
            let mut rounds = 0;
            while let Some(wait) = queue.due(now) {
                now += wait;
                queue.serve(now);
                rounds += 1;
                prop_assert!(rounds < 5_000, "{queue:?}");
            }
            prop_assert!(queue.waiting.is_empty() && queue.tickets.is_empty());
        }
    }
}
