//! The client that sent a request: its address and its `User-Agent`.

use std::net::IpAddr;

/// Maximum number of characters that are kept of a `User-Agent`.
const USER_AGENT_CHARS_MAX: usize = 256;

/// Maximum number of characters of a program name in a description.
const PROGRAM_CHARS_MAX: usize = 60;

/// Programs, each with the text by which its `User-Agent` is recognized. Browsers imitate each other, so the order
/// matters: Edge also says Chrome and Safari.
const PROGRAMS: [(&str, &str); 7] = [
    ("Firefox/", "Firefox"),
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("berth/", "berth CLI"),
];

/// Systems, each with the text by which it is recognized. Android also says Linux, and iPhones also say Mac OS X.
const SYSTEMS: [(&str, &str); 6] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
];

/// The client that sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    address: IpAddr,
    user_agent: String,
}

impl ClientInfo {
    /// Removes control characters from the `User-Agent` and truncates it, because the client chooses it freely.
    pub fn new(address: IpAddr, user_agent: &str) -> Self {
        let kept = user_agent.chars().filter(|char| !char.is_control()).take(USER_AGENT_CHARS_MAX);
        Self { address: address.to_canonical(), user_agent: kept.collect() }
    }

    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The `User-Agent`; empty if the client sent none.
    pub fn user_agent(&self) -> &str {
        &self.user_agent
    }
}

/// Describes a `User-Agent`, such as `Firefox on Linux`. For an unknown program, returns the name at the start of the
/// `User-Agent`, such as `curl/8.5.0`. Returns `None` if there is none.
pub fn describe_user_agent(user_agent: &str) -> Option<String> {
    let find = |known: &[(&str, &'static str)]| {
        known.iter().find(|(mark, _)| user_agent.contains(mark)).map(|(_, name)| *name)
    };
    let program = find(&PROGRAMS).map(str::to_owned).or_else(|| {
        let name = user_agent.split_whitespace().next()?;
        Some(name.chars().take(PROGRAM_CHARS_MAX).collect())
    })?;
    Some(match find(&SYSTEMS) {
        Some(system) => format!("{program} on {system}"),
        None => program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_agent_is_described_by_program_and_system() {
        for (user_agent, wanted) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 \
                 Safari/537.36 Edg/139.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Mobile \
                 Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.5 Safari/605.1.15",
                "Safari on macOS",
            ),
            ("berth/0.4.0", "berth CLI"),
            ("berth/0.4.0 (Linux)", "berth CLI on Linux"),
            ("curl/8.5.0", "curl/8.5.0"),
        ] {
            assert_eq!(describe_user_agent(user_agent).as_deref(), Some(wanted), "{user_agent}");
        }
        assert_eq!(describe_user_agent(" "), None);
        assert_eq!(describe_user_agent(&"x".repeat(1_000)).map(|it| it.len()), Some(PROGRAM_CHARS_MAX));
    }

    #[test]
    fn user_agent_loses_control_characters_and_excess_length() {
        let client = ClientInfo::new([127, 0, 0, 1].into(), &format!("a\u{1b}[2J\0\n{}", "ä".repeat(1_000)));
        assert!(client.user_agent().starts_with("a[2Jää"), "{}", client.user_agent());
        assert_eq!(client.user_agent().chars().count(), USER_AGENT_CHARS_MAX);
        let mapped: IpAddr = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(ClientInfo::new(mapped, "").address().to_string(), "10.1.2.3");
    }
}
