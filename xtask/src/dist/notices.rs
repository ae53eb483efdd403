//! Licences and notices of everything that is part of the program and its dashboard. Most of them must be distributed
//! with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tool::{cargo, output, root};

pub(super) const FILE: &str = "THIRD-PARTY.txt";

/// Prefixes of the names of files with licences and notices.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];
/// Extensions of source files. These are not notices, even if their name starts with one of the prefixes.
const SOURCES: [&str; 4] = ["rs", "js", "ts", "json"];
const RULE: &str = "================================================================================";

/// A package that is part of the program or its dashboard, and its directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LicensedPackage {
    pub(super) registry: PackageRegistry,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageRegistry {
    Cargo,
    Npm,
}

/// Lists the crates linked into the program, and the packages bundled into the dashboard.
pub(super) fn list_packages() -> Result<Vec<LicensedPackage>, String> {
    let mut packages = crate_packages()?;
    packages.extend(npm_packages(&root().join("web"))?);
    Ok(packages)
}

/// Returns the target platform of releases. Packages for other platforms may not have been downloaded.
fn platform() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

pub(super) fn crate_packages() -> Result<Vec<LicensedPackage>, String> {
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform()];
    let told = output(&mut cargo(args)).ok_or("cargo metadata failed")?;
    let told: Value = serde_json::from_str(&told).map_err(|error| error.to_string())?;
    let linked = linked_crates()?;
    let packages = told["packages"].as_array().into_iter().flatten();
    // Packages without a source are our own, so they are left out.
    let foreign = packages.filter(|it| {
        let name = (text_member(it, "name").to_owned(), text_member(it, "version").to_owned());
        linked.contains(&name) && !it["source"].is_null()
    });
    let parse =
        |it| parse_package(PackageRegistry::Cargo, it, Path::new(text_member(it, "manifest_path")).parent());
    foreign.map(parse).collect()
}

/// Returns names and versions of the crates linked into `berth`, without build and test dependencies.
fn linked_crates() -> Result<BTreeSet<(String, String)>, String> {
    let args =
        ["tree", "--locked", "-p", "berth", "-e", "normal", "--target", &platform(), "--prefix", "none"];
    let told = output(&mut cargo(args)).ok_or("cargo tree failed")?;
    let named = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    Ok(told.lines().filter_map(named).collect())
}

/// Returns the packages bundled into the dashboard, from `web/node_modules`.
fn npm_packages(web: &Path) -> Result<Vec<LicensedPackage>, String> {
    let mut npm = Command::new("npm");
    npm.args(["ls", "--omit=dev", "--all", "--parseable"]).current_dir(web);
    let told =
        output(&mut npm).ok_or("npm cannot list the packages of the dashboard: run `npm install` in web")?;
    // The first entry is the dashboard itself.
    let dirs: BTreeSet<&Path> = told.lines().skip(1).map(Path::new).collect();
    let read = |dir: &Path| {
        let file = dir.join("package.json");
        let told = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let told: Value =
            serde_json::from_str(&told).map_err(|error| format!("{}: {error}", file.display()))?;
        parse_package(PackageRegistry::Npm, &told, Some(dir))
    };
    dirs.into_iter().map(read).collect()
}

fn parse_package(
    registry: PackageRegistry,
    told: &Value,
    dir: Option<&Path>,
) -> Result<LicensedPackage, String> {
    let (name, licence) = (text_member(told, "name"), text_member(told, "license"));
    let dir = dir.filter(|_| !licence.is_empty()).ok_or_else(|| format!("{name} declares no licence"))?;
    let own = |text: &str| text.to_owned();
    Ok(LicensedPackage {
        registry,
        name: own(name),
        version: own(text_member(told, "version")),
        licence: own(licence),
        dir: dir.to_owned(),
    })
}

fn text_member<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Renders all notices. Each text appears once, below the list of the packages that share it.
pub(super) fn render_packages(packages: &[LicensedPackage]) -> Result<String, String> {
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = BTreeSet::new();
    for it in packages {
        let (name, texts) = (format!("{} {} ({})", it.name, it.version, it.licence), licence_texts(&it.dir)?);
        if texts.is_empty() {
            without.insert(name.clone());
        }
        for text in texts {
            by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut made = "Berth contains third-party software under these licences and notices.\n".to_owned();
    for (text, names) in &by_text {
        let _ = write!(made, "\n{RULE}\n");
        names.iter().for_each(|name| made += &format!("{name}\n"));
        let _ = write!(made, "\n{text}\n");
    }
    if !without.is_empty() {
        let _ = write!(made, "\n{RULE}\nThese packages declare a licence without including its text.\n\n");
        without.iter().for_each(|name| made += &format!("{name}\n"));
    }
    Ok(made)
}

/// Returns the licence texts in a directory, sorted by file name.
fn licence_texts(dir: &Path) -> Result<Vec<String>, String> {
    let cannot = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_source = SOURCES.contains(&ending.as_str());
        if path.is_file() && !is_source && BEGINNINGS.iter().any(|it| name.starts_with(it)) {
            files.push(path);
        }
    }
    files.sort();
    let read = |file: &PathBuf| {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', "").trim().to_owned())
    };
    let found: Result<Vec<String>, String> = files.iter().map(read).collect();
    Ok(found?.into_iter().filter(|text| !text.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_cover_linked_crates_only() {
        let found = crate_packages().unwrap();
        let has = |name: &str| found.iter().any(|it| it.name == name);
        assert!(has("tokio") && has("rusqlite") && has("libsqlite3-sys") && has("aws-lc-sys"));
        // `ring` is in Cargo.lock only because of a feature that is not enabled.
        let others = ["expect-test", "ring", "berth-core", "cc"];
        assert!(!others.into_iter().any(has), "{found:?}");
        let made = render_packages(&found).unwrap();
        assert!(made.contains("\ntokio 1.") && made.contains("Permission is hereby granted, free of charge"));
        // Identical texts appear only once, but there are several variants of the Apache licence.
        let apache = made.matches("\"Licensor\" shall mean the copyright owner").count();
        assert!((1..60).contains(&apache), "{apache} times");
    }
}
