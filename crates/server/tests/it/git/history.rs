//! Descriptions of commits and of what changed between them.

use berth_engine::git::{ChangedFile, CommitHash, GitError};

use super::hostile::write_object;
use super::{OriginRepository, create_mirror, unrestricted_access};

fn hash(text: &str) -> CommitHash {
    CommitHash::parse(text).unwrap()
}

#[test]
fn commit_description_is_short_printable_and_without_address() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    let title = format!("\u{1b}[31mRetry\u{202e} {}\nsecond line", "payments ".repeat(100));
    let date = "--date=2026-11-15T10:30:00+01:00";
    let author = "--author=grace@acme.test <grace@acme.test>";
    origin.git(&["commit", "--quiet", "--allow-empty", author, date, "-m", &title]);
    let long = origin.git(&["rev-parse", "HEAD"]);
    // A commit object whose author and message are not UTF-8.
    let tree = origin.git(&["rev-parse", "HEAD^{tree}"]);
    let mut object = format!("tree {tree}\nauthor Gr").into_bytes();
    object.extend(
        b"\xffce <g@acme.test> 2000000000 +0000\ncommitter X <x@acme.test> 1 +0000\n\nfix \xff\xfe\n",
    );
    let odd = write_object(&origin, "commit", &object);
    origin.git(&["branch", "odd", &odd]);
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();

    let found = it.mirror.describe(&hash(&long)).unwrap();
    assert!(found.title.starts_with("Retry payments payments"), "{}", found.title);
    assert_eq!((found.title.chars().count(), found.author.as_str()), (200, "grace"));
    assert_eq!(found.authored_at.to_string(), "2026-11-15T09:30:00.000Z");
    let odd = it.mirror.describe(&hash(&odd)).unwrap();
    assert_eq!((odd.title.as_str(), odd.author.as_str()), ("fix \u{fffd}\u{fffd}", "Gr\u{fffd}ce"));
    assert!(odd.authored_at.to_string().ends_with('Z'), "{}", odd.authored_at);
    let missing = hash(&"0".repeat(40));
    assert!(matches!(it.mirror.describe(&missing), Err(GitError::Failed(_))));
}

#[test]
fn range_is_described_newest_first_up_to_the_limit() {
    let (origin, it) = (OriginRepository::new(), create_mirror());
    origin.write("a.txt", "1\n2\n");
    origin.write("b.bin", "x\0y");
    let first = origin.commit("first");
    let second = origin.commit("second");
    origin.write("a.txt", "1\n3\n4\n");
    origin.write("b.bin", "x\0z");
    origin.write("dir/ü.txt", "1\n");
    let third = origin.commit("third");
    it.mirror.sync(&origin.url(), None, &unrestricted_access()).unwrap();

    let titles = |from, max| {
        let found = it.mirror.describe_range(from, &third, max).unwrap();
        found.into_iter().map(|it| it.title).collect::<Vec<_>>()
    };
    assert_eq!(titles(Some(&first), 50), ["third", "second"]);
    assert_eq!(titles(Some(&first), 1), ["third"]);
    assert_eq!(titles(None, 50), ["third", "second", "first"]);
    assert_eq!(titles(Some(&third), 50), Vec::<String>::new());
    assert_eq!(it.mirror.count_range(Some(&first), &third).unwrap(), 2);
    assert_eq!(it.mirror.count_range(None, &third).unwrap(), 3);

    let found = it.mirror.changed_files(&second, &third, 50).unwrap();
    let file = |path: &str, added, removed| ChangedFile { path: path.to_owned(), added, removed };
    let expected =
        [file("a.txt", Some(2), Some(1)), file("b.bin", None, None), file("dir/ü.txt", Some(1), Some(0))];
    assert_eq!((&found.files[..], found.count), (&expected[..], 3));
    let found = it.mirror.changed_files(&second, &third, 1).unwrap();
    assert_eq!((found.files.len(), found.count), (1, 3));
}
