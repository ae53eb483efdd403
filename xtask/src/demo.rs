//! `cargo xtask demo`: build the dashboard and the binary, and become it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::tool::{self, Done, cargo};
use crate::web::{self, NoNode};

pub(crate) fn run(args: &[String]) -> Done {
    match web::prepare() {
        Ok(Ok(())) => {}
        Ok(Err(why)) => eprintln!("going on without a new dashboard: {why}"),
        Err(NoNode(why)) => eprintln!("going on without the dashboard: {why}"),
    }
    // On stderr, because `--json` promises a single JSON object on stdout.
    eprintln!("building berth, a cold build takes some minutes");
    tool::run(&mut cargo(["build", "-p", "berth"]))?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find my own program: {error}"))?;
    // Cargo puts the programs of one profile into one directory, wherever that is.
    let berth = own.with_file_name("berth");
    // Taking our place: Ctrl-C and the exit code reach the right program without being passed on.
    let error = Command::new(&berth).args(["serve", "--demo"]).args(args).exec();
    Err(format!("cannot start {}: {error}", berth.display()))
}
