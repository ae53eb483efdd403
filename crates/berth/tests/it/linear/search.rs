//! Is there one order of all operations, true to their times, in which every answer is right?
//!
//! The search of Wing and Gong with the memory of Lowe, as Porcupine does it: take any operation that may come next
//! and whose answer fits, remember which sets of operations have led to which states, step back where nothing fits.
//! The crate `porcupine-rs` does the same, but builds criterion, rand and regex with it, and it knows no operation
//! that may also never happen: here such a one is simply left over.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// A state machine that says what may be answered when.
pub(super) trait Specification {
    type State: Clone + Eq + Hash;
    type Operation: fmt::Display;

    fn start() -> Self::State;

    /// The state after it, or `None` if it cannot have got its answer in this state. An operation without an answer
    /// fits every state.
    fn step(state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;

    fn invoked(operation: &Self::Operation) -> u64;

    /// `None`: no answer came.
    fn returned(operation: &Self::Operation) -> Option<u64>;
}

/// More than any history of ours needs; a search that wants more is a history that was cut too late.
const TRIES_MAX: usize = 5_000_000;

/// What a search has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    /// The longest order that fits, and the operation nothing explains after it.
    Wrong {
        order: Vec<usize>,
        stuck: usize,
    },
    TooLarge,
}

pub(super) fn search<S: Specification>(history: &[S::Operation]) -> Verdict {
    Search::<S>::new(history).run()
}

/// A call or a return, in the order of time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Call(usize),
    Return(usize),
}

/// A choice that was made, and can be taken back.
struct Choice<State> {
    operation: usize,
    before: State,
    /// It has changed nothing. Such a one is never wrong to take as soon as it fits, so nothing else is tried instead.
    is_reading: bool,
}

struct Search<'a, S: Specification> {
    history: &'a [S::Operation],
    entries: Vec<Entry>,
    /// Where the call and the return of each operation stand in `entries`.
    places: Vec<(usize, Option<usize>)>,
    /// The entries that are left, as a list: place 0 is its head, place i + 1 is entry i.
    next: Vec<usize>,
    previous: Vec<usize>,
    state: S::State,
    taken: Vec<u64>,
    choices: Vec<Choice<S::State>>,
    visited: HashSet<(Vec<u64>, S::State)>,
    /// Answered operations that are not taken yet.
    open: usize,
}

impl<'a, S: Specification> Search<'a, S> {
    fn new(history: &'a [S::Operation]) -> Self {
        let mut timed = Vec::new();
        for (number, operation) in history.iter().enumerate() {
            timed.push((S::invoked(operation), 0, Entry::Call(number)));
            // At the same tick calls stand before returns: what may have overlapped has.
            timed.extend(S::returned(operation).map(|at| (at, 1, Entry::Return(number))));
        }
        timed.sort_by_key(|(at, rank, _)| (*at, *rank));
        let entries: Vec<_> = timed.into_iter().map(|(_, _, entry)| entry).collect();
        let mut places = vec![(0, None); history.len()];
        for (place, entry) in (1..).zip(&entries) {
            match entry {
                Entry::Call(number) => places[*number].0 = place,
                Entry::Return(number) => places[*number].1 = Some(place),
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
            open: history.iter().filter(|operation| S::returned(operation).is_some()).count(),
            entries,
        }
    }

    fn run(mut self) -> Verdict {
        let (mut longest, mut stuck) = (Vec::new(), 0);
        let mut place = self.next[0];
        for _ in 0..TRIES_MAX {
            if self.open == 0 {
                return Verdict::Linearizable;
            }
            match self.entries[place - 1] {
                Entry::Call(number) => match self.fitting(number) {
                    Some(after) => {
                        self.take(number, after);
                        place = self.next[0];
                    }
                    None => place = self.next[place],
                },
                // It returned here, so it must have happened by now; and nothing that may come next fits.
                Entry::Return(number) => {
                    if longest.is_empty() || self.choices.len() > longest.len() {
                        longest = self.choices.iter().map(|choice| choice.operation).collect();
                        stuck = number;
                    }
                    match self.take_back() {
                        Some(last) => place = self.next[last],
                        None => return Verdict::Wrong { order: longest, stuck },
                    }
                }
            }
        }
        Verdict::TooLarge
    }

    /// The state after this operation, if its answer fits and this is news.
    fn fitting(&mut self, number: usize) -> Option<S::State> {
        let after = S::step(&self.state, &self.history[number])?;
        let is_lost = self.places[number].1.is_none();
        if is_lost && after == self.state {
            return None;
        }
        let mut taken = self.taken.clone();
        taken[number / 64] |= 1 << (number % 64);
        self.visited.insert((taken, after.clone())).then_some(after)
    }

    fn take(&mut self, number: usize, after: S::State) {
        let is_reading = after == self.state;
        let before = std::mem::replace(&mut self.state, after);
        self.taken[number / 64] |= 1 << (number % 64);
        let (call, back) = self.places[number];
        self.unlink(call);
        if let Some(back) = back {
            self.unlink(back);
            self.open -= 1;
        }
        self.choices.push(Choice { operation: number, before, is_reading });
    }

    /// Undoes choices up to the last one that could have been made differently, and tells where its call stands.
    fn take_back(&mut self) -> Option<usize> {
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

/// The end of the order that fits, and what does not: enough to see the mistake.
pub(super) fn explain<O: fmt::Display>(history: &[O], verdict: &Verdict) -> String {
    const SHOWN: usize = 30;
    match verdict {
        Verdict::Linearizable => "linearizable".into(),
        Verdict::TooLarge => format!("no order found in {TRIES_MAX} tries"),
        Verdict::Wrong { order, stuck } => {
            let mut text = format!("{} of {} operations fit, the last ones:\n", order.len(), history.len());
            for number in order.iter().skip(order.len().saturating_sub(SHOWN)) {
                text += &format!("  {}\n", history[*number]);
            }
            text + &format!("and nothing explains\n  {}\n", history[*stuck])
        }
    }
}
