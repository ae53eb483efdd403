//! Sees to it that there are the programs that pages of the documentation use, which the tests run.

use std::path::Path;

use crate::tool::{apt_install, may_install};

/// A program, where it is, and what brings it.
const WANTED: &[(&str, &str)] = &[
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/bin/ssh", "openssh-client"),
    ("/usr/bin/jq", "jq"),
    ("/usr/bin/curl", "curl"),
];

/// Installs them where that is our business. Pages that need one that is missing say so and are not tested.
pub(crate) fn prepare() {
    for (program, package) in WANTED {
        if Path::new(program).exists() || !may_install() {
            continue;
        }
        if let Err(why) = apt_install(package) {
            eprintln!("{package} cannot be installed: {why}");
        }
    }
}
