//! HTTP/1.1 client on a bare socket. It sends requests exactly as given, so tests can send malformed ones.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Read timeout, longer than the server may stay silent.
const SILENCE_MAX: Duration = Duration::from_secs(25);

#[derive(Debug, Clone, Default)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// `None`: no body and no `Content-Length`.
    pub(crate) body: Option<Vec<u8>>,
}

impl RawRequest {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: berth\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut bytes = (text + "\r\n").into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// One keep-alive connection.
pub(crate) struct HttpConnection {
    pub(crate) stream: BufReader<TcpStream>,
}

impl HttpConnection {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address, SILENCE_MAX).expect("the server accepts a connection")
    }

    /// Connects to a server that may be down or unresponsive.
    pub(crate) fn try_connect(address: SocketAddr, silence_max: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, silence_max)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence_max))?;
        stream.set_write_timeout(Some(silence_max))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub(crate) fn send_request(&mut self, request: &RawRequest) -> io::Result<RawResponse> {
        // Ignore a write error: the server may respond and close the connection before it has read the whole request.
        let sent = self.send(&request.bytes());
        self.receive().map_err(|error| sent.err().unwrap_or(error))
    }

    pub(crate) fn receive(&mut self) -> io::Result<RawResponse> {
        let status = self.read_line()?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = code.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, status))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let mut response = RawResponse { status, headers, body: Vec::new() };
        match response.header("content-length").map(|length| length.parse().expect("a length")) {
            Some(length) => {
                response.body.resize(length, 0);
                self.stream.read_exact(&mut response.body)?;
            }
            None => drop(self.stream.read_to_end(&mut response.body)?),
        }
        Ok(response)
    }

    /// Returns whether the server closed the connection without sending anything more.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.fill_buf() {
            Ok(rest) => rest.is_empty(),
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// Sends API requests with one token, each on a new connection.
#[derive(Clone)]
pub(crate) struct ApiHandle {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl ApiHandle {
    pub(crate) fn request(&self, method: &str, path: &str) -> RawRequest {
        RawRequest::new(method, path).header("Authorization", &format!("Bearer {}", self.token))
    }

    pub(crate) fn send(&self, request: &RawRequest) -> RawResponse {
        let asked = HttpConnection::connect(self.address).send_request(request);
        asked.unwrap_or_else(|error| panic!("{} {}: {error}", request.method, request.path))
    }

    pub(crate) fn get(&self, path: &str) -> RawResponse {
        self.send(&self.request("GET", path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RawResponse {
        self.send(&self.request("POST", path).json(body))
    }

    /// Reads a list page by page with cursors; returns all records and the reported total.
    pub(crate) fn list_all(&self, path: &str) -> (Vec<Value>, Value) {
        let (mut all, mut cursor, mut client) =
            (Vec::new(), String::new(), HttpConnection::connect(self.address));
        loop {
            let request = self.request("GET", &format!("{path}?limit=200&total=true{cursor}"));
            let page = client.send_request(&request).expect("a page").json();
            all.extend(page["data"].as_array().expect("records").iter().cloned());
            match page["pagination"]["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return (all, page["pagination"]["total"].clone()),
            }
        }
    }
}
