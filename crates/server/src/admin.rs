//! Admin commands for a running server, sent over a Unix socket in the data directory.
//!
//! Only the server's user can access the socket. Steps that run without bubblewrap run as the same user, so the client
//! must also send the content of a password file in the data directory that steps cannot read. Request and response are
//! one line of JSON each.

use std::io::{BufRead as _, BufReader as StdBufReader, ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_api::problem::Code;
use berth_core::name::Email;
use berth_engine::credential::{RedactedString, random_base62};
use berth_engine::vault::KeyError;
use berth_store::tables::instance_admin;
use berth_store::tables::user::{self, UserAccount};
use berth_store::{Store, Tx, TxContext};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::app::{self, App, ResetLink, issue_reset_link};
use crate::auth::tokens;
use crate::error::AppError;

/// Name of the socket in the data directory.
const SOCKET: &str = "admin.sock";
const PASS_CHARS: usize = 43;
/// Name of the file with the password for the socket. The server writes a new password at every start.
const PASS: &str = "admin.pass";
const REQUEST_BYTES_MAX: u64 = 4 * 1024;
const SHARED: &str = "several servers may share this database, and each keeps the root key in memory: stop all of them, and \
    run the command again";
const ANSWER_MAX: Duration = Duration::from_secs(300);

/// The JSON line that the client sends.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdminMessage {
    pass: String,
    request: AdminRequest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminRequest {
    RotateKeys,
    /// Creates a password reset link for this user.
    ResetPassword {
        email: Email,
    },
    /// Removes the second factor of this user.
    ResetSecondFactor {
        email: Email,
    },
    /// Adds or removes an instance admin.
    SetInstanceAdmin {
        email: Email,
        remove: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminResponse {
    Rotated {
        #[serde(rename = "rootKeyId")]
        root_key_id: String,
        #[serde(rename = "dataKeys")]
        data_keys: u64,
    },
    ResetLink {
        url: String,
        #[serde(rename = "expiresAt")]
        expires_at: String,
    },
    SecondFactorReset,
    InstanceAdmins {
        emails: Vec<String>,
    },
    Failed(String),
}

/// Sends a request to the server that uses this data directory. Returns `None` if no server is running.
pub fn send_request(data_dir: &Path, request: &AdminRequest) -> std::io::Result<Option<AdminResponse>> {
    let mut stream = match std::os::unix::net::UnixStream::connect(data_dir.join(SOCKET)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        other => other?,
    };
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let asked =
        AdminMessage { pass: std::fs::read_to_string(data_dir.join(PASS))?, request: request.clone() };
    writeln!(stream, "{}", serde_json::to_string(&asked)?)?;
    let mut line = String::new();
    StdBufReader::new(stream).read_line(&mut line)?;
    Ok(Some(serde_json::from_str(&line)?))
}

/// Whether a server is running on this data directory. Connects to the socket, because its file may have been left
/// behind by a server that was killed.
pub fn is_running(data_dir: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(data_dir.join(SOCKET)).is_ok()
}

/// Serves admin commands until shutdown. If the socket cannot be created, the server runs without admin commands.
pub async fn serve(app: Arc<App>, data_dir: &Path) {
    let path = data_dir.join(SOCKET);
    // Remove the socket that a killed server left behind. This server holds the directory's lock, so no other server
    // can be using the socket.
    let _ = std::fs::remove_file(&path);
    let pass = RedactedString::new(random_base62(PASS_CHARS));
    let owner_only = || std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600));
    let bound = write_pass(&data_dir.join(PASS), &pass)
        .and_then(|()| UnixListener::bind(&path))
        .and_then(|listener| owner_only().map(|()| listener));
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, socket = %path.display(), "cannot create the admin socket; admin commands disabled");
            return;
        }
    };
    while let Some(accepted) = app.services.shutdown.run_until_cancelled(listener.accept()).await {
        if let Ok((stream, _)) = accepted {
            let (app, pass) = (app.clone(), pass.clone());
            tokio::spawn(async move {
                let answered = tokio::time::timeout(ANSWER_MAX, handle_connection(&app, &pass, stream));
                if let Some(Ok(Err(error))) = app.services.shutdown.run_until_cancelled(answered).await {
                    tracing::warn!(%error, "admin command failed");
                }
            });
        }
    }
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_file(data_dir.join(PASS));
}

fn write_pass(path: &Path, pass: &RedactedString) -> std::io::Result<()> {
    let _ = std::fs::remove_file(path);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(pass.reveal().as_bytes())
}

