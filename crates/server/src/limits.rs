//! Limits of the server. Names or types show the unit. Tests check values at each limit and just above it.

use std::time::Duration;

use berth_engine::admission::AdmissionCapacity;

pub const HEADER_BYTES_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 100;
pub const URI_BYTES_MAX: usize = 8 * 1024;
/// Timeout for receiving a header block, and for the first byte on a new connection.
pub const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Default idle timeout between two requests on a connection. Longer than the 60 s of nginx and AWS load balancers, so
/// that the server does not close a connection that a proxy is about to reuse.
pub const KEEP_ALIVE_S_DEFAULT: u64 = 75;
pub const KEEP_ALIVE_S_MIN: u64 = 1;
/// Above the 4,000 s that AWS load balancers allow.
pub const KEEP_ALIVE_S_MAX: u64 = 7_200;
/// Timeout between two reads of a request body.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(15);
/// Maximum bytes and time for reading the rest of a body that the handler left unread. Beyond these limits, the
/// connection is closed.
pub const DRAIN_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
/// A client that does not read any of its response for this long is disconnected.
pub const WRITE_IDLE_MAX: Duration = Duration::from_secs(30);
/// Maximum wait of a long poll in seconds. Shorter than [`REQUEST_MAX`].
pub const WAIT_S_MAX: i64 = 50;
pub const REQUEST_MAX: Duration = Duration::from_secs(60);
/// Timeout of a request to the MCP endpoint. Longer than tools wait.
pub const MCP_REQUEST_MAX: Duration = Duration::from_secs(berth_mcp::WAIT_S_MAX + 60);
/// Maximum size of an API response that a tool of the MCP endpoint reads.
pub const MCP_RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const SHUTDOWN_MAX: Duration = Duration::from_secs(8);
pub const CONNECTIONS_MAX: usize = 16_384;
/// Maximum number of connections per IP address. Loopback addresses and trusted proxies are exempt.
pub const CONNECTIONS_PER_IP_MAX: usize = 1_024;

/// Maximum number of open event streams and exports per token.
pub const STREAMS_PER_TOKEN_MAX: usize = 100;
/// Interval at which the caller of a stream or long poll is authorized again, so that revoked access ends it.
pub const ACCESS_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which a stream sends a heartbeat.
pub const STREAM_CHECK_EVERY: Duration = Duration::from_secs(15);

pub const JSON_BODY_BYTES_MAX: usize = 1024 * 1024;
pub const JSON_DEPTH_MAX: usize = 64;
/// Maximum number of errors listed in one problem response.
pub const INPUT_ERRORS_MAX: usize = 20;
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
pub const REQUEST_ID_BYTES_MAX: usize = 128;
pub const SEARCH_CHARS_MAX: usize = 200;
/// The largest integer that every JSON client can represent exactly.
pub const OFFSET_MAX: i64 = (1 << 53) - 1;

pub const REQUESTS_PER_TOKEN_PER_S: u32 = 2_000;
pub const REQUESTS_PER_TOKEN_BURST: u32 = 4_000;
/// Maximum requests per second from one IP address with missing or invalid credentials.
pub const STRANGERS_PER_ADDRESS_PER_S: u32 = 200;
pub const STRANGERS_PER_ADDRESS_BURST: u32 = 1_000;

pub const LOGIN_FAILURE_WINDOW_S: i64 = 60;
pub const LOGIN_FAILURES_PER_ACCOUNT_MAX: i64 = 10;
pub const LOGIN_FAILURES_PER_NETWORK_MAX: i64 = 100;
/// Delay of each login attempt while the account has too many failures in total, from all networks.
pub const LOGIN_SLOW_DOWN: Duration = Duration::from_secs(2);

/// Wrong codes of a second factor, from browsers in which the account has not logged in before.
pub const CODE_FAILURES_PER_DAY_MAX: i64 = 50;
pub const CODE_FAILURE_WINDOW_S: i64 = 24 * 60 * 60;

/// How long a person may take to log in at an identity provider, in seconds.
pub const PROVIDER_LOGIN_S_MAX: i64 = 10 * 60;

/// How long an admin may take to create a GitHub App, in seconds.
pub const APP_SETUP_S_MAX: i64 = 30 * 60;

/// Maximum number of GitHub Apps that are listed. An organization has one per forge.
pub const APPS_LISTED_MAX: i64 = 100;
/// Maximum length of the path that a login at a provider returns to.
pub const RETURN_PATH_BYTES_MAX: usize = 1_024;

