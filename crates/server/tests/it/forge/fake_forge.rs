//! A fake forge that responds as the test specifies and records the requests it receives.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    /// HTTP method and request target, as sent.
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

/// A response of the fake forge.
pub(crate) struct FakeResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl From<(u16, String)> for FakeResponse {
    fn from((status, body): (u16, String)) -> Self {
        Self { status, headers: Vec::new(), body }
    }
}

type ForgeBehaviour = dyn Fn(&RecordedRequest) -> FakeResponse + Send + Sync;

#[derive(Clone)]
pub(crate) struct FakeForge {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeForge {
    /// Serves until the test process ends.
    pub(crate) fn start(
        behaviour: impl Fn(&RecordedRequest) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        Self::start_with_headers(move |request| behaviour(request).into())
    }

    /// Like [`FakeForge::start`], for responses with headers.
    pub(crate) fn start_with_headers(
        behaviour: impl Fn(&RecordedRequest) -> FakeResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let made =
            Self { url: format!("http://{}", listener.local_addr().unwrap()), requests: Arc::default() };
        let (asked, behaviour) = (made.requests.clone(), Arc::new(behaviour));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, behaviour) = (asked.clone(), behaviour.clone());
                std::thread::spawn(move || respond(stream, &asked, &*behaviour));
            }
        });
        made
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|asked| asked.line).collect()
    }
}

fn respond(
    stream: TcpStream,
    requests: &Mutex<Vec<RecordedRequest>>,
    behaviour: &ForgeBehaviour,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.rsplit_once(' ')?.0.to_owned();
    let request = RecordedRequest { line, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let FakeResponse { status, headers, body } = behaviour(&request);
    requests.lock().unwrap().push(request);
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut stream = stream;
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
