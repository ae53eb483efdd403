//! The environment of a step's processes: what was declared, and nothing of ours by accident.

use std::ffi::OsString;
use std::process::Command;

use berth_api::runner::{Assignment, Outcome};

use super::invalid;
use super::place::Place;

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Names with which a value could change how our own programs, or every program, behaves.
const RESERVED: &[&str] = &["PATH", "NODE_OPTIONS", "BASH_ENV", "IFS", "ENV"];
const RESERVED_BEGINNINGS: &[&str] = &["BERTH_", "LD_", "GIT_"];

/// Sets exactly these variables.
pub(crate) fn apply(command: &mut Command, assignment: &Assignment, place: &Place) -> Result<(), Outcome> {
    let declared = assignment.env.keys().chain(assignment.secret_files.keys());
    for name in declared {
        check_name(name).map_err(invalid)?;
    }
    let values = assignment.env.iter().chain(&assignment.facts);
    for (name, value) in values {
        if value.contains('\0') {
            return Err(invalid(format!("the variable `{name}` holds a NUL byte, which no environment can")));
        }
    }
    command.env_clear();
    command.env("PATH", PATH).env("HOME", &place.home).env("TMPDIR", &place.tmp);
    command.envs(&assignment.env).envs(&assignment.facts);
    command.envs(place.secret_files.get().into_iter().flatten());
    let own: [(&str, OsString); 3] = [
        ("BERTH_OUTPUT", place.output.clone().into()),
        ("BERTH_ATTEMPT_ID", place.id.clone().into()),
        ("BERTH_WORKSPACE", place.workspace.clone().into()),
    ];
    command.envs(own);
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_reserved =
        RESERVED.contains(&name) || RESERVED_BEGINNINGS.iter().any(|begin| name.starts_with(begin));
    if is_reserved {
        return Err(format!(
            "`env` may not set `{name}`: {} and names that begin with {} are reserved; use another name",
            RESERVED.join(", "),
            RESERVED_BEGINNINGS.join(", ")
        ));
    }
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!("`{}` is not a name a variable can have", name.escape_debug()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sb02_reserved_names_are_refused() {
        for name in ["BERTH_X", "LD_PRELOAD", "PATH", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH", "IFS", "ENV"] {
            assert!(check_name(name).expect_err(name).contains("reserved"), "{name}");
        }
        for name in ["", "a=b", "a\0b"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["TOKEN", "IMAGE", "HOME", "LANG", "PATHS", "MY_BERTH_X"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
    }
}
