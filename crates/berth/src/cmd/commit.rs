//! Resolves commits named on the command line.

use std::process::Command;

use anyhow::Context as _;

/// Resolves `@`, `HEAD` and expressions such as `HEAD~1` in the local git repository. Everything else is returned
/// unchanged, for the server to resolve.
pub(crate) fn resolve_commit(text: &str) -> anyhow::Result<String> {
    let is_local = text == "@" || text.split(['~', '^']).next() == Some("HEAD");
    if !is_local {
        return Ok(text.to_owned());
    }
    let mut git = Command::new("git");
    git.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(format!("{text}^{{commit}}"));
    let told = git.output().context("cannot run git; is it installed?")?;
    let commit = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    if !told.status.success() || commit.is_empty() {
        anyhow::bail!("cannot resolve {text}: run this in a git repository, or give a commit id");
    }
    Ok(commit)
}
