//! Runs a command while holding a session and always releases the session.
//!
//! The session has a short TTL and is renewed in the background. If this process is killed, the session expires within
//! [`TTL_S`]. If the server cannot be reached for that long, another caller may get the environment, so the command is
//! stopped before the session can expire.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_api::deployment::DeploymentStatus;
use berth_api::session::{Extend, Session, SessionStatus};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::target::Place;
use super::terminal::{self, Terminal};
use crate::client::{Client, Failure, exit_code};
use crate::cmd::{signals, watch};
use crate::output::{harmless, note};

/// TTL of the session, renewed while the command runs.
pub(super) const TTL_S: i64 = 60;
const TTL: Duration = Duration::from_secs(60);
const EXTEND_EVERY: Duration = Duration::from_secs(20);
const EXTEND_AGAIN: Duration = Duration::from_secs(2);
/// Timeout of one renewal.
const EXTEND_MAX: Duration = Duration::from_secs(5);
/// The command is stopped this long before the session can expire.
const STOP_BEFORE: Duration = Duration::from_secs(15);
/// From SIGTERM to SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// How long to wait for a blocked terminal before exiting without the message.
const TELL_MAX: Duration = Duration::from_secs(2);
/// Pause before a command that waits for the terminal is continued.
const TERMINAL_AGAIN: Duration = Duration::from_secs(1);

/// Releases the session or ticket on interrupt, and forwards signals to the command.
#[derive(Clone)]
pub(super) struct Undo {
    client: Client,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_interrupted: bool,
    /// API path of the ticket or session to release.
    path: Option<String>,
    child: Option<Child>,
    /// Why the environment was lost.
    lost: Option<String>,
    /// The message about the loss was printed.
    is_told: bool,
    is_over: bool,
    /// Nothing to release: an interrupt exits immediately.
    is_settled: bool,
}

/// Process group of the command.
#[derive(Clone, Copy)]
struct Child(Pid);

impl Child {
    // Errors are ignored, because the group may have ended.
    fn tell(self, signal: Signal) {
        kill_process_group(self.0, signal).ok();
    }
}

impl Undo {
    /// Installs the signal handlers.
    pub(super) fn listen(client: &Client) -> anyhow::Result<Self> {
        let undo = Self { client: client.clone(), state: Arc::default() };
        let teller = undo.clone();
        signals::listen(move |heard| teller.interrupted(heard))?;
        Ok(undo)
    }

    /// Forwards the signal to the command if it runs, otherwise releases the session or ticket and exits.
    fn interrupted(&self, heard: Signal) {
        let mut state = self.state.lock();
        // A second signal kills the command. Closing a terminal may send SIGHUP more than once, so SIGHUP does not
        // count.
        let again = std::mem::replace(&mut state.is_interrupted, true) && heard != Signal::HUP;
        if let Some(child) = state.child {
            // On a terminal Ctrl-C reaches the command directly. SIGHUP is sent as SIGTERM because many programs ignore
            // SIGHUP.
            child.tell(match heard {
                _ if again => Signal::KILL,
                Signal::HUP => Signal::TERM,
                heard => heard,
            });
            return;
        }
        if state.is_over && !again {
            return;
        }
        let path = state.path.take();
        if let Some(path) = &path {
            give_back(&self.client, path);
        }
        // Without a path the claim may be in flight; it is released when it arrives.
        if path.is_some() || state.is_settled || again {
            std::process::exit(i32::from(exit_code::INTERRUPTED));
        }
    }

    /// Releases the session or ticket, if there is one.
    pub(super) fn now(&self) {
        if let Some(path) = self.state.lock().path.take() {
            give_back(&self.client, &path);
        }
    }

    /// From here on, an interrupt releases this path. If one arrived earlier, releases it now and exits.
    pub(super) fn set(&self, path: String) {
        let mut state = self.state.lock();
        if state.is_interrupted {
            give_back(&self.client, &path);
            std::process::exit(i32::from(exit_code::INTERRUPTED));
        }
        state.path = Some(path);
    }

    /// Keeps the session; an interrupt no longer releases it.
    pub(super) fn forget(&self) {
        let mut state = self.state.lock();
        (state.path, state.is_settled) = (None, true);
    }

