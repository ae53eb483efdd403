//! A cursor into the YAML tree. It knows the position of its value, reads typed parts of it, and reports problems.
//!
//! Reading does not stop at an error: a reader reports the problem and returns `None`, and the caller continues with
//! the next value.

use std::collections::BTreeMap;
use std::ops::Range;

use berth_core::name::{DisplayName, EnvName, InvalidName};
use berth_core::pipeline::grammar;
use berth_core::pipeline::limits::{LIST_ITEMS_MAX, MAP_ENTRIES_MAX};
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::wording::escape_pointer;
use berth_core::wording::quote;

use crate::report::{DefinitionProblem, ProblemReport};
use crate::tree::{YamlNode, YamlValue};

#[derive(Clone)]
pub(super) struct NodeCursor<'a> {
    report: &'a ProblemReport<'a>,
    pub(super) node: &'a YamlNode,
    key: Option<Range<usize>>,
    pub(super) pointer: String,
}

/// Reads a mapping with a fixed set of fields.
pub(super) struct FieldReader<'a> {
    pub(super) at: NodeCursor<'a>,
}

/// A value that was read, with its cursor, so that later checks can report problems at its position.
pub(super) struct LocatedValue<'a, T> {
    pub(super) value: T,
    pub(super) at: NodeCursor<'a>,
}

/// A type that can be read from the value at a cursor.
pub(super) trait ReadNode: Sized {
    fn read(at: &NodeCursor<'_>) -> Option<Self>;
}

/// Field names reserved for future versions of the format. A pipeline that used one now would change its meaning later.
const RESERVED: [&str; 6] = ["schedule", "inputs", "include", "cache", "parallel", "matrix"];

impl<'a> NodeCursor<'a> {
    pub(super) fn root(report: &'a ProblemReport<'a>, node: &'a YamlNode) -> Self {
        Self { report, node, key: None, pointer: String::new() }
    }

    pub(super) fn report(&self) -> &'a ProblemReport<'a> {
        self.report
    }

    /// Reports a problem at the position of this value.
    pub(super) fn add(&self, problem: DefinitionProblem) {
        self.report.add(&self.pointer, &self.node.range, problem);
    }

    pub(super) fn error(&self, code: &'static str, message: impl Into<String>) {
        self.add(DefinitionProblem::error(code, message));
    }

    /// Reports a problem at the key of this value, or at the value if it has no key.
    pub(super) fn add_at_key(&self, problem: DefinitionProblem) {
        self.report.add(&self.pointer, self.key.as_ref().unwrap_or(&self.node.range), problem);
    }

    /// Reports a problem at a byte range inside this value.
    pub(super) fn add_at(&self, range: &Range<usize>, problem: DefinitionProblem) {
        self.report.add(&self.pointer, range, problem);
    }

    pub(super) fn wrong_type(&self, expected: &str) {
        self.error("wrong_type", format!("expected {expected}, found {}", self.describe_value()));
    }

    fn describe_value(&self) -> String {
        match &self.node.value {
            YamlValue::Null => "nothing".into(),
            YamlValue::Bool(value) => format!("`{value}`"),
            YamlValue::Number { text, .. } => format!("the number {}", quote(text)),
            YamlValue::Text(text) => format!("the text {}", quote(text)),
            YamlValue::List(_) => "a list".into(),
            YamlValue::Map(_) => "a mapping".into(),
        }
    }

