//! Objects in a directory.

use super::*;

#[test]
fn interrupted_writes_and_empty_directories_are_removed() {
    on_every_storage(|it| {
        let StorageUrl::Directory(root) = &it.settings.url else { return };
        let (_, _, tier) = it.server("one");
        it.storage.put("logs/a/one", b"one".to_vec()).unwrap();
        let unfinished = root.join("logs/a/two#1");
        std::fs::write(&unfinished, "tw").unwrap();
        let now = tier.now().unwrap();
        tier.remove_orphans(now.plus_seconds(-3_600), 9).unwrap();
        assert!(unfinished.exists());
        tier.remove_orphans(now.plus_seconds(60), 9).unwrap();
        assert!(!unfinished.exists());
        it.storage.delete("logs/a/one").unwrap();
        assert!(root.exists() && !root.join("logs").exists());
    });
}
