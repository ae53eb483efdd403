//! The search index of pipelines: maps each trigram (three consecutive characters) of a slug or name to the pipelines
//! that contain it.

use std::collections::BTreeSet;

use berth_core::id::PipelineId;

use crate::error::StoreError;
use crate::sql::statements;
use crate::sql::value::{text, to_json};
use crate::tx::{StoreRead, Tx};

const TRIGRAM_CHARS: usize = 3;
/// Number of trigrams of a search that are compared to find the rarest one.
const COMPARED_MAX: usize = 16;
/// The index is not used for a trigram that this many pipelines contain, because a scan soon finds a page of matches.
const COMMON_MIN: i64 = 2_000;

statements! {
    Org Read RAREST = "SELECT value, pipelines FROM (SELECT value, (SELECT CAST(COUNT(*) AS BIGINT) FROM
            (SELECT 1 FROM pipeline_trigrams t WHERE t.org_id = $1 AND t.trigram = value LIMIT $3) AS counted) AS pipelines
          FROM {json_elements}(CAST($2 AS TEXT){as_jsonb})) AS compared
        ORDER BY pipelines, value LIMIT 1";
    Org Upkeep REMOVE = "DELETE FROM pipeline_trigrams WHERE org_id = $1 AND pipeline_id = $2";
    Org Upkeep ADD = "INSERT INTO pipeline_trigrams (org_id, trigram, pipeline_id)
        SELECT p.org_id, value, p.id FROM pipelines p, {json_elements}(CAST($3 AS TEXT){as_jsonb})
        WHERE p.org_id = $1 AND p.id = $2";
}

/// The trigram to look up for a search. `None` if the search is too short or if each of its trigrams is common.
pub(super) fn find_rare_trigram(db: &mut impl StoreRead, search: &str) -> Result<Option<String>, StoreError> {
    let mut trigrams = list_trigrams(search);
    while trigrams.len() > COMPARED_MAX {
        trigrams.pop_last();
    }
    if trigrams.is_empty() {
        return Ok(None);
    }
    let rarest: Option<(String, i64)> =
        db.fetch_optional(&RAREST, &[to_json(&trigrams)?.into(), COMMON_MIN.into()])?;
    Ok(rarest.filter(|(_, pipelines)| *pipelines < COMMON_MIN).map(|(trigram, _)| trigram))
}

/// Replaces the index entries of a pipeline. `key` is `None` if the pipeline is deleted.
pub(super) fn replace(tx: &mut Tx<'_>, pipeline: PipelineId, key: Option<&str>) -> Result<(), StoreError> {
    tx.execute(&REMOVE, &[text(pipeline)])?;
    if let Some(key) = key {
        tx.execute(&ADD, &[text(pipeline), to_json(&list_trigrams(key))?.into()])?;
    }
    Ok(())
}

fn list_trigrams(text: &str) -> BTreeSet<String> {
    let mut trigrams = BTreeSet::new();
    for line in text.lines() {
        let chars: Vec<char> = line.chars().collect();
        trigrams.extend(chars.windows(TRIGRAM_CHARS).map(|window| window.iter().collect::<String>()));
    }
    trigrams
}
