//! Commits as people name them.

use std::process::Command;

use anyhow::Context as _;

/// `HEAD` and what builds on it is looked up in the repository here; anything else is for the server to find.
pub(crate) fn commit_id(text: &str) -> anyhow::Result<String> {
    let is_local = text == "@" || text.split(['~', '^']).next() == Some("HEAD");
    if !is_local {
        return Ok(text.to_owned());
    }
    let mut git = Command::new("git");
    git.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(format!("{text}^{{commit}}"));
    let told = git.output().context("cannot ask git; is it installed?")?;
    let commit = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    if !told.status.success() || commit.is_empty() {
        anyhow::bail!("git knows no {text} here: run this inside a repository, or name the commit itself");
    }
    Ok(commit)
}
