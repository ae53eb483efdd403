//! `cargo xtask demo`: build the dashboard and the binary, and become it. With `--check`, play what the README tells.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::tool::{self, Done, apt_install, cargo, cargo_has, may_install, output};
use crate::web;

const STORY: &str = "demo::";
const BROWSER_STORY: &str = "demo.spec.ts";

pub(crate) fn run(args: &[String]) -> Done {
    match args {
        [only] if only == "--check" => check(),
        args if args.iter().any(|arg| arg == "--check") => Err("--check takes nothing else".into()),
        args => start(args),
    }
}

fn start(args: &[String]) -> Done {
    // Before anything takes minutes.
    if output(Command::new("git").arg("--version")).is_none() {
        return Err(
            "the demo needs git 2.39 or newer: install it (`apt-get install git`) and start again".into()
        );
    }
    prepare_sandbox();
    // On stderr, because `--json` promises a single JSON object on stdout.
    eprintln!("1 of 3: the dashboard");
    prepare_dashboard();
    eprintln!("2 of 3: berth itself; the first build takes some minutes, and cargo counts what is left");
    tool::run(&mut cargo(["build", "-p", "berth"])).map_err(|why| {
        format!(
            "{why}. If it was for want of space: a first build takes about 3 GB below the target directory."
        )
    })?;
    eprintln!("3 of 3: starting");
    let berth = berth_program()?;
    // Taking our place: Ctrl-C and the exit code reach the right program without being passed on.
    let error = Command::new(&berth).args(["serve", "--demo"]).args(args).exec();
    Err(format!("cannot start {}: {error}", berth.display()))
}

/// Path of the server binary. Cargo puts the programs of one profile into one directory, wherever that is.
fn berth_program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    Ok(own.with_file_name("berth"))
}

/// Steps run in bubblewrap. Where it cannot be had, the server says what it does instead.
fn prepare_sandbox() {
    if output(Command::new("bwrap").arg("--version")).is_some() {
        return;
    }
    let installed = if may_install() { apt_install(&["bubblewrap"]) } else { Err("this needs root".into()) };
    if let Err(why) = installed {
        eprintln!("going on without bubblewrap (`apt-get install bubblewrap`): {why}");
    }
}

fn prepare_dashboard() {
    if let Err(why) = web::prepare() {
        eprintln!("going on without a new dashboard: {why}");
    }
}

/// The same tests that `cargo xtask test` runs among all others.
fn check() -> Done {
    prepare_dashboard();
    println!("==> by the API, the command line and the sites");
    let tests = if cargo_has("nextest") {
        &["nextest", "run", "-p", "berth", "--test", "it", STORY][..]
    } else {
        &["test", "--quiet", "-p", "berth", "--test", "it", STORY]
    };
    tool::run(&mut cargo(tests.iter().copied()))?;
    println!("==> in a browser");
    // The tests above have built it.
    let berth = berth_program()?;
    web::browse(&berth, &[BROWSER_STORY], &berth.with_file_name("demo.xml"))
}
