//! `berth admin doctor`: checks whether this machine can run the server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command as Program, ExitCode};

use berth_engine::vault::root_key_id;
use berth_runner::{Confinement, RunnerStartError, StepUserAccount};
use berth_server::admin;
use berth_store::tables::{instance, key};
use serde_json::json;

use super::{InstallationArgs, LocatedInstallation};
use crate::embedded;
use crate::output::JsonArgs;

/// The doctor warns below `FREE_BYTES_WANTED` of free disk space and fails below `FREE_BYTES_MIN`.
const FREE_BYTES_WANTED: u64 = 1024 * 1024 * 1024;
const FREE_BYTES_MIN: u64 = FREE_BYTES_WANTED / 10;
const GIT_MIN: (u32, u32) = (2, 39);
/// 2025-01-01. If the clock shows an earlier time, it was never set.
const CLOCK_MIN_S: i64 = 1_735_689_600;
/// The clock counts as wrong if the last event in the database is more than this many seconds ahead of it.
const CLOCK_BEHIND_S_MAX: i64 = 60;

#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

enum CheckState {
    Ok,
    Warn,
    Fail,
}

impl CheckState {
    const fn as_str(&self) -> &'static str {
        match self {
            CheckState::Ok => "ok",
            CheckState::Warn => "warn",
            CheckState::Fail => "fail",
        }
    }
}

struct DoctorCheck {
    name: &'static str,
    state: CheckState,
    /// The result of the check, followed by advice unless the check passed.
    detail: String,
}

fn ok(name: &'static str, said: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name, state: CheckState::Ok, detail: said.into() }
}

fn warn(name: &'static str, said: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name, state: CheckState::Warn, detail: said.into() }
}

fn fail(name: &'static str, said: impl Into<String>) -> DoctorCheck {
    DoctorCheck { name, state: CheckState::Fail, detail: said.into() }
}

pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate()?;
    let checks = [
        check_data_dir(&found),
        check_root_key(&found),
        check_database(&found),
        check_disk(&found),
        check_storage(&found),
        check_git(),
        check_sandbox(&found),
        check_clock(&found),
        check_port(&found),
    ];
    let is_fit = !checks.iter().any(|check| matches!(check.state, CheckState::Fail));
    let raw =
        checks.iter().map(|it| json!({"check": it.name, "state": it.state.as_str(), "detail": it.detail}));
    let row = |it: &DoctorCheck| vec![it.state.as_str().to_owned(), it.name.to_owned(), it.detail.clone()];
    let (raw, rows) = (raw.collect::<serde_json::Value>(), checks.iter().map(row).collect::<Vec<_>>());
    args.json.output().print_wrapped_table(&raw, &["state", "check", "detail"], &rows, "")?;
    Ok(if is_fit { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_data_dir(found: &LocatedInstallation) -> DoctorCheck {
    let (name, dir) = ("data directory", &found.data_dir);
    let Ok(info) = std::fs::metadata(dir) else {
        return fail(name, format!("{} does not exist or cannot be read; run `berth init`", dir.display()));
    };
    if !info.is_dir() {
        return fail(name, format!("{} is not a directory", dir.display()));
    }
    let mode = info.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let text =
            format!("{} is accessible to other users (mode {mode:o}); run chmod 700 on it", dir.display());
        return warn(name, text);
    }
    let is_running = admin::is_running(dir);
    ok(name, format!("{}{}", dir.display(), if is_running { ", server is running" } else { "" }))
}

fn check_root_key(found: &LocatedInstallation) -> DoctorCheck {
    let path = found.root_key_path(None);
    match root_key_id(&path) {
        Ok(id) => {
            ok("root key", format!("key {id} at {}; make sure you have a copy elsewhere", path.display()))
        }
        Err(error) => fail("root key", error.to_string()),
    }
}

fn check_database(found: &LocatedInstallation) -> DoctorCheck {
    let name = "database";
    let looked = found.open_read_only().and_then(|mut db| {
        let epoch = db.read(None, |db| instance::load_epoch(db))?;
        let version = match found.database {
            Some(_) => db.sql("SELECT current_setting('server_version')", 1)?,
            None => db.sql("SELECT sqlite_version()", 1)?,
        };
        let version = version.rows.into_iter().flatten().flatten().next().unwrap_or_default();
        let engine = if found.database.is_some() { "PostgreSQL" } else { "SQLite" };
        let key = db.read(None, |db| key::find_root_key_id(db))?;
        Ok((format!("{engine} {version}, epoch {epoch}"), key))
    });
    match looked {
        Err(error) => fail(name, format!("{error:#}")),
        Ok((text, wanted)) => match (wanted, root_key_id(&found.root_key_path(None))) {
            (Some(wanted), Ok(id)) if wanted != id => {
                fail(name, format!("{text}; needs root key {wanted}, but the file contains {id}"))
            }
            _ => ok(name, text),
        },
    }
}

fn check_disk(found: &LocatedInstallation) -> DoctorCheck {
    let name = "disk space";
    let Ok(info) = rustix::fs::statvfs(&found.data_dir) else {
        return warn(name, "cannot be determined");
    };
    let free = info.f_bavail * info.f_frsize;
    let text = format!("{} MiB free", free / (1024 * 1024));
    if free < FREE_BYTES_MIN {
        fail(name, format!("{text}; free some space, or writes will be refused soon"))
    } else if free < FREE_BYTES_WANTED {
        warn(name, format!("{text}; free some space, or set retention.log_days and retention.artifact_days"))
    } else {
        ok(name, text)
    }
}

fn check_storage(found: &LocatedInstallation) -> DoctorCheck {
    let name = "object storage";
    let storage = match found.settings.storage.open() {
        Ok(Some(storage)) => storage,
        Ok(None) => return ok(name, "not configured; logs and artifacts are in the data directory"),
        Err(error) => return fail(name, format!("{error:#}")),
    };
    match storage.check() {
        Ok(()) => ok(name, format!("{} can be written, read, listed and deleted", storage.url())),
        Err(error) => fail(name, format!("{}: {error}", storage.url())),
    }
}

fn check_git() -> DoctorCheck {
    let name = "git";
    let Ok(told) = Program::new("git").arg("--version").output() else {
        return warn(name, "not found in PATH; install git 2.39 or newer to sync repositories");
    };
    let text = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let mut numbers =
        text.trim_start_matches("git version ").split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= GIT_MIN => ok(name, text),
        _ => warn(name, format!("{text:?} is not supported; install git 2.39 or newer")),
    }
}

