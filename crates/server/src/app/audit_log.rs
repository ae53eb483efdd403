//! Export and verification of the complete audit log.

use std::io;
use std::sync::Arc;

use axum::body::Bytes;
use berth_api::event as wire;
use berth_core::access::{Action, permit};
use berth_store::audit::{self, AuditFault, AuditHead, AuditVerdict, StoredCheck};
use berth_store::tables::event;
use futures_util::Stream;

use super::follow::StreamAccess;
use super::resource_access::require_everywhere;
use super::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::streams::StreamSlot;

/// Number of events that an export reads per page.
const PAGE_EVENTS: i64 = 1_000;

impl App {
    /// Exports all stored events as JSON Lines, oldest first. The last line is the head of the hash chain.
    pub async fn export_events(
        self: &Arc<Self>,
        who: AuthorizedCaller<permit::EventsRead>,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + use<>, AppError> {
        require_everywhere(who.access(), Action::EventsRead)?;
        let place = self.take_stream(&who)?;
        let (start, head) =
            self.read(&who, |db| Ok((event::retained_after(db)?, event::chain_head(db)?))).await?;
        let right = StreamAccess::new(self.clone(), who);
        let at = start.sequence;
        let export = EventExport { right, start: Some(start), head, at, ended: false, _slot: place };
        Ok(futures_util::stream::unfold(export, EventExport::next))
    }

    /// Verifies the hash chain: checks every event against its hash and its predecessor. `kept` is a chain head that
    /// the caller saved earlier.
    pub async fn verify_events(
        &self,
        who: &AuthorizedCaller<permit::EventsRead>,
        kept: Option<AuditHead>,
    ) -> Result<ApiResponse<wire::ChainVerification>, AppError> {
        require_everywhere(who.access(), Action::EventsRead)?;
        let _place = self.take_stream(who)?;
        let _pass = self.streams.checks.enter(who.org()).await?;
        let mut check = self.read(who, move |db| Ok(StoredCheck::begin(db, kept)?)).await?;
        loop {
            let page = self.read(who, move |db| {
                let more = check.verify_page(db)?;
                Ok((check, more))
            });
            let more;
            (check, more) = page.await?;
            if !more {
                return Ok(ApiResponse::ok(verification_to_wire(check.finish())));
            }
        }
    }
}

struct EventExport {
    right: StreamAccess,
    /// The position in the hash chain where the stored events start. `None` once it has been sent to the client.
    start: Option<AuditHead>,
    head: AuditHead,
    at: i64,
    ended: bool,
    _slot: StreamSlot,
}

impl EventExport {
    /// On an error the connection is aborted, so that a client does not mistake a partial export for a complete one.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.ended {
            return None;
        }
        let part = self.next_part().await;
        self.ended |= part.is_err();
        Some((part.map_err(io::Error::other), self))
    }

    async fn next_part(&mut self) -> Result<Bytes, &'static str> {
        if self.right.app.services.shutdown.is_cancelled() {
            return Err("the server is stopping");
        }
        if !self.right.is_still_allowed().await {
            return Err("the permission to read events was revoked");
        }
        let (org, at, head) = (self.right.org(), self.at, self.head.clone());
        let start = self.start.take();
        let page = self.right.app.read(&self.right.who, move |db| {
            if event::retained_after(db)?.sequence > at {
                return Ok(None);
            }
            let page = event::list_after(db, at, head.sequence, PAGE_EVENTS)?;
            let mut text = String::new();
            if let Some(line) =
                start.map(|start| audit::export::start_line(org, &start)).transpose()?.flatten()
            {
                text.push_str(&line);
                text.push('\n');
            }
            for event in &page {
                text.push_str(&audit::canonical_line(event)?);
                text.push('\n');
            }
            let at = page.last().map_or(at, |event| event.sequence);
            let is_last = page.is_empty() || at >= head.sequence;
            if is_last {
                text.push_str(&audit::export::head_line(org, &head)?);
                text.push('\n');
            }
            Ok(Some((text, at, is_last)))
        });
        let page = page.await.map_err(|error| {
            tracing::error!(problem = error.into_problem().code, "audit log export aborted");
            "the audit log cannot be read"
        })?;
        let (text, at, is_last) = page.ok_or("old events were removed during the export")?;
        self.at = at;
        self.ended = is_last;
        Ok(text.into())
    }
}

fn verification_to_wire(verdict: AuditVerdict) -> wire::ChainVerification {
    let AuditVerdict { checked, first, head, head_is_too_old, problem } = verdict;
    wire::ChainVerification {
        valid: problem.is_none(),
        checked,
        first_sequence: first,
        head_is_too_old,
        head: wire::ChainHead { sequence: head.sequence, hash: head.hash },
        first_problem: problem.map(|problem| wire::ChainProblem {
            sequence: problem.sequence,
            reason: match problem.reason {
                AuditFault::Edited => wire::ChainReason::Edited,
                AuditFault::Missing => wire::ChainReason::Missing,
                AuditFault::Unexpected => wire::ChainReason::Unexpected,
                AuditFault::Truncated => wire::ChainReason::Truncated,
                AuditFault::HeadDiffers => wire::ChainReason::HeadDiffers,
            },
            detail: problem.detail,
        }),
    }
}
