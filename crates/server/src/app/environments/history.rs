//! Lock history of an environment, and usage statistics derived from it.

use std::collections::BTreeMap;

use berth_api::environment::{EnvironmentInsights, HistoryEntry, HolderShare, Spread};
use berth_core::access::{Action, permit};
use berth_core::environment::{Session, SessionEndReason, Ticket, TicketCause, TicketState};
use berth_core::insights::{median, p90};
use berth_core::time::Timestamp;
use berth_store::tables::session;
use berth_store::tables::ticket::{self, INSIGHT_ROWS_MAX};

use super::{EnvironmentPath, response};
use crate::app::{ApiResponse, App};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::wire::actor_to_wire;

const HOLDERS_SHOWN_MAX: usize = 10;
const DAY_S: i64 = 24 * 60 * 60;

/// A page of a list, requested by its number. The first page is number 1.
pub struct NumberedPage<T> {
    pub items: Vec<T>,
    pub total: i64,
}

impl App {
    /// Lists the sessions of the environment, newest first.
    pub async fn view_history(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
        page: i64,
        limit: i64,
    ) -> Result<NumberedPage<HistoryEntry>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let environment = place.find_any(db, &access, Action::EnvironmentsRead)?.environment;
            let total = environment.sessions;
            let from = total.saturating_sub((page - 1).saturating_mul(limit));
            let sessions =
                if from > 0 { session::list_before(db, environment.id, from, limit)? } else { Vec::new() };
            let now = db.now();
            Ok(NumberedPage {
                items: sessions.iter().map(|session| history_entry(session, now)).collect(),
                total,
            })
        })
        .await
    }

    pub async fn view_insights(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
        days: i64,
    ) -> Result<ApiResponse<EnvironmentInsights>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let environment = place.find_any(db, &access, Action::EnvironmentsRead)?.environment;
            let now = db.now();
            let sessions = session::list_before(db, environment.id, environment.sessions, INSIGHT_ROWS_MAX)?;
            let tickets = ticket::list_of_environment(db, environment.id)?;
            let from = now.plus_seconds(-days * DAY_S).max(environment.created_at);
            let insights = compute_insights(&sessions, &tickets, from, now);
            Ok(ApiResponse::ok(EnvironmentInsights { env_name: environment.name.to_string(), ..insights }))
        })
        .await
    }
}

fn history_entry(it: &Session, now: Timestamp) -> HistoryEntry {
    let end = it.end.as_ref();
    HistoryEntry {
        session_id: it.id.to_string(),
        holder: response::holder_to_wire(&it.holder),
        context: it.context.as_ref().map(ToString::to_string),
        contact: it.contact.as_ref().map(ToString::to_string),
        commit_id: it.commit.as_ref().map(ToString::to_string),
        status: response::session_status_to_wire(it.status()),
        claimed_at: it.claimed_at.to_string(),
        ended_at: end.map(|end| end.at.to_string()),
        end_reason: end.map(|end| response::end_reason_to_wire(end.reason)),
        ended_by: end.map(|end| actor_to_wire(&end.by)),
        duration_seconds: end.map_or(now, |end| end.at).seconds_since(it.claimed_at),
        deployment_count: it.deployments,
        fence: it.fence.number(),
    }
}

/// Computes usage statistics for the time since `from`. `sessions` and `tickets` are sorted newest first.
fn compute_insights(
    sessions: &[Session],
    tickets: &[Ticket],
    from: Timestamp,
    now: Timestamp,
) -> EnvironmentInsights {
    let end_of = |session: &Session| session.end.as_ref().map_or(now, |end| end.at);
    let recent: Vec<_> = sessions.iter().filter(|session| end_of(session) >= from).collect();
    let ended = |reasons: &[SessionEndReason]| {
        let reason =
            |session: &&&Session| session.end.as_ref().is_some_and(|end| reasons.contains(&end.reason));
        recent.iter().filter(reason).count()
    };
    let held: i64 = recent.iter().map(|it| end_of(it).seconds_since(it.claimed_at.max(from))).sum();
    let holds = recent.iter().filter(|it| it.end.is_some());
    let lines = tickets.iter().filter(|ticket| ticket.created_at >= from);
    let waited = lines.clone().filter_map(|ticket| match &ticket.status {
        TicketState::Granted { at, .. } => Some(at.seconds_since(ticket.created_at)),
        _ => None,
    });
    let gave_up = lines.clone().filter(|ticket| match ticket.status {
        TicketState::Cancelled { cause, .. } => cause != TicketCause::GrantedElsewhere,
        TicketState::Expired { .. } => true,
        TicketState::Waiting | TicketState::Granted { .. } => false,
    });
    let period = now.seconds_since(from).max(1);
    EnvironmentInsights {
        env_name: String::new(),
        from: from.to_string(),
        to: now.to_string(),
        sessions: recent.len(),
        utilisation: ratio(held, period),
        hold_seconds: compute_spread(holds.map(|it| end_of(it).seconds_since(it.claimed_at)).collect()),
        wait_seconds: compute_spread(waited.collect()),
        takeovers: ended(&[SessionEndReason::Overridden]),
        expired: ended(&[SessionEndReason::Expired, SessionEndReason::Idle, SessionEndReason::Lease]),
        gave_up: gave_up.count(),
        holders: holder_shares(&recent, &end_of),
    }
}

fn holder_shares(sessions: &[&Session], end_of: &dyn Fn(&Session) -> Timestamp) -> Vec<HolderShare> {
    let mut shares = BTreeMap::new();
    for session in sessions {
        let share = shares.entry(session.holder.id).or_insert_with(|| HolderShare {
            holder: response::holder_to_wire(&session.holder),
            sessions: 0,
            seconds: 0,
        });
        share.sessions += 1;
        share.seconds += end_of(session).seconds_since(session.claimed_at);
    }
    let mut shares: Vec<_> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.seconds));
    shares.truncate(HOLDERS_SHOWN_MAX);
    shares
}

/// Returns `part / whole`, rounded down to three decimals and at most 1.
fn ratio(part: i64, whole: i64) -> f64 {
    let thousandths = (part.max(0) * 1_000 / whole).min(1_000);
    f64::from(i32::try_from(thousandths).unwrap_or(1_000)) / 1_000.0
}

fn compute_spread(mut seconds: Vec<i64>) -> Spread {
    seconds.sort_unstable();
    Spread { median: median(&seconds), p90: p90(&seconds), max: seconds.last().copied() }
}
