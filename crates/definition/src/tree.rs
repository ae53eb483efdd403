//! Parses YAML into a tree in which every value has its byte range.
//!
//! Size limits are checked at every event of the YAML parser, before a value is built, so that a YAML bomb costs only
//! what was read up to that point. An alias shares its value but counts with the value's full size. Problems that leave
//! the tree usable, such as tags and duplicate keys, are reported, and parsing continues.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use berth_core::pipeline::limits::{
    YAML_ALIASES_MAX, YAML_DEPTH_MAX, YAML_EXPANSION_BASE_BYTES, YAML_EXPANSION_PER_BYTE_MAX, YAML_NODES_MAX,
};
use berth_core::wording::{escape_pointer, quote};
use serde_json::Number;
use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, ScanError, Tag};

use crate::report::{DefinitionProblem, ProblemReport};
use crate::scalar;

#[derive(Debug)]
pub(super) struct YamlNode {
    pub(super) value: YamlValue,
    pub(super) range: Range<usize>,
    weight: NodeWeight,
}

#[derive(Debug)]
pub(super) enum YamlValue {
    Null,
    Bool(bool),
    /// `text` keeps the number as written, because `1.10` may be a version.
    Number {
        value: Number,
        text: String,
    },
    Text(String),
    List(Vec<Rc<YamlNode>>),
    Map(Vec<YamlEntry>),
}

#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) key_range: Range<usize>,
    pub(super) value: Rc<YamlNode>,
}

/// How much an alias to this value counts towards the limits.
#[derive(Debug, Clone, Copy, Default)]
struct NodeWeight {
    height: usize,
    nodes: usize,
    bytes: usize,
}

/// A limit is exceeded or the text is not valid YAML. The problem has already been reported.
struct ParseAborted;

/// Parses the source, which must contain a single document. Returns `None` after an error that leaves no usable tree;
/// the error has been reported.
pub(super) fn read(report: &ProblemReport<'_>) -> Option<Rc<YamlNode>> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        // One more than Berth's limit, so that Berth's own error message is reported first.
        flow_nesting_limit: YAML_DEPTH_MAX + 1,
        block_nesting_limit: YAML_DEPTH_MAX + 1,
        // Keys are short, but when JSON is written on one line, an object may look like a key at first.
        simple_key_max_lookahead: 1024,
    };
    let text = report.source().text;
    let mut builder = TreeBuilder {
        report,
        open: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        spent: NodeWeight::default(),
        aliases: 0,
    };
    for item in Parser::new_from_str_with_options(text, options) {
        let done = match item {
            Ok((event, span)) => {
                let at =
                    |mark: &granit_parser::Marker| mark.byte_offset().unwrap_or(text.len()).min(text.len());
                builder.handle_event(event, at(&span.start)..at(&span.end))
            }
            Err(error) => Err(builder.report_syntax_error(&error)),
        };
        if done.is_err() {
            return None;
        }
    }
    if builder.root.is_none() {
        builder.problem(
            &(0..0),
            DefinitionProblem::error("empty", "the definition is empty; it begins with `version: 1`"),
        );
    }
    builder.root
}

struct TreeBuilder<'a> {
    report: &'a ProblemReport<'a>,
    open: Vec<OpenCollection>,
    root: Option<Rc<YamlNode>>,
    anchors: BTreeMap<usize, Rc<YamlNode>>,
    spent: NodeWeight,
    aliases: usize,
}

/// A list or mapping whose end has not been read yet.
struct OpenCollection {
    content: CollectionContent,
    start: Range<usize>,
    anchor: usize,
}

enum CollectionContent {
    List(Vec<Rc<YamlNode>>),
    Map { entries: Vec<YamlEntry>, seen: BTreeSet<String>, key: Option<(String, Range<usize>)> },
}

