//! The encodings in which a secret may appear in logs.
//!
//! Raw and trimmed; each line of a multi-line value; base64 in both alphabets at all three alignments; hexadecimal in
//! both cases; URL-encoded, JSON-escaped and shell-quoted; the body of a PEM file joined into one line. A long value,
//! such as a file, is only matched raw, by line and in base64, because every byte of a pattern costs memory.

use std::collections::BTreeSet;

use serde_json::Value;

/// Minimum length of a pattern. For a single line of a multi-line value, the minimum is [`LINE_CHARS_MIN`].
const FORM_BYTES_MIN: usize = 4;
const LINE_CHARS_MIN: usize = 6;

/// Values longer than this are matched in fewer encodings.
const FULL_BYTES_MAX: usize = 4 * 1024;
/// Maximum total size of all patterns. A prefix shared by several patterns counts once, because the automaton stores it
/// once.
const ALL_BYTES_MAX: usize = 4 * 1024 * 1024;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// All distinct encodings of all values, sorted. If they exceed the size limit, the raw values take precedence.
pub(super) fn secret_forms(values: &[&str]) -> Vec<Vec<u8>> {
    let mut forms = SecretForms { all: BTreeSet::new(), left: ALL_BYTES_MAX };
    for kind in [add_plain, add_lines, add_encodings] {
        values.iter().for_each(|value| kind(value, &mut forms));
    }
    forms.all.into_iter().collect()
}

struct SecretForms {
    all: BTreeSet<Vec<u8>>,
    left: usize,
}

impl SecretForms {
    fn add(&mut self, form: Vec<u8>) {
        if form.len() < FORM_BYTES_MIN {
            return;
        }
        let common = |other: &Vec<u8>| form.iter().zip(other).take_while(|(one, other)| one == other).count();
        let before = self.all.range::<Vec<u8>, _>(..=&form).next_back().map_or(0, common);
        let after = self.all.range::<Vec<u8>, _>(&form..).next().map_or(0, common);
        if let Some(left) = self.left.checked_sub(form.len() - before.max(after)) {
            self.left = left;
            self.all.insert(form);
        }
    }
}

fn add_plain(value: &str, forms: &mut SecretForms) {
    forms.add(value.trim().as_bytes().to_vec());
    forms.add(value.as_bytes().to_vec());
}

fn add_lines(value: &str, forms: &mut SecretForms) {
    let lines: Vec<&str> = value.trim().lines().map(str::trim).collect();
    if lines.len() > 1 {
        let is_armour = |line: &str| line.starts_with("-----");
        let body = || lines.iter().filter(|line| !is_armour(line));
        let long = body().filter(|line| line.chars().count() >= LINE_CHARS_MIN);
        long.for_each(|line| forms.add(line.as_bytes().to_vec()));
        if lines.iter().any(|line| is_armour(line)) {
            let joined: String = body().copied().collect();
            if joined.len() >= LINE_CHARS_MIN {
                forms.add(joined.into_bytes());
            }
        }
    }
}

fn add_encodings(value: &str, forms: &mut SecretForms) {
    let is_long = value.len() > FULL_BYTES_MAX;
    for text in [value, value.trim()] {
        let mut add = |form| forms.add(form);
        base64(text.as_bytes(), STANDARD).into_iter().for_each(&mut add);
        if is_long {
            continue;
        }
        base64(text.as_bytes(), URL_SAFE).into_iter().for_each(&mut add);
        add(text.bytes().flat_map(|byte| hex(byte, b"0123456789abcdef")).collect());
        add(text.bytes().flat_map(|byte| hex(byte, b"0123456789ABCDEF")).collect());
        url_encoded(text).into_iter().for_each(&mut add);
        json_escaped(text).into_iter().for_each(&mut add);
        shell_quoted(text).into_iter().for_each(&mut add);
    }
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// The base64 encodings of a value at each of the three alignments, without the characters that also encode
/// neighbouring bytes. If the last character would also encode bytes after the value, there are two more forms, for a
/// value at the end of the encoded data: with this character, once with and once without padding.
fn base64(value: &[u8], alphabet: &[u8; 64]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        let whole = bytes.len() * 8 / 6;
        let first = (before * 8).div_ceil(6);
        let characters: Vec<u8> = (0..(bytes.len() * 8).div_ceil(6))
            .map(|index| {
                let at = |position: usize| bytes.get(position).copied().map_or(0, u16::from);
                let bit = index * 6;
                let pair = at(bit / 8) << 8 | at(bit / 8 + 1);
                alphabet[usize::from(pair >> (10 - bit % 8) & 63)]
            })
            .collect();
        forms.push(characters[first..whole].to_vec());
        if characters.len() > whole {
            let mut last = characters[first..].to_vec();
            forms.push(last.clone());
            last.resize(last.len() + (4 - characters.len() % 4) % 4, b'=');
            forms.push(last);
        }
    }
    forms
}

