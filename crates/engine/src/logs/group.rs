//! Parses group markers in logs. Clients use groups for display; the markers stay in the text of the log.

/// Maximum length of a group's title.
const TITLE_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineGroup {
    pub title: String,
    pub state: GroupState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// Collapsed; starts with `--- ` or `::group::`.
    Closed,
    /// Expanded; starts with `+++ `.
    Open,
    /// Collapsed and de-emphasized; starts with `~~~ `.
    Quiet,
    /// The end of a group, marked with `::endgroup::`.
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
    fn group_marker_line_is_parsed() {
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