impl TreeBuilder<'_> {
    fn handle_event(&mut self, event: Event<'_>, range: Range<usize>) -> Result<(), ParseAborted> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &range);
                self.refuse_control(&text, &range);
                let bytes = text.len();
                let value = match style {
                    ScalarStyle::Plain => scalar::resolve(&text),
                    _ => YamlValue::Text(text.into_owned()),
                };
                self.charge(NodeWeight { height: 0, nodes: 1, bytes }, &range)?;
                self.place(value, range, anchor, NodeWeight { height: 0, nodes: 1, bytes });
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &range);
                self.enter(CollectionContent::List(Vec::new()), range, anchor)?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), &range);
                let content =
                    CollectionContent::Map { entries: Vec::new(), seen: BTreeSet::new(), key: None };
                self.enter(content, range, anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(range.end),
            Event::Alias(anchor) => self.alias(anchor, &range)?,
            Event::UnresolvedAlias(name) => {
                let message = format!("there is no anchor {} above this alias", quote(&format!("&{name}")));
                return self.refuse(&range, "unknown_alias", message);
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                let message = "a second document begins here; a file holds exactly one pipeline";
                self.problem(&range, DefinitionProblem::error("several_documents", message));
                return Err(ParseAborted);
            }
            // Comments and stream events carry no values.
            _ => {}
        }
        Ok(())
    }

    fn enter(
        &mut self,
        content: CollectionContent,
        start: Range<usize>,
        anchor: usize,
    ) -> Result<(), ParseAborted> {
        self.charge(NodeWeight { height: 1, nodes: 1, bytes: 0 }, &start)?;
        self.open.push(OpenCollection { content, start, anchor });
        Ok(())
    }

    fn leave(&mut self, end: usize) {
        let Some(OpenCollection { content, start, anchor }) = self.open.pop() else { return };
        let (value, children): (YamlValue, Vec<NodeWeight>) = match content {
            CollectionContent::List(items) => {
                let weights = items.iter().map(|item| item.weight).collect();
                (YamlValue::List(items), weights)
            }
            CollectionContent::Map { entries, .. } => {
                let weight = |entry: &YamlEntry| {
                    entry.value.weight.plus(NodeWeight { height: 0, nodes: 1, bytes: entry.key.len() })
                };
                let weights = entries.iter().map(weight).collect();
                (YamlValue::Map(entries), weights)
            }
        };
        let inside = children.into_iter().fold(NodeWeight::default(), NodeWeight::plus);
        let weight = NodeWeight { height: inside.height + 1, nodes: inside.nodes + 1, ..inside };
        self.place(value, start.start..end.max(start.end), anchor, weight);
    }

    fn alias(&mut self, anchor: usize, range: &Range<usize>) -> Result<(), ParseAborted> {
        self.aliases += 1;
        if self.aliases > YAML_ALIASES_MAX {
            let message = format!("more than {YAML_ALIASES_MAX} aliases; write some of them out");
            return self.refuse(range, "too_many_aliases", message);
        }
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return self.refuse(
                range,
                "unknown_alias",
                "this alias stands inside the very value it names".into(),
            );
        };
        self.charge(node.weight, range)?;
        self.attach(node, range);
        Ok(())
    }

    /// Counts a value towards the limits before it is built.
    fn charge(&mut self, weight: NodeWeight, range: &Range<usize>) -> Result<(), ParseAborted> {
        if self.open.len() + weight.height > YAML_DEPTH_MAX {
            let message = format!("nested more than {YAML_DEPTH_MAX} levels deep");
            return self.refuse(range, "too_deep", message);
        }
        self.spent = NodeWeight { height: 0, ..self.spent.plus(weight) };
        if self.spent.nodes > YAML_NODES_MAX {
            let message = format!("more than {YAML_NODES_MAX} values, aliases followed; split the pipeline");
            return self.refuse(range, "too_many_values", message);
        }
        let base = self.report.source().text.len().max(YAML_EXPANSION_BASE_BYTES);
        if self.spent.bytes > base * YAML_EXPANSION_PER_BYTE_MAX {
            let message = format!(
                "with its aliases followed the text is more than {YAML_EXPANSION_PER_BYTE_MAX} times as long"
            );
            return self.refuse(range, "expands_too_much", message);
        }
        Ok(())
    }

    fn place(&mut self, value: YamlValue, range: Range<usize>, anchor: usize, weight: NodeWeight) {
        let at = range.clone();
        let node = Rc::new(YamlNode { value, range, weight });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.attach(node, &at);
    }

    /// Adds a finished value to the enclosing collection, as an item, a key or a value.
    fn attach(&mut self, node: Rc<YamlNode>, range: &Range<usize>) {
        let problem = match self.open.last_mut().map(|open| &mut open.content) {
            None => {
                self.root = Some(node);
                None
            }
            Some(CollectionContent::List(items)) => {
                items.push(node);
                None
            }
            Some(CollectionContent::Map { entries, seen, key }) => match key.take() {
                None => {
                    let (name, problem) = match key_text(&node) {
                        Ok(name) => (name, None),
                        Err(problem) => (String::new(), Some(problem)),
                    };
                    *key = Some((name, range.clone()));
                    problem.map(|problem| (range.clone(), problem))
                }
                // The key was invalid and has been reported, so its value is dropped.
                Some((name, _)) if name.is_empty() => None,
                Some((name, key_range)) if seen.contains(&name) => {
                    let message = format!("{} is given twice; keep one of them", quote(&name));
                    let pointer = format!("{}/{}", self.pointer(), escape_pointer(&name));
                    self.report.add(&pointer, &key_range, DefinitionProblem::error("duplicate_key", message));
                    None
                }
                Some((name, key_range)) => {
                    seen.insert(name.clone());
                    entries.push(YamlEntry { key: name, key_range, value: node });
                    None
                }
            },
        };
        if let Some((range, problem)) = problem {
            self.problem(&range, problem);
        }
    }

    /// JSON pointer to the value that is being read.
    fn pointer(&self) -> String {
        let steps = self.open.iter().filter_map(|open| match &open.content {
            CollectionContent::List(items) => Some(items.len().to_string()),
            CollectionContent::Map { key, .. } => key.as_ref().map(|(name, _)| escape_pointer(name)),
        });
        steps.fold(String::new(), |pointer, step| pointer + "/" + &step)
    }

    fn problem(&self, range: &Range<usize>, problem: DefinitionProblem) {
        self.report.add(&self.pointer(), range, problem);
    }

    fn refuse(&self, range: &Range<usize>, code: &'static str, message: String) -> Result<(), ParseAborted> {
        self.problem(range, DefinitionProblem::error(code, message));
        Err(ParseAborted)
    }

    fn refuse_tag(&self, tag: Option<&Tag>, range: &Range<usize>) {
        if let Some(tag) = tag {
            let message =
                format!("the tag {} is not allowed; write the value without it", quote(&tag.original()));
            self.problem(range, DefinitionProblem::error("tag_not_allowed", message));
        }
    }

    /// Reports forbidden characters in a parsed string. Escape sequences can produce characters that the file itself
    /// must not contain.
    fn refuse_control(&self, text: &str, range: &Range<usize>) {
        if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
            self.problem(range, DefinitionProblem::error("control_character", control_message(c)));
        }
    }

    fn report_syntax_error(&self, error: &ScanError) -> ParseAborted {
        let source = self.report.source();
        let start = error.marker().byte_offset().unwrap_or(source.text.len()).min(source.text.len());
        let line_start =
            source.text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let line = source.text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let advice = if line.contains("${{") {
            ". Put quotes around values with expressions: \"${{ … }}\""
        } else if error.kind().to_string().contains("tab") {
            ". Use spaces instead of tabs"
        } else {
            ""
        };
        let message = format!("this is not valid YAML: {}{advice}", error.kind());
        self.problem(&(start..start), DefinitionProblem::error("invalid_yaml", message));
        ParseAborted
    }
}

impl NodeWeight {
    fn plus(self, other: NodeWeight) -> NodeWeight {
        NodeWeight {
            height: self.height.max(other.height),
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Whether this character is forbidden in a definition, both directly and as an escape sequence.
pub(super) fn is_forbidden(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

pub(super) fn control_message(c: char) -> String {
    format!("the control character U+{:04X} is not allowed; remove it", u32::from(c))
}

fn key_text(node: &YamlNode) -> Result<String, DefinitionProblem> {
    match &node.value {
        YamlValue::Text(text) if text == "<<" => Err(DefinitionProblem::error(
            "merge_key",
            "merge keys are not supported; write the fields out, or use an alias for a whole value",
        )),
        YamlValue::Text(text) | YamlValue::Number { text, .. } if !text.is_empty() => Ok(text.clone()),
        YamlValue::Bool(value) => Ok(value.to_string()),
        _ => Err(DefinitionProblem::error(
            "bad_key",
            "a key must be a plain word; quote it if it is meant as text",
        )),
    }
}
