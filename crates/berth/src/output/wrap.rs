//! Wraps text at words.

/// Wraps each line at spaces so that it fits into this number of columns. Continuation lines keep the indentation. A
/// word that is longer than a line stays whole, so that URLs and ids can be copied.
pub(super) fn wrap_words(text: &str, columns: usize) -> String {
    text.lines().map(|line| wrap_line(line, columns)).collect::<Vec<_>>().join("\n")
}

fn wrap_line(line: &str, columns: usize) -> String {
    let indent = &line[..line.len() - line.trim_start().len()];
    let mut wrapped = String::new();
    let mut width = 0;
    for word in line.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length <= columns {
            wrapped.push(' ');
            width += 1 + length;
        } else {
            if width > 0 {
                wrapped.push('\n');
            }
            wrapped.push_str(indent);
            width = indent.chars().count() + length;
        }
        wrapped.push_str(word);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::wrap_words;

    #[test]
    fn lines_are_wrapped_at_words() {
        assert_eq!(wrap_words("one two three", 20), "one two three");
        assert_eq!(wrap_words("one two three", 9), "one two\nthree");
        assert_eq!(wrap_words("  one two\nthree", 6), "  one\n  two\nthree");
        assert_eq!(
            wrap_words("https://berth.acme.test/o/acme now", 9),
            "https://berth.acme.test/o/acme\nnow"
        );
        assert_eq!(wrap_words("one\n\ntwo", 9), "one\n\ntwo");
    }
}
