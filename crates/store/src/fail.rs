//! Ends the process at a chosen commit, so that tests can see what survives that. Only in builds for development.
//!
//! `TEST_FAIL_AT_COMMIT` names a file. Once it is there, its text, such as `before 3` or `after 3`, says at which of the
//! commits from then on, and on which side of it. `forget 3` is a planted mistake: on PostgreSQL every third commit is
//! told as made, and is not. Whoever checks what was acknowledged has to find that.

use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
    /// Neither: it is left out.
    Instead,
}

#[derive(Default)]
pub(crate) struct FailPoint {
    file: Option<PathBuf>,
    armed: Option<(Side, u32)>,
    forgotten: u32,
}

impl FailPoint {
    pub(crate) fn from_env() -> Self {
        let file = std::env::var_os("TEST_FAIL_AT_COMMIT").filter(|_| cfg!(debug_assertions));
        Self { file: file.map(PathBuf::from), armed: None, forgotten: 0 }
    }

    /// A commit is about to happen, or has.
    pub(crate) fn pass(&mut self, side: Side) {
        let Some(file) = &self.file else { return };
        if self.armed.is_none() && side == Side::Before {
            self.armed = std::fs::read_to_string(file).ok().and_then(|text| read(&text));
        }
        match &mut self.armed {
            Some((chosen, 1)) if *chosen == side => std::process::abort(),
            Some((Side::Instead, _)) => {}
            Some((_, left)) if side == Side::After => *left = left.saturating_sub(1).max(1),
            _ => {}
        }
    }

    /// Whether this commit is left out, and told as made all the same.
    pub(crate) fn forgets(&mut self) -> bool {
        let Some((Side::Instead, every)) = self.armed else { return false };
        self.forgotten += 1;
        self.forgotten.is_multiple_of(every)
    }
}

fn read(text: &str) -> Option<(Side, u32)> {
    let (side, count) = text.trim().split_once(' ')?;
    let side = match side {
        "before" => Side::Before,
        "after" => Side::After,
        "forget" => Side::Instead,
        _ => return None,
    };
    Some((side, count.parse().ok().filter(|count| *count > 0)?))
}
