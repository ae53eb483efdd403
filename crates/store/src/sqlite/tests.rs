//! Constraints that the database schema enforces, and how deadlines are postponed when the clock is set forward.

use std::sync::Arc;

use berth_core::environment::fence::Fence;
use berth_core::environment::{SessionEndReason, TicketCause, TicketState};
use berth_core::id::OrgId;
use expect_test::{Expect, expect};

use super::*;
use crate::job::BegunTx;
use crate::migrations::SCHEMA;
use crate::tables::{deployment, environment, session, ticket};
use crate::tx::{Tx, TxContext, TxState};

/// Environment `qa` has an ended session, an open session and a queue; `plain` has an open session without expiry;
/// `free` is unclaimed.
const ROWS: &str = r#"
INSERT INTO organizations VALUES ('org_00000000000000000000000001', 'acme', 'Acme', 1, 1, 'host', 0);
INSERT INTO definitions (org_id, hash, source, created_at)
  VALUES ('org_00000000000000000000000001', 'h', 'version: 1', 1);
INSERT INTO pipelines (org_id, id, slug, name, search_key, status, definition_hash, outline, version, created_at,
    updated_at)
  VALUES ('org_00000000000000000000000001', 'pl', 'shop', 'Shop', 'shop', 'active', 'h', '{}', 1, 1, 1);
INSERT INTO environments (org_id, pipeline_id, name, id, configuration, definition_hash, is_declared, fence, sessions,
    tickets, deployments, condition, waiting, unfinished, due_at, holder_id, version,
    created_at)
  SELECT 'org_00000000000000000000000001', 'pl', column1, column2,
    '{"triggers":[],"release":[],"on_release":"none","ttl":null,"labels":[],"vars":{},"skip":[]}', 'h', 1, 2, 2, 3, 1,
    'clean', 0, 0, column3, column4, 7, 1
  FROM (VALUES ('qa', 'env_00000000000000000000000001', 100, 'ses_00000000000000000000000002'),
    ('plain', 'env_00000000000000000000000002', NULL, 'ses_00000000000000000000000003'),
    ('free', 'env_00000000000000000000000003', NULL, NULL));
INSERT INTO sessions (org_id, environment_id, number, id, fence, holder, user_id, claimed_at, extensions, expires_at, active_at,
    warned_of, deployments, ended_at, end_reason, ended_by)
  SELECT 'org_00000000000000000000000001', 'env_0000000000000000000000000' || column1, column2,
    'ses_0000000000000000000000000' || column3, column2,
    '{"type":"user","id":"usr_00000000000000000000000001","name":"ada"}', 'usr_00000000000000000000000001', 10, 0, column4, column5, column6, 0, column7,
    column8, column9
  FROM (VALUES (1, 1, 1, 50, 40, 50, 50, 'expired', '{"type":"system","name":"berth"}'),
    (1, 2, 2, 100, 90, 95, NULL, NULL, NULL),
    (2, 1, 3, NULL, 70, NULL, NULL, NULL, NULL));
INSERT INTO tickets (org_id, environment_id, number, id, holder, user_id, deploy, created_at, expires_at,
    takeover_target, takeover_at, status, ended_at)
  SELECT 'org_00000000000000000000000001', 'env_00000000000000000000000001', column1,
    'tkt_0000000000000000000000000' || column1, '{"type":"user","id":"usr_00000000000000000000000001","name":"ada"}',
    'usr_00000000000000000000000001', 0, 10, column2, column3, column4, column5, column6
  FROM (VALUES (1, 55, NULL, NULL, 'expired', 55),
    (2, 200, 'ses_00000000000000000000000002', 150, 'waiting', NULL),
    (3, 210, NULL, NULL, 'waiting', NULL));
INSERT INTO deployments (org_id, id, pipeline_id, environment_id, number, stage, definition_hash, session_id, fence,
    commit_id, requested_by, status, created_at, finished_at)
  VALUES ('org_00000000000000000000000001', 'dep_00000000000000000000000001', 'pl_00000000000000000000000001',
    'env_00000000000000000000000001', 1, 'qa', 'h', 'ses_00000000000000000000000001', 1, 'c1',
    '{"type":"system","name":"berth"}', 'succeeded', 20, 30);
"#;

struct TestDatabase {
    db: Connection,
    _dir: tempfile::TempDir,
}