pub const PASSWORD_CHARS_MIN: usize = 15;
pub const PASSWORD_CHARS_MAX: usize = 256;
/// Number of password hashes computed at once; the next constant limits how many may wait. Each needs 64 MiB. The share
/// per organization equals the total, because accounts do not belong to an organization.
pub const PASSWORD_HASHES_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(2, 2);
pub const PASSWORD_HASHES_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(32, 32);

/// Interval at which appended log data is fsynced.
pub const LOG_FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Default number of days that insights cover.
pub const INSIGHT_DAYS_DEFAULT: i64 = 30;
pub const INSIGHT_DAYS_MAX: i64 = 366;
/// Maximum number of finished last stages from which the DORA metrics are computed.
pub const DELIVERY_ROWS_MAX: i64 = 10_000;

pub const RUNNERS_PER_ORGANIZATION_MAX: i64 = 5_000;
/// Maximum number of running attempts shown in the list of an organization's runners.
pub const RUNNING_LISTED_MAX: i64 = 5_000;

/// Timeout for transferring one source, artifact or registry. [`BODY_IDLE_MAX`] applies as well.
pub const TRANSFER_MAX: Duration = Duration::from_secs(900);
/// Maximum size of a runner's request body. A report includes the outputs of its step.
pub const RUNNER_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum size of one chunk of a log.
pub const LOG_CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of one artifact upload, in packed form.
pub const ARTIFACT_UPLOAD_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

pub const TOKEN_DAYS_MAX: i64 = 366;
/// Default lifetime of a token.
pub const TOKEN_DAYS: i64 = 90;
/// Time in which a person has to approve a login of the CLI, and the CLI has to fetch its token.
pub const CLI_LOGIN_S: i64 = 10 * 60;
/// Seconds between two polls of the CLI. Raised by the same number when the CLI polls too early.
pub const CLI_LOGIN_INTERVAL_S: i64 = 5;
pub const CLI_LOGIN_INTERVAL_S_MAX: i64 = 60;
/// Maximum number of open CLI logins, and of those from one network.
pub const CLI_LOGINS_MAX: i64 = 10_000;
pub const CLI_LOGINS_PER_NETWORK_MAX: i64 = 50;
/// Wrong user codes of CLI logins that a user may enter within [`LOGIN_FAILURE_WINDOW_S`].
pub const CLI_CODE_GUESSES_MAX: i64 = 10;
/// Lifetime of an invitation link.
pub const INVITATION_DAYS: i64 = 7;
pub const INVITATIONS_PER_ORGANIZATION_MAX: i64 = 1_000;
/// Lifetime of a password reset link.
pub const PASSWORD_RESET_HOURS: i64 = 24;
/// How long after entering the password a browser session may create tokens and change roles and secrets, in seconds.
pub const PASSWORD_CONFIRMED_S: i64 = 60 * 60;
/// How long after it was begun the set-up of a second factor can be confirmed, in seconds.
pub const SECOND_FACTOR_ENROLMENT_S: i64 = 60 * 60;
/// Number of recovery codes of an account.
pub const RECOVERY_CODES: usize = 10;
/// Maximum length of a code from an authenticator app or of a recovery code, with separators.
pub const SECOND_FACTOR_CODE_CHARS_MAX: usize = 32;

/// Minimum interval between two updates of a last-used time.
pub const LAST_USED_EVERY_S: i64 = 60;
/// Maximum number of entries in the cache of authenticated callers.
pub const CALLERS_KNOWN_MAX: usize = 1_024;

/// Interval between two checks whether fix pull requests were merged or closed. Not shorter, because forges have rate
/// limits.
pub const FIX_ENDS_EVERY: Duration = Duration::from_secs(5 * 60);

/// Timeout of one git process in seconds. The slowest operation is a fetch over a slow network.
pub const GIT_S_MAX: u64 = 300;
pub const REPOSITORIES_PER_ORGANIZATION_MAX: i64 = 1_000;
pub const PIPELINES_PER_REPOSITORY_MAX: usize = 200;
/// Maximum number of changed paths read between two commits. If there are more, every path counts as changed.
pub const CHANGED_PATHS_MAX: usize = 20_000;

