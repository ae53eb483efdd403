//! Allowed dependencies between workspace crates.

/// Each crate with the workspace crates it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "crates/berth",
        &[
            "berth-server",
            "berth-engine",
            "berth-runner",
            "berth-mcp",
            "berth-store",
            "berth-api",
            "berth-definition",
            "berth-core",
        ],
    ),
    (
        "crates/server",
        &[
            "berth-engine",
            "berth-mcp",
            "berth-store",
            "berth-api",
            "berth-analysis",
            "berth-definition",
            "berth-core",
        ],
    ),
    ("crates/mcp", &[]),
    ("crates/engine", &["berth-store", "berth-api", "berth-analysis", "berth-definition", "berth-core"]),
    ("crates/runner", &["berth-api", "berth-definition", "berth-core"]),
    ("crates/store", &["berth-core"]),
    ("crates/api", &["berth-core"]),
    ("crates/analysis", &["berth-definition", "berth-core"]),
    ("crates/definition", &["berth-core"]),
    ("crates/core", &[]),
    (
        "bench",
        &[
            "berth-analysis",
            "berth-definition",
            "berth-engine",
            "berth-server",
            "berth-store",
            "berth-api",
            "berth-core",
            "berth-testkit",
            "berth",
        ],
    ),
    ("sim", &["berth-core"]),
    ("testkit", &[]),
    ("xtask", &["berth-testkit"]),
];

/// Additional dependencies that a crate's tests may have.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[
    ("crates/berth", &["berth-testkit"]),
    ("crates/engine", &["berth-testkit"]),
    ("crates/runner", &["berth-testkit"]),
    ("crates/server", &["berth-runner", "berth-testkit"]),
    ("crates/store", &["berth-sim", "berth-testkit"]),
    ("sim", &["berth-testkit"]),
];

/// Checks a Cargo.toml, given by its path relative to the repository's root. The root's own Cargo.toml has no
/// dependencies.
pub(super) fn check(name: &str, text: &str) -> Vec<String> {
    let Some((place, _)) = name.rsplit_once('/') else { return Vec::new() };
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == place) else {
        return vec![format!("{name}: new crate: add its allowed dependencies to xtask/src/tidy/edges.rs")];
    };
    let in_tests =
        ALLOWED_IN_TESTS.iter().find(|(known, _)| *known == place).map_or(&[][..], |(_, list)| list);
    let is_allowed = |found: &CrateDependency| {
        let of_ours = found.name.as_str();
        allowed.contains(&of_ours) || (found.is_for_tests && in_tests.contains(&of_ours))
    };
    let unknown = parse_dependencies(text).into_iter().filter(|found| !is_allowed(found));
    unknown
        .map(|CrateDependency { line, name: dependency, .. }| {
            format!(
                "{name}:{line}: {place} must not depend on {dependency}: move the code to a crate that may"
            )
        })
        .collect()
}

struct CrateDependency {
    line: usize,
    name: String,
    is_for_tests: bool,
}

/// Returns the workspace crates in all dependency tables of a manifest.
fn parse_dependencies(text: &str) -> Vec<CrateDependency> {
    let mut found = Vec::new();
    let (mut inside, mut is_for_tests) = (false, false);
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        let name = if let Some(table) = content.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table.ends_with("dependencies");
            is_for_tests = table.contains("dev-dependencies");
            // The long form of a dependency: `[dependencies.berth-core]`.
            table.split_once("dependencies.").and_then(|(_, dependency)| workspace_crate(dependency))
        } else if inside && !content.starts_with('#') {
            let key = content.split(['=', '.', ' ']).next().unwrap_or_default();
            let renamed = content.split("package = \"").nth(1).and_then(|rest| rest.split('"').next());
            workspace_crate(renamed.unwrap_or(key))
        } else {
            None
        };
        found.extend(name.map(|name| CrateDependency { line, name, is_for_tests }));
    }
    found
}

fn workspace_crate(dependency: &str) -> Option<String> {
    let name = dependency.trim_matches('"');
    (name == "berth" || name.starts_with("berth-")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_dependency_is_reported() {
        let check_store = |text: &str| check("crates/store/Cargo.toml", text);
        let fine =
            "[package]\nname = \"berth-store\"\n[dependencies]\nberth-core.workspace = true\nserde = \"1\"\n";
        assert_eq!(check_store(fine), Vec::<String>::new());
        for bad in [
            "[dependencies]\nberth-api.workspace = true",
            "[dev-dependencies]\nberth-api = { path = \"../api\" }",
            "[target.'cfg(unix)'.dependencies]\napi = { package = \"berth-api\", path = \"../api\" }",
            "[dependencies.berth-api]\npath = \"../api\"",
        ] {
            let found = check_store(bad);
            assert!(
                found.len() == 1 && found[0].contains("must not depend on berth-api"),
                "{bad}: {found:?}"
            );
        }
    }

    #[test]
    fn test_dependency_is_allowed_in_tests_only() {
        let check_store = |text: &str| check("crates/store/Cargo.toml", text);
        assert_eq!(check_store("[dev-dependencies]\nberth-sim.workspace = true"), Vec::<String>::new());
        for bad in
            ["[dependencies]\nberth-sim.workspace = true", "[dependencies.berth-sim]\npath = \"../sim\""]
        {
            assert_eq!(check_store(bad).len(), 1, "{bad}");
        }
    }

    #[test]
    fn unknown_crate_is_reported() {
        assert!(check("crates/new/Cargo.toml", "")[0].contains("add its allowed dependencies"));
        assert!(check("Cargo.toml", "[workspace.dependencies]\nberth-core = {}").is_empty());
    }
}
