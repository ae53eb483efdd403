//! Finds expressions in a string.

use std::ops::Range;

/// The position of one `${{ … }}` in a string, as byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRange {
    /// Including `${{` and `}}`.
    pub whole: Range<usize>,
    /// The expression only, without surrounding whitespace.
    pub inner: Range<usize>,
}

/// A `${{` at this byte has no matching `}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnclosedTemplate(pub usize);

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// All expressions in the text, in order. A `}}` inside a quoted string does not close an expression.
pub fn templates(text: &str) -> Result<Vec<TemplateRange>, UnclosedTemplate> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(OPEN).map(|at| from + at) {
        let body = start + OPEN.len();
        let length = find_closing(&text[body..]).ok_or(UnclosedTemplate(start))?;
        let end = body + length + CLOSE.len();
        found.push(TemplateRange { whole: start..end, inner: trim_range(text, body..body + length) });
        from = end;
    }
    Ok(found)
}

/// The expression of an `if`, which may be written with or without `${{ }}`.
pub fn condition(text: &str) -> &str {
    &text[condition_range(text)]
}

pub fn condition_range(text: &str) -> Range<usize> {
    let all = trim_range(text, 0..text.len());
    match templates(text).as_deref() {
        Ok([only]) if only.whole == all => only.inner.clone(),
        _ => all,
    }
}

/// Position of the first `}}` outside quotes.
fn find_closing(body: &str) -> Option<usize> {
    let mut quoted = false;
    body.as_bytes().windows(2).enumerate().find_map(|(at, pair)| {
        if pair[0] == b'\'' {
            // A doubled quote (an escaped quote) toggles twice, so the state afterwards is right.
            quoted = !quoted;
        }
        (!quoted && pair == CLOSE.as_bytes()).then_some(at)
    })
}

fn trim_range(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..start + part.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner_texts(text: &str) -> Vec<&str> {
        templates(text).expect("closed").into_iter().map(|found| &text[found.inner]).collect()
    }

    #[test]
    fn templates_finds_all_expressions_in_text() {
        assert_eq!(inner_texts("nothing { } $ ${ }"), Vec::<&str>::new());
        assert_eq!(inner_texts("${{ vars.url }}/health"), ["vars.url"]);
        assert_eq!(inner_texts("ü${{a}}${{  b\t}}"), ["a", "b"]);
        assert_eq!(inner_texts("${{}}"), [""]);
        assert_eq!(inner_texts("${{ format('}}{0}', 'it''s }}') }}!"), ["format('}}{0}', 'it''s }}')"]);
    }

    #[test]
    fn templates_reports_position_of_unclosed_expression() {
        assert_eq!(templates("a ${{ b"), Err(UnclosedTemplate(2)));
        assert_eq!(templates("${{ a }} ${{ 'b }}"), Err(UnclosedTemplate(9)));
        assert_eq!(templates("${{"), Err(UnclosedTemplate(0)));
    }

    #[test]
    fn condition_ignores_surrounding_braces() {
        for text in ["vars.a == 'b'", " ${{ vars.a == 'b' }} ", "${{vars.a == 'b'}}"] {
            assert_eq!(condition(text), "vars.a == 'b'");
        }
        assert_eq!(condition("${{ a }} && ${{ b }}"), "${{ a }} && ${{ b }}");
        assert_eq!(condition(""), "");
    }
}
