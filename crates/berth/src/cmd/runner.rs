//! `berth runner`: runs steps for a server on another machine.

mod args;
mod fleet;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use berth_api::remote::{RegisteredRunner, RegistrationRequest, RunnerHello, RunnerWelcome};
use berth_core::runner::PROTOCOL;
use berth_runner::remote::{
    AttemptSpool, RecoveredSpool, RemoteLink, RemoteWorkDir, RequestError, RunnerCredential, ServerClient,
    new_boot,
};
use berth_runner::{
    Confinement, ContainerEngineOptions, RunnerOptions, STEP_LOG_PATIENCE, STEP_LOG_SPILL_BYTES_MAX,
    StepRunner, StepUserAccount,
};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use args::RunnerArgs;

use super::{disable_core_dumps, print_line};
use crate::config::{BUILDAH, ServerSettings};
use crate::{embedded, logging};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const NAME_CHARS_MAX: usize = 63;
/// Beginning of the error message if no sandbox works.
const NO_SANDBOX: &str =
    "no sandbox available; install bubblewrap, or use --sandbox landlock or --sandbox off";
/// Timeout for the registration and hello requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Interval for checking whether a signal has arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A larger difference between the runner's and the server's clock is logged.
const CLOCK_SKEW_S_MAX: i64 = 60;

