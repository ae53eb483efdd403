//! Installs etcd, which the `locks` benchmark compares with.

use std::process::Command;

use crate::tool::{apt_install, may_install, output};

const PACKAGE: &str = "etcd-server";

/// Installs etcd where this is allowed. Without it the benchmark measures Berth alone.
pub(crate) fn prepare() {
    if output(Command::new("etcd").arg("--version")).is_some() || !may_install() {
        return;
    }
    if let Err(why) = apt_install(&[PACKAGE]) {
        eprintln!("{PACKAGE} cannot be installed: {why}");
    }
}
