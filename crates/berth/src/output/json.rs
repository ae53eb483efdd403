//! `--json` with field selection, and `--jq`.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::jq::JqFilter;
use super::{CommandOutput, print_line};
use crate::client::ClientError;

/// Maximum number of fields to select.
const FIELDS_MAX: usize = 100;

/// `--json` and `--jq`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct JsonArgs {
    /// Print JSON, or only these fields of it, for example id,status
    #[arg(long, global = true, value_name = "FIELDS", num_args = 0..=1, default_missing_value = "")]
    json: Option<FieldList>,
    /// Print what a jq expression selects from the JSON, for example .id
    #[arg(long, global = true, value_name = "EXPRESSION")]
    jq: Option<JqFilter>,
}

/// Comma-separated field names; empty for all fields.
#[derive(Debug, Clone, Default)]
struct FieldList(Vec<String>);

impl FromStr for FieldList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.len() > FIELDS_MAX {
            return Err(format!("at most {FIELDS_MAX} fields"));
        }
        Ok(Self(names))
    }
}

impl JsonArgs {
    pub(crate) fn is_set(&self) -> bool {
        self.json.is_some() || self.jq.is_some()
    }

    pub(crate) fn output(&self) -> CommandOutput {
        CommandOutput::new(self.clone())
    }

    /// Prints the JSON, reduced to the selected fields and filtered by the jq expression.
    pub(super) fn print(&self, raw: &(impl JsonRecords + ?Sized)) -> anyhow::Result<()> {
        let wanted = self.json.as_ref().map_or(&[][..], |fields| &fields.0);
        let selected;
        let value = match wanted {
            [] => raw.value(),
            wanted => {
                selected = select_fields(raw.value(), raw.field_names(), wanted)?;
                &selected
            }
        };
        match &self.jq {
            None => print_line(&value.to_string()),
            Some(filter) => filter.print(value),
        }
    }
}

/// JSON of which fields can be selected.
pub(crate) trait JsonRecords {
    fn value(&self) -> &Value;

    /// Fields that a record can have, also if none of these records has them.
    fn field_names(&self) -> &[&'static str] {
        &[]
    }
}

impl JsonRecords for Value {
    fn value(&self) -> &Value {
        self
    }
}

/// JSON as the server sent it.
pub(crate) struct RawJson {
    pub(crate) value: Value,
    pub(crate) fields: Vec<&'static str>,
}

impl RawJson {
    /// Puts the records of an array into the envelope of a list.
    pub(crate) fn into_list(self) -> Self {
        Self { value: serde_json::json!({ "data": self.value }), fields: self.fields }
    }
}

impl JsonRecords for RawJson {
    fn value(&self) -> &Value {
        &self.value
    }

    fn field_names(&self) -> &[&'static str] {
        &self.fields
    }
}

impl std::ops::Deref for RawJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl std::ops::DerefMut for RawJson {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.value
    }
}

/// Returns the JSON with only the wanted fields of each record; a list keeps its envelope. A field that a record does
/// not have is null.
fn select_fields(raw: &Value, known: &[&'static str], wanted: &[String]) -> anyhow::Result<Value> {
    let records = match raw {
        Value::Array(records) => Some(records),
        raw => raw["data"].as_array(),
    };
    let seen: Vec<&Value> = records.map_or_else(|| vec![raw], |records| records.iter().collect());
    let mut available: BTreeSet<&str> = known.iter().copied().collect();
    available.extend(seen.iter().filter_map(|it| it.as_object()).flat_map(Map::keys).map(String::as_str));
    // Nothing is known about the records of an empty list.
    if !available.is_empty()
        && let Some(unknown) = wanted.iter().find(|name| !available.contains(name.as_str()))
    {
        let available = Vec::from_iter(available).join(", ");
        let text = format!("unknown field {unknown} in --json; available fields: {available}");
        return Err(ClientError::Usage(text).into());
    }
    let select = |record: &Value| {
        let field = |name: &String| (name.clone(), record.get(name).cloned().unwrap_or(Value::Null));
        Value::Object(wanted.iter().map(field).collect())
    };
    Ok(match (raw, records) {
        (Value::Object(envelope), Some(records)) => {
            let mut envelope = envelope.clone();
            envelope.insert("data".to_owned(), records.iter().map(select).collect());
            Value::Object(envelope)
        }
        (_, Some(records)) => records.iter().map(select).collect(),
        (raw, None) => select(raw),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn select(raw: &Value, known: &[&'static str], wanted: &str) -> Result<Value, String> {
        let FieldList(wanted) = wanted.parse()?;
        select_fields(raw, known, &wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn selected_fields_keep_the_order_and_the_envelope() {
        let record = json!({"id": "a", "status": "failed", "number": 3});
        assert_eq!(
            select(&record, &[], "status, id").map(|it| it.to_string()),
            Ok(json!({"status": "failed", "id": "a"}).to_string())
        );
        let list = json!({"data": [record], "hasMore": false});
        assert_eq!(select(&list, &[], "number"), Ok(json!({"data": [{"number": 3}], "hasMore": false})));
        assert_eq!(select(&list["data"], &[], "number"), Ok(json!([{"number": 3}])));
    }

    #[test]
    fn unknown_field_is_an_error_that_lists_the_fields() {
        let refused = select(&json!({"id": "a", "status": "b"}), &["contact"], "id,state");
        let text = "unknown field state in --json; available fields: contact, id, status";
        assert_eq!(refused, Err(text.to_owned()));
        let known = select(&json!({"data": []}), &["id"], "name");
        assert!(known.is_err_and(|text| text.contains("available fields: id")));
    }

    #[test]
    fn field_that_no_record_has_is_null() {
        assert_eq!(select(&json!({"id": "a"}), &["contact"], "contact"), Ok(json!({"contact": null})));
    }
}
