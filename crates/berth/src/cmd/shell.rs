//! `berth completion` and `berth man`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct CompletionArgs {
    /// Shell
    shell: Shell,
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Output directory; created if it does not exist
    dir: PathBuf,
}

pub(crate) fn print_completion(
    args: &CompletionArgs,
    mut program: clap::Command,
) -> anyhow::Result<ExitCode> {
    // Render into a buffer first, because clap panics if the reader closes the pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "berth", &mut text);
    std::io::stdout().write_all(&text).context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write_man_pages(args: &ManArgs, program: clap::Command) -> anyhow::Result<ExitCode> {
    let shown = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {shown}"))?;
    clap_mangen::generate_to(program, &args.dir).with_context(|| format!("cannot write to {shown}"))?;
    Ok(ExitCode::SUCCESS)
}
