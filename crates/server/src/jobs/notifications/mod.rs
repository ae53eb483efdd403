//! Notifies people of events.
//!
//! [`NotificationFanOut`] follows the audit log with a cursor per organization, decides who is notified and stores the
//! notifications. [`NotificationMailer`] sends those that are due by email, and [`ChatSender`] sends messages to
//! chats. A crash loses nothing: events after the stored cursor are read again, which creates no notification twice, and a
//! message without a stored outcome is sent again.

mod chat_outbox;
mod chat_sender;
mod fan_out;
mod mailer;
mod page;
mod people;

pub(crate) use chat_sender::ChatSender;
pub(crate) use mailer::NotificationMailer;

use std::collections::HashMap;
use std::sync::Arc;

use berth_core::id::OrgId;
use berth_engine::Services;
use parking_lot::Mutex;

use crate::config::AppConfig;
use crate::error::AppError;
use crate::worker::{BackgroundJob, LOOK_EVERY, TurnResult};

/// Background job that creates notifications from events.
pub(crate) struct NotificationFanOut {
    services: Arc<Services>,
    config: Arc<AppConfig>,
    /// Sequence number of the last event read for each organization. With this cache, the cursor need not be stored
    /// for every event that notifies no one.
    positions: Mutex<HashMap<OrgId, i64>>,
}

impl NotificationFanOut {
    pub(crate) fn new(services: Arc<Services>, config: Arc<AppConfig>) -> Self {
        Self { services, config, positions: Mutex::default() }
    }
}

impl BackgroundJob for NotificationFanOut {
    const NAME: &'static str = "notifications";

    async fn turn(&self) -> Result<TurnResult, AppError> {
        let has_more = fan_out::read_events(self).await?;
        Ok(if has_more { TurnResult::Again } else { TurnResult::Idle })
    }

    async fn wait(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
