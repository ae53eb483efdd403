//! Masks secret values in a byte stream.
//!
//! One Aho-Corasick automaton matches every encoding of every value at once. Matches may overlap, and all bytes of all
//! matches are masked: masking only the longest match would leave the rest of another one readable. The automaton's
//! state is kept between chunks, so that a value split across writes is found; only bytes that may be the start of a
//! value are held back.

mod forms;
#[cfg(test)]
mod property;

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::{Anchored, MatchKind, StartKind, dfa, nfa};

use crate::secret::is_maskable;

/// The text that replaces a masked value.
pub const MASK: &[u8] = b"***";

/// Up to this total pattern size a DFA is used, which needs one lookup per byte but up to a kilobyte of memory per
/// pattern byte.
const DFA_PATTERN_BYTES_MAX: usize = 4 * 1024;

/// Finds secret values. Built once per attempt and shared by the attempt's log streams.
#[derive(Clone)]
pub struct SecretMasker {
    finder: Option<Arc<SecretFinder>>,
    unmaskable: usize,
}

/// Masks one byte stream.
pub struct MaskStream {
    finder: Option<Arc<SecretFinder>>,
    state: StateID,
    /// Bytes held back because they may be the start of a value.
    pending: Vec<u8>,
    /// Disjoint, sorted ranges of `pending` that will be masked.
    covered: Vec<(usize, usize)>,
    /// The last emitted byte was masked, so the output ends with a mask.
    in_mask: bool,
}

struct SecretFinder {
    machine: PatternAutomaton,
    start: StateID,
    /// The bytes with which a pattern starts; no other byte leaves the start state.
    first: [bool; 256],
    /// For each state, how many of the last bytes may be the start of a value.
    depth: HashMap<StateID, usize>,
}

enum PatternAutomaton {
    Dfa(dfa::DFA),
    Nfa(nfa::contiguous::NFA),
}

impl SecretMasker {
    /// Ignores very short and very common values, because masking them would make logs unreadable.
    pub fn new(values: &[&str]) -> Self {
        let given = values.iter().filter(|value| !value.is_empty());
        let (long, short): (Vec<&str>, Vec<&str>) = given.partition(|value| is_maskable(value));
        let patterns = forms::secret_forms(&long);
        let found_by = if patterns.is_empty() { None } else { SecretFinder::new(&patterns).map(Arc::new) };
        let left_out = if found_by.is_none() { long.len() } else { count_left_out(&long, &patterns) };
        let unmaskable = short.len() + left_out;
        Self { finder: found_by, unmaskable }
    }

    /// Number of values that are not masked, because they are too short or too common, or because all patterns together
    /// would exceed their size limit.
    pub fn unmaskable(&self) -> usize {
        self.unmaskable
    }

    pub fn stream(&self) -> MaskStream {
        let state = self.finder.as_ref().map_or(StateID::ZERO, |finder| finder.start);
        MaskStream {
            finder: self.finder.clone(),
            state,
            pending: Vec::new(),
            covered: Vec::new(),
            in_mask: false,
        }
    }

    /// Masks the secrets in a complete string.
    pub fn mask(&self, text: &str) -> String {
        let mut stream = self.stream();
        let mut out = Vec::with_capacity(text.len());
        stream.push(text.as_bytes(), &mut out);
        stream.flush(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Overwrites every byte of a match with an asterisk, so that all offsets stay valid. Returns whether there was a
    /// match.
    pub fn mask_in_place(&self, bytes: &mut [u8]) -> bool {
        let Some(finder) = &self.finder else { return false };
        let mut found = Vec::new();
        finder.walk(finder.start, bytes, 0, &mut found);
        for (start, end) in &found {
            bytes[*start..*end].fill(b'*');
        }
        !found.is_empty()
    }

    /// Whether the text contains a value in any encoding.
    pub fn contains_secret(&self, text: &str) -> bool {
        let Some(finder) = &self.finder else { return false };
        let mut found = Vec::new();
        finder.walk(finder.start, text.as_bytes(), 0, &mut found);
        !found.is_empty()
    }
}

/// Number of values that have no pattern. `patterns` is sorted.
fn count_left_out(values: &[&str], patterns: &[Vec<u8>]) -> usize {
    let has_room = |value: &str| patterns.binary_search_by(|found| found[..].cmp(value.as_bytes())).is_ok();
    values.iter().filter(|value| !has_room(value.trim())).count()
}

impl MaskStream {
    /// Processes the next bytes and emits all bytes that cannot be the start of a value any more.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let Some(finder) = self.finder.clone() else {
            out.extend_from_slice(chunk);
            return;
        };
        let before = self.pending.len();
        self.state = finder.walk(self.state, chunk, before, &mut self.covered);
        let length = before + chunk.len();
        let decided = length - finder.depth.get(&self.state).map_or(0, |depth| (*depth).min(length));
        if before == 0 {
            self.emit_decided(chunk, decided, out);
            self.pending.extend_from_slice(&chunk[decided..]);
        } else {
            let mut held = std::mem::take(&mut self.pending);
            held.extend_from_slice(chunk);
            self.emit_decided(&held, decided, out);
            held.drain(..decided);
            self.pending = held;
        }
    }

