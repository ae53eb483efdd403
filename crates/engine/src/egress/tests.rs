//! Tests with URLs that try to bypass the policy, and with a resolver whose result changes between lookups.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Timeout for requests that never get a response.
const PATIENCE: Duration = Duration::from_millis(300);

fn policy_allowing(allowed: &[&str]) -> EgressPolicy {
    EgressPolicy { allowed: allowed.iter().map(|text| text.parse().unwrap()).collect() }
}

fn egress(allowed: &[&str], look_up: LookupFn) -> EgressClient {
    EgressClient::new(policy_allowing(allowed), look_up, PATIENCE)
}

/// Returns a resolver that maps every name to these addresses.
fn resolve_all_to(addresses: &'static [&'static str]) -> LookupFn {
    Arc::new(move |_, port| {
        Ok(addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect())
    })
}

fn post(egress: &EgressClient, url: &str) -> Result<EgressResponse, EgressFailure> {
    egress.post(&PostRequest { url: url.into(), headers: vec![("x-test", "1".into())], body: "{}".into() })
}

/// A server that sends a fixed response on every connection and counts the connections.
struct TestReceiver {
    address: SocketAddr,
    seen: Arc<AtomicUsize>,
}

impl TestReceiver {
    fn responding_with(text: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream;
                let mut buffer = [0u8; 4_096];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(text.as_bytes());
                // If the response is empty, send nothing and keep the connection open until the client closes it.
                while text.is_empty() && stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            }
        });
        Self { address, seen }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }
}

#[test]
fn private_addresses_are_refused_in_every_notation() {
    let receiver = TestReceiver::responding_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let strict = egress(&[], resolve_all_to(&["127.0.0.1"]));
    for url in [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0x7f.0.0.1/",
        "https://0177.0.0.1/",
        "https://0177.0x0.1/",
        "https://017700000001/",
        "https://127.0.0.1./",
        "https://0/",
        "https://0.0.0.0/",
        "https://１２７.０.０.１/",
        "https://127。0。0。1/",
        "https://%31%32%37.0.0.1/",
        "https://10.0.0.7/",
        "https://172.16.0.1/",
        "https://192.168.1.1/",
        "https://100.64.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://2852039166/",
        "https://0xa9fea9fe/",
        "https://0251.0376.0251.0376/",
        "https://168.63.129.16/machine?comp=goalstate",
        "https://0xa83f8110/",
        "https://[::ffff:168.63.129.16]/",
        "https://192.0.2.1/",
        "https://224.0.0.1/",
        "https://255.255.255.255/",
        "https://[::]/",
        "https://[::1]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::127.0.0.1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[fd00:ec2::254]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "https://[2002:7f00:1::]/",
        "https://[64:ff9b::127.0.0.1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        // Names of this machine, with and without a trailing dot.
        "https://localhost/",
        "https://localhost./",
        "https://LOCALHOST/",
        // URLs that parsers interpret differently.
        "https://hooks.acme.test@127.0.0.1/",
        "https://user:password@1.1.1.1/",
        "https:\\\\127.0.0.1/",
        "https://127.0.0.1#@1.1.1.1/",
        "https://127.0.0.1?@1.1.1.1/",
        "\thttps://127.0.0.1/",
        "https:/127.0.0.1/",
        "https:127.0.0.1",
        // Schemes other than HTTPS.
        "http://1.1.1.1/",
        "http://hooks.acme.test/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "ftp://1.1.1.1/",
        "unix:/run/docker.sock",
        "data:text/plain,x",
        "javascript:alert(1)",
        "//127.0.0.1/",
        "127.0.0.1",
        "https://",
        "https:///x",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://1.1.1.1:0/",
        "https://1.1.1.1:99999/",
        "https://256.256.256.256/",
        "https://0x100000000/",
        "",
    ] {
        let failed = post(&strict, url).expect_err(url);
        assert!(failed.why.starts_with("the URL "), "{url}: {}", failed.why);
    }
    assert_eq!(receiver.seen.load(Ordering::SeqCst), 0, "no connection was made");
}

#[test]
fn url_is_parsed_like_in_browsers() {
    for (text, host) in [
        ("https://1.1.1.1\\@127.0.0.1/", "1.1.1.1"),
        ("https://0x1.0x1.0x1.0x1/", "1.1.1.1"),
        ("https://HOOKS.acme.test:443/#x", "hooks.acme.test"),
        ("https://b\u{fc}cher.test/", "xn--bcher-kva.test"),
    ] {
        assert_eq!(EgressPolicy::default().check(text).unwrap().host_str(), Some(host), "{text}");
    }
}

#[test]
fn host_with_any_private_address_is_refused() {
    for addresses in [
        &["127.0.0.1"][..],
        &["1.1.1.1", "10.0.0.7"],
        &["10.0.0.7", "1.1.1.1"],
        &["2606:4700::1111", "::1"],
        &["1.1.1.1", "::ffff:10.0.0.7"],
        &[
            "1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6", "1.1.1.7", "1.1.1.8",
            "1.1.1.9", "10.0.0.1",
        ],
    ] {
        let failed = post(&egress(&[], resolve_all_to(addresses)), "https://hooks.acme.test/").unwrap_err();
        assert!(failed.why.contains("not a public address"), "{addresses:?}: {}", failed.why);
    }
}

