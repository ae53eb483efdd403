//! git's quoting of file names that are not plain ASCII. It uses C escapes.

use std::fmt::Write as _;

/// Bytes that have a single-letter escape.
const ESCAPES: &[(u8, u8)] = &[
    (7, b'a'),
    (8, b'b'),
    (b'\t', b't'),
    (b'\n', b'n'),
    (11, b'v'),
    (12, b'f'),
    (b'\r', b'r'),
    (b'"', b'"'),
    (b'\\', b'\\'),
];

/// Quotes a name together with its prefix `a/` or `b/`.
pub(super) fn quote_name(side: &str, path: &str) -> String {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if path.bytes().all(is_plain) {
        return format!("{side}{path}");
    }
    let mut out = format!("\"{side}");
    for byte in path.bytes() {
        match ESCAPES.iter().find(|(sign, _)| *sign == byte) {
            Some((_, letter)) => out.extend(['\\', char::from(*letter)]),
            None if is_plain(byte) => out.push(char::from(byte)),
            None => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out
}

/// Parses a quoted name. Returns the name and the rest of the text, or `None` if git would not have written the name
/// this way.
pub(super) fn unquote_name(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let (mut bytes, mut at) = (Vec::new(), 0);
    let next = |at: usize| inside.as_bytes().get(at).copied();
    loop {
        match next(at)? {
            b'"' => return Some((String::from_utf8(bytes).ok()?, inside.get(at + 1..)?)),
            b'\\' => {
                let letter = next(at + 1)?;
                if let Some((sign, _)) = ESCAPES.iter().find(|(_, known)| *known == letter) {
                    bytes.push(*sign);
                    at += 2;
                } else {
                    let digits = inside.get(at + 1..at + 4)?;
                    let is_octal = digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
                    bytes.push(is_octal.then(|| u8::from_str_radix(digits, 8).ok()).flatten()?);
                    at += 4;
                }
            }
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}
