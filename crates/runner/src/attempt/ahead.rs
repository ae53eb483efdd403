//! What can be prepared of a script before all is ready for it: its directories, and its shell, which waits.

use std::sync::Arc;

use berth_api::runner::{Assignment, AttemptRef};

use super::place::Place;
use crate::builtin::script;
use crate::process::Held;
use crate::runner::Shared;

/// Nobody may ever want it: then it goes as if it had never been.
pub(crate) struct Ahead {
    shared: Arc<Shared>,
    nonce: String,
    parts: Option<(Place, Held)>,
}

impl Ahead {
    /// Before it is granted for good. Nothing that knows a secret: that it was read is not on record yet.
    pub(crate) fn of_grant(shared: &Arc<Shared>, assignment: &Assignment) -> Option<Self> {
        let knows_secrets = !assignment.masked.is_empty();
        if knows_secrets { None } else { Self::prepare(shared, assignment) }
    }

    /// Nothing where the server would have to be asked for more, nor where it cannot be: the attempt itself will say why.
    pub(crate) fn prepare(shared: &Arc<Shared>, assignment: &Assignment) -> Option<Self> {
        let needs_more = assignment.has_source
            || !assignment.needs_artifacts.is_empty()
            || !assignment.secret_files.is_empty()
            || assignment.custom.is_some();
        let text = script::text_of(assignment).filter(|_| !needs_more)?;
        let place = shared.tidy.place(&shared.settings).ok()?;
        let held = script::hold(shared, assignment, &place, text);
        let held = held.inspect_err(|_| shared.tidy.remove(&place)).ok()?;
        let nonce = assignment.attempt.nonce.clone();
        Some(Self { shared: shared.clone(), nonce, parts: Some((place, held)) })
    }

    pub(crate) fn is_for(&self, attempt: &AttemptRef) -> bool {
        self.nonce == attempt.nonce
    }

    pub(crate) fn take(mut self) -> Option<(Place, Held)> {
        self.parts.take()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some((place, held)) = self.parts.take() {
            drop(held);
            self.shared.tidy.remove(&place);
        }
    }
}
