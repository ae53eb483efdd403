//! Final checks: compares the rows in the database with the responses that clients received.

use std::collections::{HashMap, HashSet};

use berth_testkit::postgres::{Client, NoTls};

use super::TakenEnvironment;
use crate::linear::epochs::counter;

/// A row of the table `sessions`.
struct AuditedSession {
    environment: String,
    fence: u64,
    number: i64,
    claimed_at: i64,
    ended_at: Option<i64>,
}

/// Checks that the sessions of each environment form a chain, that all acknowledged sessions exist, and that no step
/// was granted to a session after it had lost its environment.
pub(super) fn check(
    url: &str,
    acknowledged: &HashMap<String, u64>,
    taken: &[TakenEnvironment],
) -> Result<(), String> {
    let mut client = Client::connect(url, NoTls).map_err(|error| error.to_string())?;
    let mut ask = |text: &str| client.query(text, &[]).map_err(|error| format!("{text}: {error}"));
    let rows = ask("SELECT environment_id, id, fence, number, claimed_at, ended_at FROM sessions
        ORDER BY environment_id, fence")?;
    let mut before: Option<AuditedSession> = None;
    for row in &rows {
        let fence: i64 = row.get(2);
        let now = AuditedSession {
            environment: row.get(0),
            fence: u64::try_from(fence).map_err(|_| format!("a fence below zero: {fence}"))?,
            number: row.get(3),
            claimed_at: row.get(4),
            ended_at: row.get(5),
        };
        let id: String = row.get(1);
        check_successor(before.as_ref().filter(|it| it.environment == now.environment), &now)
            .map_err(|why| format!("{id}, fence {}: {why}", now.fence))?;
        before = Some(now);
    }
    check_acknowledged(url, acknowledged)?;
    let deployments: HashSet<String> =
        ask("SELECT id FROM deployments")?.iter().map(|row| row.get(0)).collect();
    if let Some(lost) = taken.iter().find(|it| !deployments.contains(&it.deployment)) {
        return Err(format!("{lost:?} was acknowledged, and its deployment is not there"));
    }
    // Queries that must return no rows.
    for (what, text) in [
        (
            "granted after the end of its session",
            "SELECT a.nonce FROM attempts a JOIN deployments d ON d.id = a.deployment_id
               JOIN sessions s ON s.id = d.session_id WHERE a.granted_at > s.ended_at",
        ),
        (
            "granted to an unknown runner",
            "SELECT a.nonce FROM attempts a WHERE NOT EXISTS
               (SELECT 1 FROM runners r WHERE a.runner LIKE r.id || '.%' AND a.nonce LIKE r.id || '.%')",
        ),
        // This query covers only attempts whose runner process has not been restarted since.
        (
            "lost before its runner had stopped it",
            "SELECT a.nonce FROM attempts a JOIN runners r ON a.runner = r.id || '.' || r.boot
               WHERE a.outcome::json->>'type' = 'lost' AND a.ended_at - a.granted_at < a.lost_ms * 1000",
        ),
        ("without an end", "SELECT nonce FROM attempts WHERE ended_at IS NULL"),
        ("an unfinished deployment", "SELECT id FROM deployments WHERE finished_at IS NULL"),
    ] {
        if let Some(row) = ask(text)?.first() {
            return Err(format!("{what}: {}", row.get::<_, String>(0)));
        }
    }
    Ok(())
}

/// Checks that every acknowledged session exists, with its fence.
pub(super) fn check_acknowledged(url: &str, acknowledged: &HashMap<String, u64>) -> Result<(), String> {
    let mut client = Client::connect(url, NoTls).map_err(|error| error.to_string())?;
    let rows = client.query("SELECT id, fence FROM sessions", &[]).map_err(|error| error.to_string())?;
    let sessions: HashMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (session, fence) in acknowledged {
        let found = sessions.get(session);
        if found.and_then(|fence| u64::try_from(*fence).ok()) != Some(*fence) {
            return Err(format!("{session} with fence {fence} was acknowledged, and is {found:?}"));
        }
    }
    Ok(())
}

/// Counts attempts that were declared lost because their runner had sent nothing for the duration of the lost timeout.
pub(super) fn count_lost_attempts(url: &str) -> Result<i64, String> {
    query_lost_attempts(&mut connect(url)?)
}

pub(super) fn query_lost_attempts(client: &mut Client) -> Result<i64, String> {
    count_attempts(client, "outcome::json->>'type' = 'lost' AND ended_at - granted_at >= lost_ms * 1000")
}

/// Counts attempts that started within the last 300 ms.
pub(super) fn count_started_attempts(client: &mut Client) -> Result<i64, String> {
    count_attempts(
        client,
        "ended_at IS NULL AND granted_at > extract(epoch FROM clock_timestamp()) * 1000000 - 300000",
    )
}

pub(super) fn connect(url: &str) -> Result<Client, String> {
    Client::connect(url, NoTls).map_err(|error| error.to_string())
}

fn count_attempts(client: &mut Client, which: &str) -> Result<i64, String> {
    let count = format!("SELECT COUNT(*) FROM attempts WHERE {which}");
    client.query_one(&count, &[]).map(|row| row.get(0)).map_err(|error| error.to_string())
}

fn check_successor(before: Option<&AuditedSession>, now: &AuditedSession) -> Result<(), String> {
    let (fence, number, free_since) = match before {
        None => (0, 0, Some(0)),
        Some(it) => (it.fence, it.number, it.ended_at),
    };
    match free_since {
        _ if counter(now.fence) != counter(fence) + 1 || now.number != number + 1 => {
            Err("the one before it is missing".into())
        }
        _ if now.fence <= fence => Err("it is of an earlier epoch than the one before it".into()),
        None => Err("the one before it has no end".into()),
        Some(at) if at > now.claimed_at => Err("it began before the one before it had ended".into()),
        Some(_) => Ok(()),
    }
}

/// Checks that a claim has a higher fence than every claim that was answered before it was sent.
pub(super) fn check_order(taken: &[TakenEnvironment]) -> Result<(), String> {
    for later in taken {
        let earlier = taken.iter().filter(|it| it.place == later.place && it.answered < later.sent);
        if let Some(wrong) = earlier.max_by_key(|it| it.fence).filter(|it| it.fence >= later.fence) {
            return Err(format!("{wrong:?} was answered before {later:?} was asked"));
        }
    }
    Ok(())
}
