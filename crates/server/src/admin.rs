//! What the operator of the machine asks a running server, over a socket in its data directory.
//!
//! The directory and the socket belong to the server's own user; whoever can connect could read the files anyway.
//! One line of JSON each way.

use std::io::{BufRead as _, BufReader as StdBufReader, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::app::App;
use crate::vault::KeyError;

/// Name of the socket in the data directory.
const SOCKET: &str = "admin.sock";
const REQUEST_BYTES_MAX: u64 = 4 * 1024;
const ANSWER_MAX: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    RotateKeys,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Rotated {
        #[serde(rename = "rootKeyId")]
        root_key_id: String,
        #[serde(rename = "dataKeys")]
        data_keys: u64,
    },
    Failed(String),
}

/// Asks the server that owns a data directory; `None` when none is running there.
pub fn ask(data_dir: &Path, request: Request) -> std::io::Result<Option<Answer>> {
    let mut stream = match std::os::unix::net::UnixStream::connect(data_dir.join(SOCKET)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        other => other?,
    };
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    writeln!(stream, "{}", serde_json::to_string(&request)?)?;
    let mut line = String::new();
    StdBufReader::new(stream).read_line(&mut line)?;
    Ok(Some(serde_json::from_str(&line)?))
}

/// Whether a server owns the directory. One that was killed leaves its socket behind, where nobody listens.
pub fn is_running(data_dir: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(data_dir.join(SOCKET)).is_ok()
}

/// Answers until the server stops. A socket that cannot be made costs the commands, not the server.
pub async fn serve(app: Arc<App>, data_dir: &Path) {
    let path = data_dir.join(SOCKET);
    // A socket that a killed server left behind; the directory's lock says that it is nobody's.
    let _ = std::fs::remove_file(&path);
    let owner_only = || std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600));
    let listener = match UnixListener::bind(&path).and_then(|listener| owner_only().map(|()| listener)) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, socket = %path.display(), "no admin commands while this server runs");
            return;
        }
    };
    while let Some(accepted) = app.shutdown.run_until_cancelled(listener.accept()).await {
        if let Ok((stream, _)) = accepted {
            let app = app.clone();
            tokio::spawn(async move {
                let answered = tokio::time::timeout(ANSWER_MAX, answer(&app, stream));
                if let Some(Ok(Err(error))) = app.shutdown.run_until_cancelled(answered).await {
                    tracing::warn!(%error, "an admin command was not answered");
                }
            });
        }
    }
    let _ = std::fs::remove_file(&path);
}

async fn answer(app: &Arc<App>, stream: UnixStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let read = BufReader::new(reader.take(REQUEST_BYTES_MAX)).read_line(&mut line).await;
    let answer = match read.ok().and_then(|_| serde_json::from_str(&line).ok()) {
        None => Answer::Failed("not a command of this version".into()),
        Some(Request::RotateKeys) => rotate(app.clone()).await,
    };
    writer.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes()).await
}

async fn rotate(app: Arc<App>) -> Answer {
    let done = tokio::task::spawn_blocking(move || app.vault.rotate(&app.store)).await;
    match done {
        Ok(Ok(rotated)) => Answer::Rotated { root_key_id: rotated.root_key_id, data_keys: rotated.data_keys },
        Ok(Err(error)) => failed(&error),
        Err(_) => Answer::Failed("the rotation panicked; run it again".into()),
    }
}

fn failed(error: &KeyError) -> Answer {
    Answer::Failed(error.to_string())
}
