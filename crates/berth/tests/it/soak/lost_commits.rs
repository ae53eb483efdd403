//! A PostgreSQL proxy that loses acknowledged commits by turning every tenth COMMIT into an ABORT.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const LOSES_EVERY: u32 = 10;
const COMMIT: &[u8] = b"COMMIT\0";
/// Padded to the length of a COMMIT, so that the message length stays valid.
const ABORT: &[u8] = b"ABORT \0";
const PIECE_BYTES: usize = 64 * 1024;

/// Listens on a Unix socket in its own directory and forwards to the database's socket.
pub(super) struct CommitLosingProxy {
    dir: tempfile::TempDir,
    is_on: Arc<AtomicBool>,
    commits: Arc<AtomicU32>,
}

impl CommitLosingProxy {
    /// Forwards to the server with this socket; loses nothing until [`CommitLosingProxy::start_losing`].
    pub(super) fn in_front_of(server: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join(server.file_name().expect("a name"));
        let listener = UnixListener::bind(socket).expect("a socket");
        let (is_on, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (server, forgets, all) = (PathBuf::from(server), is_on.clone(), commits.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(database) = UnixStream::connect(&server) else { continue };
                let (forgets, commits) = (forgets.clone(), all.clone());
                forward(&client, &database, move |bytes| {
                    if forgets.load(Ordering::Relaxed) {
                        lose_commit(bytes, &commits);
                    }
                });
                forward(&database, &client, |_| {});
            }
        });
        Self { dir, is_on, commits }
    }

    pub(super) fn start_losing(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Number of lost commits.
    pub(super) fn lost_count(&self) -> u32 {
        self.commits.load(Ordering::Relaxed) / LOSES_EVERY
    }

    pub(super) fn url(&self) -> String {
        let dir = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgres://berth@{dir}/postgres")
    }
}

/// Replaces a COMMIT in these bytes. The driver sends it as one message and waits for the response, so it is never
/// split.
fn lose_commit(bytes: &mut [u8], commits: &AtomicU32) {
    let Some(at) = bytes.windows(COMMIT.len()).position(|part| part == COMMIT) else { return };
    if (commits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(LOSES_EVERY) {
        bytes[at..at + ABORT.len()].copy_from_slice(ABORT);
    }
}

fn forward(from: &UnixStream, to: &UnixStream, change: impl Fn(&mut [u8]) + Send + 'static) {
    let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            change(&mut piece[..count]);
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
