//! In which order: classes by priority, without starvation; round robin by namespace in a class.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::Priority;

/// A waiting class gets at least one permit in this many.
const SHARE: u32 = 10;

/// What decides the position of a caller in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueKey {
    pub(crate) priority: Priority,
    pub(crate) namespace: Arc<str>,
    /// Ahead of all callers of its class that were not admitted.
    pub(crate) begun: bool,
}

/// The waiting callers, by id.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    classes: [Waiting; 4],
}

/// The waiting callers of one class.
#[derive(Debug, Default)]
struct Waiting {
    begun: VecDeque<u64>,
    /// Namespaces with waiting callers, the next first.
    order: VecDeque<Arc<str>>,
    by_namespace: HashMap<Arc<str>, VecDeque<u64>>,
    /// Permits that other classes got since this class got one.
    credit: u32,
}

impl Queue {
    /// Adds a caller at the end of its namespace.
    pub(crate) fn push(&mut self, key: &QueueKey, id: u64) {
        let class = &mut self.classes[index(key.priority)];
        if key.begun {
            class.begun.push_back(id);
            return;
        }
        let waiting = class.by_namespace.entry(Arc::clone(&key.namespace));
        let waiting = waiting.or_insert_with(|| {
            class.order.push_back(Arc::clone(&key.namespace));
            VecDeque::new()
        });
        waiting.push_back(id);
    }

    /// Removes the next caller.
    ///
    /// | waiting                                         | next                                 |
    /// |-------------------------------------------------|--------------------------------------|
    /// | a class while others got 10 permits             | the class that waits longest         |
    /// | any other classes                               | the class of highest priority        |
    /// | several callers of a class                      | admitted ones; then round robin      |
    pub(crate) fn pop(&mut self) -> Option<u64> {
        for class in self.classes.iter_mut().filter(|class| !class.is_empty()) {
            class.credit += 1;
        }
        let due = self
            .classes
            .iter()
            .enumerate()
            .filter(|(_, class)| class.credit >= SHARE)
            // Choose the first of equals: `max_by_key` gives the last.
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

    /// Removes a caller; `false` if it is not in the queue.
    pub(crate) fn remove(&mut self, key: &QueueKey, id: u64) -> bool {
        let class = &mut self.classes[index(key.priority)];
        let removed = class.remove(key, id);
        if class.is_empty() {
            class.credit = 0;
        }
        removed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.classes.iter().all(Waiting::is_empty)
    }

    /// How many callers wait, by class.
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

    fn remove(&mut self, key: &QueueKey, id: u64) -> bool {
        if key.begun {
            return remove_id(&mut self.begun, id);
        }
        let Some(waiting) = self.by_namespace.get_mut(&key.namespace) else {
            return false;
        };
        let removed = remove_id(waiting, id);
        if waiting.is_empty() {
            self.by_namespace.remove(&key.namespace);
            self.order.retain(|namespace| *namespace != key.namespace);
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

fn remove_id(waiting: &mut VecDeque<u64>, id: u64) -> bool {
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

    fn key(priority: Priority, namespace: &str) -> QueueKey {
        QueueKey {
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
            queue.push(&key(priority, "a"), id);
        }
        assert_eq!(popped(&mut queue, 9), [3, 2, 1, 0]);
    }

    #[test]
    fn namespaces_of_a_class_are_served_round_robin() {
        let mut queue = Queue::default();
        for id in 0..3 {
            queue.push(&key(Edit, "big"), id);
        }
        queue.push(&key(Edit, "small"), 10);
        queue.push(&key(Edit, "other"), 20);
        assert_eq!(popped(&mut queue, 9), [0, 10, 20, 1, 2]);
    }

    #[test]
    fn an_admitted_caller_goes_ahead_of_its_own_class_only() {
        let mut queue = Queue::default();
        queue.push(&key(Edit, "a"), 0);
        let begun = QueueKey {
            begun: true,
            ..key(Edit, "a")
        };
        queue.push(&begun, 1);
        queue.push(&key(Delete, "a"), 2);
        assert_eq!(popped(&mut queue, 9), [2, 1, 0]);
    }

    #[test]
    fn a_waiting_class_gets_a_tenth() {
        let mut queue = Queue::default();
        for id in 0..100 {
            queue.push(&key(Delete, "a"), id);
            queue.push(&key(Sweep, "a"), 1000 + id);
        }
        let served = popped(&mut queue, 50);
        let sweeps = served.iter().filter(|id| **id >= 1000).count();
        assert_eq!(sweeps, 5);
        assert_eq!(served[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_removed_caller_is_not_served() {
        let mut queue = Queue::default();
        queue.push(&key(Edit, "a"), 0);
        queue.push(&key(Edit, "b"), 1);
        assert!(queue.remove(&key(Edit, "a"), 0));
        assert!(!queue.remove(&key(Edit, "a"), 0));
        assert_eq!(queue.depth(), [0, 1, 0, 0]);
        assert_eq!(popped(&mut queue, 9), [1]);
        assert!(queue.is_empty());
    }

    fn priorities() -> impl Strategy<Value = Priority> {
        prop_oneof![Just(Delete), Just(Edit), Just(Poll), Just(Sweep)]
    }

    proptest! {
        /// Every class always has a waiting caller; each class gets its share whatever else arrives.
        #[test]
        fn no_class_starves(
            coming in proptest::collection::vec(priorities(), 0..100),
            permits in 1..100_usize,
        ) {
            let mut queue = Queue::default();
            let mut classes = HashMap::new();
            let mut pushed = 0;
            let mut push = |queue: &mut Queue, classes: &mut HashMap<u64, Priority>, priority| {
                pushed += 1;
                classes.insert(pushed, priority);
                queue.push(&key(priority, "a"), pushed);
            };
            for priority in Priority::ALL.into_iter().chain(Priority::ALL) {
                push(&mut queue, &mut classes, priority);
            }
            let mut served = HashMap::new();
            let mut coming = coming.into_iter();
            for _ in 0..permits {
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
                let least = permits.saturating_sub(3) / 10;
                prop_assert!(had >= least, "{priority:?}: {had} of {permits}");
            }
        }

        #[test]
        fn waiting_namespaces_are_served_equally(
            crowd in proptest::collection::vec(1..40_u64, 2..6),
        ) {
            let mut queue = Queue::default();
            let mut names = HashMap::new();
            let mut pushed = 0;
            for (name, members) in crowd.iter().enumerate() {
                for _ in 0..*members {
                    pushed += 1;
                    names.insert(pushed, name);
                    queue.push(&key(Edit, &name.to_string()), pushed);
                }
            }
            // While all wait, no namespace is more than one permit ahead of another.
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
        fn every_caller_is_served_once(
            keys in proptest::collection::vec((priorities(), 0..4_u8, any::<bool>()), 0..60),
        ) {
            let mut queue = Queue::default();
            for (id, (priority, namespace, begun)) in (0..).zip(&keys) {
                let key = QueueKey {
                    begun: *begun,
                    ..key(*priority, &namespace.to_string())
                };
                queue.push(&key, id);
            }
            let mut served = popped(&mut queue, keys.len() + 1);
            served.sort_unstable();
            let all: Vec<u64> = (0..).take(keys.len()).collect();
            prop_assert_eq!(served, all);
            prop_assert!(queue.is_empty());
        }
    }
}
