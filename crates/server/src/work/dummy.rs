//! The built-in `dummy` step at work: it takes its time and ends as it was told to.

use std::time::Duration;

use berth_core::deployment::{Cause, Failure};
use berth_core::pipeline::grammar::StepId;
use berth_core::pipeline::model::{Retry, Step};
use berth_core::pipeline::seconds::Seconds;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dummy {
    pub(super) id: StepId,
    params: Params,
    timeout: Option<Seconds>,
    retry: Option<Retry>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Params {
    #[serde(default)]
    outcome: Ending,
    duration: Option<Seconds>,
    stop_after: Option<Seconds>,
    message: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    #[default]
    Succeed,
    Fail,
    Hang,
}

impl Dummy {
    pub(super) fn of(step: &Step) -> Result<Self, serde_json::Error> {
        let params = serde_json::from_value(Value::Object(step.params.clone()))?;
        Ok(Self { id: step.id.clone(), params, timeout: step.timeout, retry: step.retry })
    }

    /// Stopped by being dropped.
    pub(super) async fn work(&self) -> Result<(), Failure> {
        let tries = self.retry.map_or(1, |retry| retry.attempts.max(1));
        for _ in 1..tries {
            if self.attempt().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(length(self.retry.map(|retry| retry.backoff))).await;
        }
        self.attempt().await
    }

    /// How long it takes to stop once it is told to.
    pub(super) fn stop_after(&self) -> Duration {
        length(self.params.stop_after)
    }

    async fn attempt(&self) -> Result<(), Failure> {
        let Some(timeout) = self.timeout else { return self.pretend().await };
        let in_time = tokio::time::timeout(length(Some(timeout)), self.pretend()).await;
        in_time.unwrap_or_else(|_| {
            let detail = format!("step \"{}\" took longer than its timeout of {timeout}", self.id);
            Err(Failure { cause: Cause::TimedOut, detail })
        })
    }

    async fn pretend(&self) -> Result<(), Failure> {
        tokio::time::sleep(length(self.params.duration)).await;
        match self.params.outcome {
            Ending::Succeed => Ok(()),
            Ending::Hang => std::future::pending().await,
            Ending::Fail => {
                let message = self.params.message.as_deref().unwrap_or("it was told to");
                let detail = format!("step \"{}\" failed: {message}", self.id);
                Err(Failure { cause: Cause::StepFailed, detail })
            }
        }
    }
}

fn length(seconds: Option<Seconds>) -> Duration {
    Duration::from_secs(seconds.map_or(0, Seconds::as_secs))
}