    /// The value of a field, if this is a mapping that has it. Reports no problems.
    pub(super) fn get(&self, name: &str) -> Option<NodeCursor<'a>> {
        let YamlValue::Map(entries) = &self.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == name)?;
        Some(self.child(&entry.key, Some(entry.key_range.clone()), &entry.value))
    }

    /// The cursor at a JSON pointer relative to this one. If nothing is there, the cursor at the nearest existing
    /// parent.
    pub(super) fn descend(&self, pointer: &str) -> NodeCursor<'a> {
        let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
        steps.fold(self.clone(), |at, step| {
            let index = step.parse::<usize>().ok();
            let item = index.and_then(|index| at.children().into_iter().nth(index));
            at.get(&step)
                .or_else(|| item.filter(|_| matches!(at.node.value, YamlValue::List(_))))
                .unwrap_or(at)
        })
    }

    /// The items of a list or the values of a mapping.
    pub(super) fn children(&self) -> Vec<NodeCursor<'a>> {
        match &self.node.value {
            YamlValue::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| self.child(&index.to_string(), None, item))
                .collect(),
            YamlValue::Map(entries) => entries
                .iter()
                .map(|entry| self.child(&entry.key, Some(entry.key_range.clone()), &entry.value))
                .collect(),
            YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number { .. } | YamlValue::Text(_) => {
                Vec::new()
            }
        }
    }

    fn child(&self, step: &str, key: Option<Range<usize>>, node: &'a YamlNode) -> NodeCursor<'a> {
        NodeCursor {
            report: self.report,
            node,
            key,
            pointer: format!("{}/{}", self.pointer, escape_pointer(step)),
        }
    }

    /// All strings in this value, including nested ones but not keys.
    pub(super) fn texts(&self) -> Vec<(NodeCursor<'a>, &'a str)> {
        match &self.node.value {
            YamlValue::Text(text) => vec![(self.clone(), text)],
            _ => self.children().iter().flat_map(NodeCursor::texts).collect(),
        }
    }

    /// Reads a mapping and reports fields that are not in `allowed`.
    pub(super) fn fields(&self, allowed: &[&str]) -> Option<FieldReader<'a>> {
        let YamlValue::Map(entries) = &self.node.value else {
            self.wrong_type("a mapping");
            return None;
        };
        for entry in entries.iter().filter(|entry| !allowed.contains(&entry.key.as_str())) {
            let problem = if RESERVED.contains(&entry.key.as_str()) {
                DefinitionProblem::error(
                    "not_yet",
                    format!("`{}` is reserved and does not work yet; remove it", entry.key),
                )
            } else {
                let problem =
                    DefinitionProblem::error("unknown_field", format!("unknown field {}", quote(&entry.key)));
                problem.with_hint(self.report, &entry.key, allowed.iter().copied())
            };
            self.child(&entry.key, Some(entry.key_range.clone()), &entry.value).add_at_key(problem);
        }
        Some(FieldReader { at: self.clone() })
    }

    pub(super) fn items(&self, what: &str, items_max: usize) -> Option<Vec<NodeCursor<'a>>> {
        let YamlValue::List(items) = &self.node.value else {
            self.wrong_type(&format!("a list of {what}"));
            return None;
        };
        if items.len() > items_max {
            self.add_at_key(DefinitionProblem::error(
                "too_many",
                format!("{} {what}, but at most {items_max} are allowed", items.len()),
            ));
            return None;
        }
        Some(self.children())
    }

    /// Reads a mapping with arbitrary keys.
    pub(super) fn entries(&self, what: &str, entries_max: usize) -> Option<Vec<(&'a str, NodeCursor<'a>)>> {
        let YamlValue::Map(entries) = &self.node.value else {
            self.wrong_type(&format!("a mapping of {what}"));
            return None;
        };
        if entries.len() > entries_max {
            self.add_at_key(DefinitionProblem::error(
                "too_many",
                format!("{} {what}, but at most {entries_max} are allowed", entries.len()),
            ));
            return None;
        }
        Some(entries.iter().map(|entry| entry.key.as_str()).zip(self.children()).collect())
    }

    /// Reads a mapping whose keys must be valid names.
    pub(super) fn named_entries<K: Ord, V>(
        &self,
        what: &str,
        name: impl Fn(&str) -> Result<K, DefinitionProblem>,
        read: impl Fn(&NodeCursor<'_>) -> Option<V>,
    ) -> BTreeMap<K, V> {
        let mut map = BTreeMap::new();
        for (key, value) in self.entries(what, MAP_ENTRIES_MAX).unwrap_or_default() {
            match (name(key), read(&value)) {
                (Ok(key), Some(value)) => {
                    map.insert(key, value);
                }
                (Ok(_), None) => {}
                (Err(problem), _) => value.add_at_key(problem),
            }
        }
        map
    }

    /// Reads a string that may contain expressions.
    pub(super) fn raw_text(&self) -> Option<&'a str> {
        match &self.node.value {
            YamlValue::Text(text) => Some(text),
            _ => {
                self.wrong_type("text");
                None
            }
        }
    }

    /// Reads a string that must not contain expressions.
    pub(super) fn text(&self) -> Option<&'a str> {
        let text = self.raw_text()?;
        if text.contains("${{") {
            self.error(
                "expression_not_allowed",
                "expressions work in `env`, `params` and `if` only; write the value itself",
            );
            return None;
        }
        Some(text)
    }

    /// Reads a string and parses it with the given function.
    pub(super) fn parse_text<T>(
        &self,
        code: &'static str,
        parse: impl Fn(&str) -> Result<T, InvalidName>,
    ) -> Option<T> {
        let text = match &self.node.value {
            // An unquoted id or label such as `2024` is a number in YAML.
            YamlValue::Number { text, .. } => text,
            _ => self.text()?,
        };
        parse(text).map_err(|InvalidName(why)| self.error(code, format!("{} {why}", quote(text)))).ok()
    }

    /// Reads one of a fixed set of words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names = choices.iter().map(|(name, _)| *name);
            let problem =
                DefinitionProblem::error("unknown_value", format!("{} is not known here", quote(text)));
            self.add(problem.with_hint(self.report, text, names));
        }
        found
    }

    pub(super) fn whole_number(&self, least: u32, most: u32) -> Option<u32> {
        let number = match &self.node.value {
            YamlValue::Number { value, .. } => value.as_u64().and_then(|number| u32::try_from(number).ok()),
            _ => {
                self.wrong_type("a whole number");
                return None;
            }
        };
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.error("out_of_range", format!("must be a whole number from {least} to {most}"));
        }
        number
    }

    pub(super) fn duration(&self, least: u64, most: u64) -> Option<DurationSeconds> {
        let duration = self.parse_text("bad_duration", DurationSeconds::parse)?;
        if !(least..=most).contains(&duration.as_secs()) {
            let (least, most) = (DurationSeconds::from_secs(least), DurationSeconds::from_secs(most));
            self.error("bad_duration", format!("must be from {least} to {most}"));
            return None;
        }
        Some(duration)
    }
}