pub(crate) fn run(args: &RunnerArgs) -> anyhow::Result<ExitCode> {
    if let Some(command) = &args.command {
        return fleet::run(command);
    }
    logging::start(&ServerSettings::load(None)?.log, false);
    disable_core_dumps();
    let server = args.server.as_deref().context("no server given")?;
    let server = parse_server_url(server, args.allow_plain_http)?;
    let home = RemoteWorkDir::open(&args.work_dir)?;
    let ending = ShutdownSignals::listen()?;
    let boot = new_boot()?;
    let sandbox = embedded::sandbox_mode(args.sandbox, false);
    let user = args.user.as_deref().map(StepUserAccount::find).transpose().context("--user")?;
    let confinement = Confinement::choose_as(user, sandbox, &[], &args.expose).context(NO_SANDBOX)?;
    let RecoveredSpool { before, seen } =
        AttemptSpool::recover(home.path()).context("cannot read the spool")?;
    let mut labels = vec![std::env::consts::OS.to_owned(), std::env::consts::ARCH.to_owned()];
    labels.extend(args.labels.iter().map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
    let containers = args.container_socket.clone().map(|socket| ContainerEngineOptions {
        socket,
        allows_host_network: args.container_host_network,
        buildah: BUILDAH.into(),
    });
    labels.extend(containers.iter().flat_map(ContainerEngineOptions::labels));
    labels.extend(args.kubernetes.labels());
    let hello = RunnerHello {
        protocol: PROTOCOL,
        version: VERSION.to_owned(),
        boot: boot.clone(),
        labels: labels.clone(),
        slots: args.slots,
        isolation: confinement.isolation(),
        exposed: confinement.exposed_paths(),
        before,
        epoch: Some(seen.epoch()),
    };
    let Some((client, welcome)) = connect(args, &server, &home, &hello, &ending)? else {
        return Ok(ExitCode::SUCCESS);
    };
    warn_about_clock_skew(&welcome);
    // Only now may the spool be replaced: until the server had received its contents, the old one had to be kept.
    let seen = seen.with_epoch(welcome.epoch);
    let spool = AttemptSpool::create(home.path(), &boot, seen).context("cannot write the spool")?;
    let link = Arc::new(RemoteLink::new(client.clone(), &welcome));
    let self_stop = Duration::from_millis(welcome.self_stop_ms);
    let settings = RunnerOptions {
        slots: usize::try_from(args.slots)?,
        labels: labels.clone(),
        containers,
        kubernetes: args.kubernetes.options(),
        stop_grace: Duration::from_millis(welcome.stop_grace_ms),
        self_stop,
        // Buffer logs at least as long as steps keep running while the server is unreachable.
        step_log_patience: STEP_LOG_PATIENCE.max(self_stop),
        step_log_spill_bytes_max: STEP_LOG_SPILL_BYTES_MAX,
        heartbeat_wait: Duration::from_millis(welcome.heartbeat_ms),
        spool: Some(Arc::new(spool)),
        ..RunnerOptions::new(home.path().to_owned(), boot.clone(), confinement)
    };
    let runner = StepRunner::start(settings, link.clone()).context("cannot start the runner")?;
    print_line(&format!(
        "berth runner {} is connected to {server}: {} slots, labels {}, isolation {:?}",
        welcome.name,
        args.slots,
        welcome.labels.join(", "),
        hello.isolation,
    ))?;
    let end = ending.wait_for_exit(&runner, &client);
    runner.stop();
    match end {
        RunnerExit::Finished => {
            if let Err(error) = link.goodbye(&boot) {
                tracing::warn!(%error, "cannot notify the server of the shutdown");
            }
            Ok(ExitCode::SUCCESS)
        }
        RunnerExit::Removed => anyhow::bail!(
            "this runner was removed from the server; to add it again, create a new token and start with --token"
        ),
    }
}

/// Registers the runner if necessary and sends hello. Returns `None` if interrupted.
fn connect(
    args: &RunnerArgs,
    server: &str,
    home: &RemoteWorkDir,
    hello: &RunnerHello,
    ending: &ShutdownSignals,
) -> anyhow::Result<Option<(Arc<ServerClient>, RunnerWelcome)>> {
    let known =
        RunnerCredential::load(home.path()).context("cannot read the credential in the work directory")?;
    let was_known = known.is_some();
    let credential = match (known, &args.token) {
        (Some(known), _) => {
            anyhow::ensure!(
                known.server == server,
                "{} belongs to runner {} of {}; use another --work-dir for {server}",
                home.path().display(),
                known.name,
                known.server
            );
            known
        }
        (None, Some(token)) => match register(args, server, home.path(), token, ending)? {
            Some(credential) => credential,
            None => return Ok(None),
        },
        (None, None) => anyhow::bail!(
            "this runner is not registered; create it with `berth runner create`, or in the dashboard, and start it with \
             --token"
        ),
    };
    let client = Arc::new(ServerClient::new(server, credential.credential.reveal()));
    let greeted = retry_until_answered(ending, || match client.post_json("hello", hello, REQUEST_TIMEOUT) {
        Err(RequestError::Unauthenticated(why)) => Ok(Err(why)),
        heard => heard.map(Ok),
    });
    match (greeted?, &args.token) {
        (None, _) => Ok(None),
        (Some(Ok(welcome)), _) => Ok(Some((client, welcome))),
        // The server rejected the stored credential: the runner was removed and created again there, so register it
        // again.
        (Some(Err(_)), Some(token)) if was_known => {
            let Some(credential) = register(args, server, home.path(), token, ending)? else {
                return Ok(None);
            };
            let client = Arc::new(ServerClient::new(server, credential.credential.reveal()));
            let welcome = retry_until_answered(ending, || client.post_json("hello", hello, REQUEST_TIMEOUT));
            Ok(welcome?.map(|welcome| (client, welcome)))
        }
        (Some(Err(why)), _) => anyhow::bail!(why),
    }
}

fn register(
    args: &RunnerArgs,
    server: &str,
    work_dir: &Path,
    token: &str,
    ending: &ShutdownSignals,
) -> anyhow::Result<Option<RunnerCredential>> {
    let client = ServerClient::new(server, token);
    let name = args.name.clone().or_else(host_name);
    let said = RegistrationRequest { protocol: PROTOCOL, version: VERSION.to_owned(), name };
    let Some(registered) = retry_until_answered(ending, || {
        client.post_json::<RegisteredRunner>("register", &said, REQUEST_TIMEOUT)
    })?
    else {
        return Ok(None);
    };
    let RegisteredRunner { runner_id, name, credential } = registered;
    let credential = RunnerCredential { server: server.to_owned(), runner_id, name, credential };
    credential.save(work_dir).context("cannot write the credential")?;
    Ok(Some(credential))
}

/// Retries with exponential backoff until the server responds, even with a refusal. Returns `None` if interrupted.
fn retry_until_answered<T>(
    ending: &ShutdownSignals,
    ask: impl Fn() -> Result<T, RequestError>,
) -> anyhow::Result<Option<T>> {
    let mut pause = BACKOFF_MIN;
    loop {
        match ask() {
            Ok(answer) => return Ok(Some(answer)),
            Err(RequestError::Unavailable(why)) => {
                tracing::warn!(error = %why, retry_in = ?pause, "server unavailable; retrying");
            }
            Err(no @ (RequestError::Unauthenticated(_) | RequestError::Refused(_))) => return Err(no.into()),
        }
        if ending.is_signalled_within(pause) {
            return Ok(None);
        }
        pause = (pause * 2).min(BACKOFF_MAX);
    }
}

fn parse_server_url(url: &str, allow_plain_http: bool) -> anyhow::Result<String> {
    let url = url.trim_end_matches('/');
    let host = match url.split_once("://") {
        Some(("https", host)) => return Ok(check_host(url, host)?.to_owned()),
        Some(("http", host)) => host,
        _ => anyhow::bail!("--server must be a URL like https://berth.acme.test"),
    };
    let is_loopback = ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|own| host.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')));
    anyhow::ensure!(
        is_loopback || allow_plain_http,
        "plain http would expose secrets and the credential of this runner; use https, or --allow-plain-http in a \
         trusted network"
    );
    Ok(check_host(url, host)?.to_owned())
}

fn check_host<'a>(url: &'a str, host: &str) -> anyhow::Result<&'a str> {
    let is_plain = !host.is_empty() && !host.contains(['@', '?', '#', ' ']);
    anyhow::ensure!(is_plain, "--server must be a URL like https://berth.acme.test");
    Ok(url)
}

