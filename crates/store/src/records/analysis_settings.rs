//! Whether an organization has models asked, and which.

use berth_core::analysis::Settings;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, to_json};

statements! {
    Org Read LOAD = "SELECT model, limits, permits_definition, version, updated_at FROM analysis_settings
        WHERE org_id = $1 {for_update}";
    Org Write PUT = "INSERT INTO analysis_settings (org_id, model, limits, permits_definition, version, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (org_id) DO UPDATE SET model = excluded.model, limits = excluded.limits,
          permits_definition = excluded.permits_definition, version = excluded.version, updated_at = excluded.updated_at
        WHERE analysis_settings.version = excluded.version - 1";
}

/// Those that were set, or those that everybody begins with.
pub fn load(db: &mut impl Read) -> Result<Settings, StoreError> {
    let Some(row) = db.row(&LOAD, &[])? else { return Ok(Settings::default()) };
    Ok(Settings {
        model: row.maybe(0, Row::json)?,
        limits: row.json(1)?,
        permits_definition: row.int(2)? != 0,
        version: row.int(3)?,
        updated_at: Some(row.time(4)?),
    })
}

pub fn put(tx: &mut Tx<'_>, settings: &Settings) -> Result<(), StoreError> {
    let params = [
        settings.model.as_ref().map(to_json).transpose()?.into(),
        to_json(&settings.limits)?.into(),
        settings.permits_definition.into(),
        settings.version.into(),
        settings.updated_at.into(),
    ];
    tx.execute_one(&PUT, &params)
}