    /// Ends the stream and emits the bytes that were held back.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.pending);
        self.emit_decided(&held, held.len(), out);
        self.in_mask = false;
        if let Some(finder) = &self.finder {
            self.state = finder.start;
        }
    }

    /// Emits the first `decided` bytes and replaces each covered range by one mask.
    fn emit_decided(&mut self, bytes: &[u8], decided: usize, out: &mut Vec<u8>) {
        if decided == 0 {
            return;
        }
        let mut at = 0;
        for (start, end) in &self.covered {
            if *start >= decided {
                break;
            }
            out.extend_from_slice(&bytes[at..*start]);
            // If the range continues one from an earlier chunk, its mask was already emitted.
            if !(*start == 0 && self.in_mask) {
                out.extend_from_slice(MASK);
            }
            at = (*end).min(decided);
        }
        out.extend_from_slice(&bytes[at..decided]);
        self.in_mask = self.covered.iter().any(|(start, end)| *start < decided && *end >= decided);
        self.covered.retain(|(_, end)| *end > decided);
        for (start, end) in &mut self.covered {
            *start = start.saturating_sub(decided);
            *end -= decided;
        }
    }
}

impl SecretFinder {
    fn new(patterns: &[Vec<u8>]) -> Option<Self> {
        let bytes: usize = patterns.iter().map(Vec::len).sum();
        let nfa = nfa::noncontiguous::NFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(patterns)
            .ok()?;
        let machine = if bytes <= DFA_PATTERN_BYTES_MAX {
            let dfa = dfa::DFA::builder()
                .match_kind(MatchKind::Standard)
                .start_kind(StartKind::Unanchored)
                .prefilter(false)
                .build_from_noncontiguous(&nfa)
                .ok()?;
            PatternAutomaton::Dfa(dfa)
        } else {
            let contiguous = nfa::contiguous::NFA::builder()
                .match_kind(MatchKind::Standard)
                .prefilter(false)
                .build_from_noncontiguous(&nfa)
                .ok()?;
            PatternAutomaton::Nfa(contiguous)
        };
        let (start, depth) = match &machine {
            PatternAutomaton::Dfa(dfa) => depths(dfa, patterns)?,
            PatternAutomaton::Nfa(nfa) => depths(nfa, patterns)?,
        };
        let mut first = [false; 256];
        patterns
            .iter()
            .filter_map(|pattern| pattern.first())
            .for_each(|byte| first[usize::from(*byte)] = true);
        Some(Self { machine, start, first, depth })
    }

    /// Runs the automaton over `bytes`, whose first byte is at `offset` in the stream, and adds the ranges of all
    /// matches.
    fn walk(
        &self,
        state: StateID,
        bytes: &[u8],
        offset: usize,
        covered: &mut Vec<(usize, usize)>,
    ) -> StateID {
        match &self.machine {
            PatternAutomaton::Dfa(dfa) => self.walk_on(dfa, state, bytes, offset, covered),
            PatternAutomaton::Nfa(nfa) => self.walk_on(nfa, state, bytes, offset, covered),
        }
    }

    fn walk_on<A: Automaton>(
        &self,
        machine: &A,
        mut state: StateID,
        bytes: &[u8],
        offset: usize,
        covered: &mut Vec<(usize, usize)>,
    ) -> StateID {
        let mut at = 0;
        while at < bytes.len() {
            if state == self.start {
                let Some(skipped) = bytes[at..].iter().position(|byte| self.first[usize::from(*byte)]) else {
                    return state;
                };
                at += skipped;
            }
            state = machine.next_state(Anchored::No, state, bytes[at]);
            at += 1;
            if machine.is_special(state) && machine.is_match(state) {
                let patterns = (0..machine.match_len(state)).map(|index| machine.match_pattern(state, index));
                let longest = patterns.map(|pattern| machine.pattern_len(pattern)).max().unwrap_or(0);
                let end = offset + at;
                // The start of the match was held back if it arrived in an earlier chunk, so the subtraction does not
                // underflow.
                cover_range(covered, end.saturating_sub(longest), end);
            }
        }
        state
    }
}

