//! A commit name is valid exactly when git accepts it as a ref name.

use std::process::Command;

use berth_core::name::CommitId;

/// Fragments from which names are composed. Together they cover all of git's rules.
const PARTS: &[&str] = &[
    "a", "-", ".", "..", "/", "//", "@", "{", "@{", ".lock", "ü", " ", "~", "^", ":", "?", "*", "[", "\\",
    "\u{7f}", "#", ";", "$(x)",
];

fn git_accepts(text: &str) -> bool {
    Command::new("git").args(["check-ref-format", "--allow-onelevel", text]).status().unwrap().success()
}

#[test]
fn commit_name_is_valid_if_git_accepts_it_as_a_ref() {
    let one = || PARTS.iter().map(|part| (*part).to_owned());
    let two = || one().flat_map(|first| PARTS.iter().map(move |second| format!("{first}{second}")));
    for text in one().chain(two()).chain(two().map(|text| format!("a{text}a"))) {
        // git would parse a name with a leading dash as an option.
        let expected = !text.starts_with('-') && git_accepts(&text);
        assert_eq!(CommitId::parse(&text).is_ok(), expected, "{text:?}");
    }
}
