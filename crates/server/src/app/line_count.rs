//! Counts the lines that differ between two texts.

use berth_api::approval_changes::ChangedLines;

/// Maximum number of differing lines for which the smallest difference is searched. Above this, all lines between the
/// common start and the common end count as changed.
const DIFFERENCE_MAX: usize = 2_000;

/// Counts added and removed lines.
pub(super) fn count_changed_lines(before: &str, after: &str) -> ChangedLines {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let (mut before, mut after) = (before.as_slice(), after.as_slice());
    while let ([first, rest @ ..], [other, others @ ..]) = (before, after)
        && first == other
    {
        (before, after) = (rest, others);
    }
    while let ([rest @ .., last], [others @ .., other]) = (before, after)
        && last == other
    {
        (before, after) = (rest, others);
    }
    let kept = match count_edits(before, after) {
        // Every line of both texts is either kept or one of the edits.
        Some(edits) => (before.len() + after.len()).saturating_sub(edits) / 2,
        None => 0,
    };
    ChangedLines { added: after.len() - kept, removed: before.len() - kept }
}

/// The smallest number of insertions and deletions that turn one text into the other: the greedy algorithm of Myers.
/// `None` if there are more than [`DIFFERENCE_MAX`].
fn count_edits(before: &[&str], after: &[&str]) -> Option<usize> {
    let max = (before.len() + after.len()).min(DIFFERENCE_MAX);
    // The furthest line of `before` reached on each diagonal. Diagonal `k` is at `max + k`; on it, the line of `after`
    // is the line of `before` minus `k`.
    let mut furthest = vec![0; 2 * max + 3];
    let middle = max + 1;
    for edits in 0..=max {
        for step in 0..=edits {
            let at = middle + 2 * step - edits;
            let is_insertion = step == 0 || (step != edits && furthest[at - 1] < furthest[at + 1]);
            let mut old: usize = if is_insertion { furthest[at + 1] } else { furthest[at - 1] + 1 };
            let mut new = old + middle - at;
            while old < before.len() && new < after.len() && before[old] == after[new] {
                (old, new) = (old + 1, new + 1);
            }
            furthest[at] = old;
            if old >= before.len() && new >= after.len() {
                return Some(edits);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_the_smallest_difference() {
        for (before, after, expected) in [
            ("", "", (0, 0)),
            ("a\nb\nc", "a\nb\nc\n", (0, 0)),
            ("", "a\nb", (2, 0)),
            ("a\nb", "", (0, 2)),
            ("a\nb\nc", "a\nx\nc", (1, 1)),
            ("a\nb\nc\nd", "b\nc\nd\ne", (1, 1)),
            ("a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc", (2, 3)),
        ] {
            let found = count_changed_lines(before, after);
            assert_eq!((found.added, found.removed), expected, "{before:?} {after:?}");
        }
        let lines = |count: usize, word: &str| format!("{word}\n").repeat(count);
        let found = count_changed_lines(&lines(5_000, "a"), &lines(4_000, "b"));
        assert_eq!((found.added, found.removed), (4_000, 5_000));
    }
}