    /// The environment is, or may be, held by another caller. The command is signalled before anything that could fail
    /// or block.
    fn lose(&self, why: String) {
        let text = format!("berth: {why}");
        {
            let mut state = self.state.lock();
            if state.is_over || state.lost.is_some() {
                return;
            }
            state.lost = Some(why);
            if let Some(child) = state.child {
                child.tell(Signal::TERM);
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                note(&text);
                self.state.lock().is_told = true;
            });
            self.kill_after_grace();
        });
    }

    fn kill_after_grace(&self) {
        let until = Instant::now() + STOP_GRACE;
        while self.state.lock().child.is_some() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        if let Some(child) = self.state.lock().child {
            child.tell(Signal::KILL);
        }
    }

    /// The message is printed by another thread, which ends with the process.
    fn wait_until_told(&self) {
        let until = Instant::now() + TELL_MAX;
        while !self.state.lock().is_told && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    fn is_lost(&self) -> bool {
        self.state.lock().lost.is_some()
    }
}

/// Deletes a session or ticket. A ticket that was granted in the meantime is released as a session.
fn give_back(client: &Client, path: &str) {
    let given = client.delete::<serde_json::Value>(path).and_then(|given| {
        let granted = given.data["status"] == "granted";
        match (granted, path.split_once("/queue/"), given.data["sessionId"].as_str()) {
            (true, Some((place, _)), Some(session)) => {
                client.delete::<serde_json::Value>(&format!("{place}/sessions/{session}")).map(|_| ())
            }
            _ => Ok(()),
        }
    });
    if let Err(error) = given {
        note(&format!("berth: cannot release the environment: {error:#}. Check it with `berth env show`."));
    }
}

pub(super) fn run(
    client: &Client,
    place: &Place,
    session: &Session,
    undo: &Undo,
    command: &[String],
) -> anyhow::Result<ExitCode> {
    note(&format!("berth: claimed {}, fence {}. {}", place.name, session.fence, place.page(client)));
    let (over, is_over) = mpsc::channel();
    let claimed = Instant::now();
    let path = place.session(&session.session_id);
    std::thread::scope(|scope| {
        let path = &path;
        scope.spawn(move || keep(client, path, claimed, undo, &is_over));
        watch_over(client, path, undo);
        let done = run_held(client, session, undo, command);
        let is_lost = {
            let mut state = undo.state.lock();
            state.is_over = true;
            state.lost.is_some()
        };
        over.send(()).ok();
        if is_lost {
            undo.wait_until_told();
            return Ok(ExitCode::from(exit_code::LOCKED));
        }
        give_back(client, path);
        done
    })
}

fn run_held(client: &Client, session: &Session, undo: &Undo, command: &[String]) -> anyhow::Result<ExitCode> {
    let first = session.deployment_history.first().map(|it| it.id.clone());
    if let Some(id) = session.deployment_id.clone().or(first) {
        let deployed = watch::until_over(client, &id)?.data;
        if deployed.status != DeploymentStatus::Succeeded {
            note(&format!(
                "berth: the deployment did not succeed, so the command was not started.\n{}",
                watch::line(client, &deployed)
            ));
            return Ok(ExitCode::from(exit_code::FAILED));
        }
    }
    let Some(status) = start(session, undo, command)? else {
        return Ok(ExitCode::from(exit_code::INTERRUPTED));
    };
    Ok(ExitCode::from(status_code(status)))
}

/// Runs the command; `None` if it was interrupted before the start.
fn start(session: &Session, undo: &Undo, command: &[String]) -> anyhow::Result<Option<ExitStatus>> {
    let (program, args) = command.split_first().context("no command")?;
    let mut process = Command::new(program);
    process.args(args);
    process.env("BERTH_SESSION_ID", &session.session_id);
    process.env("BERTH_ENVIRONMENT", &session.env_name);
    process.env("BERTH_FENCE", session.fence.to_string());
    process.process_group(0);
    let mut child = {
        let mut state = undo.state.lock();
        if state.is_interrupted || state.lost.is_some() {
            return Ok(None);
        }
        let child = terminal::spawn(&mut process).with_context(|| format!("cannot start {program}"))?;
        state.child = Some(Child(Pid::from_child(&child)));
        child
    };
    let group = Child(Pid::from_child(&child));
    let mut terminal = Terminal::find();
    if let Some(terminal) = &mut terminal {
        terminal.hand_to(group.0);
    }
    let ended = wait(group, terminal.as_mut()).with_context(|| format!("cannot wait for {program}"));
    // Kill background processes that the command left in its group.
    undo.state.lock().child = None;
    group.tell(Signal::KILL);
    drop(terminal);
    ended?;
    Ok(Some(child.wait()?))
}

