//! The rules, in one table per area. If two rules of the same weight match the same line, the first one wins.

mod access;
mod compilers;
mod configuration;
mod containers;
mod crashes;
mod databases;
mod disk;
mod endings;
mod git;
mod kubernetes;
mod memory;
mod network;
mod packages;
mod permissions;
mod scripts;
mod terraform;
mod tests;
mod timeouts;
mod tls;

use crate::rule::Rule;

/// The areas and their rules.
pub const AREAS: &[(&str, &[Rule])] = &[
    ("packages", packages::RULES),
    ("compilers", compilers::RULES),
    ("tests", tests::RULES),
    ("git", git::RULES),
    ("containers", containers::RULES),
    ("kubernetes", kubernetes::RULES),
    ("terraform", terraform::RULES),
    ("databases", databases::RULES),
    ("tls", tls::RULES),
    ("access", access::RULES),
    ("disk", disk::RULES),
    ("memory", memory::RULES),
    ("timeouts", timeouts::RULES),
    ("network", network::RULES),
    ("configuration", configuration::RULES),
    ("scripts", scripts::RULES),
    ("permissions", permissions::RULES),
    ("crashes", crashes::RULES),
    ("ends", endings::RULES),
];

/// All rules, in the order of the tables.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    AREAS.iter().flat_map(|(_, rules)| rules.iter())
}

#[cfg(test)]
mod check {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pattern::compile;
    use crate::rule::RuleWeight;

    /// Whether a rule has exactly the conditions that its weight requires.
    fn has_required_conditions(rule: &Rule) -> bool {
        match rule.weight {
            RuleWeight::Cause | RuleWeight::General | RuleWeight::Report => {
                !rule.patterns.is_empty() && rule.cause.is_none()
            }
            RuleWeight::Exit => rule.patterns.is_empty() && !rule.exits.is_empty(),
            RuleWeight::Engine => rule.patterns.is_empty() && rule.cause.is_some(),
        }
    }

    #[test]
    fn every_rule_is_complete() {
        let mut ids = BTreeSet::new();
        for rule in all() {
            let id = rule.id;
            assert!(ids.insert(id), "{id} is there twice");
            assert!(id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{id}");
            assert!(has_required_conditions(rule), "{id}: what it looks at does not fit its weight");
            assert!(
                rule.says.ends_with('.') && rule.advice.ends_with('.'),
                "{id}: sentences end with a full stop"
            );
        }
        assert!(ids.len() >= 60, "{} rules", ids.len());
    }

    #[test]
    fn rule_placeholders_are_captured_by_all_patterns() {
        for rule in all() {
            let groups: Vec<BTreeSet<String>> = rule
                .patterns
                .iter()
                .map(|text| compile(text).unwrap().capture_names().flatten().map(str::to_owned).collect())
                .collect();
            for sentence in [rule.says, rule.advice] {
                for part in sentence.split('{').skip(1) {
                    let name = part.split('}').next().unwrap();
                    assert!(groups.iter().all(|names| names.contains(name)), "{}: {{{name}}}", rule.id);
                }
            }
        }
    }
}
