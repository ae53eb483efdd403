//! Generates the list of rules in the documentation.

use std::fmt::Write as _;

use berth_analysis::{Category, rules};
use expect_test::expect_file;

#[test]
fn rules_documentation_is_up_to_date() {
    let count = rules::all().count();
    let mut page = format!(
        "# Failure analysis rules\n\nGenerated from the code; [analysis.md](analysis.md) explains how the {count} rules are used.\n\n\
         | category | meaning |\n|---|---|\n"
    );
    for category in Category::ALL {
        writeln!(page, "| `{}` | {} |", category.as_str(), category.means()).unwrap();
    }
    for (area, rules) in rules::AREAS {
        writeln!(
            page,
            "\n## {area}\n\n| rule | category | weight | root cause | advice |\n|---|---|---|---|---|"
        )
        .unwrap();
        for rule in *rules {
            let (category, weight) = (rule.category.as_str(), rule.weight.as_str());
            let (says, advice) = (cell(rule.says), cell(rule.advice));
            writeln!(page, "| `{}` | {category} | {weight} | {says} | {advice} |", rule.id).unwrap();
        }
    }
    expect_file!["../../../../docs/analysis-rules.md"].assert_eq(&page);
}

/// Replaces each placeholder with an ellipsis.
fn cell(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('{') {
        out.push_str(before);
        out.push('…');
        rest = tail.split_once('}').map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out.replace('|', "\\|")
}
