//! `cargo xtask mutants`: changes the rules in a scratch copy, one mutation at a time, and runs the test suites that
//! must catch the mutation.

mod catalog;
mod scratch;

use std::path::{Path, PathBuf};

use self::catalog::{Mutation, MutationSuite};
use crate::tool::{TaskResult, cargo, cargo_has, root, run as run_command};

const VIOLATION_CHARS_MAX: usize = 90;

/// A mutation that a suite caught.
struct CaughtMutation {
    mutation: String,
    suite: MutationSuite,
    seed: String,
    violation: String,
}

pub(crate) fn run(names: &[String]) -> TaskResult {
    let root = root();
    let mutations = catalog::load(&root.join("sim/mutations"))?;
    if let Some(unknown) = names.iter().find(|name| mutations.iter().all(|it| it.name != **name)) {
        return Err(format!("there is no mutation \"{unknown}\" in sim/mutations"));
    }
    let sources = catalog::apply(&mutations, |file| read(&root.join(file)))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = std::path::absolute(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let [copy, results, build] = ["source", "results", "build"].map(|dir| target.join("mutants").join(dir));
    scratch::write_copy(&root, &copy, sources)?;

    let is_selected = |it: &&Mutation| names.is_empty() || names.contains(&it.name);
    let selected: Vec<&Mutation> = mutations.iter().filter(is_selected).collect();
    select(&results, &selected)?;
    println!("{} mutations in {}, a cold build takes some minutes", selected.len(), copy.display());
    // Do not share the workspace's target directory: cargo identifies packages by their path relative to the workspace
    // root, so it would mix up the two copies.
    run_command(suites_command(&copy).env("CARGO_TARGET_DIR", &build).env("BERTH_MUTANTS", &results))?;
    report(&selected, &load_catches(&results)?)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Writes the list of mutations that the suites should try.
fn select(results: &Path, selected: &[&Mutation]) -> TaskResult {
    let failed = |error| format!("cannot write {}: {error}", results.display());
    std::fs::create_dir_all(results).map_err(failed)?;
    for suite in MutationSuite::ALL {
        let of_suite = selected.iter().filter(|mutation| mutation.suites.contains(&suite));
        let names: String = of_suite.map(|mutation| format!("{}\n", mutation.name)).collect();
        std::fs::write(results.join(format!("{}.selected", suite.name())), names).map_err(failed)?;
        std::fs::write(results.join(format!("{}.caught", suite.name())), "").map_err(failed)?;
    }
    Ok(())
}

fn suites_command(copy: &Path) -> std::process::Command {
    let mut command =
        if cargo_has("nextest") { cargo(["nextest", "run"]) } else { cargo(["test", "--quiet"]) };
    command.args(["-p", "berth-sim", "-p", "berth-store", "--test", "it", "mutations::"]).current_dir(copy);
    command
}

fn load_catches(results: &Path) -> Result<Vec<CaughtMutation>, String> {
    let mut catches = Vec::new();
    for suite in MutationSuite::ALL {
        let text = read(&results.join(format!("{}.caught", suite.name())))?;
        for line in text.lines() {
            let mut fields = line.splitn(3, '\t').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            catches.push(CaughtMutation { mutation: next(), suite, seed: next(), violation: next() });
        }
    }
    Ok(catches)
}

/// Prints which suite caught which mutation, and fails if one was missed.
fn report(selected: &[&Mutation], catches: &[CaughtMutation]) -> TaskResult {
    println!("{:<26} {:<12} {:>6}  violation", "mutation", "suite", "seed");
    let mut missed = Vec::new();
    for mutation in selected {
        for suite in &mutation.suites {
            let caught = catches.iter().find(|it| it.mutation == mutation.name && it.suite == *suite);
            if let Some(CaughtMutation { seed, violation, .. }) = caught {
                let violation: String = violation.chars().take(VIOLATION_CHARS_MAX).collect();
                println!("{:<26} {:<12} {seed:>6}  {violation}", mutation.name, suite.name());
            } else {
                let Mutation { name, description, .. } = mutation;
                missed.push(format!("{} did not catch \"{name}\": {description}", suite.name()));
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("\n")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use super::*;

    const PAGE: &str = "docs/promises.md";
    const BEGIN: &str = "<!-- mutations: begin -->\n\n";
    const END: &str = "\n<!-- mutations: end -->\n";

    fn mutations() -> Vec<Mutation> {
        catalog::load(&root().join("sim/mutations")).unwrap()
    }

    #[test]
    fn every_mutation_applies_to_the_sources() {
        let applied = catalog::apply(&mutations(), |file| read(&root().join(file)));
        assert!(applied.is_ok(), "{}", applied.unwrap_err());
    }

    #[test]
    fn mutations_have_unique_kebab_case_names_a_description_and_a_suite() {
        let mut names = BTreeSet::new();
        for mutation in mutations() {
            let name = &mutation.name;
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name} is not in kebab case");
            assert!(!mutation.description.is_empty(), "{name} has no description");
            assert!(!mutation.suites.is_empty(), "{name} has no suite");
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }

    /// Compares the table in the documentation with the mutations. With `UPDATE_EXPECT=1` it writes the table instead.
    #[test]
    fn documentation_lists_every_mutation() {
        let mut table = "| mutation | effect | caught by |\n|---|---|---|\n".to_owned();
        for Mutation { name, description, suites, .. } in mutations() {
            let suites = suites.iter().map(|suite| suite.name()).collect::<Vec<_>>().join(", ");
            writeln!(table, "| `{name}` | {description} | {suites} |").unwrap();
        }
        let path = root().join(PAGE);
        let page = read(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the marker in front of the table");
        let (present, after) = rest.split_once(END).expect("the marker after the table");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert!(
                present == table,
                "the table in {PAGE} is outdated: UPDATE_EXPECT=1 cargo nextest run -p xtask mutants"
            );
        }
    }
}
