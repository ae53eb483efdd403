//! Runs a command while holding a session. Releases the session in every case, except after a failure with
//! `--keep-on-failure`.
//!
//! The session has a short TTL and is extended in the background, or it has a lease and is kept by heartbeats. If this
//! process is killed, the session expires within [`TTL_S`] or the lease. If the server is unreachable for that long,
//! another caller may get the environment, so the command is stopped before the session can expire.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::deployment::DeploymentStatus;
use berth_api::session::{SessionStatus, WireSession};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

use super::guard::{SessionGuard, release};
use super::keep;
use super::target::EnvironmentRef;
use super::terminal::{self, CommandGroup, ControllingTerminal};
use crate::client::{ApiClient, ClientError, exit_code};
use crate::cmd::watch;
use crate::output::{print_note, strip_control_chars};

/// TTL of a session without a lease, renewed while the command runs.
pub(super) const TTL_S: i64 = 60;
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of one renewal.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before resuming a command that was stopped because it needs the terminal.
const TERMINAL_RETRY: Duration = Duration::from_secs(1);

pub(super) fn run_command(
    client: &ApiClient,
    place: &EnvironmentRef,
    session: &WireSession,
    undo: &SessionGuard,
    command: &[String],
    keep_seconds: Option<i64>,
) -> anyhow::Result<ExitCode> {
    print_note(&format!(
        "berth: claimed {}, fence {}. {}",
        place.name,
        session.fence,
        place.dashboard_page(client)
    ));
    let (over, is_over) = mpsc::channel();
    let claimed = Instant::now();
    let path = place.session_path(&session.session_id);
    let renewal = SessionRenewal::new(session.lease_seconds);
    std::thread::scope(|scope| {
        let path = &path;
        scope.spawn(move || renew_session(client, path, &renewal, claimed, undo, &is_over));
        watch_for_take_over(client, path, undo);
        let done = deploy_and_run(client, session, undo, command);
        let (is_lost, is_interrupted) = {
            let mut state = undo.state.lock();
            state.is_over = true;
            (state.lost.is_some(), state.is_interrupted)
        };
        over.send(()).ok();
        if is_lost {
            undo.wait_until_printed();
            return Ok(ExitCode::from(exit_code::LOCKED));
        }
        let failure = done.as_ref().ok().and_then(|end| end.failure.as_deref()).filter(|_| !is_interrupted);
        let is_kept = match (failure, keep_seconds) {
            (Some(failure), Some(seconds)) => keep::keep_session(client, place, session, failure, seconds),
            _ => false,
        };
        if !is_kept && release(client, path) {
            print_note(&format!("berth: released {}", place.name));
        }
        done.map(|end| ExitCode::from(end.code))
    })
}

/// How the deployment and the command ended.
struct CommandEnd {
    code: u8,
    /// What failed; `None` after a success or an interrupt.
    failure: Option<String>,
}

fn deploy_and_run(
    client: &ApiClient,
    session: &WireSession,
    undo: &SessionGuard,
    command: &[String],
) -> anyhow::Result<CommandEnd> {
    let first = session.deployment_history.first().map(|it| it.id.clone());
    if let Some(id) = session.deployment_id.clone().or(first) {
        let deployed = watch::wait_until_finished(client, &id)?.data;
        if deployed.status != DeploymentStatus::Succeeded {
            print_note(&format!(
                "berth: the deployment did not succeed, so the command was not started.\n{}",
                watch::summary_line(client, &deployed)
            ));
            let failure = Some("the deployment did not succeed".to_owned());
            return Ok(CommandEnd { code: exit_code::FAILED, failure });
        }
    }
    let Some(status) = run_child(session, undo, command)? else {
        return Ok(CommandEnd { code: exit_code::INTERRUPTED, failure: None });
    };
    let code = child_exit_code(status);
    // Ctrl-C on a terminal reaches only the command.
    let is_failure = !status.success() && code != exit_code::INTERRUPTED;
    Ok(CommandEnd { code, failure: is_failure.then(|| format!("the command failed with exit code {code}")) })
}

/// Runs the command. Returns `None` if it was interrupted before it started.
fn run_child(
    session: &WireSession,
    undo: &SessionGuard,
    command: &[String],
) -> anyhow::Result<Option<ExitStatus>> {
    let (program, args) = command.split_first().context("no command")?;
    let mut process = Command::new(program);
    process.args(args);
    process.env("BERTH_SESSION_ID", &session.session_id);
    process.env("BERTH_ENVIRONMENT", &session.env_name);
    process.env("BERTH_FENCE", session.fence.to_string());
    if let Some(token) = &session.session_token {
        process.env("BERTH_TOKEN", token);
    }
    process.process_group(0);
    let mut child = {
        let mut state = undo.state.lock();
        if state.is_interrupted || state.lost.is_some() {
            return Ok(None);
        }
        let child = terminal::spawn(&mut process).with_context(|| format!("cannot start {program}"))?;
        state.child = Some(CommandGroup(Pid::from_child(&child)));
        child
    };
    let group = CommandGroup(Pid::from_child(&child));
    let mut terminal = ControllingTerminal::open();
    if let Some(terminal) = &mut terminal {
        terminal.give_to(group.0);
    }
    let ended = wait_for_exit(group, terminal.as_mut()).with_context(|| format!("cannot wait for {program}"));
    // Kill background processes that the command left in its group.
    undo.state.lock().child = None;
    group.send(Signal::KILL);
    drop(terminal);
    ended?;
    Ok(Some(child.wait()?))
}