/// Returns the host name, converted to a valid runner name.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let plain: String =
        name.trim().to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let cut: String = plain.trim_matches('-').chars().take(NAME_CHARS_MAX).collect();
    let cut = cut.trim_matches('-');
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// Logs a warning if the clocks differ. The runner itself does not depend on the wall clock, but log timestamps and
/// certificate checks do.
fn warn_about_clock_skew(welcome: &RunnerWelcome) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if let Some(text) = clock_skew_warning(now_s, welcome.now_ms / 1_000) {
        tracing::warn!("{text}");
    }
}

fn clock_skew_warning(here_s: i64, there_s: i64) -> Option<String> {
    let apart_s = here_s.saturating_sub(there_s);
    let way = if apart_s > 0 { "ahead of" } else { "behind" };
    (apart_s.abs() > CLOCK_SKEW_S_MAX).then(|| {
        format!(
            "the clock of this machine is {} minutes {way} the server's; log timestamps will not match and \
             certificates may be rejected",
            apart_s.abs() / 60
        )
    })
}

enum RunnerExit {
    /// All steps have ended.
    Finished,
    /// The server no longer knows this runner.
    Removed,
}

/// Counts shutdown signals: after the first the runner only finishes its steps, after the second it stops them.
struct ShutdownSignals {
    signals: Arc<AtomicU32>,
    /// Keeps the signal handlers alive.
    _runtime: Runtime,
}

impl ShutdownSignals {
    fn listen() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let inside = runtime.enter();
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(inside);
        let signals = Arc::new(AtomicU32::new(0));
        let heard = signals.clone();
        runtime.spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { signals, _runtime: runtime })
    }

    fn signals(&self) -> u32 {
        self.signals.load(Ordering::Relaxed)
    }

    /// Waits; returns true if a signal arrived.
    fn is_signalled_within(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while self.signals() == 0 && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL.min(pause));
        }
        self.signals() > 0
    }

    fn wait_for_exit(&self, runner: &StepRunner, client: &ServerClient) -> RunnerExit {
        let mut drains = false;
        loop {
            if client.is_rejected() {
                return RunnerExit::Removed;
            }
            match self.signals() {
                0 => {}
                1 if !drains => {
                    drains = true;
                    runner.drain();
                    tracing::info!("draining; send another signal to stop running steps");
                }
                1 => {}
                _ => return RunnerExit::Finished,
            }
            if drains && runner.is_drained() {
                return RunnerExit::Finished;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{clock_skew_warning, parse_server_url};

    #[test]
    fn clock_skew_of_an_hour_is_reported() {
        assert_eq!(clock_skew_warning(7_200, 7_170), None);
        assert!(
            clock_skew_warning(7_200, 3_600)
                .is_some_and(|text| text.contains("60 minutes ahead of the server's"))
        );
        assert!(
            clock_skew_warning(3_600, 7_200)
                .is_some_and(|text| text.contains("60 minutes behind the server's"))
        );
    }

    #[test]
    fn plain_http_is_refused_unless_allowed() {
        for good in
            ["https://berth.acme.test", "https://x:8443/", "http://127.0.0.1:8080", "http://localhost:1"]
        {
            assert!(parse_server_url(good, false).is_ok_and(|url| !url.ends_with('/')), "{good}");
        }
        for bad in ["http://berth.acme.test", "http://127.0.0.1.evil.test", "http://10.0.0.7:8080"] {
            assert!(parse_server_url(bad, false).is_err(), "{bad}");
            assert!(parse_server_url(bad, true).is_ok(), "{bad}");
        }
        for bad in ["", "berth.acme.test", "ftp://x", "https://", "https://a@x", "http://"] {
            assert!(parse_server_url(bad, true).is_err(), "{bad}");
        }
    }
}
