//! Git over HTTP: `git http-backend`, run by a minimal CGI server with Basic authentication.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use berth_core::repository::RemoteUrl;
use berth_engine::credential::RedactedString;
use berth_engine::git::{GitCredential, GitError};

use super::{OriginRepository, create_mirror, lfs_server, unrestricted_access};

/// Serves the repositories below `root` to clients that log in with `login` (`user:password`), until the test process
/// ends.
pub(crate) fn serve_git(root: PathBuf, login: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let root = root.clone();
            std::thread::spawn(move || respond(stream, &root, login));
        }
    });
    format!("http://{address}")
}

fn respond(stream: TcpStream, root: &Path, login: &str) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (method, target) = line.split_once(' ')?;
    let target = target.split(' ').next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut headers = std::collections::HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let header = |name: &str| headers.get(name).cloned().unwrap_or_default();
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let mut stream = stream;
    let wanted = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
    if header("authorization") != wanted {
        let refused = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(refused.as_bytes()).ok();
    }
    if let Some(body) = lfs_server::respond(root, &header("host"), &wanted, path, &body) {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.git-lfs+json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        return stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).ok();
    }
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        // git http-backend accepts pushes only from authenticated users.
        .env("REMOTE_USER", "ada")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(&body).ok()?;
    let said = child.wait_with_output().ok()?.stdout;
    let end = said.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&said[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let length = said.len() - end - 4;
    let head =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&said[end + 4..]).ok()
}

fn credential(value: &str) -> GitCredential {
    GitCredential::new(RedactedString::new(value.into()))
}

#[test]
fn mirror_over_http_stores_no_credential() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("a", "1");
    let head = origin.commit("first");
    let base = serve_git(origin.path().to_owned(), "ada:hunter2-hunter2");
    let url = RemoteUrl::parse(&format!("{base}/.git")).unwrap();
    let heads =
        it.mirror.sync(&url, Some(&credential("ada:hunter2-hunter2")), &unrestricted_access()).unwrap();
    assert_eq!(heads.head(), Some(&head));

    let base = serve_git(origin.path().to_owned(), "x-access-token:hunter2-token");
    let by_token = RemoteUrl::parse(&format!("{base}/.git")).unwrap();
    let heads =
        it.mirror.sync(&by_token, Some(&credential("hunter2-token\n")), &unrestricted_access()).unwrap();
    assert_eq!(heads.head(), Some(&head));

    for wrong in [None, Some(credential("ada:wrong-hunter2"))] {
        let error = it.mirror.sync(&url, wrong.as_ref(), &unrestricted_access()).unwrap_err();
        assert!(matches!(error, GitError::Failed(_)), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let config = std::fs::read_to_string(it.path.join("config")).unwrap();
    assert!(!config.contains("hunter2") && !config.contains("127.0.0.1"), "{config}");
}
