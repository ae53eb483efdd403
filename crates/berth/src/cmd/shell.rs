//! `berth completion` and `berth man`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::env::Shells;

/// The shell's completion function calls `berth` with this variable.
pub(crate) const COMPLETION_VARIABLE: &str = "BERTH_COMPLETE";

#[derive(clap::Args)]
pub(crate) struct CompletionArgs {
    /// Shell
    shell: CompletionShell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CompletionShell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl CompletionShell {
    fn as_str(self) -> &'static str {
        match self {
            CompletionShell::Bash => "bash",
            CompletionShell::Elvish => "elvish",
            CompletionShell::Fish => "fish",
            CompletionShell::Powershell => "powershell",
            CompletionShell::Zsh => "zsh",
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Output directory; created if it does not exist
    dir: PathBuf,
}

pub(crate) fn print_completion(args: &CompletionArgs) -> anyhow::Result<ExitCode> {
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell.as_str()).context("unknown shell")?;
    let mut text = Vec::new();
    shell.write_registration(COMPLETION_VARIABLE, "berth", "berth", "berth", &mut text)?;
    std::io::stdout().write_all(&text).context("cannot print")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn write_man_pages(args: &ManArgs, program: clap::Command) -> anyhow::Result<ExitCode> {
    let shown = args.dir.display();
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot create {shown}"))?;
    clap_mangen::generate_to(program, &args.dir).with_context(|| format!("cannot write to {shown}"))?;
    Ok(ExitCode::SUCCESS)
}
