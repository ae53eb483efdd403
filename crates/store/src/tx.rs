//! Transactions.
//!
//! A `ReadTx` only reads; a `Tx` can also write. Both bind the id of their organization as `$1` of every statement that
//! is limited to an organization, so no such statement can access another organization. A `Tx` that writes without
//! recording an event is rolled back.

use std::sync::atomic::Ordering;

use berth_core::decision::{DomainRecord, OutboxEffect, RecordChange, RuleDecision};
use berth_core::environment::{DecisionContext, TicketCause, TicketState, queue};
use berth_core::event::{Actor, Event, NewEvent};
use berth_core::id::{IdEntropy, OrgId, TicketGroupId};
use berth_core::time::Timestamp;

use crate::TxConfig;
use crate::audit::append::{self, AuditHeads};
use crate::error::StoreError;
use crate::job::BegunTx;
use crate::read_ahead::RowsAhead;
use crate::sql::bound::{bind_org, org_param, refuse_nul};
use crate::sql::value::{SqlRow, SqlValue, text};
use crate::sql::{BoundRead, FromRow, QueuedWrite, SqlConn, SqlStatement, StatementKind, ToParams};
use crate::{entropy, outbox, tables};

/// The organization and the actor of a transaction.
#[derive(Debug, Clone)]
pub struct TxContext {
    pub org: Option<OrgId>,
    pub actor: Actor,
    pub request_id: Option<String>,
    /// The access generation when the caller was authorized, see [`crate::Store::access_generation`].
    pub access: Option<u64>,
}

impl TxContext {
    pub fn system(org: Option<OrgId>) -> Self {
        Self { org, actor: Actor::system(), request_id: None, access: None }
    }
}

/// Runs read statements: a `ReadTx` or a `Tx`.
pub trait StoreRead {
    /// The store's time.
    fn now(&self) -> Timestamp;

