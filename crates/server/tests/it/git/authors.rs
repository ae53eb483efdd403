//! Reading the authors of a change from a mirrored repository.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use berth_core::approval::ChangeAuthors;
use berth_engine::git::{CommitHash, NewCommit};
use berth_engine::limits::{CHANGE_COMMITS_MAX, FIRST_CHANGE_COMMITS_MAX};

use super::{MirrorFixture, OriginRepository, create_mirror, unrestricted_access};

impl OriginRepository {
    /// Adds `count` commits to `main` and returns the last one. `author` returns the author of each, given its index.
    pub(crate) fn add_commits(&self, count: usize, author: impl Fn(usize) -> String) -> CommitHash {
        let is_empty = self.git(&["branch"]).is_empty();
        let mut stream = String::new();
        for number in 0..count {
            let from = if number == 0 && !is_empty { "from refs/heads/main^0\n" } else { "" };
            let (email, at) = (author(number), 1_900_000_000 + number);
            let line = |role: &str| format!("{role} A <{email}> {at} +0000\n");
            let (author, committer) = (line("author"), line("committer"));
            stream += &format!("commit refs/heads/main\n{author}{committer}data 2\nx\n{from}\n");
        }
        let mut git = Command::new("git");
        git.args(["fast-import", "--quiet"]).current_dir(self.path()).stdin(Stdio::piped());
        let mut git = git.spawn().unwrap();
        git.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
        assert!(git.wait().unwrap().success());
        CommitHash::parse(&self.git(&["rev-parse", "main"])).unwrap()
    }
}

fn author_emails(found: &ChangeAuthors) -> Vec<&str> {
    found.emails.iter().map(String::as_str).collect()
}

fn sync_new_mirror(origin: &OriginRepository) -> MirrorFixture {
    let it = create_mirror();
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();
    it
}

#[test]
fn git_authors_committers_and_co_authors_are_read() {
    let origin = OriginRepository::new();
    let first = origin.commit("by Ada");
    let bob = "--author=Bob <BOB@acme.test>";
    let trailers = "more\n\nCo-Authored-By: Carol <Carol@Acme.Test>\nco-authored-by: dora@acme.test\nCo-authored-by: E\n  <erin@acme.test>\n";
    origin.git(&["commit", "--quiet", "--allow-empty", bob, "-m", "with others", "-m", trailers]);
    origin.git(&["commit", "--quiet", "--allow-empty", "--author=N <>", "-m", "without an address"]);
    let last = CommitHash::parse(&origin.git(&["rev-parse", "HEAD"])).unwrap();
    let it = sync_new_mirror(&origin);
    let found = it.mirror.authors(Some(&first), &last).unwrap();
    let wanted =
        ["", "ada@acme.test", "bob@acme.test", "carol@acme.test", "dora@acme.test", "erin@acme.test"];
    assert_eq!((author_emails(&found), found.is_cut), (wanted.to_vec(), false));
    assert_eq!(it.mirror.authors(Some(&last), &last).unwrap(), ChangeAuthors::default());
    assert_eq!(
        it.mirror.authors(Some(&last), &first).unwrap(),
        ChangeAuthors::default(),
        "an earlier commit"
    );
}

#[test]
fn git_authors_exclude_berth_as_committer() {
    let origin = OriginRepository::new();
    origin.write("a.txt", "1");
    let first = origin.commit("by Ada");
    let it = sync_new_mirror(&origin);
    let content = b"2".to_vec();
    let after = Some(berth_engine::git::NewFile { content, is_executable: false });
    let change = berth_engine::git::FileChange { path: "a.txt".into(), after };
    let at = berth_core::time::Timestamp::from_micros(1_700_000_000_000_000);
    let (changes, author_email) = (&[change][..], "bob@acme.test");
    let fix =
        it.mirror.commit(NewCommit { parent: &first, changes, message: "fix", author_email, at }).unwrap();
    assert_eq!(author_emails(&it.mirror.authors(Some(&first), &fix).unwrap()), ["bob@acme.test"]);
}

#[test]
fn git_authors_without_a_known_base_are_limited() {
    let origin = OriginRepository::new();
    let last = origin.add_commits(FIRST_CHANGE_COMMITS_MAX + 3, |number| format!("{number}@acme.test"));
    let it = sync_new_mirror(&origin);
    let wanted: BTreeSet<String> =
        (3..FIRST_CHANGE_COMMITS_MAX + 3).map(|number| format!("{number}@acme.test")).collect();
    let gone = CommitHash::parse(&"0".repeat(40)).unwrap();
    for since in [None, Some(&gone)] {
        let found = it.mirror.authors(since, &last).unwrap();
        assert_eq!((&found.emails, found.is_cut), (&wanted, false));
    }
}

#[test]
fn git_authors_of_a_too_long_change_are_unknown() {
    let origin = OriginRepository::new();
    let first = origin.commit("by Ada");
    let same = |_| "bob@acme.test".to_owned();
    let whole = origin.add_commits(CHANGE_COMMITS_MAX, same);
    let longer = origin.add_commits(1, same);
    let many = origin.add_commits(1_001, |number| format!("{number}@acme.test"));
    let it = sync_new_mirror(&origin);
    let cut = |since: &CommitHash, until: &CommitHash| it.mirror.authors(Some(since), until).unwrap().is_cut;
    assert_eq!([cut(&first, &whole), cut(&first, &longer)], [false, true]);
    assert!(cut(&longer, &many), "more addresses than are kept");
}