impl<'a> FieldReader<'a> {
    /// The value of a field, if present. An empty field is reported, because `timeout:` without a value is usually a
    /// mistake.
    pub(super) fn get(&self, name: &str) -> Option<NodeCursor<'a>> {
        let at = self.at.get(name)?;
        if matches!(at.node.value, YamlValue::Null) {
            at.add_at_key(DefinitionProblem::error(
                "wrong_type",
                format!("`{name}` is empty; give it a value or remove it"),
            ));
            return None;
        }
        Some(at)
    }

    pub(super) fn require(&self, name: &str) -> Option<NodeCursor<'a>> {
        if self.at.get(name).is_none() {
            self.at.add_at_key(DefinitionProblem::error("missing_field", format!("`{name}` is missing")));
        }
        self.get(name)
    }

    pub(super) fn read<T: ReadNode>(&self, name: &str) -> Option<T> {
        T::read(&self.get(name)?)
    }

    pub(super) fn read_required<T: ReadNode>(&self, name: &str) -> Option<T> {
        T::read(&self.require(name)?)
    }

    pub(super) fn list<T: ReadNode>(&self, name: &str, what: &str) -> Vec<T> {
        let items = self.get(name).and_then(|at| at.items(what, LIST_ITEMS_MAX)).unwrap_or_default();
        items.iter().filter_map(T::read).collect()
    }
}

/// Turns a parser of names into one that [`NodeCursor::named_entries`] can use.
pub(super) fn parse_key<K>(
    parse: fn(&str) -> Result<K, InvalidName>,
) -> impl Fn(&str) -> Result<K, DefinitionProblem> {
    move |text| {
        parse(text).map_err(|InvalidName(why)| {
            DefinitionProblem::error("invalid_name", format!("{} {why}", quote(text)))
        })
    }
}

impl ReadNode for bool {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        match at.node.value {
            YamlValue::Bool(value) => Some(value),
            _ => {
                at.wrong_type("`true` or `false`");
                None
            }
        }
    }
}

macro_rules! read_by_grammar {
    ($($name:ty),+) => {
        $(impl ReadNode for $name {
            fn read(at: &NodeCursor<'_>) -> Option<Self> {
                at.parse_text("invalid_name", <$name>::parse)
            }
        })+
    };
}

read_by_grammar!(
    DisplayName,
    EnvName,
    grammar::StepId,
    grammar::StageName,
    grammar::SecretName,
    grammar::OutputName,
    grammar::ArtifactName,
    grammar::Label
);
