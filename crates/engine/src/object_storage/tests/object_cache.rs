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
