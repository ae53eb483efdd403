//! A fake forge that responds as the test specifies and records the requests it receives.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// HTTP method and request target, as sent.
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

/// Returns the status and body of the response to a request.
type Behaviour = dyn Fn(&Asked) -> (u16, String) + Send + Sync;

#[derive(Clone)]
pub(crate) struct Double {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Double {
    /// Serves until the test process ends.
    pub(crate) fn start(behaviour: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let made = Self { url: format!("http://{}", listener.local_addr().unwrap()), asked: Arc::default() };
        let (asked, behaviour) = (made.asked.clone(), Arc::new(behaviour));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, behaviour) = (asked.clone(), behaviour.clone());
                std::thread::spawn(move || answer(stream, &asked, &*behaviour));
            }
        });
        made
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

fn answer(stream: TcpStream, asked: &Mutex<Vec<Asked>>, behaviour: &Behaviour) -> Option<()> {
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
    let request = Asked { line, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let (status, body) = behaviour(&request);
    asked.lock().unwrap().push(request);
    let mut stream = stream;
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()
}
