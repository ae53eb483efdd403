//! The HTTP server of the double: one thread for each connection.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

/// Sizes of [`Response::Long`].
const LONG_CHUNKS: usize = 64;
const LONG_CHUNK_BYTES: usize = 1024 * 1024;

pub(super) struct Request {
    pub(super) method: String,
    /// Segments of the path.
    pub(super) path: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn query(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }
}

pub(super) enum Response {
    Json(u16, Value),
    /// Writes chunks until it returns.
    Stream(StreamedBody),
    /// This status, and a body that no client should read to its end.
    Long(u16),
}

/// Writes the chunks of a response.
pub(super) type StreamedBody = Box<dyn FnOnce(&mut ChunkWriter<'_>) -> io::Result<()>>;

/// Writes one chunk of a response.
pub(super) type ChunkWriter<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

impl Response {
    pub(super) fn status(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Response::Json(code, body)
    }
}

/// Serves requests until the process ends.
pub(super) fn serve(handle: impl Fn(&Request) -> Response + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
    let address = listener.local_addr().expect("address");
    let handle = Arc::new(handle);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            std::thread::spawn(move || serve_connection(&stream, &*handle).ok());
        }
    });
    address
}

fn serve_connection(stream: &TcpStream, handle: &dyn Fn(&Request) -> Response) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader)? {
        match handle(&request) {
            Response::Json(code, body) => {
                let body = body.to_string();
                write!(
                    writer,
                    "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                )?;
            }
            Response::Stream(body) => write_chunks(writer, 200, body)?,
            Response::Long(code) => {
                let chunk = vec![b' '; LONG_CHUNK_BYTES];
                let body: StreamedBody = Box::new(move |write: &mut ChunkWriter<'_>| {
                    (0..LONG_CHUNKS).try_for_each(|_| write(&chunk))
                });
                write_chunks(writer, code, body)?;
            }
        }
    }
    Ok(())
}

fn write_chunks(mut writer: &TcpStream, code: u16, body: StreamedBody) -> io::Result<()> {
    write!(writer, "HTTP/1.1 {code} X\r\ntransfer-encoding: chunked\r\n\r\n")?;
    body(&mut |chunk: &[u8]| {
        write!(writer, "{:x}\r\n", chunk.len())?;
        writer.write_all(chunk)?;
        writer.write_all(b"\r\n")
    })?;
    writer.write_all(b"0\r\n\r\n")
}

fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decode = |text: &str| decode(&text.replace('+', " "));
    let query = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = query.map(|(name, value)| (decode(name), decode(value))).collect();
    let path = path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
    let (method, mut headers) = (method.to_owned(), BTreeMap::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method, path, query, headers, body }))
}

fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        match (first, after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok())) {
            (b'%', Some(hex)) => {
                bytes.push(u8::from_str_radix(hex, 16).expect("a hexadecimal number"));
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
