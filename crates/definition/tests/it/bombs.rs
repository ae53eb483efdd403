//! Tests malicious files: each of them quickly exceeds a limit, and the diagnostic names that limit.

use berth_core::pipeline::limits::{
    DIAGNOSTICS_MAX, PIPELINE_BYTES_MAX, YAML_ALIASES_MAX, YAML_DEPTH_MAX, YAML_EXPANSION_BASE_BYTES,
    YAML_NODES_MAX,
};
use berth_definition::parse;

/// The codes of all diagnostics.
fn codes(source: &str) -> Vec<&'static str> {
    parse(source).diagnostics.iter().map(|found| found.code).collect()
}

fn has_code(source: &str, code: &str) -> bool {
    codes(source).contains(&code)
}

#[test]
fn billion_laughs_file_is_refused() {
    let mut text = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for (name, before) in ('b'..='j').zip('a'..) {
        text.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", ")));
    }
    assert_eq!(codes(&text), ["too_many_values"]);
}

#[test]
fn long_text_repeated_by_aliases_is_refused() {
    let repeated = |length: usize, times: usize| {
        format!("a: &a '{}'\nb: [{}]\n", "x".repeat(length), vec!["*a"; times].join(", "))
    };
    assert!(has_code(&repeated(YAML_EXPANSION_BASE_BYTES, 2), "expands_too_much"));
    assert!(!has_code(&repeated(YAML_EXPANSION_BASE_BYTES / 50, 90), "expands_too_much"));
}

#[test]
fn nesting_is_refused_above_the_limit_only() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let block =
        |depth: usize| (0..depth).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    for build in [flow, block] as [fn(usize) -> String; 2] {
        assert!(!has_code(&build(YAML_DEPTH_MAX), "too_deep"));
        assert!(has_code(&build(YAML_DEPTH_MAX + 1), "too_deep"));
        assert!(!parse(&build(2_000)).diagnostics.is_empty());
    }
    for opener in ["[", "{", "- ", "? ", "[{", "{a: ", "!", "&a ", "'", "a: ["] {
        assert!(!parse(&opener.repeat(100_000)).diagnostics.is_empty(), "{opener:?}");
    }
}

#[test]
fn nesting_through_aliases_counts() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..YAML_DEPTH_MAX {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(has_code(&text, "too_deep"));
}

#[test]
fn node_count_is_refused_above_the_limit_only() {
    let list = |count: usize| format!("[{}]", "a,".repeat(count));
    assert!(!has_code(&list(YAML_NODES_MAX - 1), "too_many_values"));
    assert!(has_code(&list(YAML_NODES_MAX), "too_many_values"));
}

#[test]
fn alias_count_is_refused_above_the_limit_only() {
    let aliases = |count: usize| format!("a: &a x\nb: [{}]\n", vec!["*a"; count].join(", "));
    assert!(!has_code(&aliases(YAML_ALIASES_MAX), "too_many_aliases"));
    assert!(has_code(&aliases(YAML_ALIASES_MAX + 1), "too_many_aliases"));
}

#[test]
fn recursive_alias_is_refused() {
    assert_eq!(codes("a: &a [*a]\n"), ["unknown_alias"]);
    assert_eq!(codes("&a { b: *a }\n"), ["unknown_alias"]);
}

#[test]
fn file_size_is_refused_above_the_limit_only() {
    let comment = |bytes: usize| format!("#{}", "x".repeat(bytes - 1));
    assert!(!has_code(&comment(PIPELINE_BYTES_MAX), "too_large"));
    assert_eq!(codes(&comment(PIPELINE_BYTES_MAX + 1)), ["too_large"]);
}

#[test]
fn diagnostics_are_limited_to_a_hundred() {
    let fields: String = (0..5_000).map(|index| format!("  nam{index}: x\n")).collect();
    let parsed = parse(&format!("version: 1\npipeline:\n{fields}"));
    assert_eq!(parsed.diagnostics.len(), DIAGNOSTICS_MAX);
    assert!(
        parsed
            .diagnostics
            .windows(2)
            .all(|pair| (pair[0].line, pair[0].column) <= (pair[1].line, pair[1].column))
    );
}

#[test]
fn source_line_of_a_diagnostic_is_truncated() {
    let items = "{ nam: x },".repeat(2_000);
    let parsed = parse(&format!("{{ version: 1, pipeline: {{ name: a, stages: [{items}] }} }}"));
    assert!(parsed.diagnostics.iter().all(|found| found.source_line.len() < 2_000));
}

/// The file is within every limit but causes as much work as the limits allow.
#[test]
fn most_expensive_definitions_are_parsed_in_time() {
    let mut text = "version: 1\npipeline:\n  name: a\n  stages:\n".to_owned();
    for stage in 0..50 {
        let vars: String = (0..50).map(|var| format!("v{var}: x,")).collect();
        text.push_str(&format!("    - {{ name: s{stage}, vars: {{ {vars} }} }}\n"));
    }
    text.push_str("  steps:\n");
    for step in 0..500 {
        let needs: String = (0..step).rev().take(10).map(|need| format!("s{need},")).collect();
        let value = format!("${{{{ vars.v1 == vars.v{} && vars.nope }}}}", step % 50);
        text.push_str(&format!(
            "    - {{ name: s{step}, type: dummy, needs: [{needs}], env: {{ A: '{value}', B: '{value}' }} }}\n"
        ));
    }
    assert!(has_code(&text, "unknown_var"));
}
