//! Releases the session or queue ticket of `berth env claim` when the program is interrupted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::Signal;

use super::terminal::CommandGroup;
use crate::client::{ApiClient, exit_code, percent_encode};
use crate::cmd::signals;
use crate::output::print_note;

/// Time between SIGTERM and SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait until the message about the lost session has been printed. If the terminal blocks for longer, this
/// program exits without the message.
const PRINT_TIMEOUT: Duration = Duration::from_secs(2);

/// Releases the session or ticket on interrupt, and forwards signals to the command.
#[derive(Clone)]
pub(super) struct SessionGuard {
    client: Arc<Mutex<ApiClient>>,
    pub(super) state: Arc<Mutex<GuardState>>,
}

#[derive(Default)]
pub(super) struct GuardState {
    pub(super) is_interrupted: bool,
    /// API path of the ticket or session to release.
    path: Option<String>,
    pub(super) child: Option<CommandGroup>,
    /// Why the environment was lost.
    pub(super) lost: Option<String>,
    /// The message about the lost environment was printed.
    is_printed: bool,
    pub(super) is_over: bool,
    /// There is nothing to release, so an interrupt prints this text and exits.
    interrupt_note: Option<String>,
}

impl SessionGuard {
    /// Installs the signal handlers.
    pub(super) fn listen(client: &ApiClient) -> anyhow::Result<Self> {
        let undo = Self { client: Arc::new(Mutex::new(client.clone())), state: Arc::default() };
        let teller = undo.clone();
        signals::on_signal(move |heard| teller.handle_signal(heard))?;
        Ok(undo)
    }

    /// Sets the client that releases the session or ticket.
    pub(super) fn set_client(&self, client: &ApiClient) {
        *self.client.lock() = client.clone();
    }

    /// Forwards the signal to the command if it runs, otherwise releases the session or ticket and exits.
    fn handle_signal(&self, heard: Signal) {
        let mut state = self.state.lock();
        // A second signal kills the command. SIGHUP does not count as one, because closing a terminal may send it more
        // than once.
        let again = std::mem::replace(&mut state.is_interrupted, true) && heard != Signal::HUP;
        if let Some(child) = state.child {
            // SIGHUP is forwarded as SIGTERM, because many programs ignore SIGHUP. Ctrl-C on a terminal does not get
            // here: the terminal sends it directly to the command.
            child.send(match heard {
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
            release(&self.client.lock(), path);
        }
        if let Some(note) = &state.interrupt_note {
            print_note(note);
        }
        // If there is no path yet, the claim may be in flight; `arm` releases the session when the response arrives.
        if path.is_some() || state.interrupt_note.is_some() || again {
            std::process::exit(i32::from(exit_code::INTERRUPTED));
        }
    }

    /// Releases the session or ticket, if there is one.
    pub(super) fn release_now(&self) {
        if let Some(path) = self.state.lock().path.take() {
            release(&self.client.lock(), &path);
        }
    }

    /// From now on an interrupt releases this session or ticket. If an interrupt has already arrived, releases it now
    /// and exits.
    pub(super) fn arm(&self, path: String) {
        let mut state = self.state.lock();
        if state.is_interrupted {
            release(&self.client.lock(), &path);
            std::process::exit(i32::from(exit_code::INTERRUPTED));
        }
        state.path = Some(path);
    }

    /// Keeps the session; from now on an interrupt prints this text instead of releasing it.
    pub(super) fn disarm(&self, note: String) {
        let mut state = self.state.lock();
        (state.path, state.interrupt_note) = (None, Some(note));
    }

    /// Stops the command because another caller holds, or may hold, the environment. Sends the signal before doing
    /// anything that could fail or block.
    pub(super) fn stop_command(&self, why: String) {
        let text = format!("berth: {why}");
        {
            let mut state = self.state.lock();
            if state.is_over || state.lost.is_some() {
                return;
            }
            state.lost = Some(why);
            if let Some(child) = state.child {
                child.send(Signal::TERM);
            }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                print_note(&text);
                self.state.lock().is_printed = true;
            });
            self.kill_after_grace();
        });
    }

    fn kill_after_grace(&self) {
        let until = Instant::now() + STOP_GRACE;
        while self.state.lock().child.is_some() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        if let Some(child) = self.state.lock().child {
            child.send(Signal::KILL);
        }
    }

    /// Waits until another thread has printed the message about the lost environment. Without this, the process could
    /// exit before that thread is done.
    pub(super) fn wait_until_printed(&self) {
        let until = Instant::now() + PRINT_TIMEOUT;
        while !self.state.lock().is_printed && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().lost.is_some()
    }
}

/// Deletes a session or ticket. If the ticket has been granted in the meantime, releases the session that was opened
/// for it. A ticket for any environment with a label may have been granted in another environment than it was for.
/// Returns whether that succeeded.
pub(super) fn release(client: &ApiClient, path: &str) -> bool {
    let given = client.delete::<serde_json::Value>(path).and_then(|given| {
        let Some((place, _)) = path.split_once("/queue/").filter(|_| given.data["status"] == "granted")
        else {
            return Ok(());
        };
        let environments = place.rsplit_once('/').map_or(place, |(environments, _)| environments);
        match (given.data["envName"].as_str(), given.data["sessionId"].as_str()) {
            (Some(name), Some(session)) => {
                let path = format!("{environments}/{}/sessions/{session}", percent_encode(name));
                client.delete::<serde_json::Value>(&path).map(|_| ())
            }
            _ => Ok(()),
        }
    });
    if let Err(error) = given {
        print_note(&format!(
            "berth: cannot release the environment: {error:#}. Check it with `berth env show`."
        ));
        return false;
    }
    true
}
