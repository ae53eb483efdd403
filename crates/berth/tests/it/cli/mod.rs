//! The command line with a real server: output for people and for programs, and exit codes.

mod ci;
mod completion;
mod exec;
mod help;
mod interrupt;
mod json;
mod keep_on_failure;
mod login;
mod narrow_terminal;
mod queue;
mod transcripts;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{BerthProcess, ProcessOutput, TestHome, TestServer, berth};

const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }, { name: prod, requires: { approvals: 1 } }]
  ephemeral_environments:
    qa-1: { ttl: 2h }
    qa-2: {}
  steps:
    - name: Deploy
      id: deploy
      type: script
      params: { run: 'echo deploying $BERTH_COMMIT; test $BERTH_COMMIT != bad' }
";

/// A server with the pipeline `shop`, and a logged-in client.
pub(crate) struct CliFixture {
    home: TestHome,
    server: TestServer,
    config: TempDir,
}

impl CliFixture {
    pub(crate) fn new() -> Self {
        let home = TestHome::new();
        let command = home.serve_command();
        Self::with(home, command)
    }

    /// Uses SQLite, for tests that change the server's database directly.
    pub(crate) fn on_sqlite() -> Self {
        let home = TestHome::on_sqlite();
        let command = home.serve_command();
        Self::with(home, command)
    }

    /// Uses a server that other machines reach at this URL.
    pub(crate) fn with_public_url(url: &str) -> Self {
        let home = TestHome::new();
        let mut command =
            berth(&["serve", "--listen", "127.0.0.1:0", "--public-url", url, "--rate-limit", "off"]);
        command.arg("--data-dir").arg(home.path());
        if let Some(database) = home.database() {
            command.args(["--database", database]);
        }
        Self::with(home, command)
    }

    fn with(home: TestHome, mut command: Command) -> Self {
        let config = tempfile::tempdir().expect("a directory");
        command.arg("--repository-root").arg(config.path());
        let server = TestServer::start(&mut command, &home.token);
        let cli = Self { home, server, config };
        std::fs::write(cli.config.path().join("shop.yaml"), DEFINITION).expect("a file");
        let applied = cli.run("pipeline apply shop.yaml");
        assert_eq!(applied.code, Some(0), "{applied:?}");
        cli
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = berth(words);
        command.current_dir(self.config.path()).env("XDG_CONFIG_HOME", self.config.path());
        command.env("BERTH_SERVER", format!("http://{}", self.server.address));
        command.env("BERTH_TOKEN", &self.home.token).env("TZ", "UTC");
        command
    }

    pub(crate) fn run(&self, words: &str) -> ProcessOutput {
        self.run_words(&words.split(' ').collect::<Vec<_>>())
    }

    pub(crate) fn run_words(&self, words: &[&str]) -> ProcessOutput {
        BerthProcess::start(&mut self.command(words)).wait(PATIENCE)
    }

    /// Runs a command with this standard input.
    pub(crate) fn run_with_input(&self, words: &str, input: &str) -> ProcessOutput {
        let mut command = self.command(&words.split(' ').collect::<Vec<_>>());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it is read");
        let ran = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        ProcessOutput { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) }
    }

    /// Replaces everything that differs between runs with placeholders.
    pub(crate) fn normalize(&self, text: &str) -> String {
        let text = text.replace(&self.server.address.to_string(), "SERVER");
        let text = text.replace(&format!("berth.localhost:{}", self.server.address.port()), "DASHBOARD");
        let text = replace_timestamps(&text);
        let words = text.split_inclusive([' ', '\t', '\n', '/', '?', '=', '"', ',', ':']).map(replace_ids);
        replace_times(&words.collect::<String>())
    }
}

/// Replaces RFC 3339 timestamps.
fn replace_timestamps(text: &str) -> String {
    const LIKE: &str = "0000-00-00T00:00:00.";
    let mut plain = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let is_moment = rest.get(..LIKE.len()).is_some_and(|start| matches_pattern(start, LIKE));
        match rest.split_once('Z').filter(|_| is_moment) {
            Some((_, after)) => {
                plain.push_str("MOMENT");
                rest = after;
            }
            None => {
                plain.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    plain
}

/// Compares character by character; a `0` in the pattern matches any digit.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            like => byte == like,
        })
}

/// Ids end in 26 letters and digits; hashes are 64 hexadecimal digits.
fn replace_ids(word: &str) -> String {
    let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
    if end == 64 && word[..end].bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return format!("HASH{}", &word[end..]);
    }
    match word[..end].split_once('_') {
        Some((kind, rest)) if rest.len() == 26 && rest.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            format!("{kind}_…{}", &word[end..])
        }
        _ => word.to_owned(),
    }
}

/// Replaces times and durations such as "14:02" and "0.3 s".
fn replace_times(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_seconds = |at: usize| {
            words.get(at + 1).is_some_and(|next| next.split('\t').next() == Some("s") || *next == "s:")
        };
        let word = |(at, word): (usize, &&str)| {
            let start = word.rfind(['\t', '(']).map_or(0, |separator| separator + 1);
            let (before, number) = word.split_at(start);
            match is_seconds(at) && number.parse::<f64>().is_ok() {
                true => format!("{before}N"),
                false => word.split('\t').map(replace_clock).collect::<Vec<_>>().join("\t"),
            }
        };
        words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    });
    let text = lines.collect::<Vec<_>>().join("\n").replace("N s ago", "just now");
    replace_dates(&text)
}

/// Removes dates in front of a time. They appear only late in the evening, when "in 4 h" is displayed as "Nov 16
/// 02:00".
fn replace_dates(text: &str) -> String {
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let mut parts = text.split("HH:MM");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let day = plain.trim_end_matches(' ').trim_end_matches(|c: char| c.is_ascii_digit());
        let before = day.trim_end_matches(' ');
        let month = before.get(before.len().saturating_sub(3)..).unwrap_or_default();
        if day.len() < plain.len() && !month.is_empty() && MONTHS.split(' ').any(|name| name == month) {
            plain.truncate(before.len() - 3);
        }
        plain.push_str("HH:MM");
        plain.push_str(rest);
    }
    plain
}

#[test]
fn normalizer_replaces_times_with_dates() {
    assert_eq!(replace_times("until Nov 16 00:15 (in 4 h), at 20:15"), "until HH:MM (in 4 h), at HH:MM");
    assert_eq!(replace_times("fence 16 00:15"), "fence 16 HH:MM");
    assert_eq!(replace_times("ada\t0.3 s\t(17 s ago), 12 s:"), "ada\tN s\t(just now), N s:");
}

fn replace_clock(word: &str) -> String {
    let time = word.trim_end_matches(['.', ',', ':']);
    if matches_pattern(time, "00:00") { format!("HH:MM{}", &word[time.len()..]) } else { word.to_owned() }
}
