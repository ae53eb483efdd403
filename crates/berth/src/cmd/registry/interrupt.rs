//! Records Ctrl-C in a flag, so that the command can stop the step before it exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cmd::signals;

#[derive(Clone)]
pub(super) struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// Installs the signal handlers.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let told = Self(Arc::default());
        let teller = told.clone();
        signals::on_signal(move |_| teller.0.store(true, Ordering::Relaxed))?;
        Ok(told)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
