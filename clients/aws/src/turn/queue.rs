//! In which order: classes by priority, none starving; inside a class namespaces take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Priority;

/// A class that waits gets one turn in so many.
const SHARE: u32 = 10;

/// Where someone stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) priority: Priority,
    pub(crate) namespace: Arc<str>,
    /// Ahead of all in its class that have not begun.
    pub(crate) begun: bool,
}

/// Those who wait, by number.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    classes: [Waiting; 4],
}

/// Those of one class.
#[derive(Debug, Default)]
struct Waiting {
    begun: VecDeque<u64>,
    /// Namespaces with someone waiting, the next first.
    order: VecDeque<Arc<str>>,
    by_namespace: HashMap<Arc<str>, VecDeque<u64>>,
    /// Turns that others had since this class had one.
    credit: u32,
}

impl Queue {
    /// Adds someone at the end of its namespace.
    pub(crate) fn push(&mut self, place: &Place, id: u64) {
        let class = &mut self.classes[index(place.priority)];
        if place.begun {
            class.begun.push_back(id);
            return;
        }
        let waiting = class.by_namespace.entry(Arc::clone(&place.namespace));
        let waiting = waiting.or_insert_with(|| {
            class.order.push_back(Arc::clone(&place.namespace));
            VecDeque::new()
        });
        waiting.push_back(id);
    }

    /// Takes out who is next.
    ///
    /// | waits                                    | so                                      |
    /// |------------------------------------------|-----------------------------------------|
    /// | a class that others were served 10 times | the one that waits longest              |
    /// | others                                   | the first class                         |
    /// | several of a class                       | who has begun; then namespaces in turns |
    pub(crate) fn pop(&mut self) -> Option<u64> {
        for class in self.classes.iter_mut().filter(|class| !class.is_empty()) {
            class.credit += 1;
        }
        let due = self
            .classes
            .iter()
            .enumerate()
            .filter(|(_, class)| class.credit >= SHARE)
            // The first of equals: `max_by_key` gives the last.
            .rev()
            .max_by_key(|(_, class)| class.credit)
            .map(|(index, _)| index);
        let first = || self.classes.iter().position(|class| !class.is_empty());
        let class = &mut self.classes[due.or_else(first)?];
        class.credit = class.credit.saturating_sub(SHARE);
        let id = class.pop();
        if class.is_empty() {
            class.credit = 0;
        }
        id
    }

    /// Takes someone out; `false` if it does not stand there.
    pub(crate) fn remove(&mut self, place: &Place, id: u64) -> bool {
        let class = &mut self.classes[index(place.priority)];
        let removed = class.remove(place, id);
        if class.is_empty() {
            class.credit = 0;
        }
        removed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.classes.iter().all(Waiting::is_empty)
    }

    /// How many wait, by class.
    pub(crate) fn depth(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|class| self.classes[class].len())
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<u64> {
        if let Some(id) = self.begun.pop_front() {
            return Some(id);
        }
        let namespace = self.order.pop_front()?;
        let waiting = self.by_namespace.get_mut(&namespace)?;
        let id = waiting.pop_front();
        if waiting.is_empty() {
            self.by_namespace.remove(&namespace);
        } else {
            self.order.push_back(namespace);
        }
        id
    }

    fn remove(&mut self, place: &Place, id: u64) -> bool {
        if place.begun {
            return taken_out(&mut self.begun, id);
        }
        let Some(waiting) = self.by_namespace.get_mut(&place.namespace) else {
            return false;
        };
        let removed = taken_out(waiting, id);
        if waiting.is_empty() {
            self.by_namespace.remove(&place.namespace);
            self.order.retain(|namespace| *namespace != place.namespace);
        }
        removed
    }

    fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.order.is_empty()
    }

    fn len(&self) -> usize {
        self.begun.len() + self.by_namespace.values().map(VecDeque::len).sum::<usize>()
    }
}

fn taken_out(waiting: &mut VecDeque<u64>, id: u64) -> bool {
    let before = waiting.len();
    waiting.retain(|own| *own != id);
    waiting.len() < before
}