    fn rows(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError>;

    fn row(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Result<Option<SqlRow>, StoreError> {
        Ok(self.rows(statement, params)?.into_iter().next())
    }

    /// Runs a query and returns all rows.
    fn fetch_all<T: FromRow>(
        &mut self,
        statement: &SqlStatement,
        params: &[SqlValue],
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(statement, params)?.into_iter();
        rows.map(|row| row.read().map_err(|error| error.in_statement(statement))).collect()
    }

    /// Runs a query and returns the first row, if there is one.
    fn fetch_optional<T: FromRow>(
        &mut self,
        statement: &SqlStatement,
        params: &[SqlValue],
    ) -> Result<Option<T>, StoreError> {
        let row = self.row(statement, params)?;
        row.map(|row| row.read().map_err(|error| error.in_statement(statement))).transpose()
    }

    /// Runs a query with its parameters and returns all rows.
    fn fetch_bound<T: FromRow>(&mut self, read: &BoundRead) -> Result<Vec<T>, StoreError> {
        self.fetch_all(read.statement, &read.params)
    }

    /// Runs several reads in one round trip, if the database is another process. Each of the next reads that has the
    /// same statement and parameters takes its rows from here, unless the transaction writes in between.
    fn read_ahead(&mut self, reads: impl FnOnce(&Self) -> Vec<BoundRead>) -> Result<(), StoreError>;

    /// Runs a query that returns one number. Returns 0 if there is no row.
    fn fetch_count(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Result<i64, StoreError> {
        Ok(self.fetch_optional(statement, params)?.unwrap_or(0))
    }
}

/// Timeout of a read in seconds, so that a slow query does not occupy a connection for long.
pub(crate) const READ_S_MAX: u64 = 5;

pub struct ReadTx<'c> {
    conn: &'c mut dyn SqlConn,
    org: Option<SqlValue>,
    now: Timestamp,
    ahead: RowsAhead,
}

impl<'c> ReadTx<'c> {
    pub(crate) fn new(conn: &'c mut dyn SqlConn, org: Option<OrgId>, now: Timestamp) -> Self {
        Self { conn, org: org.map(text), now, ahead: RowsAhead::default() }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }
}

impl StoreRead for ReadTx<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn rows(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        if let Some(rows) = self.ahead.take(statement, params) {
            return Ok(rows);
        }
        self.conn.query(statement, &bind_org(statement, self.org.as_ref(), params)?)
    }

    fn read_ahead(&mut self, reads: impl FnOnce(&Self) -> Vec<BoundRead>) -> Result<(), StoreError> {
        if !self.conn.is_remote() {
            return Ok(());
        }
        let reads = reads(self);
        self.ahead.run(self.conn, self.org.as_ref(), reads)
    }
}

/// State of a write connection that can outlive a transaction.
#[derive(Debug, Default)]
pub(crate) struct TxState {
    pub(crate) heads: AuditHeads,
    /// The epoch for new fences on this connection. `None` means the epoch of the whole store.
    pub(crate) epoch: Option<i64>,
}

pub struct Tx<'c> {
    conn: &'c mut dyn SqlConn,
    state: &'c mut TxState,
    context: TxContext,
    /// The organization's id, ready to be bound as a parameter.
    org: Option<SqlValue>,
    now: Timestamp,
    ground: TxConfig,
    epoch: i64,
    changes: u32,
    recorded: Vec<Event>,
    ahead: RowsAhead,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(begun: BegunTx<'c>, context: TxContext, ground: TxConfig) -> Self {
        let BegunTx { conn, state, now } = begun;
        let epoch = state.epoch.unwrap_or_else(|| ground.epoch.load(Ordering::SeqCst));
        let org = context.org.map(text);
        let (recorded, ahead) = (Vec::new(), RowsAhead::default());
        Self { conn, state, context, org, now, ground, epoch, changes: 0, recorded, ahead }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The time, the epoch and the random bytes that the rules for environments need.
    pub fn moment(&self) -> Result<DecisionContext, StoreError> {
        Ok(DecisionContext {
            now: self.now,
            epoch: self.epoch,
            lost_s: self.ground.lost_s,
            entropy: self.entropy()?,
        })
    }

    /// Raises the epoch in memory. If the transaction is then rolled back, an epoch is skipped, which is harmless.
    pub(crate) fn set_epoch(&mut self, epoch: i64) {
        self.epoch = epoch;
        self.ground.epoch.fetch_max(epoch, Ordering::SeqCst);
        self.state.epoch = Some(epoch);
    }

    /// Whether permissions are still the same as when the caller was authorized. If not, they must be read again.
    pub fn is_access_unchanged(&self) -> bool {
        let current = self.ground.access.as_ref().and_then(|access| access.current());
        current.is_some() && current == self.context.access
    }

    pub fn actor(&self) -> &Actor {
        &self.context.actor
    }

    pub fn request_id(&self) -> Option<&str> {
        self.context.request_id.as_deref()
    }

    pub fn org(&self) -> Result<OrgId, StoreError> {
        self.context.org.ok_or_else(|| StoreError::Bug("no organization in this transaction".into()))
    }

    pub fn entropy(&self) -> Result<IdEntropy, StoreError> {
        entropy::draw_entropy()
    }

    /// Sets the actor. For transactions in which the actor becomes known only later, such as a login or the creation of
    /// the first account.
    pub fn set_actor(&mut self, actor: Actor) {
        self.context.actor = actor;
    }

    /// Runs `work` for another organization. For transactions that concern several organizations, such as a login.
    pub fn within_org<T, E>(
        &mut self,
        org: OrgId,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.context.org == Some(org) {
            return work(self);
        }
        let outer = (self.context.org.replace(org), self.org.replace(text(org)));
        // Rows that were read ahead belong to one organization.
        self.ahead = RowsAhead::default();
        let result = work(self);
        self.ahead = RowsAhead::default();
        (self.context.org, self.org) = outer;
        result
    }

    pub(crate) fn execute(
        &mut self,
        statement: &SqlStatement,
        params: &[SqlValue],
    ) -> Result<u64, StoreError> {
        self.begin_write(statement);
        self.conn.execute(statement, &bind_org(statement, self.org.as_ref(), params)?)
    }

    /// Runs a write that must change exactly one row. Any other number means a failed version check or a bug.
    pub(crate) fn execute_one(
        &mut self,
        statement: &SqlStatement,
        params: &[SqlValue],
    ) -> Result<(), StoreError> {
        match self.execute(statement, params)? {
            1 => Ok(()),
            rows => Err(StoreError::Bug(format!("{} changed {rows} rows, expected 1", statement.name))),
        }
    }

    fn begin_write(&mut self, statement: &SqlStatement) {
        if statement.kind == StatementKind::Write {
            self.changes += 1;
        }
        // What was read ahead may change.
        self.ahead = RowsAhead::default();
    }

    /// Writes a record with an insert or an upsert, which must change exactly one row.
    pub(crate) fn put(
        &mut self,
        statement: &'static SqlStatement,
        record: &impl ToParams,
    ) -> Result<(), StoreError> {
        let mut params = Vec::new();
        record.to_params(&mut params)?;
        self.queue(QueuedWrite::new(statement, params, 1))
    }

    /// Runs a write whose result the caller does not need, now or later in the transaction.
    pub(crate) fn queue(&mut self, mut write: QueuedWrite) -> Result<(), StoreError> {
        self.begin_write(write.first.statement);
        refuse_nul(write.all_params())?;
        write.org = org_param(write.first.statement, self.org.as_ref())?.cloned();
        self.conn.queue(write)
    }

    /// Records an event in the transaction's organization.
    pub fn record(&mut self, event: NewEvent) -> Result<(), StoreError> {
        let event = append::draft_event(self, event)?;
        let sealed = append::append_event(self, event)?;
        self.recorded.push(sealed);
        Ok(())
    }

    pub(crate) fn heads(&mut self) -> &mut AuditHeads {
        &mut self.state.heads
    }

    /// Adds a side effect to the outbox.
    pub fn enqueue(&mut self, effect: &OutboxEffect) -> Result<(), StoreError> {
        outbox::enqueue(self, effect)
    }

    /// Writes the changes of a decision and returns its answer. If a ticket was granted or cancelled, the other tickets
    /// of its group are withdrawn, and any `Lock` that was loaded earlier for one of their environments is outdated.
    pub fn commit<A>(&mut self, decision: RuleDecision<A>) -> Result<A, StoreError> {
        let ended = queue::ended_groups(&decision.changes);
        let answer = self.write(decision)?;
        for (group, cause) in ended {
            self.withdraw(group, cause)?;
        }
        Ok(answer)
    }

    fn withdraw(&mut self, group: TicketGroupId, cause: TicketCause) -> Result<(), StoreError> {
        for ticket in tables::ticket::list_of_group(self, group)? {
            if ticket.status != TicketState::Waiting {
                continue;
            }
            let lock = tables::environment::by_id(self, ticket.environment)?;
            let lock = lock.ok_or_else(|| StoreError::Bug("a ticket has no environment".into()))?;
            let decision = queue::withdraw_ticket(&lock, ticket.id, cause, &self.moment()?);
            self.write(decision)?;
        }
        Ok(())
    }

    fn write<A>(&mut self, decision: RuleDecision<A>) -> Result<A, StoreError> {
        for change in decision.changes {
            match change {
                RecordChange::Put(DomainRecord::Pipeline(it)) => tables::pipeline::put(self, &it)?,
                RecordChange::Put(DomainRecord::Environment(it)) => tables::environment::put(self, &it)?,
                RecordChange::Put(DomainRecord::Session(it)) => tables::session::put(self, &it)?,
                RecordChange::Put(DomainRecord::Ticket(it)) => tables::ticket::put(self, &it)?,
                RecordChange::Put(DomainRecord::EnvironmentDeployment(it)) => {
                    tables::deployment::put(self, &it)?;
                }
                RecordChange::Put(DomainRecord::StagesDeployment(it)) => tables::deployment::put(self, &it)?,
                RecordChange::Put(DomainRecord::Run(it)) => tables::run::put(self, &it)?,
                RecordChange::Put(DomainRecord::Approval(it)) => tables::approval::put(self, &it)?,
                RecordChange::Put(DomainRecord::Stage(it)) => tables::stage::put(self, &it)?,
                RecordChange::Put(DomainRecord::StageEnd(it)) => tables::stage_end::put(self, &it)?,
                RecordChange::Put(DomainRecord::Analysis(it)) => tables::analysis::put(self, &it)?,
                RecordChange::Put(DomainRecord::FixPullRequest(it)) => {
                    tables::fix_pull_request::put(self, &it)?;
                }
            }
        }
        for event in decision.events {
            self.record(event)?;
        }
        for effect in &decision.effects {
            self.enqueue(effect)?;
        }
        Ok(decision.answer)
    }

    /// Called when the job's closure has returned, before its savepoint is released. Returns the recorded events.
    pub(crate) fn finish(self) -> Result<Vec<Event>, StoreError> {
        if self.changes > 0 && self.recorded.is_empty() {
            return Err(StoreError::Bug("a transaction wrote without recording an event".into()));
        }
        Ok(self.recorded)
    }
}

impl StoreRead for Tx<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn rows(&mut self, statement: &SqlStatement, params: &[SqlValue]) -> Result<Vec<SqlRow>, StoreError> {
        if let Some(rows) = self.ahead.take(statement, params) {
            return Ok(rows);
        }
        self.conn.query(statement, &bind_org(statement, self.org.as_ref(), params)?)
    }

    fn read_ahead(&mut self, reads: impl FnOnce(&Self) -> Vec<BoundRead>) -> Result<(), StoreError> {
        if !self.conn.is_remote() {
            return Ok(());
        }
        let reads = reads(self);
        self.ahead.run(self.conn, self.org.as_ref(), reads)
    }
}

pub(crate) fn read_timeout() -> StoreError {
    StoreError::Unavailable(format!("a read took longer than {READ_S_MAX} s"))
}