#[test]
fn host_with_changing_address_is_looked_up_once_per_request() {
    let receiver = TestReceiver::responding_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let asked = Arc::new(Mutex::new(0));
    let counted = asked.clone();
    // The name resolves to a public address first and to a private one on the next lookup. A request must look it up
    // only once.
    let look_up: LookupFn = Arc::new(move |_, port| {
        let mut asked = counted.lock().unwrap();
        *asked += 1;
        let address = if *asked == 1 { "203.0.112.1" } else { "127.0.0.1" };
        Ok(vec![SocketAddr::new(address.parse().unwrap(), port)])
    });
    let strict = egress(&[], look_up);
    let url = format!("https://rebinding.acme.test:{}/", receiver.address.port());
    let first = post(&strict, &url).unwrap_err();
    assert!(!first.why.contains("not a public address"), "the first address is a good one: {}", first.why);
    assert_eq!(*asked.lock().unwrap(), 1);
    assert!(post(&strict, &url).unwrap_err().why.contains("not a public address"));
    assert_eq!(receiver.seen.load(Ordering::SeqCst), 0);
}

#[test]
fn configuration_allows_hosts_and_networks_but_never_metadata_endpoints() {
    for (allowed, url, addresses, fine) in [
        (&["hooks.acme.test"][..], "http://hooks.acme.test/", &["10.0.0.7"][..], true),
        (&["hooks.acme.test"], "http://HOOKS.acme.test./", &["10.0.0.7"], true),
        (&["hooks.acme.test"], "http://other.acme.test/", &["10.0.0.7"], false),
        (&["hooks.acme.test"], "http://x.hooks.acme.test/", &["10.0.0.7"], false),
        (&["hooks.acme.test"], "http://hooks.acme.test/", &["169.254.169.254"], false),
        (&["10.0.0.0/8"], "http://10.0.0.7/", &[], true),
        (&["10.0.0.0/8"], "http://11.0.0.7/", &[], false),
        (&["10.0.0.0/8"], "https://hooks.acme.test/", &["10.255.0.1"], true),
        (&["10.0.0.0/8"], "https://hooks.acme.test/", &["10.255.0.1", "192.168.0.1"], false),
        (&["10.0.0.0/8"], "http://hooks.acme.test/", &["10.255.0.1"], false),
        (&["0.0.0.0/0"], "http://169.254.169.254/", &[], false),
        (&["0.0.0.0/0"], "http://168.63.129.16/", &[], false),
        (&["168.63.129.16"], "http://168.63.129.16/", &[], false),
        (&["hooks.acme.test"], "http://hooks.acme.test/", &["168.63.129.16"], false),
        (&["::/0"], "http://[fd00:ec2::254]/", &[], false),
        (&["fd00::/8"], "http://[fd12::1]/", &[], true),
        (&["10.0.0.7"], "http://10.0.0.7/", &[], true),
        (&["10.0.0.7"], "http://10.0.0.8/", &[], false),
    ] {
        let policy = policy_allowing(allowed);
        let checked = policy.check(url).and_then(|url| {
            let host = url.host_str().unwrap().to_owned();
            addresses.iter().try_for_each(|text| policy.check_address(&host, text.parse().unwrap()))
        });
        assert_eq!(checked.is_ok(), fine, "{allowed:?} {url} {addresses:?}: {checked:?}");
    }
    for bad in ["", "10.0.0.0/33", "hooks.acme.test/8", "::/129", "a b", "10.0.0.0/x"] {
        assert!(bad.parse::<AllowedDestination>().is_err(), "{bad}");
    }
}

#[test]
fn redirects_are_returned_and_not_followed() {
    let inside = TestReceiver::responding_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    for (status, line) in [
        (301, "HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
        (302, "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n"),
        (303, "HTTP/1.1 303 See\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"),
        (307, "HTTP/1.1 307 Temporary\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"),
        (308, "HTTP/1.1 308 Permanent\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n"),
    ] {
        let receiver = TestReceiver::responding_with(line);
        let answered = post(&egress(&["127.0.0.1"], system_lookup()), &receiver.url()).unwrap();
        assert_eq!((answered.status, receiver.seen.load(Ordering::SeqCst)), (status, 1));
    }
    assert_eq!(inside.seen.load(Ordering::SeqCst), 0);
}

#[test]
fn slow_response_times_out_and_long_response_is_truncated() {
    let local = egress(&["127.0.0.1"], system_lookup());
    let silent = TestReceiver::responding_with("");
    let failed = post(&local, &silent.url()).unwrap_err();
    assert!(failed.why.starts_with("no response within"), "{}", failed.why);
    assert!(failed.took < 10 * PATIENCE, "{:?}", failed.took);

    let endless = TestReceiver::responding_with(
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n aaaaaaaaaaaaaaaa",
    );
    let answered = post(&local, &endless.url()).unwrap();
    assert!(answered.status == 200 && answered.body.len() <= 64 * 1024, "{answered:?}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failed = post(&local, &format!("http://{address}/")).unwrap_err();
    assert_eq!(failed.why, "the connection was refused");
    let nonsense = TestReceiver::responding_with("SSH-2.0-OpenSSH_9.6\r\n\r\n");
    assert!(post(&local, &nonsense.url()).is_err());
}

#[test]
fn unknown_host_is_reported_as_not_found() {
    let failing_lookup: LookupFn = Arc::new(|_, _| Err(std::io::Error::other("internal detail")));
    assert_eq!(
        post(&egress(&[], failing_lookup), "https://hooks.acme.test/").unwrap_err().why,
        "the host was not found"
    );
}
