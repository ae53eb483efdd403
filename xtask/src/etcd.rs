//! Installs etcd, with which the `locks` benchmark compares Berth.

use std::process::Command;

use crate::tool::{apt_install, may_install, output};

const PACKAGE: &str = "etcd-server";

/// Installs etcd if this machine allows it. Without etcd the benchmark measures only Berth.
pub(crate) fn prepare() {
    if output(Command::new("etcd").arg("--version")).is_some() || !may_install() {
        return;
    }
    if let Err(why) = apt_install(&[PACKAGE]) {
        eprintln!("{PACKAGE} cannot be installed: {why}");
    }
}
