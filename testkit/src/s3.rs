//! An S3 service for tests: moto, behind a proxy that can make it unreachable.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Environment variable with the Python interpreter that has the packages of the tests.
const PYTHON: &str = "BERTH_TEST_PYTHON";
const START_MAX: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const BUCKET: &str = "berth-test";

/// What the proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    None,
    /// Closes them.
    Down,
    /// Forwards nothing more once this many bytes of requests were forwarded. The service closes the connection after
    /// each request, so all connections count.
    StallAfter(u64),
}

/// A running S3 service with one bucket. It accepts every access key.
pub struct S3Server {
    child: Child,
    backend: SocketAddr,
    proxy: SocketAddr,
    state: Arc<Mutex<ProxyState>>,
}

struct ProxyState {
    fault: StorageFault,
    /// Number of bytes of requests since the fault was set.
    forwarded: u64,
    /// Number of connections that were stalled.
    stalled: usize,
    connections: Vec<TcpStream>,
}

impl S3Server {
    /// Starts a service. `None` if moto is not installed.
    pub fn start_if_installed() -> Option<Self> {
        let python = std::env::var_os(PYTHON)?;
        let has_moto =
            Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
        if !has_moto.is_ok_and(|status| status.success()) {
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).ok()?.port();
        let mut command = Command::new(&python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let state = Arc::new(Mutex::new(ProxyState {
            fault: StorageFault::None,
            forwarded: 0,
            stalled: 0,
            connections: Vec::new(),
        }));
        let backend = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { child, backend, proxy: listener.local_addr().ok()?, state: state.clone() };
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                forward(connection, backend, &state);
            }
        });
        let deadline = Instant::now() + START_MAX;
        while server.request("PUT", &format!("/{BUCKET}")).is_err() {
            assert!(Instant::now() < deadline, "moto did not start in time");
            std::thread::sleep(POLL_INTERVAL);
        }
        Some(server)
    }

    /// URL of the service, through the proxy.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.proxy)
    }

    /// Storage URL of a prefix in the bucket.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    pub fn set_fault(&self, fault: StorageFault) {
        let mut state = lock(&self.state);
        state.fault = fault;
        state.forwarded = 0;
        if fault != StorageFault::None {
            for connection in state.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }

    /// Number of connections that have stalled.
    pub fn stalled(&self) -> usize {
        lock(&self.state).stalled
    }

    /// Names of all objects, regardless of the fault.
    pub fn object_names(&self) -> Vec<String> {
        let listed = self.request("GET", &format!("/{BUCKET}?list-type=2&max-keys=1000")).unwrap_or_default();
        let keys = listed.split("<Key>").skip(1);
        keys.filter_map(|rest| rest.split_once("</Key>")).map(|(key, _)| key.to_owned()).collect()
    }

    fn request(&self, method: &str, path: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(self.backend).map_err(failed)?;
        let host = self.backend;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).map_err(failed)?;
        let mut response = String::new();
        stream.read_to_string(&mut response).map_err(failed)?;
        match response.starts_with("HTTP/1.1 2") {
            true => Ok(response),
            false => Err(response),
        }
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.set_fault(StorageFault::Down);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock(state: &Mutex<ProxyState>) -> MutexGuard<'_, ProxyState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forward(client: TcpStream, backend: SocketAddr, state: &Arc<Mutex<ProxyState>>) {
    if lock(state).fault == StorageFault::Down {
        return;
    }
    let Ok(server) = TcpStream::connect(backend) else { return };
    let copies = (client.try_clone(), server.try_clone(), client.try_clone());
    let (Ok(client_copy), Ok(server_copy), Ok(kept)) = copies else { return };
    lock(state).connections.push(kept);
    let of_request = state.clone();
    let may_send = move |count| {
        let mut state = lock(&of_request);
        state.forwarded += count;
        let is_stalled = matches!(state.fault, StorageFault::StallAfter(bytes) if state.forwarded >= bytes);
        state.stalled += usize::from(is_stalled);
        !is_stalled
    };
    std::thread::spawn(move || copy(client, server, may_send));
    std::thread::spawn(move || copy(server_copy, client_copy, |_| true));
}

/// Copies until one side is closed. Stops forwarding, but keeps the connection open, while `may_send` is false.
fn copy(mut from: TcpStream, mut to: TcpStream, may_send: impl Fn(u64) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if may_send(count as u64) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
