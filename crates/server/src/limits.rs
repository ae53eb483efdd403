//! Limits of the server, each with its unit. One test stands at each of them and one just above.

use std::time::Duration;

use berth_engine::admission::Capacity;

pub const HEADER_BYTES_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 100;
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// For the whole header block, and for the first byte on a new connection.
pub const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Silence between two requests on a kept connection, by default. Longer than the 60 s for which nginx and AWS load
/// balancers keep their connections, so that it is never this server that closes one which they are about to use.
pub const KEEP_ALIVE_S_DEFAULT: u64 = 75;
pub const KEEP_ALIVE_S_MIN: u64 = 1;
/// AWS load balancers can be told to keep connections for 4,000 s.
pub const KEEP_ALIVE_S_MAX: u64 = 7_200;
/// Silence inside a body.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(15);
/// Of a body that its handler did not read: so much, and for so long, is read before the connection is given up.
pub const DRAIN_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// A client that takes nothing of its answer for so long is let go.
pub const WRITE_IDLE_MAX: Duration = Duration::from_secs(30);
/// A long poll ends before its request would.
pub const WAIT_S_MAX: i64 = 50;
pub const REQUEST_MAX: Duration = Duration::from_secs(60);
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(8);
pub const CONNECTIONS_MAX: usize = 16_384;
/// Loopback is exempt.
pub const CONNECTIONS_PER_IP_MAX: usize = 1_024;

/// Followed histories and exports under way, of one token.
pub const STREAMS_PER_TOKEN_MAX: usize = 100;
/// A stream says something at least so often, and whether its caller may still have it is asked again.
pub const STREAM_CHECK_EVERY: Duration = Duration::from_secs(15);

pub const JSON_BODY_BYTES_MAX: usize = 1024 * 1024;
pub const JSON_DEPTH_MAX: usize = 64;
/// Errors listed in one problem.
pub const INPUT_ERRORS_MAX: usize = 20;
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
pub const REQUEST_ID_BYTES_MAX: usize = 128;
pub const SEARCH_CHARS_MAX: usize = 200;
/// The largest integer every JSON client can hold.
pub const OFFSET_MAX: i64 = (1 << 53) - 1;

pub const REQUESTS_PER_TOKEN_PER_S: u32 = 2_000;
pub const REQUESTS_PER_TOKEN_BURST: u32 = 4_000;
/// Requests whose credentials are missing or wrong, by address.
pub const STRANGERS_PER_ADDRESS_PER_S: u32 = 200;
pub const STRANGERS_PER_ADDRESS_BURST: u32 = 1_000;

pub const LOGIN_FAILURE_WINDOW_S: i64 = 60;
pub const LOGIN_FAILURES_PER_ACCOUNT_MAX: i64 = 10;
pub const LOGIN_FAILURES_PER_NETWORK_MAX: i64 = 100;
/// How long a try waits while the account fails from everywhere.
pub const LOGIN_SLOW_DOWN: Duration = Duration::from_secs(2);

pub const PASSWORD_CHARS_MIN: usize = 15;
pub const PASSWORD_CHARS_MAX: usize = 256;
/// Hashing takes 64 MiB each: so many at once, so many waiting. Accounts are of no organization.
pub const PASSWORD_HASHES_AT_ONCE: Capacity = Capacity::new(2, 2);
pub const PASSWORD_HASHES_WAITING_MAX: Capacity = Capacity::new(32, 32);

/// What was appended to a log survives a power failure after so long, at the latest.
pub const LOG_FLUSH_EVERY: Duration = Duration::from_secs(5);

/// How far back insights look.
pub const INSIGHT_DAYS_DEFAULT: i64 = 30;
pub const INSIGHT_DAYS_MAX: i64 = 366;
/// Ends in last stages that insights into delivery look at.
pub const DELIVERY_ROWS_MAX: i64 = 10_000;

pub const RUNNERS_PER_ORGANIZATION_MAX: i64 = 5_000;
/// Attempts shown with the runners of an organization.
pub const RUNNING_LISTED_MAX: i64 = 5_000;

/// One source or artifact on its way; pauses in it have the limit of every body.
pub const TRANSFER_MAX: Duration = Duration::from_secs(900);
/// What a runner says in one go: a report has the outputs of its step.
pub const RUNNER_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A piece of a log.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// A packed artifact on its way here.
pub const ARTIFACT_UPLOAD_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

pub const TOKEN_DAYS_MAX: i64 = 366;
/// How long a token lasts that says nothing about it.
pub const TOKEN_DAYS: i64 = 90;
/// How long the link of an invitation works.
pub const INVITATION_DAYS: i64 = 7;
pub const INVITATIONS_PER_ORGANIZATION_MAX: i64 = 1_000;
/// How long a link to set a new password works.
pub const PASSWORD_RESET_HOURS: i64 = 24;
/// So long after the password was checked, a browser may create tokens and change roles and secrets.
pub const PASSWORD_CONFIRMED_S: i64 = 60 * 60;

/// A last-used time is written at most so often.
pub const LAST_USED_EVERY_S: i64 = 60;
/// Tokens whose callers are remembered; with one more, all are looked up again.
pub const CALLERS_KNOWN_MAX: usize = 1_024;

/// Between two looks at whether they were merged or closed. Forges count requests.
pub const FIX_ENDS_EVERY: Duration = Duration::from_secs(5 * 60);

/// One run of git: a fetch over a slow line is the longest.
pub const GIT_S_MAX: u64 = 300;
pub const REPOSITORIES_PER_ORGANIZATION_MAX: i64 = 1_000;
pub const PIPELINES_PER_REPOSITORY_MAX: usize = 200;
/// Paths that differ between two heads; with more of them everything counts as changed.
pub const CHANGED_PATHS_MAX: usize = 20_000;

/// One build of a registry, with everything it fetches.
pub const REGISTRY_BUILD_S_MAX: u64 = 900;
/// What a build leaves behind.
pub const REGISTRY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// What one build may print; the rest is left out, and said to be.
pub const BUILD_LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Lines of a build's log in one answer.
pub const BUILD_LOG_LINES_MAX: usize = 5_000;
/// Builds of one registry that are kept, with their logs. Versions are kept for ever.
pub const BUILDS_KEPT_MAX: i64 = 50;

/// Lookups in a commit for one suggested fix.
pub const FIX_LOOKUPS_MAX: usize = 100;

pub const WEBHOOKS_PER_ORGANIZATION_MAX: i64 = 100;
/// Deliveries of one webhook that wait to be sent. With so many it reads no further events until some are through.
pub const DELIVERIES_PENDING_MAX: i64 = 1_000;
/// Events a webhook may be behind. What is further back is dropped, and counted.
pub const WEBHOOK_BEHIND_MAX: i64 = 100_000;
/// How long ended deliveries are kept, with their log.
pub const DELIVERY_DAYS_KEPT: i64 = 7;
/// Deliveries of one webhook that are kept.
pub const DELIVERIES_KEPT_MAX: i64 = 10_000;
/// How often one delivery is tried, by itself and because somebody asks.
pub const ATTEMPTS_PER_DELIVERY_MAX: i64 = 100;
/// What a ping shows of the answer.
pub const ANSWER_EXCERPT_CHARS_MAX: usize = 200;
