//! Searches for an order of all operations that is consistent with their times and in which every response is correct.
//!
//! The algorithm is Wing and Gong's with Lowe's memoization, as in Porcupine: take any operation that may come next and
//! whose response fits, memoize which sets of operations led to which states, and backtrack when nothing fits. The
//! crate `porcupine-rs` does the same, but depends on criterion, rand and regex and cannot express an operation that
//! may never take effect. Here such an operation is simply left out of the order.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// A state machine that defines the allowed responses.
pub(super) trait Specification {
    type State: Clone + Eq + Hash;
    type Operation: fmt::Display;

    fn start() -> Self::State;

    /// Returns the state after the operation, or `None` if its response is impossible in this state. An operation
    /// without a response fits every state.
    fn step(state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;

    fn invoked_at(operation: &Self::Operation) -> u64;

    /// `None`: no response arrived.
    fn returned_at(operation: &Self::Operation) -> Option<u64>;
}

/// Maximum number of steps. None of our histories needs that many; if a search exceeds it, the history is too long.
const TRIES_MAX: usize = 5_000_000;

/// Result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SearchVerdict {
    Linearizable,
    /// The longest valid order that was found, and the operation that does not fit after it.
    Wrong {
        order: Vec<usize>,
        stuck: usize,
    },
    TooLarge,
}

pub(super) fn search<S: Specification>(history: &[S::Operation]) -> SearchVerdict {
    OrderSearch::<S>::new(history).run()
}

/// The call or the return of an operation. Entries are sorted by time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimedEntry {
    Call(usize),
    Return(usize),
}

/// A choice that the search can take back.
struct SearchChoice<State> {
    operation: usize,
    before: State,
    /// The operation did not change the state. It is always correct to place such an operation as soon as it fits, so
    /// no alternatives are tried.
    is_reading: bool,
}

struct OrderSearch<'a, S: Specification> {
    history: &'a [S::Operation],
    entries: Vec<TimedEntry>,
    /// Indexes of each operation's call and return in `entries`.
    places: Vec<(usize, Option<usize>)>,
    /// Linked list of the entries that have not been placed: index 0 is the head, index i + 1 is entry i.
    next: Vec<usize>,
    previous: Vec<usize>,
    state: S::State,
    taken: Vec<u64>,
    choices: Vec<SearchChoice<S::State>>,
    visited: HashSet<(Vec<u64>, S::State)>,
    /// Number of operations with a response that have not been placed yet.
    open: usize,
}

impl<'a, S: Specification> OrderSearch<'a, S> {
    fn new(history: &'a [S::Operation]) -> Self {
        let mut timed = Vec::new();
        for (number, operation) in history.iter().enumerate() {
            timed.push((S::invoked_at(operation), 0, TimedEntry::Call(number)));
            // At the same tick, calls sort before returns, so that two operations overlap if one starts in the tick in
            // which the other ends.
            timed.extend(S::returned_at(operation).map(|at| (at, 1, TimedEntry::Return(number))));
        }
        timed.sort_by_key(|(at, rank, _)| (*at, *rank));
        let entries: Vec<_> = timed.into_iter().map(|(_, _, entry)| entry).collect();
        let mut places = vec![(0, None); history.len()];
        for (place, entry) in (1..).zip(&entries) {
            match entry {
                TimedEntry::Call(number) => places[*number].0 = place,
                TimedEntry::Return(number) => places[*number].1 = Some(place),
            }
        }
        let ring = entries.len() + 1;
        Self {
            history,
            places,
            next: (0..ring).map(|place| (place + 1) % ring).collect(),
            previous: (0..ring).map(|place| (place + ring - 1) % ring).collect(),
            state: S::start(),
            taken: vec![0; history.len().div_ceil(64)],
            choices: Vec::new(),
            visited: HashSet::new(),
            open: history.iter().filter(|operation| S::returned_at(operation).is_some()).count(),
            entries,
        }
    }

    fn run(mut self) -> SearchVerdict {
        let (mut longest, mut stuck) = (Vec::new(), 0);
        let mut place = self.next[0];
        for _ in 0..TRIES_MAX {
            if self.open == 0 {
                return SearchVerdict::Linearizable;
            }
            match self.entries[place - 1] {
                TimedEntry::Call(number) => match self.next_state(number) {
                    Some(after) => {
                        self.place_operation(number, after);
                        place = self.next[0];
                    }
                    None => place = self.next[place],
                },
                // The operation that returns here has not been placed, and no other candidate fits: backtrack.
                TimedEntry::Return(number) => {
                    if longest.is_empty() || self.choices.len() > longest.len() {
                        longest = self.choices.iter().map(|choice| choice.operation).collect();
                        stuck = number;
                    }
                    match self.backtrack() {
                        Some(last) => place = self.next[last],
                        None => return SearchVerdict::Wrong { order: longest, stuck },
                    }
                }
            }
        }
        SearchVerdict::TooLarge
    }

    /// Returns the state after this operation. Returns `None` if its response does not fit, or if the search has
    /// already visited this state with the same operations placed.
    fn next_state(&mut self, number: usize) -> Option<S::State> {
        let after = S::step(&self.state, &self.history[number])?;
        let is_lost = self.places[number].1.is_none();
        if is_lost && after == self.state {
            return None;
        }
        let mut taken = self.taken.clone();
        taken[number / 64] |= 1 << (number % 64);
        self.visited.insert((taken, after.clone())).then_some(after)
    }

    fn place_operation(&mut self, number: usize, after: S::State) {
        let is_reading = after == self.state;
        let before = std::mem::replace(&mut self.state, after);
        self.taken[number / 64] |= 1 << (number % 64);
        let (call, back) = self.places[number];
        self.unlink(call);
        if let Some(back) = back {
            self.unlink(back);
            self.open -= 1;
        }
        self.choices.push(SearchChoice { operation: number, before, is_reading });
    }

    /// Backtracks to the last choice with an alternative and returns the index of its call.
    fn backtrack(&mut self) -> Option<usize> {
        loop {
            let choice = self.choices.pop()?;
            self.state = choice.before;
            self.taken[choice.operation / 64] &= !(1 << (choice.operation % 64));
            let (call, back) = self.places[choice.operation];
            if let Some(back) = back {
                self.link(back);
                self.open += 1;
            }
            self.link(call);
            if !choice.is_reading {
                return Some(call);
            }
        }
    }

    fn unlink(&mut self, place: usize) {
        let (before, after) = (self.previous[place], self.next[place]);
        self.next[before] = after;
        self.previous[after] = before;
    }

    /// Undoes the last [`Self::unlink`].
    fn link(&mut self, place: usize) {
        let (before, after) = (self.previous[place], self.next[place]);
        self.next[before] = place;
        self.previous[after] = place;
    }
}

/// Prints the tail of the valid order and the operation that does not fit.
pub(super) fn explain<O: fmt::Display>(history: &[O], verdict: &SearchVerdict) -> String {
    const SHOWN: usize = 30;
    match verdict {
        SearchVerdict::Linearizable => "linearizable".into(),
        SearchVerdict::TooLarge => format!("no order found in {TRIES_MAX} tries"),
        SearchVerdict::Wrong { order, stuck } => {
            let mut text = format!("{} of {} operations fit, the last ones:\n", order.len(), history.len());
            for number in order.iter().skip(order.len().saturating_sub(SHOWN)) {
                text += &format!("  {}\n", history[*number]);
            }
            text + &format!("and nothing explains\n  {}\n", history[*stuck])
        }
    }
}