/// Waits for the exit without reaping, so that the process group id stays valid.
fn wait(command: Child, mut terminal: Option<&mut Terminal>) -> rustix::io::Result<()> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::STOPPED;
    loop {
        match waitid(WaitId::Pid(command.0), look | WaitIdOptions::NOWAIT) {
            // Continue a stopped command: it holds an environment that others wait for, and there is no shell to
            // continue it.
            Ok(Some(seen)) if seen.stopped() => {
                waitid(WaitId::Pid(command.0), WaitIdOptions::STOPPED)?;
                let wants = [Signal::TTIN, Signal::TTOU].map(|it| Some(it.as_raw()));
                let mut has = || terminal.as_mut().is_some_and(|it| it.hand_to(command.0));
                // In the background it would be stopped again immediately; retry until we are in the foreground.
                if wants.contains(&seen.stopping_signal()) && !has() {
                    std::thread::sleep(TERMINAL_AGAIN);
                }
                command.tell(Signal::CONT);
            }
            Ok(Some(_)) => return Ok(()),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn status_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit_code::FAILED)
}

/// Renews the session, and stops the command before the session can expire.
fn keep(client: &Client, path: &str, claimed: Instant, undo: &Undo, is_over: &mpsc::Receiver<()>) {
    let mut ends = claimed + TTL;
    let mut pause = EXTEND_EVERY;
    while let Err(mpsc::RecvTimeoutError::Timeout) = is_over.recv_timeout(pause) {
        let sent = Instant::now();
        let body = Extend { ttl_seconds: Some(TTL_S) };
        match client.post_once::<Session>(&format!("{path}/extend"), &body, EXTEND_MAX) {
            Ok(_) => (ends, pause) = (sent + TTL, EXTEND_EVERY),
            Err(error) if Failure::passes(&error) => {
                pause = EXTEND_AGAIN;
                if Instant::now() + STOP_BEFORE > ends {
                    return undo.lose(format!(
                        "lost contact with the server, so the session may have expired: {error:#}. Stopping the command."
                    ));
                }
            }
            // The watching thread reports the reason.
            Err(_) => pause = EXTEND_AGAIN,
        }
        if undo.is_lost() {
            return;
        }
    }
}

/// Long-polls the session to notice a takeover immediately. The thread is left behind when the command ends.
fn watch_over(client: &Client, path: &str, undo: &Undo) {
    let (client, path, undo) = (client.clone(), path.to_owned(), undo.clone());
    let look = move || {
        let mut etag = String::new();
        while !undo.state.lock().is_over {
            match client.changed::<Session>(&path, &etag) {
                Ok(Some(news)) if news.data.status != SessionStatus::Active => {
                    return undo.lose(ended(&news.data));
                }
                Ok(news) => etag = news.and_then(|it| it.etag).unwrap_or(etag),
                Err(_) => std::thread::sleep(EXTEND_AGAIN),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watch".into()).spawn(look) {
        note(&format!("berth: takeovers will be noticed with a delay: {error}"));
    }
}

fn ended(session: &Session) -> String {
    let name = &session.env_name;
    match (session.status, &session.overridden_by) {
        (SessionStatus::Overridden, Some(by)) => {
            let why = session
                .override_reason
                .as_ref()
                .map_or_else(String::new, |why| format!(": {}", harmless(why)));
            format!("{name} was taken over by {}{why}. Stopping the command.", harmless(&by.name))
        }
        (SessionStatus::Expired, _) => format!("the session in {name} expired. Stopping the command."),
        _ => format!("the session in {name} was released. Stopping the command."),
    }
}
