//! Environment variables of a step's processes. They get only the variables that the assignment declares, and inherit
//! none from the runner.

use std::ffi::OsString;
use std::process::Command;

use berth_api::runner::{AttemptAssignment, StepRunOutcome};
use berth_core::pipeline::grammar::{RESERVED_NAMES, RESERVED_PREFIXES, is_reserved};

use super::dirs::AttemptDirs;
use super::invalid_outcome;

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Checks the variables that the assignment declares.
pub(crate) fn check_environment(assignment: &AttemptAssignment) -> Result<(), StepRunOutcome> {
    let declared = assignment.env.keys().chain(assignment.secret_files.keys());
    for name in declared {
        check_variable_name(name).map_err(invalid_outcome)?;
    }
    let values = assignment.env.iter().chain(&assignment.facts);
    for (name, value) in values {
        if value.contains('\0') {
            return Err(invalid_outcome(format!(
                "the variable `{name}` holds a NUL byte, which no environment can"
            )));
        }
    }
    Ok(())
}

/// Clears the inherited environment and sets the step's variables.
pub(crate) fn apply_environment(
    command: &mut Command,
    assignment: &AttemptAssignment,
    dirs: &AttemptDirs,
) -> Result<(), StepRunOutcome> {
    check_environment(assignment)?;
    command.env_clear();
    command.env("PATH", PATH).env("HOME", &dirs.home).env("TMPDIR", &dirs.tmp);
    command.envs(&assignment.env).envs(&assignment.facts);
    command.envs(dirs.secret_files.get().into_iter().flatten());
    let own: [(&str, OsString); 3] = [
        ("BERTH_OUTPUT", dirs.output.clone().into()),
        ("BERTH_ATTEMPT_ID", dirs.id.clone().into()),
        ("BERTH_WORKSPACE", dirs.workspace.clone().into()),
    ];
    command.envs(own);
    Ok(())
}

fn check_variable_name(name: &str) -> Result<(), String> {
    if is_reserved(name) {
        return Err(format!(
            "`env` may not set `{name}`: {} and names that begin with {} are reserved; use another name",
            RESERVED_NAMES.join(", "),
            RESERVED_PREFIXES.join(", ")
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
    fn reserved_variable_names_are_rejected() {
        let beginnings = ["BERTH_X", "LD_PRELOAD", "GIT_SSH", "BASH_FUNC_read%%"];
        for name in beginnings.iter().chain(RESERVED_NAMES) {
            assert!(check_variable_name(name).expect_err(name).contains("reserved"), "{name}");
        }
        for name in ["", "a=b", "a\0b"] {
            assert!(check_variable_name(name).is_err(), "{name:?}");
        }
        for name in ["TOKEN", "IMAGE", "HOME", "LANG", "PATHS", "MY_BERTH_X"] {
            assert!(check_variable_name(name).is_ok(), "{name}");
        }
    }
}
