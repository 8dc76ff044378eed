//! What happens, and when.

use std::time::Duration;

use kernel::Class;

/// One entry of the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// All is well.
    Nothing,
    /// The process ends before the call has its effect.
    CrashBefore,
    /// The process ends after the call had its effect.
    CrashAfter,
    /// The call has its effect and its answer is lost.
    LostAnswer,
    /// The call is refused, or fails, and has no effect.
    FailureBefore(Class),
    /// The read shows the outside as it was some seconds ago.
    StaleRead,
    /// In a gap: a new process starts from an older object.
    StaleCache,
    /// The operator freezes; another one leads and works; the first goes on.
    TakeOver,
    /// A user edits the object.
    UserEdit(u8),
    /// A user deletes the object.
    UserDelete,
    /// Someone else acts outside.
    OutsiderActs(u8),
    /// Time passes.
    TimePasses(Duration),
    /// In a gap: the next pass comes before its time.
    WakesEarly,
    /// The answer comes after those of the calls beside it.
    SlowAnswer,
}

/// The failures that a service may answer with.
const FAILURES: [Class; 4] = [
    Class::Throttled,
    Class::Denied,
    Class::Transient,
    Class::Invalid,
];

/// How much time may pass at once, in seconds.
const PAUSES: [u64; 4] = [3, 12, 55, 400];

/// How many sorts of happening there are besides `Nothing`.
const SORTS: u64 = 14;

/// A first object and a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Which object and outside the model begins with.
    pub first: u8,
    /// What happens.
    pub tape: Vec<Happening>,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let length = 5 + draw.below(30);
        let first = draw.byte();
        // Few sorts of happening in one schedule, each often: rare combinations are found sooner.
        let sorts: Vec<u64> = (0..2 + draw.below(3)).map(|_| draw.below(SORTS)).collect();
        let mut tape = Vec::new();
        for _ in 0..length {
            let index = draw.below(2 * sorts.len() as u64);
            let sort = usize::try_from(index).ok().and_then(|at| sorts.get(at));
            tape.push(sort.map_or(Happening::Nothing, |sort| draw.happening(*sort)));
        }
        Self { first, tape }
    }
}

/// The generator splitmix64: small, and the same on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("it is below 256")
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let index = usize::try_from(self.below(of.len() as u64)).expect("it is below the length");
        of[index]
    }

    fn happening(&mut self, sort: u64) -> Happening {
        match sort {
            0 => Happening::CrashBefore,
            1 => Happening::CrashAfter,
            2 => Happening::LostAnswer,
            3 => Happening::FailureBefore(self.one(&FAILURES)),
            4 | 5 => Happening::StaleRead,
            6 => Happening::StaleCache,
            7 => Happening::TakeOver,
            8 if self.below(3) == 0 => Happening::UserDelete,
            8 | 9 => Happening::UserEdit(self.byte()),
            10 => Happening::OutsiderActs(self.byte()),
            11 => Happening::TimePasses(Duration::from_secs(self.one(&PAUSES))),
            12 => Happening::WakesEarly,
            _ => Happening::SlowAnswer,
        }
    }
}

/// The happenings that [`enumerate`](crate::enumerate) combines, one of each sort.
pub(crate) fn sorts() -> Vec<Happening> {
    let mut sorts = vec![
        Happening::CrashBefore,
        Happening::CrashAfter,
        Happening::LostAnswer,
        Happening::StaleRead,
        Happening::StaleCache,
        Happening::TakeOver,
        Happening::UserDelete,
        Happening::WakesEarly,
        Happening::TimePasses(Duration::from_secs(55)),
    ];
    sorts.extend(FAILURES.map(Happening::FailureBefore));
    sorts.extend((0..4).map(Happening::UserEdit));
    sorts.extend((0..6).map(Happening::OutsiderActs));
    sorts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_schedule_every_time() {
        assert_eq!(Schedule::from_seed(7), Schedule::from_seed(7));
        assert_ne!(Schedule::from_seed(7), Schedule::from_seed(8));
    }

    #[test]
    fn every_sort_of_happening_is_drawn() {
        let tapes = (0..200).flat_map(|seed| Schedule::from_seed(seed).tape);
        let drawn: Vec<_> = tapes.map(|one| std::mem::discriminant(&one)).collect();
        for sort in sorts().into_iter().chain([Happening::SlowAnswer]) {
            assert!(drawn.contains(&std::mem::discriminant(&sort)), "{sort:?}");
        }
    }
}
