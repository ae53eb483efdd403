//! Listens on the loopback address for the browser's redirect after a login was approved.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;

const REQUEST_BYTES_MAX: usize = 16 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Other programs on this machine can connect too. After this many connections, the login is given up.
const CONNECTIONS_MAX: usize = 200;
const ACCEPT_POLL: Duration = Duration::from_millis(50);

pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallbackOutcome {
    Code(String),
    Denied,
}

impl CallbackListener {
    pub(super) fn bind() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on 127.0.0.1")?;
        listener.set_nonblocking(true)?;
        Ok(Self { port: listener.local_addr()?.port(), listener })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the redirect that carries `state`. Requests without it are refused. Returns `None` at the deadline.
    pub(super) fn wait(&self, state: &str, deadline: Instant) -> anyhow::Result<Option<CallbackOutcome>> {
        let mut connections = 0;
        while Instant::now() < deadline && connections < CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    connections += 1;
                    if let Some(outcome) = answer(stream, state) {
                        return Ok(Some(outcome));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(ACCEPT_POLL),
                Err(error) => return Err(error).context("cannot accept the browser's connection"),
            }
        }
        Ok(None)
    }
}

/// Reads one request and responds. A connection that fails or sends something else is ignored.
fn answer(mut stream: TcpStream, state: &str) -> Option<CallbackOutcome> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    let outcome = parse_callback(&read_request_line(&mut stream)?, state);
    let (status, text) = match &outcome {
        Some(CallbackOutcome::Code(_)) => {
            ("200 OK", "Approved. You can close this page and return to the terminal.")
        }
        Some(CallbackOutcome::Denied) => ("200 OK", "Denied. You can close this page."),
        None => ("404 Not Found", "Not found."),
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>berth login</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        page.len()
    );
    // The browser may be gone; the outcome counts anyway.
    stream.write_all((head + &page).as_bytes()).ok();
    outcome
}

fn read_request_line(stream: &mut TcpStream) -> Option<String> {
    let (mut request, mut buffer) = (Vec::new(), [0_u8; 1024]);
    let end = Instant::now() + REQUEST_TIMEOUT;
    // Read the whole head: a browser that is cut off while it sends shows an error page.
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&buffer[..read]);
        if request.len() > REQUEST_BYTES_MAX || Instant::now() > end {
            return None;
        }
    }
    let text = String::from_utf8(request).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Parses `GET /callback?code=…&state=… HTTP/1.1`. The server sends only characters that need no decoding.
fn parse_callback(line: &str, state: &str) -> Option<CallbackOutcome> {
    let target = line.strip_prefix("GET /callback?")?.split(' ').next()?;
    let get =
        |name: &str| target.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    let (_, sent) = get("state")?;
    if sent != state {
        return None;
    }
    match (get("code"), get("error")) {
        (Some((_, code)), None) if !code.is_empty() => Some(CallbackOutcome::Code(code.to_owned())),
        (None, Some(_)) => Some(CallbackOutcome::Denied),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_needs_the_right_state() {
        let parse = |target: &str| parse_callback(&format!("GET {target} HTTP/1.1"), "s1");
        let code = Some(CallbackOutcome::Code("berth_cli_x".to_owned()));
        assert_eq!(parse("/callback?code=berth_cli_x&state=s1"), code);
        assert_eq!(parse("/callback?state=s1&code=berth_cli_x"), code);
        assert_eq!(parse("/callback?error=access_denied&state=s1"), Some(CallbackOutcome::Denied));
        for wrong in [
            "/callback?code=berth_cli_x&state=s2",
            "/callback?code=berth_cli_x",
            "/callback?code=&state=s1",
            "/callback?state=s1",
            "/callback",
            "/other?code=berth_cli_x&state=s1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse_callback("POST /callback?code=x&state=s1 HTTP/1.1", "s1"), None);
    }
}