/// Timeout of one registry build in seconds, including downloads.
pub const REGISTRY_BUILD_S_MAX: u64 = 900;
/// Maximum size of a registry build's result.
pub const REGISTRY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Maximum size of a build log. Further output is dropped, and the log says so.
pub const BUILD_LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of build log lines in one response.
pub const BUILD_LOG_LINES_MAX: usize = 5_000;
/// Number of builds kept per registry, with their logs. Versions are kept forever.
pub const BUILDS_KEPT_MAX: i64 = 50;

/// Maximum number of files looked up in a commit for one suggested fix.
pub const FIX_LOOKUPS_MAX: usize = 100;

/// Maximum size of a delivery of a forge. GitHub sends at most 25 MB.
pub const HOOK_BODY_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Deliveries above this size are received only a few at a time, because each needs a multiple of its size in memory.
pub const HOOK_SMALL_BODY_BYTES_MAX: usize = 512 * 1024;
/// Number of large deliveries received at once; the next constant limits how many may wait.
pub const LARGE_HOOKS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(6, 2);
pub const LARGE_HOOKS_WAITING_MAX: AdmissionCapacity = AdmissionCapacity::new(60, 20);
/// Number of requests about webhooks sent to forges at once.
pub const HOOK_CALLS_AT_ONCE: AdmissionCapacity = AdmissionCapacity::new(8, 2);
/// Retention of the deliveries of forges.
pub const HOOK_DELIVERY_DAYS_KEPT: i64 = 30;

pub const WEBHOOKS_PER_ORGANIZATION_MAX: i64 = 100;
/// Maximum number of pending deliveries per webhook. At this limit, no further events are read for the webhook until
/// some deliveries have finished.
pub const DELIVERIES_PENDING_MAX: i64 = 1_000;
/// How many events a webhook may lag behind. Older events are dropped and counted.
pub const WEBHOOK_BEHIND_MAX: i64 = 100_000;
/// Events older than this cause no notification, such as those from before a restore.
pub const NOTIFICATION_EVENT_AGE_S_MAX: i64 = 24 * 60 * 60;
/// Maximum number of notifications kept per person and organization.
pub const NOTIFICATIONS_PER_PERSON_MAX: i64 = 1_000;
/// Retention of notifications, whether read or not.
pub const NOTIFICATION_DAYS_KEPT: i64 = 90;
/// Maximum number of notifications in one email. The rest follows in the next one.
pub const NOTIFICATIONS_PER_MAIL_MAX: i64 = 50;
/// Maximum number of notifications that wait for an email to one person. Further ones are only in the inbox.
pub const MAILS_PENDING_PER_PERSON_MAX: i64 = 1_000;
pub const CHAT_DESTINATIONS_PER_ORGANIZATION_MAX: i64 = 100;
/// Maximum number of messages that wait for one chat destination or person. Further ones are dropped and logged.
pub const CHAT_MESSAGES_PENDING_MAX: i64 = 10_000;
/// Maximum number of notifications in one chat message. The rest follows in the next one.
pub const NOTIFICATIONS_PER_CHAT_MESSAGE_MAX: i64 = 15;
/// Maximum difference between the time of a request of Slack and the server's clock.
pub const SLACK_REQUEST_AGE_S_MAX: i64 = 5 * 60;
/// How long a request of Slack is remembered, so that a replay is refused. Longer than it can be valid.
pub const SLACK_REQUEST_KEPT_S: i64 = 15 * 60;
/// Maximum size of a request of Slack. A button press contains the message with the button.
pub const SLACK_BODY_BYTES_MAX: usize = 256 * 1024;
pub const SLACK_SIGNING_SECRET_BYTES_MAX: usize = 200;
pub const SLACK_BOT_TOKEN_BYTES_MAX: usize = 400;
/// How long an action link in an email can be used.
pub const ACTION_LINK_S: i64 = 3 * 24 * 60 * 60;

/// Days for which a commit status is kept after its last change.
pub const COMMIT_STATUS_DAYS_KEPT: i64 = 30;
/// Retention of finished deliveries and their attempts.
pub const DELIVERY_DAYS_KEPT: i64 = 7;
/// Maximum number of deliveries kept per webhook.
pub const DELIVERIES_KEPT_MAX: i64 = 10_000;
/// Maximum number of attempts per delivery, both automatic and requested.
pub const ATTEMPTS_PER_DELIVERY_MAX: i64 = 100;
/// Maximum number of characters of the receiver's response that a ping shows.
pub const ANSWER_EXCERPT_CHARS_MAX: usize = 200;
