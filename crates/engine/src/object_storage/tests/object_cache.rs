//! Local copies of objects: their limit, and damaged ones.

use std::os::unix::fs::FileExt as _;

use super::*;

#[test]
fn object_cache_is_limited() {
    on_every_storage(|it| {
        let settings = StorageSettings { cache_bytes_max: 0, ..it.settings.clone() };
        let storage = Arc::new(ObjectStorage::open(&settings).unwrap());
        let dir = it.dir.path().join("small");
        let tier = ObjectTier::new(storage, dir.clone(), it.store.clone());
        let objects = [b"one", b"two"]
            .map(|content| it.storage.put(&format!("logs/{}", content[0]), content.to_vec()).unwrap());
        for object in &objects {
            let file: File = tier.open(object).unwrap();
            let mut first = [0; 3];
            file.read_exact_at(&mut first, 0).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1, "only the last one is kept");
    });
}

#[test]
fn full_object_cache_is_emptied_by_a_tenth() {
    on_every_storage(|it| {
        let settings = StorageSettings { cache_bytes_max: 100, ..it.settings.clone() };
        let storage = Arc::new(ObjectStorage::open(&settings).unwrap());
        let dir = it.dir.path().join("small");
        let tier = ObjectTier::new(storage, dir.clone(), it.store.clone());
        let counts = (0..12).map(|number| {
            let object = it.storage.put(&format!("logs/{number}"), b"ten bytes!".to_vec()).unwrap();
            tier.open(&object).unwrap();
            std::fs::read_dir(&dir).unwrap().count()
        });
        assert_eq!(counts.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 9, 10]);
    });
}

#[test]
fn imported_logs_are_not_copied_into_the_cache() {
    on_every_storage(|it| {
        let (logs, ..) = it.server("one");
        let local = LogStore::new(it.dir.path().join("local"));
        local.append(&key(), 0, b"a line\n").unwrap();
        local.seal(&key()).unwrap();
        assert!(logs.import(&local, &key()).unwrap());
        assert_eq!(std::fs::read_dir(it.dir.path().join("one/cache")).unwrap().count(), 0);
        assert_eq!(text(&logs), b"a line\n");
    });
}

#[test]
fn copy_with_another_length_is_downloaded_again() {
    on_every_storage(|it| {
        let (_, _, tier) = it.server("one");
        let object = it.storage.put("logs/object", b"what was stored".to_vec()).unwrap();
        tier.open(&object).unwrap();
        let copy = it.dir.path().join("one/cache/logs_object");
        File::options().write(true).open(&copy).unwrap().set_len(4).unwrap();
        let mut content = String::new();
        tier.open(&object).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "what was stored");
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), content);
    });
}