impl TestDatabase {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("berth.db");
        migrate(&path, &SCHEMA, Timestamp::from_micros(1)).unwrap();
        let db = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        db.execute_batch(&ROWS.replace("'pl'", "'pl_00000000000000000000000001'")).unwrap();
        Self { db, _dir: dir }
    }

    fn tx<'c>(conn: &'c mut SqliteConn<'_>, state: &'c mut TxState) -> Tx<'c> {
        let org: OrgId = "org_00000000000000000000000001".parse().unwrap();
        let (context, now) = (TxContext::system(Some(org)), Timestamp::from_micros(99));
        let fixture = crate::TxConfig { epoch: Arc::default(), lost_s: 45, access: None };
        Tx::new(BegunTx { conn, state, now }, context, fixture)
    }

    fn check_times(&self, expected: &Expect) {
        let mut query = self
            .db
            .prepare(
                "SELECT concat_ws(' ', name, 'due', ifnull(due_at, '-'), 'version', version) FROM environments
                 UNION ALL SELECT concat_ws(' ', 'session', substr(id, -1), 'claimed', claimed_at, 'expires',
                   ifnull(expires_at, '-'), 'active', active_at, 'warned', ifnull(warned_of, '-')) FROM sessions
                 UNION ALL SELECT concat_ws(' ', 'ticket', number, 'created', created_at, 'expires', expires_at,
                   'takeover', ifnull(takeover_at, '-')) FROM tickets",
            )
            .unwrap();
        let lines = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        expected.assert_eq(&lines.map(Result::unwrap).collect::<Vec<_>>().join("\n"));
    }

    fn check_refused(&self, text: &str, why: &str) {
        let error = self.db.execute_batch(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn clock_step_postpones_deadlines_by_its_size() {
    let fixture = TestDatabase::new();
    fixture.check_times(&expect![[r#"
        free due - version 7
        plain due - version 7
        qa due 100 version 7
        session 1 claimed 10 expires 50 active 40 warned 50
        session 2 claimed 10 expires 100 active 90 warned 95
        session 3 claimed 10 expires - active 70 warned -
        ticket 1 created 10 expires 55 takeover -
        ticket 2 created 10 expires 200 takeover 150
        ticket 3 created 10 expires 210 takeover -"#]]);
    instance::postpone_deadlines(&mut SqliteConn::new(&fixture.db), 1_000).unwrap();
    fixture.check_times(&expect![[r#"
        free due - version 7
        plain due - version 8
        qa due 1100 version 8
        session 1 claimed 10 expires 50 active 40 warned 50
        session 2 claimed 10 expires 1100 active 1090 warned 1095
        session 3 claimed 10 expires - active 1070 warned -
        ticket 1 created 10 expires 55 takeover -
        ticket 2 created 10 expires 1200 takeover 1150
        ticket 3 created 10 expires 1210 takeover -"#]]);
}

#[test]
fn schema_refuses_a_second_open_session() {
    let fixture = TestDatabase::new();
    let session = |environment: u8, number: u8, fence: u8, end: &str| {
        format!(
            "INSERT INTO sessions (org_id, environment_id, number, id, fence, holder, user_id, claimed_at, extensions, active_at,
               deployments, ended_at, end_reason)
             VALUES ('org_00000000000000000000000001', 'env_0000000000000000000000000{environment}', {number}, 'new',
               {fence}, '{{}}', 'usr_1', 1, 0, 1, 0, {end})"
        )
    };
    let open = "NULL, NULL";
    let ended = "1, 'released'";
    fixture.check_refused(&session(1, 3, 3, open), "UNIQUE constraint failed: sessions.environment_id");
    fixture.check_refused(&session(9, 1, 1, open), "FOREIGN KEY constraint failed");
    let fence = "UNIQUE constraint failed: sessions.environment_id, sessions.fence";
    fixture.check_refused(&session(1, 3, 1, ended), fence);
    let number = "UNIQUE constraint failed: sessions.environment_id, sessions.number";
    fixture.check_refused(&session(1, 1, 3, ended), number);
    let half = "CHECK constraint failed: (ended_at IS NULL) = (end_reason IS NULL)";
    fixture.check_refused(&session(1, 3, 3, "1, NULL"), half);
    fixture.check_refused(&session(2, 2, 3, "NULL, 'released'"), half);
    fixture.check_refused("UPDATE sessions SET ended_at = 1 WHERE end_reason IS NULL", half);
    fixture.check_refused("UPDATE sessions SET end_reason = NULL", half);
    fixture.check_refused("UPDATE sessions SET ended_at = NULL, end_reason = NULL", "UNIQUE");
    fixture.db.execute_batch(&session(1, 3, 3, ended)).unwrap();
}

#[test]
fn schema_refuses_unknown_words() {
    let fixture = TestDatabase::new();
    for (table, column) in [("environments", "condition"), ("tickets", "status"), ("deployments", "status")] {
        fixture.check_refused(&format!("UPDATE {table} SET {column} = 'odd'"), "CHECK constraint failed");
    }
}

#[test]
fn environment_update_with_a_decreasing_fence_is_refused() {
    let fixture = TestDatabase::new();
    let (mut conn, mut state) = (SqliteConn::new(&fixture.db), TxState::default());
    let mut tx = TestDatabase::tx(&mut conn, &mut state);
    let id = "env_00000000000000000000000001".parse().unwrap();
    let mut claimed = environment::by_id(&mut tx, id).unwrap().unwrap().environment;
    let fence = claimed.fence;
    claimed.version += 1;
    claimed.fence = Fence::from_number(fence.number() - 1);
    check_lost(environment::put(&mut tx, &claimed));
    claimed.definition_hash.push('2');
    check_lost(environment::put(&mut tx, &claimed));
    claimed.fence = fence.next(0);
    environment::put(&mut tx, &claimed).unwrap();
}

#[test]
fn session_history_is_listed_from_a_number_down() {
    const MORE: &str = "WITH RECURSIVE held (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM held WHERE number < 40)
        INSERT INTO sessions (org_id, environment_id, number, id, fence, holder, user_id, claimed_at, extensions, active_at,
          deployments, ended_at, end_reason, ended_by)
        SELECT org_id, 'env_00000000000000000000000003', held.number, printf('ses_%026d', 100 + held.number),
          2 * held.number, holder, user_id, held.number, 0, 1, 0, 1, 'released', holder
        FROM held JOIN sessions ON id = 'ses_00000000000000000000000001'";
    let fixture = TestDatabase::new();
    fixture.db.execute_batch(MORE).unwrap();
    let (mut conn, mut state) = (SqliteConn::new(&fixture.db), TxState::default());
    let mut tx = TestDatabase::tx(&mut conn, &mut state);
    let mut numbers = |environment: u8, from: i64, limit: i64| -> Vec<i64> {
        let id = format!("env_{environment:026}").parse().unwrap();
        let found = session::list_before(&mut tx, id, from, limit).unwrap();
        found.iter().map(|it| it.number).collect()
    };
    for from in 1..=40 {
        assert!(numbers(3, from, 5).into_iter().eq(((from - 4).max(1)..=from).rev()), "from {from}");
    }
    assert_eq!(numbers(1, 2, 50), [2, 1]);
    assert_eq!(numbers(2, 1, 50), [1]);
}

#[test]
fn ended_session_does_not_change() {
    let fixture = TestDatabase::new();
    let (mut conn, mut state) = (SqliteConn::new(&fixture.db), TxState::default());
    let mut tx = TestDatabase::tx(&mut conn, &mut state);
    let mut ended =
        session::by_id(&mut tx, "ses_00000000000000000000000001".parse().unwrap()).unwrap().unwrap();
    ended.end.as_mut().unwrap().reason = SessionEndReason::Released;
    check_lost(session::put(&mut tx, &ended));
    ended.end = None;
    check_lost(session::put(&mut tx, &ended));

    let mut expired =
        ticket::by_id(&mut tx, "tkt_00000000000000000000000001".parse().unwrap()).unwrap().unwrap();
    expired.status = TicketState::Cancelled { at: Timestamp::from_micros(99), cause: TicketCause::Requested };
    check_lost(ticket::put(&mut tx, &expired));

    let id = "dep_00000000000000000000000001".parse().unwrap();
    let mut done = deployment::by_id(&mut tx, id).unwrap().unwrap().into_environment().unwrap();
    done.finished_at = None;
    check_lost(deployment::put(&mut tx, &done));
}

fn check_lost(written: Result<(), StoreError>) {
    assert!(written.unwrap_err().to_string().contains("changed 0 rows"));
}