fn check_sandbox(found: &LocatedInstallation) -> DoctorCheck {
    let name = "sandbox";
    let settings = &found.settings;
    let level = embedded::sandbox_mode(settings.runner.sandbox, settings.local);
    let user =
        settings.runner.user_name().map(StepUserAccount::find).transpose().map_err(RunnerStartError::from);
    let chosen = user.and_then(|user| {
        Confinement::choose_as(user, level, &[], &settings.runner.expose).map(|it| it.isolation())
    });
    match chosen {
        Err(error) => fail(
            name,
            format!("{error}. Steps will not run on this machine; `--sandbox landlock|off` is weaker"),
        ),
        Ok(berth_api::runner::Isolation::Process) => warn(
            name,
            "off: steps have the same access as the server. Install bubblewrap, or use remote runners",
        ),
        Ok(level) => ok(name, format!("{level:?}").to_lowercase()),
    }
}

fn check_clock(found: &LocatedInstallation) -> DoctorCheck {
    let (name, now) = ("clock", jiff::Timestamp::now());
    if now.as_second() < CLOCK_MIN_S {
        return fail(
            name,
            format!("shows {now}; set it and keep it synchronized (systemd-timesyncd, chrony)"),
        );
    }
    let last =
        found.open_read_only().ok().and_then(|mut db| db.sql("SELECT MAX(occurred_at) FROM events", 1).ok());
    let last = last.and_then(|table| table.rows.into_iter().flatten().flatten().next()?.parse::<i64>().ok());
    let behind = last.map_or(0, |last| last / 1_000_000 - now.as_second());
    match behind > CLOCK_BEHIND_S_MAX {
        true => fail(name, format!("{behind} s behind the last event in the database; set it")),
        false => ok(name, now.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()),
    }
}

fn check_port(found: &LocatedInstallation) -> DoctorCheck {
    let (name, address) = ("port", found.settings.listen);
    match TcpListener::bind(address) {
        Ok(_) => ok(name, format!("{address} is free")),
        Err(_) if admin::is_running(&found.data_dir) => {
            ok(name, format!("{address} is in use, probably by this server"))
        }
        Err(error) => warn(name, format!("cannot use {address}: {error}")),
    }
}
