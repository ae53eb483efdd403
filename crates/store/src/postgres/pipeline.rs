//! A blocking client that sends several statements before it waits for the first result.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use ::postgres::types::ToSql;
use ::postgres::{Error, NoTls, Row, SimpleQueryMessage, Statement};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config, Connection};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::ConnectError;

/// A statement of a pipeline.
pub(super) enum PipelineStatement<'a> {
    /// Statements without parameters and results, such as SAVEPOINT.
    Control(&'a str),
    Change(Statement, Vec<&'a (dyn ToSql + Sync)>),
    Query(Statement, Vec<&'a (dyn ToSql + Sync)>),
}

pub(super) enum PipelineResult {
    Done,
    Changed(u64),
    Rows(Vec<Row>),
}

pub(super) struct PipelineClient {
    client: Client,
    driver: ConnectionDriver,
}

/// Runs the protocol of a connection while the thread waits for a result.
struct ConnectionDriver {
    runtime: Runtime,
    poll_message: MessagePoll,
    /// Set when PostgreSQL sends a warning.
    warned: Arc<AtomicBool>,
    round_trips: Arc<AtomicU64>,
}

type MessagePoll = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;
type StatementFuture<'a> = Pin<Box<dyn Future<Output = Result<PipelineResult, Error>> + 'a>>;

impl PipelineClient {
    pub(super) fn connect(
        config: &Config,
        tls: Option<&MakeRustlsConnect>,
        round_trips: Arc<AtomicU64>,
    ) -> Result<Self, ConnectError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ConnectError::NoRuntime)?;
        let (client, poll_message) = match tls {
            None => runtime.block_on(config.connect(NoTls)).map(with_message_poll)?,
            Some(tls) => runtime.block_on(config.connect(tls.clone())).map(with_message_poll)?,
        };
        let driver = ConnectionDriver { runtime, poll_message, warned: Arc::default(), round_trips };
        Ok(Self { client, driver })
    }

    /// The flag that is set when PostgreSQL sends a warning.
    pub(super) fn warned(&self) -> Arc<AtomicBool> {
        self.driver.warned.clone()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn batch_execute(&mut self, text: &str) -> Result<(), Error> {
        self.driver.wait(self.client.batch_execute(text))
    }

    pub(super) fn simple_query(&mut self, text: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.driver.wait(self.client.simple_query(text))
    }

    pub(super) fn prepare(&mut self, text: &str) -> Result<Statement, Error> {
        self.driver.wait(self.client.prepare(text))
    }

    /// Sends all statements in order, then waits for all results. A statement after one that has failed fails, too,
    /// because the transaction is aborted.
    pub(super) fn run(
        &mut self,
        statements: &[PipelineStatement<'_>],
    ) -> Result<Vec<Result<PipelineResult, Error>>, Error> {
        let client = &self.client;
        let mut running: Vec<StatementFuture<'_>> =
            statements.iter().map(|statement| Box::pin(run_statement(client, statement)) as _).collect();
        let mut results: Vec<_> = running.iter().map(|_| None).collect();
        // A statement is sent when its future is polled for the first time.
        self.driver.wait(poll_fn(|cx| {
            for (future, result) in running.iter_mut().zip(&mut results) {
                if result.is_none()
                    && let Poll::Ready(outcome) = future.as_mut().poll(cx)
                {
                    *result = Some(outcome);
                }
            }
            if results.iter().all(Option::is_some) { Poll::Ready(Ok(())) } else { Poll::Pending }
        }))?;
        Ok(results.into_iter().flatten().collect())
    }
}

async fn run_statement(client: &Client, statement: &PipelineStatement<'_>) -> Result<PipelineResult, Error> {
    Ok(match statement {
        PipelineStatement::Control(text) => {
            client.batch_execute(text).await?;
            PipelineResult::Done
        }
        PipelineStatement::Change(statement, params) => {
            PipelineResult::Changed(client.execute(statement, params).await?)
        }
        PipelineStatement::Query(statement, params) => {
            PipelineResult::Rows(client.query(statement, params).await?)
        }
    })
}

impl ConnectionDriver {
    fn wait<T>(&mut self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Self { runtime, poll_message, warned, round_trips } = self;
        round_trips.fetch_add(1, Ordering::Relaxed);
        let mut future = pin!(future);
        runtime.block_on(poll_fn(|cx| {
            loop {
                match poll_message(cx) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notice(notice)))) => {
                        tracing::warn!(message = notice.message(), "PostgreSQL warning");
                        warned.store(true, Ordering::SeqCst);
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            future.as_mut().poll(cx)
        }))
    }
}

fn with_message_poll<S, T>((client, mut connection): (Client, Connection<S, T>)) -> (Client, MessagePoll)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    (client, Box::new(move |cx| connection.poll_message(cx)))
}
