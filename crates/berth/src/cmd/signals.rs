//! Ctrl-C and TERM: told to whoever has something to end in order.

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Signals are heard from now on, each time, by a thread of their own.
pub(crate) fn listen(mut tell: impl FnMut(Signal) + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("cannot listen to signals")?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen to signals")?;
    drop(entered);
    let listening = move || {
        loop {
            tell(runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                }
            }));
        }
    };
    let started = std::thread::Builder::new().name("signals".into()).spawn(listening);
    started.map(|_| ()).context("cannot listen to signals")
}
