//! Names of commits: what git itself takes for the name of a ref.

use std::process::Command;

use berth_core::name::CommitId;

/// Every text of up to three of these; together they touch each rule of git.
const PARTS: &[&str] = &[
    "a", "-", ".", "..", "/", "//", "@", "{", "@{", ".lock", "ü", " ", "~", "^", ":", "?", "*", "[", "\\",
    "\u{7f}", "#", ";", "$(x)",
];

fn git_accepts(text: &str) -> bool {
    Command::new("git").args(["check-ref-format", "--allow-onelevel", text]).status().unwrap().success()
}

#[test]
fn commit_accepts_what_git_accepts_as_a_ref_but_no_option() {
    let one = || PARTS.iter().map(|part| (*part).to_owned());
    let two = || one().flat_map(|first| PARTS.iter().map(move |second| format!("{first}{second}")));
    for text in one().chain(two()).chain(two().map(|text| format!("a{text}a"))) {
        // Git takes its own options for options, wherever one stands.
        let expected = !text.starts_with('-') && git_accepts(&text);
        assert_eq!(CommitId::parse(&text).is_ok(), expected, "{text:?}");
    }
}
