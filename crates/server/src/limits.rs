//! Limits of the server, each with its unit. Tests check values at a limit and just above it.

use std::time::Duration;

use berth_engine::admission::AdmissionCapacity;

pub const HEADER_BYTES_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 100;
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// Timeout of a header block, and of the first byte on a new connection.
pub const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Default idle timeout between two requests on a connection. Longer than the 60 s of nginx and AWS load balancers, so
/// that the server never closes a connection that a proxy is about to reuse.
pub const KEEP_ALIVE_S_DEFAULT: u64 = 75;
pub const KEEP_ALIVE_S_MIN: u64 = 1;
/// AWS load balancers allow up to 4,000 s.
pub const KEEP_ALIVE_S_MAX: u64 = 7_200;
/// Timeout between two reads of a request body.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(15);
/// Bytes and time spent on reading a body that the handler left unread, before the connection is closed.
pub const DRAIN_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// A client that reads nothing of its response for this long is disconnected.
pub const WRITE_IDLE_MAX: Duration = Duration::from_secs(30);
/// Maximum wait of a long poll. Shorter than [`REQUEST_MAX`].
pub const WAIT_S_MAX: i64 = 50;
pub const REQUEST_MAX: Duration = Duration::from_secs(60);
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(8);
pub const CONNECTIONS_MAX: usize = 16_384;
/// Loopback and trusted proxies are exempt.
pub const CONNECTIONS_PER_IP_MAX: usize = 1_024;

/// Open event streams and exports of one token.
pub const STREAMS_PER_TOKEN_MAX: usize = 100;
/// Interval at which a stream sends a heartbeat and its caller is authorized again.
pub const STREAM_CHECK_EVERY: Duration = Duration::from_secs(15);

pub const JSON_BODY_BYTES_MAX: usize = 1024 * 1024;
pub const JSON_DEPTH_MAX: usize = 64;
/// Errors listed in one problem response.
pub const INPUT_ERRORS_MAX: usize = 20;
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
pub const REQUEST_ID_BYTES_MAX: usize = 128;
pub const SEARCH_CHARS_MAX: usize = 200;
/// The largest integer that every JSON client can represent.
pub const OFFSET_MAX: i64 = (1 << 53) - 1;

pub const REQUESTS_PER_TOKEN_PER_S: u32 = 2_000;
pub const REQUESTS_PER_TOKEN_BURST: u32 = 4_000;
/// Requests with missing or invalid credentials, per IP address.
pub const STRANGERS_PER_ADDRESS_PER_S: u32 = 200;
pub const STRANGERS_PER_ADDRESS_BURST: u32 = 1_000;

pub const LOGIN_FAILURE_WINDOW_S: i64 = 60;
pub const LOGIN_FAILURES_PER_ACCOUNT_MAX: i64 = 10;
pub const LOGIN_FAILURES_PER_NETWORK_MAX: i64 = 100;
/// Delay of a login while the account has too many failures in total, from any network.
pub const LOGIN_SLOW_DOWN: Duration = Duration::from_secs(2);

pub const PASSWORD_CHARS_MIN: usize = 15;
pub const PASSWORD_CHARS_MAX: usize = 256;
/// Password hashes computed and waiting at once; each needs 64 MiB. The share per organization equals the total because
/// accounts do not belong to an organization.
pub const PASSWORD_HASHES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 2);
pub const PASSWORD_HASHES_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(32, 32);

/// Interval at which appended log data is fsynced.
pub const LOG_FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Period covered by insights.
pub const INSIGHT_DAYS_DEFAULT: i64 = 30;
pub const INSIGHT_DAYS_MAX: i64 = 366;
/// Finished last-stage deployments that delivery insights consider.
pub const DELIVERY_ROWS_MAX: i64 = 10_000;

pub const RUNNERS_PER_ORGANIZATION_MAX: i64 = 5_000;
/// Running attempts listed with the runners of an organization.
pub const RUNNING_LISTED_MAX: i64 = 5_000;

/// Timeout of the transfer of one source or artifact. [`BODY_IDLE_MAX`] applies as well.
pub const TRANSFER_MAX: Duration = Duration::from_secs(900);
/// Request body of a runner call; a report includes the outputs of its step.
pub const RUNNER_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// One chunk of a log.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// One artifact upload, as packed.
pub const ARTIFACT_UPLOAD_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

pub const TOKEN_DAYS_MAX: i64 = 366;
/// Default lifetime of a token.
pub const TOKEN_DAYS: i64 = 90;
/// Lifetime of an invitation link.
pub const INVITATION_DAYS: i64 = 7;
pub const INVITATIONS_PER_ORGANIZATION_MAX: i64 = 1_000;
/// Lifetime of a password reset link.
pub const PASSWORD_RESET_HOURS: i64 = 24;
/// Time after entering the password in which a browser session may create tokens and change roles and secrets.
pub const PASSWORD_CONFIRMED_S: i64 = 60 * 60;

/// Minimum interval between two updates of a last-used time.
pub const LAST_USED_EVERY_S: i64 = 60;
/// Entries in the cache of authenticated callers.
pub const CALLERS_KNOWN_MAX: usize = 1_024;

/// Interval at which fix pull requests are checked for a merge or close. Forges have rate limits.
pub const FIX_ENDS_EVERY: Duration = Duration::from_secs(5 * 60);

/// Timeout of one git process; a fetch over a slow network takes longest.
pub const GIT_S_MAX: u64 = 300;
pub const REPOSITORIES_PER_ORGANIZATION_MAX: i64 = 1_000;
pub const PIPELINES_PER_REPOSITORY_MAX: usize = 200;
/// Changed paths between two commits; with more, everything counts as changed.
pub const CHANGED_PATHS_MAX: usize = 20_000;

/// Timeout of one registry build, including downloads.
pub const REGISTRY_BUILD_S_MAX: u64 = 900;
/// Size of a build result.
pub const REGISTRY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Output of one build; the rest is dropped, and the log says so.
pub const BUILD_LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Lines of a build log in one response.
pub const BUILD_LOG_LINES_MAX: usize = 5_000;
/// Builds kept per registry, with their logs. Versions are kept forever.
pub const BUILDS_KEPT_MAX: i64 = 50;

/// File lookups in a commit for one suggested fix.
pub const FIX_LOOKUPS_MAX: usize = 100;

pub const WEBHOOKS_PER_ORGANIZATION_MAX: i64 = 100;
/// Pending deliveries of one webhook. At this limit no further events are read for it until some are delivered.
pub const DELIVERIES_PENDING_MAX: i64 = 1_000;
/// How many events a webhook may lag behind. Older ones are dropped and counted.
pub const WEBHOOK_BEHIND_MAX: i64 = 100_000;
/// Retention of finished deliveries and their attempts.
pub const DELIVERY_DAYS_KEPT: i64 = 7;
/// Deliveries kept per webhook.
pub const DELIVERIES_KEPT_MAX: i64 = 10_000;
/// Attempts of one delivery, automatic and requested ones together.
pub const ATTEMPTS_PER_DELIVERY_MAX: i64 = 100;
/// Characters of the receiver's response that a ping shows.
pub const ANSWER_EXCERPT_CHARS_MAX: usize = 200;
