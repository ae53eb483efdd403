//! Checks that all linked crates have a licence that `deny.toml` allows, without cargo-deny.

use std::path::Path;

use serde_json::Value;

use crate::tool::cargo;

/// Licence exceptions that only grant additional rights, so they are always allowed.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

pub(super) fn check(root: &Path) -> Vec<String> {
    let Ok(rules) = std::fs::read_to_string(root.join("deny.toml")) else {
        return vec!["deny.toml is missing; it lists the allowed licences".into()];
    };
    let allowed = allowed_licences(&rules);
    // Only look at this platform: packages for other platforms may not have been downloaded.
    let args =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let told = cargo(args).current_dir(root).output();
    let parsed = told.ok().and_then(|told| serde_json::from_slice::<Value>(&told.stdout).ok());
    let Some(packages) = parsed.as_ref().and_then(|it| it["packages"].as_array()) else {
        return vec!["Cargo.lock: `cargo metadata --locked` failed; is the lock file up to date?".into()];
    };
    let mut found = check_own_licences(root, packages);
    for package in packages.iter().filter(|package| package["source"].is_string()) {
        let (name, version) =
            (package["name"].as_str().unwrap_or(""), package["version"].as_str().unwrap_or(""));
        match package["license"].as_str() {
            None => found.push(format!("Cargo.lock: {name} {version} declares no licence")),
            Some(licence) if !is_allowed(licence, &allowed) => found.push(format!(
                "Cargo.lock: {name} {version} is under {licence}, which deny.toml does not allow; use another crate"
            )),
            Some(_) => {}
        }
    }
    found
}

/// Checks that our own crates declare the licence that is in LICENSE.
fn check_own_licences(root: &Path, packages: &[Value]) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("LICENSE")).unwrap_or_default();
    let is_apache = text.contains("Apache License") && text.contains("Version 2.0");
    let ours = packages.iter().filter(|package| package["source"].is_null());
    let other = ours.filter(|package| package["license"] != "Apache-2.0" || !is_apache);
    other
        .map(|package| format!("{}: its licence differs from LICENSE, Apache-2.0", package["name"]))
        .collect()
}

/// Returns the names between `allow = [` and `]`.
fn allowed_licences(rules: &str) -> Vec<&str> {
    let list = rules
        .split_once("\nallow = [")
        .and_then(|(_, rest)| rest.split_once("\n]"))
        .map_or("", |(list, _)| list);
    let names = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    names.filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect()
}

/// Returns whether an SPDX expression is allowed: at least one part of an `OR`, and every part of an `AND`, must be.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.as_slice();
    parse_or(&mut words, allowed) && words.is_empty()
}

fn parse_or(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_fine = parse_and(words, allowed);
    while take_word(words, "OR") {
        is_fine |= parse_and(words, allowed);
    }
    is_fine
}

fn parse_and(words: &mut &[&str], allowed: &[&str]) -> bool {
    let mut is_fine = parse_term(words, allowed);
    while take_word(words, "AND") {
        is_fine &= parse_term(words, allowed);
    }
    is_fine
}

fn parse_term(words: &mut &[&str], allowed: &[&str]) -> bool {
    if take_word(words, "(") {
        let is_fine = parse_or(words, allowed);
        return take_word(words, ")") && is_fine;
    }
    let Some((name, rest)) = words.split_first() else { return false };
    *words = rest;
    let is_fine = allowed.contains(name);
    if take_word(words, "WITH") {
        let Some((exception, rest)) = words.split_first() else { return false };
        *words = rest;
        return is_fine && EXCEPTIONS.contains(exception);
    }
    is_fine
}

fn take_word(words: &mut &[&str], wanted: &str) -> bool {
    let is_next = words.first() == Some(&wanted);
    if is_next {
        *words = &words[1..];
    }
    is_next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_expression_is_evaluated() {
        let allowed = allowed_licences("x = 1\nallow = [\n  \"MIT\",\n  # why\n  \"Apache-2.0\",\n]\n");
        assert_eq!(allowed, ["MIT", "Apache-2.0"]);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "",
            "Apache-2.0 WITH Classpath",
            "MIT MIT",
            "LGPL-2.1 OR GPL-3.0",
        ] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
