//! Ctrl-C: the step is ended in order, not left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Signals are heard from now on.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let told = Self(Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("cannot listen to signals")?;
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
        drop(entered);
        let teller = told.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                });
                teller.0.store(true, Ordering::Relaxed);
            })
            .context("cannot listen to signals")?;
        Ok(told)
    }

    pub(super) fn is_told(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
