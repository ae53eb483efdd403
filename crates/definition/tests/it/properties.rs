//! Property tests: the parser never panics, and its diagnostics are consistent.

use berth_definition::{DiagnosticSeverity, parse};
use proptest::prelude::*;

const FULL: &str = include_str!("pipelines/full.yaml");
const MISTAKES: &str = include_str!("pipelines/mistakes.yaml");

fn check_consistency(source: &str) {
    let parsed = parse(source);
    let errors = parsed.diagnostics.iter().any(|found| found.severity == DiagnosticSeverity::Error);
    assert_eq!(parsed.definition.is_some(), !errors);
    let lines = source.split('\n').count();
    let mut last = (0, 0);
    for found in &parsed.diagnostics {
        assert!(found.line >= 1 && found.line as usize <= lines, "{found:?}");
        assert!(found.column >= 1 && found.end_column > found.column, "{found:?}");
        assert!((found.line, found.column) >= last, "{found:?} comes too late");
        assert!(found.pointer.is_empty() || found.pointer.starts_with('/'), "{found:?}");
        last = (found.line, found.column);
    }
    if let Some(definition) = parsed.definition {
        definition.secrets_used();
    }
}

/// Mutates the text: deletes, inserts or repeats a part of it.
fn mutated_text(text: &str) -> impl Strategy<Value = String> {
    let text = text.to_owned();
    let bits = prop::sample::select(vec![
        "",
        "\n",
        "  ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "'",
        "\"",
        "&a ",
        "*a",
        "!!str ",
        "#",
        "${{",
        "}}",
        "${{ vars.x }}",
        "null",
        "yes",
        "\t",
        "ü",
        "|",
        ">",
        "<<: ",
        "0",
        "-1",
        "1e9",
        "\u{feff}",
        "---\n",
        ",",
        "a",
        "name",
        "steps",
        "needs",
    ]);
    (0..text.len(), 0..40usize, bits, 1..3usize).prop_map(move |(at, length, bit, times)| {
        let boundary =
            |byte: usize| (0..=byte.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (start, end) = (boundary(at), boundary(at + length));
        format!("{}{}{}", &text[..start], bit.repeat(times), &text[end..])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parser_survives_any_text(source in "\\PC{0,400}") {
        check_consistency(&source);
    }

    #[test]
    fn parser_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        check_consistency(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn parser_survives_any_yaml_tokens(tokens in prop::collection::vec(prop::sample::select(vec![
        "version", "pipeline", "steps", "stages", "name", "a", "1", ":", ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "'", "\"",
        "&x ", "*x", "!t ", "|\n", ">\n", "? ", "# ", "<<", "~", "${{ vars.a }}", "${{", "}}",
    ]), 0..80)) {
        check_consistency(&tokens.concat());
    }

    #[test]
    fn parser_survives_a_mutated_valid_definition(source in mutated_text(FULL)) {
        check_consistency(&source);
    }

    #[test]
    fn parser_survives_a_mutated_invalid_definition(source in mutated_text(MISTAKES)) {
        check_consistency(&source);
    }
}
