//! An organization's settings for failure analysis: whether language models are used, and which ones.

use berth_core::analysis::{AnalysisModel, AnalyzerSettings, ModelLimits};

use crate::error::StoreError;
use crate::sql::{TableRow as _, json_columns, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org AnalyzerSettings in analysis_settings {
    key: [],
    update: [model, limits, permits_definition, version, updated_at],
});
json_columns!(ModelLimits, AnalysisModel);

statements! {
    Org Read LOAD => AnalyzerSettings::TABLE.select("WHERE org_id = $1 {for_update}");
    Org Write PUT => AnalyzerSettings::TABLE.upsert("WHERE analysis_settings.version = excluded.version - 1");
}

/// The stored settings, or the defaults if none are stored.
pub fn load(db: &mut impl StoreRead) -> Result<AnalyzerSettings, StoreError> {
    Ok(db.fetch_optional(&LOAD, &[])?.unwrap_or_default())
}

pub fn put(tx: &mut Tx<'_>, settings: &AnalyzerSettings) -> Result<(), StoreError> {
    tx.put(&PUT, settings)
}
