//! Checks of the repository. A violation is one line: the file, what is wrong, and what to do.

mod commits;
mod docs;
mod edges;
mod licences;
mod lock;
mod modules;
mod source;
mod words;

use std::path::{Path, PathBuf};

use crate::tool::{TaskResult, root};

/// Names of directories with generated or third-party files.
const SKIPPED: &[&str] = &["target", "node_modules", "dist"];

pub(crate) fn run() -> TaskResult {
    let found = violations(&root());
    for line in &found {
        eprintln!("{line}");
    }
    match found.len() {
        0 => {
            println!("tidy");
            Ok(())
        }
        count => Err(format!("{count} violations of the repository rules")),
    }
}

fn violations(root: &Path) -> Vec<String> {
    let files = files(root);
    let (mut found, mut sources) = (Vec::new(), Vec::new());
    let mut words = words::WordCounter::default();
    for path in &files {
        let name = relative_path(root, path);
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        words.add_file(&name, &text);
        match path.extension().and_then(|end| end.to_str()) {
            Some("rs") => {
                found.extend(source::check(&name, &text));
                sources.push((name, text));
            }
            Some("ts" | "tsx" | "css" | "mjs") if !name.ends_with(".gen.ts") => {
                found.extend(source::check_web(&name, &text));
            }
            Some("md") => {
                found.extend(docs::check_links(root, path, &name, &text));
                found.extend(docs::check_proofs(root, &name, &text));
            }
            Some("toml") if path.ends_with("Cargo.toml") => found.extend(edges::check(&name, &text)),
            _ => {}
        }
    }
    found.extend(modules::check(sources.iter().map(|(name, text)| (name.as_str(), text.as_str()))));
    found.extend(words.violations());
    found.extend(commits::check(root));
    found.extend(docs::check_decisions(&root.join("docs/adr")));
    found.extend(lock::check(root));
    found.extend(licences::check(root));
    found
}

pub(crate) fn relative_path(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Returns every Rust file below a directory, in a stable order.
pub(crate) fn rust_files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    files(dir).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"))
}

/// Returns every file of the repository, in a stable order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    let is_skipped = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') || SKIPPED.contains(&name.as_ref())
    };
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() && !path.is_symlink() {
            if !is_skipped(&path) {
                found.extend(files(&path));
            }
        } else {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_has_no_violations() {
        let found = violations(&root());
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }
}
