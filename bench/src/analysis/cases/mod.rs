//! Scripts that make tools fail, each with the result that the analysis should give.
//!
//! The list was written before the rules. Every second case is held out: it was not run until the rules were finished.
//! The noisy cases were added after that, and the late cases at the very end; both groups are held out entirely.

mod code;
mod late;
mod machine;
mod noisy;
mod platform;

use berth_analysis::Category;

pub(super) struct AnalysisCase {
    pub(super) name: &'static str,
    /// Required programs. `npm:NAME` and `pip:NAME` are packages to install; `root` means that the case must run as
    /// root.
    pub(super) needs: &'static [&'static str],
    pub(super) category: Category,
    /// Strings that identify the cause: the line that the analysis cites must contain one of them.
    pub(super) lines: &'static [&'static str],
    /// Shell script, run like a step's script, in an empty directory.
    pub(super) script: &'static str,
    /// Timeout in seconds.
    pub(super) timeout_s: u64,
    pub(super) is_held_out: bool,
}

/// Default timeout, far longer than any case takes.
const TIMEOUT_S: u64 = 90;

pub(super) fn all_cases() -> impl Iterator<Item = &'static AnalysisCase> {
    [code::CASES, platform::CASES, machine::CASES, noisy::CASES, late::CASES].into_iter().flatten()
}

/// Defines a case that was available while the rules were written.
const fn open_case(
    name: &'static str,
    needs: &'static [&'static str],
    category: Category,
    lines: &'static [&'static str],
    script: &'static str,
) -> AnalysisCase {
    AnalysisCase { name, needs, category, lines, script, timeout_s: TIMEOUT_S, is_held_out: false }
}

/// Defines a held-out case.
const fn held_out_case(
    name: &'static str,
    needs: &'static [&'static str],
    category: Category,
    lines: &'static [&'static str],
    script: &'static str,
) -> AnalysisCase {
    AnalysisCase { name, needs, category, lines, script, timeout_s: TIMEOUT_S, is_held_out: true }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn half_of_the_cases_are_held_out_and_names_are_unique() {
        let (held, open): (Vec<_>, Vec<_>) = all_cases().partition(|case| case.is_held_out);
        assert!(held.len() >= open.len(), "{} held out, {} not", held.len(), open.len());
        let names: BTreeSet<_> = all_cases().map(|case| case.name).collect();
        assert_eq!(names.len(), held.len() + open.len());
    }
}
