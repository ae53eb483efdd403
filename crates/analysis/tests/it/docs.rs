//! The list of rules in the documentation is made from the tables.

use std::fmt::Write as _;

use berth_analysis::{Category, rules};
use expect_test::expect_file;

#[test]
fn docs_of_rules_are_generated_from_the_tables() {
    let count = rules::all().count();
    let mut page = format!(
        "# Rules of the failure analysis\n\nGenerated from the code; [analysis.md](analysis.md) says how they are used. \
         There are {count} of them.\n\n| category | what somebody has to look at |\n|---|---|\n"
    );
    for category in Category::ALL {
        writeln!(page, "| `{}` | {} |", category.as_str(), category.means()).unwrap();
    }
    for (area, rules) in rules::AREAS {
        writeln!(page, "\n## {area}\n\n| rule | category | weight | says | advice |\n|---|---|---|---|---|")
            .unwrap();
        for rule in *rules {
            let (category, weight) = (rule.category.as_str(), rule.weight.as_str());
            let (says, advice) = (cell(rule.says), cell(rule.advice));
            writeln!(page, "| `{}` | {category} | {weight} | {says} | {advice} |", rule.id).unwrap();
        }
    }
    expect_file!["../../../../docs/analysis-rules.md"].assert_eq(&page);
}

/// A word that is filled in is shown as three dots.
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