/// Computes the depth of each state. Following a pattern from the start state, the state after n bytes has depth n.
fn depths<A: Automaton>(machine: &A, patterns: &[Vec<u8>]) -> Option<(StateID, HashMap<StateID, usize>)> {
    let start = machine.start_state(Anchored::No).ok()?;
    let mut depth = HashMap::new();
    for pattern in patterns {
        let mut state = start;
        for (walked, byte) in (1..).zip(pattern) {
            state = machine.next_state(Anchored::No, state, *byte);
            depth.insert(state, walked);
        }
    }
    Some((start, depth))
}

/// Adds a range. Each new range ends after all earlier ones, so it can only overlap the last of them.
fn cover_range(covered: &mut Vec<(usize, usize)>, mut start: usize, end: usize) {
    while let Some((last_start, last_end)) = covered.last().copied()
        && last_end >= start
    {
        start = start.min(last_start);
        covered.pop();
    }
    covered.push((start, end));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask_chunks(values: &[&str], chunks: &[&str]) -> String {
        let mut stream = SecretMasker::new(values).stream();
        let mut out = Vec::new();
        for chunk in chunks {
            stream.push(chunk.as_bytes(), &mut out);
        }
        stream.flush(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn stream_without_secrets_passes_bytes_unchanged() {
        assert_eq!(mask_chunks(&[], &["abc", "def"]), "abcdef");
        assert_eq!(mask_chunks(&[""], &["abc"]), "abc");
    }

    #[test]
    fn mask_in_place_keeps_length() {
        let mut bytes = *b"a value-1 b";
        assert!(SecretMasker::new(&["value-1"]).mask_in_place(&mut bytes));
        assert_eq!(&bytes, b"a ******* b");
        assert!(!SecretMasker::new(&["value-2"]).mask_in_place(&mut bytes));
    }

    #[test]
    fn overlapping_values_are_masked_completely() {
        let values = ["abcdefgh", "efghijklmnopqrst"];
        assert_eq!(mask_chunks(&values, &["-abcdefghijklmnopqrst-"]), "-***-");
        assert_eq!(mask_chunks(&values, &["-abcdefghijkl-"]), "-***ijkl-");
    }

    #[test]
    fn value_split_across_writes_is_masked() {
        assert_eq!(mask_chunks(&["hunter22"], &["x hun", "ter", "22 y"]), "x *** y");
        assert_eq!(mask_chunks(&["hunter22"], &["hunter22", "hunter22"]), "***");
    }

    #[test]
    fn line_without_secret_is_emitted_immediately() {
        let mut stream = SecretMasker::new(&["hunter22"]).stream();
        let mut out = Vec::new();
        stream.push(b"waiting for the lock\n", &mut out);
        assert_eq!(out, b"waiting for the lock\n");
        stream.push(b"hu", &mut out);
        assert_eq!(out, b"waiting for the lock\n", "this may become a value");
        stream.push(b"m", &mut out);
        assert_eq!(out, b"waiting for the lock\nhum");
    }

    #[test]
    fn pending_bytes_never_exceed_value_length() {
        let mut stream = SecretMasker::new(&["aaaaaaab"]).stream();
        let mut out = Vec::new();
        for _ in 0..1_000 {
            stream.push(&[b'a'; 1_000], &mut out);
            assert!(stream.pending.len() <= 8, "{}", stream.pending.len());
        }
        stream.flush(&mut out);
        assert_eq!(out.len(), 1_000_000);
        let mut stream = SecretMasker::new(&["abab"]).stream();
        out.clear();
        for _ in 0..1_000 {
            stream.push(b"abab", &mut out);
        }
        stream.flush(&mut out);
        assert_eq!(out, MASK, "one run, one mask");
    }

    #[test]
    fn unmaskable_counts_short_and_common_values() {
        let masker = SecretMasker::new(&["abc", "abcd", " x ", "production"]);
        assert_eq!(masker.unmaskable(), 3);
        assert_eq!(masker.mask("abc abcd"), "abc ***");
        assert!(masker.contains_secret("xabcdx") && !masker.contains_secret("abc"));
    }

    #[test]
    fn unmaskable_counts_values_beyond_size_limit() {
        let values: Vec<String> =
            (b'a'..=b'f').map(|c| char::from(c).to_string().repeat(1_000_000)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        assert_eq!(count_left_out(&values, &forms::secret_forms(&values)), 2, "four of them fit");
    }

    #[test]
    fn many_values_are_masked_with_nfa() {
        let values: Vec<String> = (0..400).map(|number| format!("value-number-{number}-of-many")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let masker = SecretMasker::new(&values);
        assert!(matches!(&masker.finder.as_ref().expect("finder").machine, PatternAutomaton::Nfa(_)));
        assert_eq!(masker.mask("a value-number-399-of-many b"), "a *** b");
    }
}
