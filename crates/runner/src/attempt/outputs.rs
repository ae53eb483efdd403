//! Parses the file `$BERTH_OUTPUT`.
//!
//! The file contains lines of the form `name=value`. A multi-line value is enclosed between the lines `name<<WORD` and
//! `WORD`. Outputs are only read from this file, never from what the step prints.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::settings::STEP_OUTPUT_BYTES_MAX;

/// The declared outputs by name, and the names of outputs that the step wrote without declaring them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepOutputs {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) undeclared: Vec<String>,
}

pub(crate) fn read_outputs(path: &Path, declared: &[String]) -> Result<StepOutputs, String> {
    // The step may have replaced the file, so do not follow symlinks and do not block on a FIFO.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .map_err(|error| format!("$BERTH_OUTPUT cannot be read: {error}"))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err("$BERTH_OUTPUT is no longer a file".into());
    }
    let mut bytes = Vec::new();
    file.take(STEP_OUTPUT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("$BERTH_OUTPUT cannot be read: {error}"))?;
    if bytes.len() as u64 > STEP_OUTPUT_BYTES_MAX {
        return Err(format!(
            "$BERTH_OUTPUT is longer than {STEP_OUTPUT_BYTES_MAX} bytes; keep large things as artifacts"
        ));
    }
    parse_outputs(&bytes, declared)
}

fn parse_outputs(bytes: &[u8], declared: &[String]) -> Result<StepOutputs, String> {
    let mut outputs = StepOutputs { values: BTreeMap::new(), undeclared: Vec::new() };
    let mut lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    while let Some((number, line)) = lines.next() {
        let line = decode_line(number, line)?;
        if line.trim().is_empty() {
            continue;
        }
        let (name, value) = match (line.split_once('='), line.split_once("<<")) {
            (Some((name, _)), Some((before, word))) if before.len() < name.len() => {
                (before, read_multiline_value(word, number, &mut lines)?)
            }
            (Some((name, value)), _) => (name, value.to_owned()),
            (None, Some((name, word))) => (name, read_multiline_value(word, number, &mut lines)?),
            (None, None) => {
                return Err(format!(
                    "line {number} of $BERTH_OUTPUT is neither `name=value` nor `name<<WORD`"
                ));
            }
        };
        let name = name.trim();
        if name.is_empty() {
            return Err(format!("line {number} of $BERTH_OUTPUT has no name before its value"));
        }
        if declared.iter().any(|known| known == name) {
            outputs.values.insert(name.to_owned(), value);
        } else {
            outputs.undeclared.push(name.to_owned());
        }
    }
    Ok(outputs)
}

fn read_multiline_value<'a>(
    word: &str,
    number: usize,
    lines: &mut impl Iterator<Item = (usize, &'a [u8])>,
) -> Result<String, String> {
    let word = word.trim();
    if word.is_empty() {
        return Err(format!("line {number} of $BERTH_OUTPUT has no word after `<<`"));
    }
    let mut value: Vec<&str> = Vec::new();
    for (number, line) in lines {
        let line = decode_line(number, line)?;
        if line == word {
            return Ok(value.join("\n"));
        }
        value.push(line);
    }
    Err(format!("line {number} of $BERTH_OUTPUT begins a value, but no line `{word}` ends it"))
}

fn decode_line(number: usize, line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line).map_err(|_| format!("line {number} of $BERTH_OUTPUT is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<&[(&str, &str)], &str>) {
        let declared = ["image".to_owned(), "notes".to_owned()];
        let found = parse_outputs(bytes, &declared).map(|outputs| outputs.values);
        let expected = expected.map_err(str::to_owned).map(|pairs| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn outputs_with_single_and_multi_line_values_are_parsed() {
        check(b"", Ok(&[]));
        check(b"image=a=b<<c\n", Ok(&[("image", "a=b<<c")]));
        check(b"image=one\nimage=two\n\n", Ok(&[("image", "two")]));
        check(b"notes<<END\na=1\n\nb\nEND\nimage=x", Ok(&[("image", "x"), ("notes", "a=1\n\nb")]));
        check(b"notes<<END\nEND\n", Ok(&[("notes", "")]));
    }

    #[test]
    fn invalid_output_line_is_reported_with_its_number() {
        check(b"image=a\nhello\n", Err("line 2 of $BERTH_OUTPUT is neither `name=value` nor `name<<WORD`"));
        check(b"=a\n", Err("line 1 of $BERTH_OUTPUT has no name before its value"));
        check(b"notes<<\n", Err("line 1 of $BERTH_OUTPUT has no word after `<<`"));
        check(b"\nnotes<<END\na\n", Err("line 2 of $BERTH_OUTPUT begins a value, but no line `END` ends it"));
        check(b"image=\xff\n", Err("line 1 of $BERTH_OUTPUT is not UTF-8"));
    }

    #[test]
    fn undeclared_outputs_are_reported() {
        let found = parse_outputs(b"other=1\n", &["image".to_owned()]).expect("parsed");
        assert_eq!(found.undeclared, ["other"]);
    }
}