async fn handle_connection(app: &Arc<App>, pass: &RedactedString, stream: UnixStream) -> std::io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let read = BufReader::new(reader.take(REQUEST_BYTES_MAX)).read_line(&mut line).await;
    let is_owner = peer == 0 || peer == rustix::process::geteuid().as_raw();
    // Compare hashes, so that timing reveals nothing about the password.
    let knows = |asked: &AdminMessage| {
        is_owner && tokens::hash_token(&asked.pass) == tokens::hash_token(pass.reveal())
    };
    let answer = match read.ok().and_then(|_| serde_json::from_str::<AdminMessage>(&line).ok()) {
        None => AdminResponse::Failed("unknown command in this version".into()),
        Some(asked) if !knows(&asked) => {
            AdminResponse::Failed("only the user that runs the server may do this".into())
        }
        Some(AdminMessage { request: AdminRequest::RotateKeys, .. }) if app.services.store.is_shared() => {
            AdminResponse::Failed(SHARED.into())
        }
        Some(AdminMessage { request: AdminRequest::RotateKeys, .. }) => rotate_keys(app.clone()).await,
        Some(AdminMessage { request: AdminRequest::ResetPassword { email }, .. }) => {
            let issued =
                app.services.store.transact(TxContext::system(None), move |tx| issue_reset_link(tx, &email));
            reset_link(issued.await, &app.config.base_url())
        }
        Some(AdminMessage { request: AdminRequest::ResetSecondFactor { email }, .. }) => {
            let store = &app.services.store;
            let reset =
                store.transact(TxContext::system(None), move |tx| app::reset_second_factor(tx, &email));
            second_factor_response(reset.await)
        }
        Some(AdminMessage { request: AdminRequest::SetInstanceAdmin { email, remove }, .. }) => {
            let changed = app
                .services
                .store
                .transact(TxContext::system(None), move |tx| change_instance_admin(tx, &email, remove));
            instance_admins(changed.await)
        }
    };
    writer.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes()).await
}

async fn rotate_keys(app: Arc<App>) -> AdminResponse {
    let done = tokio::task::spawn_blocking(move || app.services.vault.rotate(&app.services.store)).await;
    match done {
        Ok(Ok(rotated)) => {
            AdminResponse::Rotated { root_key_id: rotated.root_key_id, data_keys: rotated.data_keys }
        }
        Ok(Err(error)) => failure_response(&error),
        Err(_) => AdminResponse::Failed("the rotation panicked; run it again".into()),
    }
}

/// Creates a password reset link directly in the database, for use when no server is running.
pub fn reset_password(store: &Store, email: Email, base_url: &str) -> AdminResponse {
    let issued = store.transact_blocking(TxContext::system(None), move |tx| issue_reset_link(tx, &email));
    reset_link(issued, base_url)
}

/// Removes the second factor of a user directly in the database, for use when no server is running.
pub fn reset_second_factor(store: &Store, email: Email) -> AdminResponse {
    let context = TxContext::system(None);
    second_factor_response(store.transact_blocking(context, move |tx| app::reset_second_factor(tx, &email)))
}

fn second_factor_response(reset: Result<(), AppError>) -> AdminResponse {
    match reset {
        Ok(()) => AdminResponse::SecondFactorReset,
        Err(error) => AdminResponse::Failed(error.into_problem().detail),
    }
}

fn reset_link(issued: Result<ResetLink, AppError>, base_url: &str) -> AdminResponse {
    match issued {
        Ok(link) => AdminResponse::ResetLink {
            url: format!("{base_url}/reset-password#{}", link.token.reveal()),
            expires_at: link.expires_at.to_string(),
        },
        Err(error) => AdminResponse::Failed(error.into_problem().detail),
    }
}

fn failure_response(error: &KeyError) -> AdminResponse {
    AdminResponse::Failed(error.to_string())
}

/// Adds or removes an instance admin directly in the database, for use when no server is running.
pub fn set_instance_admin(store: &Store, email: Email, remove: bool) -> AdminResponse {
    let change = move |tx: &mut Tx<'_>| change_instance_admin(tx, &email, remove);
    instance_admins(store.transact_blocking(TxContext::system(None), change))
}

fn change_instance_admin(tx: &mut Tx<'_>, email: &Email, remove: bool) -> Result<Vec<Email>, AppError> {
    let user = user::by_email(tx, email)?.ok_or_else(|| AppError::not_found("account"))?;
    if matches!(user.account, UserAccount::Service { .. }) {
        let text = format!("{email} is a service account; an instance admin must be a person");
        return Err(AppError::new(Code::InvalidState, text));
    }
    if remove {
        instance_admin::delete(tx, user.id)?;
    } else {
        instance_admin::insert(tx, user.id)?;
    }
    Ok(instance_admin::list(tx)?)
}

fn instance_admins(changed: Result<Vec<Email>, AppError>) -> AdminResponse {
    match changed {
        Ok(admins) => {
            AdminResponse::InstanceAdmins { emails: admins.iter().map(ToString::to_string).collect() }
        }
        Err(error) => AdminResponse::Failed(error.into_problem().detail),
    }
}
