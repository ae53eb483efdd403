//! `berth completion` and `berth man`: help where people look for it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::Shell;

#[derive(clap::Args)]
pub(crate) struct Completion {
    shell: Shell,
}

#[derive(clap::Args)]
pub(crate) struct Man {
    /// Where the pages are written; made if it is not there
    dir: PathBuf,
}

pub(crate) fn completion(args: &Completion, mut program: clap::Command) -> anyhow::Result<ExitCode> {
    // Not straight to the terminal: where nobody reads on, that would panic.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "berth", &mut text);
    std::io::stdout().write_all(&text).context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man, program: clap::Command) -> anyhow::Result<ExitCode> {
    let shown = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {shown}"))?;
    clap_mangen::generate_to(program, &args.dir).with_context(|| format!("cannot write into {shown}"))?;
    Ok(ExitCode::SUCCESS)
}