fn index(priority: Priority) -> usize {
    match priority {
        Priority::Delete => 0,
        Priority::Edit => 1,
        Priority::Poll => 2,
        Priority::Sweep => 3,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Priority::{Delete, Edit, Poll, Sweep};

    fn place(priority: Priority, namespace: &str) -> Place {
        Place {
            priority,
            namespace: namespace.into(),
            begun: false,
        }
    }

    fn popped(queue: &mut Queue, times: usize) -> Vec<u64> {
        (0..times).map_while(|_| queue.pop()).collect()
    }

    #[test]
    fn deletes_go_first_and_sweeps_last() {
        let mut queue = Queue::default();
        for (id, priority) in (0..).zip([Sweep, Poll, Edit, Delete]) {
            queue.push(&place(priority, "a"), id);
        }
        assert_eq!(popped(&mut queue, 9), [3, 2, 1, 0]);
    }

    #[test]
    fn namespaces_of_a_class_take_turns() {
        let mut queue = Queue::default();
        for id in 0..3 {
            queue.push(&place(Edit, "big"), id);
        }
        queue.push(&place(Edit, "small"), 10);
        queue.push(&place(Edit, "other"), 20);
        assert_eq!(popped(&mut queue, 9), [0, 10, 20, 1, 2]);
    }

    #[test]
    fn who_has_begun_goes_ahead_of_its_class_and_of_no_other() {
        let mut queue = Queue::default();
        queue.push(&place(Edit, "a"), 0);
        let begun = Place {
            begun: true,
            ..place(Edit, "a")
        };
        queue.push(&begun, 1);
        queue.push(&place(Delete, "a"), 2);
        assert_eq!(popped(&mut queue, 9), [2, 1, 0]);
    }

    #[test]
    fn a_class_that_waits_gets_a_tenth() {
        let mut queue = Queue::default();
        for id in 0..100 {
            queue.push(&place(Delete, "a"), id);
            queue.push(&place(Sweep, "a"), 1000 + id);
        }
        let served = popped(&mut queue, 50);
        let sweeps = served.iter().filter(|id| **id >= 1000).count();
        assert_eq!(sweeps, 5);
        assert_eq!(served[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn who_leaves_is_not_served() {
        let mut queue = Queue::default();
        queue.push(&place(Edit, "a"), 0);
        queue.push(&place(Edit, "b"), 1);
        assert!(queue.remove(&place(Edit, "a"), 0));
        assert!(!queue.remove(&place(Edit, "a"), 0));
        assert_eq!(queue.depth(), [0, 1, 0, 0]);
        assert_eq!(popped(&mut queue, 9), [1]);
        assert!(queue.is_empty());
    }

    fn priorities() -> impl Strategy<Value = Priority> {
        prop_oneof![Just(Delete), Just(Edit), Just(Poll), Just(Sweep)]
    }

    proptest! {
        /// Every class keeps someone waiting all the time; whatever else comes, each gets its part.
        #[test]
        fn no_class_starves(
            coming in proptest::collection::vec(priorities(), 0..100),
            turns in 1..100_usize,
        ) {
            let mut queue = Queue::default();
            let mut classes = HashMap::new();
            let mut pushed = 0;
            let mut push = |queue: &mut Queue, classes: &mut HashMap<u64, Priority>, priority| {
                pushed += 1;
                classes.insert(pushed, priority);
                queue.push(&place(priority, "a"), pushed);
            };
            for priority in Priority::ALL.into_iter().chain(Priority::ALL) {
                push(&mut queue, &mut classes, priority);
            }
            let mut served = HashMap::new();
            let mut coming = coming.into_iter();
            for _ in 0..turns {
                let id = queue.pop().expect("every class waits");
                let priority = classes[&id];
                *served.entry(priority).or_insert(0) += 1;
                push(&mut queue, &mut classes, priority);
                if let Some(priority) = coming.next() {
                    push(&mut queue, &mut classes, priority);
                }
            }
            for priority in Priority::ALL {
                let had = served.get(&priority).copied().unwrap_or(0);
                prop_assert!(had >= turns.saturating_sub(3) / 10, "{priority:?}: {had} of {turns}");
            }
        }

        #[test]
        fn namespaces_that_wait_are_served_alike(
            crowd in proptest::collection::vec(1..40_u64, 2..6),
        ) {
            let mut queue = Queue::default();
            let mut names = HashMap::new();
            let mut pushed = 0;
            for (name, members) in crowd.iter().enumerate() {
                for _ in 0..*members {
                    pushed += 1;
                    names.insert(pushed, name);
                    queue.push(&place(Edit, &name.to_string()), pushed);
                }
            }
            // While all wait, nobody is more than one turn ahead of another.
            let least = crowd.iter().min().copied().expect("some");
            let mut served = vec![0_u64; crowd.len()];
            while served.iter().all(|had| *had < least) {
                let id = queue.pop().expect("someone waits");
                served[names[&id]] += 1;
                let (most, fewest) = (served.iter().max(), served.iter().min());
                prop_assert!(most.unwrap() - fewest.unwrap() <= 1);
            }
        }

        #[test]
        fn everyone_is_served_once(
            places in proptest::collection::vec((priorities(), 0..4_u8, any::<bool>()), 0..60),
        ) {
            let mut queue = Queue::default();
            for (id, (priority, namespace, begun)) in (0..).zip(&places) {
                let place = Place {
                    begun: *begun,
                    ..place(*priority, &namespace.to_string())
                };
                queue.push(&place, id);
            }
            let mut served = popped(&mut queue, places.len() + 1);
            served.sort_unstable();
            let all: Vec<u64> = (0..).take(places.len()).collect();
            prop_assert_eq!(served, all);
            prop_assert!(queue.is_empty());
        }
    }
}
