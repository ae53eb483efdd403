//! Records what a server sends to PostgreSQL and replays it: the same statements in the same order, over the same
//! number of connections.

use std::io::{self, Read, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;

const SILENCE_MAX: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 64 * 1024;

/// The bytes that each connection has sent, in order.
#[derive(Clone, Default)]
pub(super) struct StreamRecording(Arc<Mutex<Vec<RecordedBytes>>>);

/// The bytes that one connection has sent.
type RecordedBytes = Arc<Mutex<Vec<u8>>>;

impl StreamRecording {
    /// Forwards connections from one socket to another and records the requests.
    pub(super) fn listen(&self, here: &Path, there: &Path) -> anyhow::Result<()> {
        let listener = UnixListener::bind(here).context("cannot listen between server and database")?;
        let (recording, there) = (self.clone(), there.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(database) = UnixStream::connect(&there) else { continue };
                recording.forward(client, database);
            }
        });
        Ok(())
    }

    fn forward(&self, client: UnixStream, database: UnixStream) {
        let said = RecordedBytes::default();
        self.0.lock().push(said.clone());
        let (Ok(from), Ok(to)) = (client.try_clone(), database.try_clone()) else { return };
        std::thread::spawn(move || {
            copy_stream(from, to, |bytes| {
                said.lock().extend_from_slice(bytes);
            });
        });
        std::thread::spawn(move || copy_stream(database, client, |_| ()));
    }

    /// Returns the recorded bytes of each connection.
    pub(super) fn streams(&self) -> Vec<Vec<u8>> {
        let all = self.0.lock();
        all.iter().map(|said| said.lock().clone()).collect()
    }
}

fn copy_stream(mut from: UnixStream, mut to: UnixStream, mut see: impl FnMut(&[u8])) {
    let mut bytes = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        see(&bytes[..count]);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Replays all connections concurrently on another database of the same server. The database name in the startup
/// message is replaced, so both names must have the same length: the message also contains its own length.
pub(super) fn replay(socket: &Path, streams: &[Vec<u8>], from: &str, to: &str) -> anyhow::Result<Duration> {
    ensure!(from.len() == to.len(), "{from} and {to} are not of the same length");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> =
            streams.iter().map(|said| scope.spawn(move || replay_stream(socket, said, from, to))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a replay panicked"))?)
    })?;
    Ok(begin.elapsed())
}

fn replay_stream(socket: &Path, said: &[u8], from: &str, to: &str) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut answers = io::BufReader::with_capacity(CHUNK_BYTES, stream.try_clone()?);
    // The startup message has no type byte and contains the database name.
    let Some((hello, mut rest)) = split_message(said, 0) else { return Ok(()) };
    stream.write_all(&rename_database(hello, from, to))?;
    read_until_ready(&mut answers)?;
    let mut group = 0;
    while let Some((message, _)) = split_message(&rest[group..], 1) {
        group += message.len();
        // A simple query or a Sync ends a group of messages: send the group and wait for the response.
        if matches!(message[0], b'Q' | b'S') {
            stream.write_all(&rest[..group])?;
            read_until_ready(&mut answers)?;
            rest = &rest[group..];
            group = 0;
        }
    }
    Ok(())
}

/// Splits off one complete message. Its length field follows the first `before` bytes and does not count them.
fn split_message(bytes: &[u8], before: usize) -> Option<(&[u8], &[u8])> {
    let length = bytes.get(before..before + 4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?);
    bytes.split_at_checked(before + usize::try_from(length).ok()?)
}

fn rename_database(hello: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut hello = hello.to_vec();
    let at = hello.windows(from.len()).position(|part| part == from.as_bytes());
    if let Some(at) = at {
        hello[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    hello
}

/// Reads until ReadyForQuery. An error response from the database fails the replay.
fn read_until_ready(answers: &mut impl Read) -> anyhow::Result<()> {
    loop {
        let mut head = [0; 5];
        answers.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
        let mut body = vec![0; usize::try_from(length)?];
        answers.read_exact(&mut body)?;
        match head[0] {
            b'E' => anyhow::bail!("the database says: {}", String::from_utf8_lossy(&body).replace('\0', " ")),
            b'Z' => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_and_database_is_renamed() {
        let stream = b"Q\0\0\0\x06ab\0S\0\0\0\x04x";
        let (first, rest) = split_message(stream, 1).unwrap();
        assert_eq!(first, &stream[..7]);
        assert_eq!(split_message(&rest[1..], 1).unwrap(), (&b"S\0\0\0\x04"[..], &b"x"[..]));
        assert!(split_message(b"S\0\0", 1).is_none());
        assert_eq!(rename_database(b"database\0bench_0\0", "bench_0", "bench_1"), b"database\0bench_1\0");
    }
}
