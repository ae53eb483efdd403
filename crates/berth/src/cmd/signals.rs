//! SIGINT, SIGTERM and SIGHUP handling.

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal as Heard, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Calls `tell` on a separate thread for each signal that arrives from now on.
pub(crate) fn on_signal(mut tell: impl FnMut(Signal) + Send + 'static) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("cannot install signal handlers")?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot install signal handlers")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot install signal handlers")?;
    let mut hangup = hangup_signal().context("cannot install signal handlers")?;
    drop(entered);
    let listening = move || {
        loop {
            tell(runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                    () = wait_for_signal(&mut hangup) => Signal::HUP,
                }
            }));
        }
    };
    let started = std::thread::Builder::new().name("signals".into()).spawn(listening);
    started.map(|_| ()).context("cannot install signal handlers")
}

/// Returns `None` if the parent process made this one ignore SIGHUP, as `nohup` does.
pub(crate) fn hangup_signal() -> std::io::Result<Option<Heard>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = ignored & (1 << (Signal::HUP.as_raw() - 1)) != 0;
    if is_ignored { Ok(None) } else { signal(SignalKind::hangup()).map(Some) }
}

/// Waits for the signal; never returns if the signal is ignored.
pub(crate) async fn wait_for_signal(listening: &mut Option<Heard>) {
    match listening {
        Some(listening) => {
            listening.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// How the server reacts to SIGHUP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HangupPolicy {
    /// Stop, because the terminal was closed.
    Stop,
    /// Keep running; certificates are reloaded.
    Ignore,
}

pub(super) fn stop_on_signal(runtime: &Runtime, hangup: HangupPolicy) -> anyhow::Result<CancellationToken> {
    let _inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Install the handler in both cases, because SIGHUP terminates the process by default.
    let mut closed = hangup_signal()?.filter(|_| hangup == HangupPolicy::Stop);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = wait_for_signal(&mut closed) => {}
        }
        stopping.cancel();
    });
    Ok(stop)
}
