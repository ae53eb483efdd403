//! Rules for third-party crates: banned crates and minimum versions.

use std::path::Path;

use crate::tool::cargo;

/// Crates that must not be built, with the reason. The lock file may list them as long as they are not built.
const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls over aws-lc-rs"),
    ("native-tls", "TLS is rustls over aws-lc-rs"),
    ("ring", "cryptography is aws-lc-rs"),
    ("serde_yaml", "use serde-saphyr"),
    ("serde_yml", "use serde-saphyr"),
];

enum VersionRule {
    AtLeast([u64; 3]),
    Exactly([u64; 3]),
}

/// Required versions. Older ones have a published advisory, or a bug that loses writes.
const VERSIONS: &[(&str, VersionRule)] = &[
    ("h2", VersionRule::AtLeast([0, 4, 16])),
    ("idna", VersionRule::AtLeast([1, 0, 0])),
    ("postgres-protocol", VersionRule::AtLeast([0, 6, 12])),
    ("rusqlite", VersionRule::Exactly([0, 41, 1])),
    ("time", VersionRule::AtLeast([0, 3, 47])),
    ("tokio-postgres", VersionRule::AtLeast([0, 7, 18])),
];

pub(super) fn check(root: &Path) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(root.join("Cargo.lock")) else {
        return vec!["Cargo.lock: missing; it is part of the repository".into()];
    };
    let packages = parse_packages(&text);
    let mut found = check_versions(&packages);
    for (name, instead) in BANNED {
        if packages.iter().any(|(package, _)| package == name) && is_used(root, name) {
            found
                .push(format!("Cargo.lock: {name} is used: {instead}; `cargo tree -i {name}` shows by whom"));
        }
    }
    found
}

fn check_versions(packages: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, wanted) in VERSIONS {
        for (_, version) in packages.iter().filter(|(package, _)| package == name) {
            let (fine, words) = match wanted {
                VersionRule::AtLeast(least) => {
                    (parse_version(version) >= *least, format!("at least {}", format_version(least)))
                }
                VersionRule::Exactly(only) => {
                    (parse_version(version) == *only, format!("exactly {}", format_version(only)))
                }
            };
            if !fine {
                found.push(format!("Cargo.lock: {name} {version}, wanted {words}: `cargo update -p {name}`"));
            }
        }
    }
    found
}

/// Returns names and versions of the packages in a lock file.
fn parse_packages(text: &str) -> Vec<(String, String)> {
    let value = |line: &str, key: &str| {
        line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"').map(str::to_owned)
    };
    let lines: Vec<&str> = text.lines().collect();
    let pairs =
        lines.windows(2).filter_map(|pair| Some((value(pair[0], "name")?, value(pair[1], "version")?)));
    pairs.collect()
}

fn parse_version(version: &str) -> [u64; 3] {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = core.split('.').map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_: u64| parts.next().unwrap_or(0))
}

fn format_version(version: &[u64; 3]) -> String {
    version.map(|number| number.to_string()).join(".")
}

/// Returns whether a workspace crate depends on this crate on any platform. If cargo cannot tell, returns true.
fn is_used(root: &Path, name: &str) -> bool {
    let args = ["tree", "--workspace", "--target", "all", "--prefix", "none", "--invert", name];
    let Ok(tree) = cargo(args).current_dir(root).output() else { return true };
    let unknown = String::from_utf8_lossy(&tree.stderr).contains("did not match any packages");
    !(unknown || tree.status.success() && tree.stdout.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_versions_are_compared_numerically() {
        let lock = "[[package]]\nname = \"time\"\nversion = \"0.3.9\"\nsource = \"x\"\n\n\
                    [[package]]\nname = \"h2\"\nversion = \"0.4.16\"\n\n\
                    [[package]]\nname = \"rusqlite\"\nversion = \"0.42.0+bundled\"\n";
        let found = check_versions(&parse_packages(lock));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("rusqlite 0.42.0+bundled, wanted exactly 0.41.1"), "{found:?}");
        assert!(found[1].contains("time 0.3.9, wanted at least 0.3.47"), "{found:?}");
    }
}