/// Waits until the command exits. Does not reap it, so that its process group id stays valid.
fn wait_for_exit(
    command: CommandGroup,
    mut terminal: Option<&mut ControllingTerminal>,
) -> rustix::io::Result<()> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
    loop {
        match waitid(WaitId::Pid(command.0), look | WaitIdOptions::NOWAIT) {
            // Resume a stopped command: other callers may be waiting for its environment, and no shell will resume it.
            Ok(Some(seen)) if seen.stopped() => {
                waitid(WaitId::Pid(command.0), WaitIdOptions::STOPPED)?;
                let wants = [Signal::TTIN, Signal::TTOU].map(|it| Some(it.as_raw()));
                let mut has = || terminal.as_mut().is_some_and(|it| it.give_to(command.0));
                // While this process is in the background, a command that needs the terminal would stop again at once,
                // so pause before each attempt.
                if wants.contains(&seen.stopping_signal()) && !has() {
                    std::thread::sleep(TERMINAL_RETRY);
                }
                command.send(Signal::CONT);
            }
            Ok(Some(_)) => return Ok(()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn child_exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::FAILED)
}

/// How a session is kept alive.
struct SessionRenewal {
    /// The last part of the path: `extend`, or `heartbeat` for a lease.
    verb: &'static str,
    body: serde_json::Value,
    /// How long the session lives after a renewal.
    length: Duration,
}

impl SessionRenewal {
    fn new(lease_seconds: Option<i64>) -> Self {
        let length = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
        match lease_seconds {
            Some(seconds) => Self { verb: "heartbeat", body: serde_json::json!({}), length: length(seconds) },
            None => Self {
                verb: "extend",
                body: serde_json::json!({ "ttlSeconds": TTL_S }),
                length: length(TTL_S),
            },
        }
    }

    fn interval(&self) -> Duration {
        self.length / 3
    }

    /// The command is stopped this long before the session can expire.
    fn stop_margin(&self) -> Duration {
        self.length / 4
    }
}

/// Renews the session, and stops the command before the session can expire.
fn renew_session(
    client: &ApiClient,
    path: &str,
    renewal: &SessionRenewal,
    claimed: Instant,
    undo: &SessionGuard,
    is_over: &mpsc::Receiver<()>,
) {
    let mut ends = claimed + renewal.length;
    let mut pause = renewal.interval();
    while let Err(mpsc::RecvTimeoutError::Timeout) = is_over.recv_timeout(pause) {
        let sent = Instant::now();
        let url = format!("{path}/{}", renewal.verb);
        match client.post_once::<WireSession>(&url, &renewal.body, RENEW_TIMEOUT) {
            Ok(_) => (ends, pause) = (sent + renewal.length, renewal.interval()),
            Err(error) if ClientError::is_transient_error(&error) => {
                pause = RETRY_INTERVAL;
                if Instant::now() + renewal.stop_margin() > ends {
                    return undo.stop_command(format!(
                        "lost contact with the server, so the session may have expired: {error:#}. Stopping the command."
                    ));
                }
            }
            // The server refused the renewal, for example because the session has ended. The thread in
            // `watch_for_take_over` reports the reason.
            Err(_) => pause = RETRY_INTERVAL,
        }
        if undo.is_lost() {
            return;
        }
    }
}

/// Starts a thread that long-polls the session, to notice a takeover immediately. The thread is not joined when the
/// command ends.
fn watch_for_take_over(client: &ApiClient, path: &str, undo: &SessionGuard) {
    let (client, path, undo) = (client.clone(), path.to_owned(), undo.clone());
    let look = move || {
        let mut etag = String::new();
        while !undo.state.lock().is_over {
            match client.get_if_changed::<WireSession>(&path, &etag) {
                Ok(Some(news)) if news.data.status != SessionStatus::Active => {
                    return undo.stop_command(describe_end(&news.data));
                }
                Ok(news) => etag = news.and_then(|it| it.etag).unwrap_or(etag),
                Err(_) => std::thread::sleep(RETRY_INTERVAL),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn(look) {
        print_note(&format!("berth: takeovers will be noticed with a delay: {error}"));
    }
}

fn describe_end(session: &WireSession) -> String {
    let name = &session.env_name;
    match (session.status, &session.overridden_by) {
        (SessionStatus::Overridden, Some(by)) => {
            let why = session.override_reason.as_deref().map(strip_control_chars);
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            format!("{name} was taken over by {}{why}. Stopping the command.", strip_control_chars(&by.name))
        }
        (SessionStatus::Expired, _) => format!("the session in {name} expired. Stopping the command."),
        _ => {
            let by = session.ended_by.as_ref().map_or_else(String::new, |by| format!(" by {}", by.name));
            format!("the session in {name} was released{}. Stopping the command.", strip_control_chars(&by))
        }
    }
}
