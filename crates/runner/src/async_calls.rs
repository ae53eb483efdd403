//! Runs async clients for the blocking threads of attempts.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use berth_api::runner::StepRunOutcome;
use tokio::runtime::{EnterGuard, Handle, Runtime};

use crate::attempt::RunningAttempt;

/// Interval between two checks whether the attempt has to stop, during a call.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Runs an async client. Its single worker thread also copies the output of containers.
pub(crate) struct AsyncRuntime {
    handle: Handle,
    _runtime: BackgroundRuntime,
}

/// Stops without waiting when dropped, because that may happen on a thread of another runtime.
struct BackgroundRuntime(Option<Runtime>);

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl AsyncRuntime {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name(name).enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), _runtime: BackgroundRuntime(Some(runtime)) })
    }

    pub(crate) fn block_on<T>(&self, call: impl Future<Output = T>) -> T {
        self.handle.block_on(call)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// Makes a call on the attempt's thread. Returns early when the attempt has to stop or its timeout expires, and sends
    /// log chunks that become due.
    pub(crate) fn call<T>(
        &self,
        attempt: &RunningAttempt<'_>,
        call: impl Future<Output = T>,
    ) -> Result<T, StepRunOutcome> {
        self.block_on(async {
            tokio::pin!(call);
            loop {
                if let Ok(done) = tokio::time::timeout(STOP_INTERVAL, &mut call).await {
                    return Ok(done);
                }
                attempt.log.tick();
                if let Some(why) = attempt.stop_reason() {
                    return Err(attempt.stopped_outcome(&why));
                }
                if Instant::now() >= attempt.deadline {
                    return Err(attempt.timeout_outcome());
                }
            }
        })
    }
}
