//! Group markers in logs. They are reported to clients for display and stay in the text.

/// Maximum length of a title.
const TITLE_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineGroup {
    pub title: String,
    pub state: GroupState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// `--- ` and `::group::`
    Closed,
    /// `+++ `
    Open,
    /// `~~~ `
    Quiet,
    /// `::endgroup::`
    End,
}

pub(super) fn parse_group(line: &str) -> Option<LineGroup> {
    const MARKS: [(&str, GroupState); 5] = [
        ("--- ", GroupState::Closed),
        ("+++ ", GroupState::Open),
        ("~~~ ", GroupState::Quiet),
        ("::group::", GroupState::Closed),
        ("::endgroup::", GroupState::End),
    ];
    let (title, state) = MARKS.iter().find_map(|(mark, state)| Some((line.strip_prefix(mark)?, *state)))?;
    let title = if state == GroupState::End { "" } else { title.trim() };
    Some(LineGroup { title: title.chars().take(TITLE_CHARS_MAX).collect(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_begins_a_group_says_which() {
        for (line, wanted) in [
            ("--- Build", Some(("Build", GroupState::Closed))),
            ("+++ \u{1b}[1mTest ", Some(("\u{1b}[1mTest", GroupState::Open))),
            ("~~~ Setup", Some(("Setup", GroupState::Quiet))),
            ("::group::Fetch deps", Some(("Fetch deps", GroupState::Closed))),
            ("::endgroup::", Some(("", GroupState::End))),
            ("---", None),
            ("--- ", Some(("", GroupState::Closed))),
            (" --- Build", None),
            ("---Build", None),
            ("", None),
        ] {
            let group = parse_group(line);
            assert_eq!(group.as_ref().map(|group| (&*group.title, group.state)), wanted, "{line:?}");
        }
    }
}
