//! Sees to it that etcd is there, which the benchmark of locks compares with.

use std::process::Command;

use crate::tool::{apt_install, may_install, output};

const PACKAGE: &str = "etcd-server";

/// Installs it where that is our business. Without it the benchmark says what is missing and measures Berth alone.
pub(crate) fn prepare() {
    if output(Command::new("etcd").arg("--version")).is_some() || !may_install() {
        return;
    }
    if let Err(why) = apt_install(&[PACKAGE]) {
        eprintln!("{PACKAGE} cannot be installed: {why}");
    }
}
