//! Finds the PostgreSQL server programs, and installs them if this machine allows it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{apt_install, may_install, output};

const VERSION_MIN: u32 = 15;
const PACKAGES: &str = "/usr/lib/postgresql";

/// Returns the program directory of the newest suitable version on this machine.
pub(crate) fn find() -> Option<PathBuf> {
    let packaged = std::fs::read_dir(PACKAGES).into_iter().flatten().flatten();
    let packaged = packaged.map(|version| version.path().join("bin"));
    let on_path: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let found = on_path
        .into_iter()
        .chain(packaged)
        .filter_map(|bin| read_version(&bin).map(|version| (version, bin)));
    let suitable = found.filter(|(version, _)| *version >= VERSION_MIN);
    // If versions are equal, `max_by_key` returns the last one, which is a system package. Its programs are next to
    // their libraries.
    suitable.max_by_key(|(version, _)| *version).map(|(_, bin)| bin)
}

/// Installs PostgreSQL, if this machine allows it.
pub(crate) fn install() -> Result<PathBuf, String> {
    if !may_install() {
        return Err(missing_message("it is not installed"));
    }
    apt_install(&["postgresql"]).map_err(|error| missing_message(&error))?;
    find().ok_or_else(|| missing_message("the package of this system is too old"))
}

/// Finds or installs PostgreSQL. Without it, benchmarks that need it fail.
pub(crate) fn prepare() -> Option<PathBuf> {
    find().or_else(|| install().inspect_err(|why| eprintln!("{why}")).ok())
}

pub(crate) fn missing_message(why: &str) -> String {
    format!(
        "no PostgreSQL server of version {VERSION_MIN} or newer ({why}). Tests on PostgreSQL are \
         skipped. To run them: `apt-get install postgresql` (Debian, Ubuntu) or `brew install postgresql` \
         (macOS), or put the directory with `initdb` on PATH."
    )
}

fn read_version(bin: &Path) -> Option<u32> {
    let initdb = bin.join("initdb");
    if !initdb.is_file() || !bin.join("postgres").is_file() {
        return None;
    }
    parse_major(&output(Command::new(initdb).arg("--version"))?)
}

/// Parses the major version from `initdb (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` or `17beta1`.
fn parse_major(text: &str) -> Option<u32> {
    let number = text.split(") ").nth(1)?;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgres_version_is_parsed() {
        assert_eq!(parse_major("initdb (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("initdb (PostgreSQL) 17beta1"), Some(17));
        assert_eq!(parse_major("initdb"), None);
    }
}
