//! Modules of the server must not import each other in cycles.

use std::collections::{BTreeMap, BTreeSet};

const SERVER: &str = "crates/server/src/";

type ModuleEdges = BTreeMap<String, BTreeSet<String>>;

/// Returns a violation if there is a cycle. `files` are paths relative to the repository's root, with their contents.
pub(super) fn check<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Vec<String> {
    let mut edges = ModuleEdges::new();
    for (name, text) in files {
        let Some(path) = name.strip_prefix(SERVER) else { continue };
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let used = used_modules(text).filter(|used| *used != module).map(str::to_owned);
        edges.entry(module.to_owned()).or_default().extend(used);
    }
    let cycle = edges.keys().find_map(|start| find_cycle(&edges, start));
    Vec::from_iter(cycle.map(|cycle| {
        format!("{SERVER}: modules import each other: {}; move what they share below both", cycle.join(" → "))
    }))
}

/// Returns the modules that follow `crate::` in the text, not counting unit tests.
fn used_modules(text: &str) -> impl Iterator<Item = &str> {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    product.split("crate::").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
        Some(&rest[..end]).filter(|name| !name.is_empty())
    })
}

/// Returns the modules on a path from `start` back to itself.
fn find_cycle(edges: &ModuleEdges, start: &str) -> Option<Vec<String>> {
    let mut paths = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop() {
        for next in path.last().and_then(|last| edges.get(last)).into_iter().flatten() {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == start {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                paths.push(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_cycle_is_reported_with_its_path() {
        let good = [
            ("crates/server/src/app/mod.rs", "use crate::jobs::Jobs;\nuse crate::error::AppError;"),
            ("crates/server/src/jobs/mod.rs", "use crate::error::AppError;\nuse crate::jobs::sync;"),
            ("crates/engine/src/a.rs", "use crate::app;"),
        ];
        assert_eq!(check(good), Vec::<String>::new());
        let bad = [good[0], ("crates/server/src/jobs/a.rs", "fn a() { crate::app::b() }")];
        let found = check(bad);
        assert!(found[0].contains("app → jobs → app"), "{found:?}");
        let in_tests =
            [good[0], ("crates/server/src/jobs/a.rs", "#[cfg(test)]\nmod tests {\nuse crate::app;\n}")];
        assert_eq!(check(in_tests), Vec::<String>::new());
    }
}
