//! The mutations as data, from `sim/mutations/*.toml`, and how they are applied to the sources.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

/// Placeholder in `replace` for the expression that tests whether the mutation is switched on.
const SWITCH: &str = "MUTATED";

/// Source texts, by path relative to the repository's root.
pub(super) type SourceTexts = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutation {
    pub(super) name: String,
    pub(super) description: String,
    /// The test suites that must catch the mutation.
    pub(super) suites: Vec<MutationSuite>,
    #[serde(rename = "edit")]
    edits: Vec<MutationEdit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationEdit {
    file: String,
    find: String,
    replace: String,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum MutationSuite {
    Locks,
    Runs,
    Calls,
    Drill,
    Differential,
}

impl MutationSuite {
    pub(super) const ALL: [Self; 5] = [Self::Locks, Self::Runs, Self::Calls, Self::Drill, Self::Differential];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::Runs => "runs",
            Self::Calls => "calls",
            Self::Drill => "drill",
            Self::Differential => "differential",
        }
    }
}

/// A file of `sim/mutations/*.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationFile {
    mutation: Vec<Mutation>,
}

/// Loads all mutations, in the order of their files.
pub(super) fn load(dir: &Path) -> Result<Vec<Mutation>, String> {
    let entries =
        std::fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    let mut mutations = Vec::new();
    for path in paths {
        let text = super::read(&path)?;
        let file: MutationFile =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        mutations.extend(file.mutation);
    }
    Ok(mutations)
}

/// Applies all edits, one after the other, to sources that `read` loads by path. Returns the changed files.
pub(super) fn apply(
    mutations: &[Mutation],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<SourceTexts, String> {
    let (mut sources, mut failures) = (SourceTexts::new(), Vec::new());
    for mutation in mutations {
        for edit in &mutation.edits {
            if !sources.contains_key(&edit.file) {
                sources.insert(edit.file.clone(), read(&edit.file)?);
            }
            if let Some(source) = sources.get_mut(&edit.file)
                && let Err(reason) = edit.apply(&mutation.name, source)
            {
                failures.push(format!(
                    "mutation \"{}\" does not apply to {}: {reason}",
                    mutation.name, edit.file
                ));
            }
        }
    }
    if failures.is_empty() {
        return Ok(sources);
    }
    failures.push("update the edits in sim/mutations to the changed sources".to_owned());
    Err(failures.join("\n"))
}

impl MutationEdit {
    fn apply(&self, name: &str, source: &mut String) -> Result<(), String> {
        let Self { find, replace, .. } = self;
        if !replace.contains(SWITCH) {
            return Err(format!("its replacement has no {SWITCH}:\n{replace}"));
        }
        match source.matches(find.as_str()).count() {
            1 => {
                let switch = format!("crate::mutation::is_active(\"{name}\")");
                *source = source.replacen(find.as_str(), &replace.replace(SWITCH, &switch), 1);
                Ok(())
            }
            0 => Err(format!("this text was not found:\n{find}")),
            count => Err(format!("this text occurs {count} times, not once:\n{find}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutation(edits: &[(&str, &str)]) -> [Mutation; 1] {
        let edit = |(find, replace): &(&str, &str)| MutationEdit {
            file: "a.rs".into(),
            find: (*find).into(),
            replace: (*replace).into(),
        };
        let edits = edits.iter().map(edit).collect();
        [Mutation { name: "x-y".into(), description: String::new(), suites: Vec::new(), edits }]
    }

    fn apply_to(source: &str, edits: &[(&str, &str)]) -> Result<String, String> {
        let sources = apply(&mutation(edits), |_| Ok(source.to_owned()))?;
        Ok(sources.into_values().collect())
    }

    #[test]
    fn edits_are_applied_in_order_and_switched_by_name() {
        let edits = [("if a {", "if a && !MUTATED {"), ("if a && ", "if b && ")];
        let failure = apply_to("if a {}", &edits).unwrap_err();
        assert!(failure.contains("its replacement has no MUTATED"), "{failure}");
        let edits = [("if a {", "if a && c {MUTATED"), ("a && c", "MUTATED")];
        let is_active = "crate::mutation::is_active(\"x-y\")";
        assert_eq!(apply_to("if a {}", &edits).unwrap(), format!("if {is_active} {{{is_active}}}"));
    }

    #[test]
    fn edit_without_unique_match_is_refused_with_file_and_text() {
        let failure = apply_to("if b {}", &[("if a {", "MUTATED")]).unwrap_err();
        let expected = "mutation \"x-y\" does not apply to a.rs: this text was not found:\nif a {\n";
        assert!(failure.starts_with(expected), "{failure}");
        let failure = apply_to("a a", &[("a", "MUTATED")]).unwrap_err();
        assert!(failure.contains("occurs 2 times, not once:\na\n"), "{failure}");
    }
}
