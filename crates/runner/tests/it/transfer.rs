//! Tests that a stalled transfer is abandoned as soon as it is no longer wanted.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use berth_api::remote::RunnerWelcome;
use berth_api::runner::{AttemptRef, LinkError, RunnerLink as _};
use berth_runner::remote::{RemoteLink, ServerClient};

/// Time within which an abandoned transfer must end. Far below the transfer timeout of 15 minutes.
const SOON: Duration = Duration::from_secs(10);

/// Starts a server that sends `said` to each client and then stays silent. The returned receiver yields the accepted
/// connections.
fn start_silent_server(said: &'static [u8]) -> (RemoteLink, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, visitors) = channel();
    std::thread::spawn(move || {
        for visitor in listener.incoming() {
            let mut visitor = visitor.expect("a connection");
            let mut head = [0; 4];
            visitor.read_exact(&mut head).expect("the beginning of a request");
            visitor.write_all(said).expect("said");
            if sender.send(visitor).is_err() {
                return;
            }
        }
    });
    let welcome = RunnerWelcome {
        runner_id: "run_1".into(),
        name: "far".into(),
        version: "0".into(),
        now_ms: 0,
        self_stop_ms: 20_000,
        stop_grace_ms: 1_000,
        heartbeat_ms: 5_000,
        epoch: None,
        labels: Vec::new(),
    };
    (
        RemoteLink::new(Arc::new(ServerClient::new(&format!("http://{address}"), "credential")), &welcome),
        visitors,
    )
}

fn attempt() -> AttemptRef {
    let (id, nonce) = (String::new, "n".to_owned());
    AttemptRef { organization_id: id(), deployment_id: id(), step_id: id(), number: 1, nonce }
}

/// Starts a transfer that is no longer wanted once it has reached the server, and checks that it ends soon.
fn check_abandoned<T: std::fmt::Debug>(
    said: &'static [u8],
    ask: impl FnOnce(&RemoteLink, &dyn Fn() -> bool) -> Result<T, LinkError>,
) {
    let (remote, visitors) = start_silent_server(said);
    let is_wanted = Arc::new(AtomicBool::new(true));
    let wish = is_wanted.clone();
    let ending = std::thread::spawn(move || {
        let visitor = visitors.recv().expect("a connection");
        wish.store(false, Ordering::SeqCst);
        (visitor, visitors)
    });
    let began = Instant::now();
    let answer = ask(&remote, &|| is_wanted.load(Ordering::SeqCst));
    assert!(matches!(answer, Err(LinkError::Unavailable(_))), "{answer:?}");
    assert!(began.elapsed() < SOON, "after {:?}", began.elapsed());
    drop(ending.join().expect("an end"));
}

#[test]
fn unwanted_download_is_abandoned() {
    let into = tempfile::tempdir().expect("a directory");
    check_abandoned(b"", |remote, wanted| remote.checkout(&attempt(), into.path(), wanted));
    let half = b"HTTP/1.1 200 OK\r\ncontent-type: application/zstd\r\ncontent-length: 1000000\r\n\r\n\x28\xb5\x2f\xfd";
    check_abandoned(half, |remote, wanted| remote.checkout(&attempt(), into.path(), wanted));
    check_abandoned(half, |remote, wanted| remote.fetch_artifact(&attempt(), "site", into.path(), wanted));
    check_abandoned(half, |remote, wanted| {
        remote.fetch_registry(&attempt(), "sha256:0", into.path(), wanted)
    });
    assert_eq!(std::fs::read_dir(into.path()).expect("entries").count(), 0);
}

#[test]
fn unwanted_upload_is_abandoned() {
    let home = tempfile::tempdir().expect("a directory");
    let workspace = home.path().join("workspace");
    std::fs::create_dir(&workspace).expect("a directory");
    std::fs::write(workspace.join("page"), "hello").expect("a file");
    let place = (workspace.as_path(), "page");
    check_abandoned(b"", |remote, wanted| remote.keep_artifact(&attempt(), "site", place, wanted));
    // Packing an artifact is abandoned as well.
    let (remote, _visitors) = start_silent_server(b"");
    let kept = remote.keep_artifact(&attempt(), "site", place, &|| false);
    assert!(matches!(kept, Err(LinkError::Unavailable(_))), "{kept:?}");
}
