//! Integrity check of logs and artifacts in object storage: every object is read and compared with its digest, and every
//! finished log is complete.

use berth_core::id::OrgId;
use berth_engine::object_storage::{ObjectStorage, StorageError, StoredObject};
use berth_store::admin::read_only::ReadOnly;
use berth_store::tables::artifact_object;
use berth_store::tables::log_object::{self, StoredLogKey};
use berth_store::tables::retention::{self, LoggedAttempt};

use super::UpkeepError;
use super::verify::VerifyReport;

/// Verifies all objects of an organization.
pub(super) fn verify(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    storage: &ObjectStorage,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = None;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(log_object::list_page(db, after.as_ref())?))?;
        for (log, it) in &page {
            let object = StoredObject::new(&it.object, &it.sha256, it.bytes);
            if let Some(problem) = find_problem(db, org, storage, &object, true)? {
                found.add_problem(format!(
                    "{slug}: the log of attempt {} of {} in {}: {problem}",
                    log.attempt, log.step, log.deployment
                ));
            }
        }
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
    }
    verify_complete(db, org, slug, found)?;
    let mut after = None::<String>;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(artifact_object::list_page(db, after.as_deref())?))?;
        for it in &page {
            let object = StoredObject::new(&it.object, &it.sha256, it.bytes);
            if let Some(problem) = find_problem(db, org, storage, &object, false)? {
                found.add_problem(format!("{slug}: artifact {}: {problem}", it.digest));
            }
        }
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.digest.clone());
    }
}

/// Checks that the parts of every finished log follow each other without a gap.
fn verify_complete(
    db: &mut ReadOnly,
    org: OrgId,
    slug: &str,
    found: &mut VerifyReport,
) -> Result<(), UpkeepError> {
    let mut after = None;
    loop {
        let page =
            db.read(Some(org), |db| Ok::<_, UpkeepError>(retention::list_logged_attempts(db, after)?))?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(*last);
        for LoggedAttempt { deployment, step, attempt } in page {
            found.logs += 1;
            let log = StoredLogKey { deployment, step, attempt, is_after_fence: false };
            let parts = db.read(Some(org), |db| {
                Ok::<_, UpkeepError>(log_object::list_after(db, &log, -1, log_object::LOG_OBJECTS_MAX)?)
            })?;
            let mut end = 0;
            let is_gapless = parts.iter().all(|part| std::mem::replace(&mut end, part.end) == part.start);
            if parts.is_empty() || !is_gapless {
                let what = if parts.is_empty() { "it is not there" } else { "a part of it is missing" };
                found.add_problem(format!(
                    "{slug}: the log of attempt {attempt} of {step} in {deployment}: {what}"
                ));
            }
        }
    }
}

/// Checks that an artifact is in object storage. Its object was verified before.
pub(super) fn check_artifact(
    db: &mut ReadOnly,
    org: OrgId,
    digest: &str,
) -> Result<Result<(), String>, UpkeepError> {
    let known = db.read(Some(org), |db| Ok::<_, UpkeepError>(artifact_object::find(db, digest)?))?;
    Ok(known.map(drop).ok_or_else(|| "it is not in object storage".to_owned()))
}

/// Downloads an object and says what is wrong with it. An object that a running server has replaced since its row was
/// read is missing, but not wrong.
fn find_problem(
    db: &mut ReadOnly,
    org: OrgId,
    storage: &ObjectStorage,
    object: &StoredObject,
    is_log: bool,
) -> Result<Option<String>, UpkeepError> {
    let Err(error) = check_object(storage, object) else { return Ok(None) };
    let is_replaced = matches!(error, StorageError::Missing(_))
        && !db.read(Some(org), |db| {
            Ok::<_, UpkeepError>(match is_log {
                true => log_object::has_object(db, &object.name)?,
                false => artifact_object::has_object(db, &object.name)?,
            })
        })?;
    Ok((!is_replaced).then(|| error.to_string()))
}

fn check_object(storage: &ObjectStorage, object: &StoredObject) -> Result<(), StorageError> {
    storage.get_file(object, &tempfile::tempfile()?)
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;
    use berth_engine::object_storage::StorageSettings;
    use berth_store::tables::artifact_object::ArtifactObject;
    use berth_store::{Store, TxContext};

    use super::*;

    #[test]
    fn missing_object_is_a_problem_only_while_a_row_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let storage = ObjectStorage::open(&StorageSettings {
            url: format!("file://{}/objects", dir.path().display()).parse().unwrap(),
            endpoint: None,
            region: None,
            credentials: None,
            cache_bytes_max: 0,
        });
        let (storage, path) = (storage.unwrap(), dir.path().join("berth.db"));
        let org = OrgId::from_parts(Timestamp::from_micros(1), [1; 10]);
        let store = Store::open_sqlite(&path).unwrap();
        let mut db = ReadOnly::sqlite(&path).unwrap();
        let object = StoredObject::new("artifacts/x", "", 1);
        let mut find = || find_problem(&mut db, org, &storage, &object, false).unwrap();
        assert_eq!(find(), None);
        let row = ArtifactObject {
            digest: "sha256:x".into(),
            object: object.name.clone(),
            sha256: String::new(),
            bytes: 1,
            stored_at: Timestamp::from_micros(1),
        };
        store
            .transact_blocking(TxContext::system(Some(org)), move |tx| artifact_object::put(tx, &row))
            .unwrap();
        assert_eq!(find().as_deref(), Some("object storage has no artifacts/x"));
    }
}
