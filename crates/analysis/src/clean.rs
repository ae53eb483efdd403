//! Removes what a terminal does not show: escape sequences, control characters and invisible Unicode characters.

use crate::input::LINE_CHARS_MAX;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// Returns the line as a terminal would show it, truncated to [`LINE_CHARS_MAX`] characters.
pub fn clean(line: &str) -> String {
    // A progress bar overwrites its line, so only the text written last is kept.
    let line = line.trim_end_matches(['\r', '\n']);
    let line = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default();
    let mut out = String::with_capacity(line.len().min(LINE_CHARS_MAX));
    let mut chars = line.chars();
    let mut length = 0;
    while let Some(c) = chars.next() {
        let shown = match c {
            ESCAPE => {
                skip_sequence(&mut chars);
                continue;
            }
            '\t' | '\u{2028}' | '\u{2029}' | '\u{85}' => ' ',
            c if c.is_control() || is_invisible(c) => continue,
            c => c,
        };
        if length == LINE_CHARS_MAX {
            break;
        }
        out.push(shown);
        length += 1;
    }
    out.truncate(out.trim_end().len());
    out
}

/// Skips an escape sequence: a control sequence, a string with its terminator, or a single character.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => {
            chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            // A string without its terminator would hide the rest of the line, so only its first characters are
            // skipped.
            let mut ahead = chars.clone();
            let found = ahead.find(|c| *c == BELL || *c == ESCAPE);
            if found == Some(ESCAPE) && ahead.clone().next() == Some('\\') {
                ahead.next();
            }
            if found.is_some() {
                *chars = ahead;
            }
        }
        Some('(' | ')' | '*' | '+' | '#' | '%') => {
            chars.next();
        }
        _ => {}
    }
}

/// Invisible characters that can change how text reads: tag characters, direction marks, zero-width characters and
/// fillers.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clean_removes_invisible_characters() {
        for (line, seen) in [
            ("plain", "plain"),
            ("\u{1b}[31;1merror\u{1b}[0m: bad\r", "error: bad"),
            ("\u{1b}]8;;https://acme.test\u{7}link\u{1b}]8;;\u{1b}\\ end", "link end"),
            ("\u{1b}]0;never ends", "0;never ends"),
            ("10%\r50%\r100% done\r", "100% done"),
            ("a\u{200b}b\u{202e}c\u{e0041}d\u{feff}", "abcd"),
            ("a\tb\u{0}\u{8}\u{9b}c", "a bc"),
            ("\u{1b}(Bok\u{1b}", "ok"),
        ] {
            assert_eq!(clean(line), seen, "{line:?}");
        }
        assert_eq!(clean(&"é".repeat(LINE_CHARS_MAX + 1)).chars().count(), LINE_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn clean_output_has_no_invisible_characters(line in "\\PC*|(\\x1b|\\x07|[|]|m|\u{202e}|\u{e0020}|\r|x|ü)*") {
            let once = clean(&line);
            prop_assert!(once.chars().all(|c| !c.is_control() && !is_invisible(c)));
            prop_assert!(once.chars().count() <= LINE_CHARS_MAX);
            prop_assert_eq!(clean(&once), once);
        }
    }
}