fn url_encoded(text: &str) -> Vec<Vec<u8>> {
    let encoded = |digits: &'static [u8; 16], space: &'static [u8], kept: &'static [u8]| {
        let mut out = Vec::new();
        for byte in text.bytes() {
            if byte == b' ' {
                out.extend_from_slice(space);
            } else if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
                out.push(byte);
            } else {
                out.push(b'%');
                out.extend(hex(byte, digits));
            }
        }
        out
    };
    let upper = b"0123456789ABCDEF";
    let lower = b"0123456789abcdef";
    vec![
        encoded(upper, b"%20", b"-._~"),
        encoded(lower, b"%20", b"-._~"),
        // Three variants: form encoding, JavaScript's encodeURIComponent, and encodeURI.
        encoded(upper, b"+", b"-._*"),
        encoded(upper, b"%20", b"-._~!*'()"),
        encoded(upper, b"%20", b"-._~!*'();/?:@&=+$,#"),
    ]
}

fn json_escaped(text: &str) -> Vec<Vec<u8>> {
    let quoted = Value::from(text).to_string();
    let plain = &quoted[1..quoted.len() - 1];
    let mut ascii = String::new();
    for c in plain.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    let slashes = plain.replace('/', "\\/");
    let for_html = plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    [plain.to_owned(), ascii, slashes, for_html].map(String::into_bytes).to_vec()
}

fn shell_quoted(text: &str) -> Vec<Vec<u8>> {
    let bare = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    let mut escaped = String::new();
    for c in text.chars() {
        if !bare(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    let in_double = text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`");
    [text.replace('\'', "'\\''"), text.replace('\'', "'\"'\"'"), escaped, in_double]
        .map(String::into_bytes)
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_has_form(value: &str, form: &str) {
        let forms = secret_forms(&[value]);
        assert!(forms.contains(&form.as_bytes().to_vec()), "{form}");
    }

    #[test]
    fn secret_forms_contain_common_encodings() {
        assert_has_form("hunter22", "hunter22");
        assert_has_form(" hunter22\n", "hunter22");
        assert_has_form("hunter22", "aHVudGVyMjI=");
        assert_has_form("hunter22", "aHVudGVyMj");
        // base64 of "xhunter22x" and "xxhunter22x", without the characters that also encode an x.
        assert_has_form("hunter22", "h1bnRlcjIy");
        assert_has_form("hunter22", "odW50ZXIyM");
        assert_has_form("hunter22", "68756e7465723232");
        assert_has_form("héllo", "68C3A96C6C6F");
        assert_has_form("pass/w?rd x", "pass%2Fw%3Frd%20x");
        assert_has_form("pass/w?rd x", "pass%2fw%3frd%20x");
        assert_has_form("pass/w?rd x", "pass%2Fw%3Frd+x");
        assert_has_form("pass\"w\\rd", "pass\\\"w\\\\rd");
        assert_has_form("héllo", "h\\u00e9llo");
        assert_has_form("it's me", "it'\\''s me");
        assert_has_form("it's me", "it'\"'\"'s me");
        assert_has_form("~~~~????", "fn5-fj8_Pz8");
    }

    #[test]
    fn secret_forms_of_key_file_contain_lines_and_joined_body() {
        let key = "-----BEGIN KEY-----\nMIIEabcd\nQUJDREVG\nab==\n-----END KEY-----\n";
        assert_has_form(key, "MIIEabcd");
        assert_has_form(key, "MIIEabcdQUJDREVGab==");
        let forms = secret_forms(&[key]);
        assert!(!forms.contains(&b"-----BEGIN KEY-----".to_vec()), "armour is no secret");
        assert!(!forms.contains(&b"ab==".to_vec()), "a line of four characters is no secret");
    }

    /// Generates text with few repeated lines.
    fn file(mut seed: u64, bytes: usize) -> String {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + u8::try_from((seed >> 33) % 90).unwrap_or(0))
        };
        (1..=bytes).map(|at| if at % 70 == 0 { '\n' } else { next() }).collect()
    }

    #[test]
    fn secret_forms_of_long_value_contain_raw_lines_and_base64() {
        let value = file(1, 5_000);
        assert_has_form(&value, &value);
        assert_has_form(&value, value.lines().nth(40).expect("a line"));
        let encoded = base64(value.as_bytes(), STANDARD).remove(0);
        assert_has_form(&value, std::str::from_utf8(&encoded).expect("text"));
        let hex: Vec<u8> = value.bytes().flat_map(|byte| hex(byte, b"0123456789abcdef")).collect();
        let forms = secret_forms(&[&value]);
        assert!(!forms.contains(&hex));
        assert!(forms.iter().map(Vec::len).sum::<usize>() < 20 * value.len());
    }

    #[test]
    fn secret_forms_of_many_long_values_are_bounded_and_include_raw_values() {
        let values: Vec<String> = (0..40).map(|seed| file(seed, 60_000)).collect();
        let refs: Vec<&str> = values.iter().map(String::as_str).collect();
        let forms = secret_forms(&refs);
        assert!(refs.iter().all(|value| forms.binary_search(&value.trim().as_bytes().to_vec()).is_ok()));
        let mut before: &[u8] = b"";
        let mut bytes = 0;
        for form in &forms {
            bytes += form.len() - form.iter().zip(before).take_while(|(one, other)| one == other).count();
            before = form;
        }
        assert!(bytes <= ALL_BYTES_MAX, "{bytes}");
    }
}
