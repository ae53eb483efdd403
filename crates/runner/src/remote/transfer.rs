//! Transfers of large request and response bodies. A helper thread does the blocking I/O while the attempt's thread
//! checks whether the transfer is still wanted. If it is not, the helper is abandoned: it writes nothing more and ends
//! when its timeout expires.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use berth_api::remote::ArtifactReceipt;
use berth_api::runner::{LinkError, WantedCheck};

use super::client::ServerClient;

const TRANSFER_MAX: Duration = Duration::from_secs(900);
/// Interval between two checks whether the transfer is still wanted.
const WANTED_CHECK_INTERVAL: Duration = Duration::from_millis(200);
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum number of chunks that are read ahead.
const CHUNKS_MAX: usize = 16;

/// A download that can be read while it arrives.
pub(super) struct IncomingTransfer<'a> {
    parts: Receiver<Result<TransferPart, LinkError>>,
    wanted: WantedCheck<'a>,
    chunk: Vec<u8>,
    at: usize,
    has_ended: bool,
}

enum TransferPart {
    Begins,
    Bytes(Vec<u8>),
    Ends,
}

pub(super) fn fetch<'a>(
    client: &Arc<ServerClient>,
    what: String,
    wanted: WantedCheck<'a>,
) -> Result<IncomingTransfer<'a>, LinkError> {
    let (sender, parts) = sync_channel(CHUNKS_MAX);
    let client = client.clone();
    spawn_transfer("step-fetch", move || {
        let fetched = client.fetch(&what, TRANSFER_MAX).map_err(LinkError::from).and_then(|body| {
            // Sending fails if the step was stopped.
            let gone = |_| LinkError::Unavailable(UNWANTED.into());
            sender.send(Ok(TransferPart::Begins)).map_err(gone)?;
            read_all(body, |chunk| sender.send(Ok(TransferPart::Bytes(chunk))).map_err(gone))?;
            Ok(TransferPart::Ends)
        });
        sender.send(fetched).ok();
    })?;
    match receive_next(&parts, wanted)? {
        TransferPart::Begins => {
            Ok(IncomingTransfer { parts, wanted, chunk: Vec::new(), at: 0, has_ended: false })
        }
        TransferPart::Bytes(_) | TransferPart::Ends => Err(transfer_error("no data received")),
    }
}

/// Uploads a file that contains a packed artifact.
pub(super) fn send(
    client: &Arc<ServerClient>,
    what: String,
    packed: File,
    wanted: WantedCheck<'_>,
) -> Result<ArtifactReceipt, LinkError> {
    let (sender, answers) = sync_channel(1);
    let is_unwanted = Arc::new(AtomicBool::new(false));
    let length = packed.metadata().map_err(|error| transfer_error(&error.to_string()))?.len();
    let (client, outgoing) =
        (client.clone(), OutgoingFile { file: packed, is_unwanted: is_unwanted.clone() });
    spawn_transfer("step-send", move || {
        let answer = client.send_reader::<ArtifactReceipt>(&what, (outgoing, length), TRANSFER_MAX);
        sender.send(answer.map_err(LinkError::from)).ok();
    })?;
    let answer = receive_next(&answers, wanted);
    is_unwanted.store(true, Ordering::Relaxed);
    answer
}

const UNWANTED: &str = "the transfer was cancelled";

fn spawn_transfer(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), LinkError> {
    let started = std::thread::Builder::new().name(name.into()).spawn(work);
    started.map(drop).map_err(|error| transfer_error(&format!("cannot start a thread: {error}")))
}

fn receive_next<T>(parts: &Receiver<Result<T, LinkError>>, wanted: WantedCheck<'_>) -> Result<T, LinkError> {
    loop {
        match parts.recv_timeout(WANTED_CHECK_INTERVAL) {
            Ok(part) => return part,
            Err(RecvTimeoutError::Disconnected) => return Err(transfer_error("the connection was closed")),
            Err(RecvTimeoutError::Timeout) if !wanted() => return Err(transfer_error(UNWANTED)),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn read_all(
    mut body: impl Read,
    mut give: impl FnMut(Vec<u8>) -> Result<(), LinkError>,
) -> Result<(), LinkError> {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        match body.read(&mut chunk).map_err(|error| transfer_error(&error.to_string()))? {
            0 => return Ok(()),
            length => {
                chunk.truncate(length);
                give(chunk)?;
            }
        }
    }
}

fn transfer_error(why: &str) -> LinkError {
    LinkError::Unavailable(format!("transfer failed: {why}"))
}

impl Read for IncomingTransfer<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() && !self.has_ended {
            // Check even if chunks arrive without a pause.
            if !(self.wanted)() {
                return Err(io::Error::other(UNWANTED));
            }
            match receive_next(&self.parts, self.wanted).map_err(io::Error::other)? {
                TransferPart::Bytes(chunk) => (self.chunk, self.at) = (chunk, 0),
                TransferPart::Begins | TransferPart::Ends => self.has_ended = true,
            }
        }
        let length = (self.chunk.len() - self.at).min(into.len());
        into[..length].copy_from_slice(&self.chunk[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// A file being uploaded. Reading from it fails once the upload is no longer wanted.
struct OutgoingFile {
    file: File,
    is_unwanted: Arc<AtomicBool>,
}

impl Read for OutgoingFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.is_unwanted.load(Ordering::Relaxed) {
            true => Err(io::Error::other(UNWANTED)),
            false => self.file.read(into),
        }
    }
}
