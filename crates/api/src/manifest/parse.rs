//! A file's text to trees, one a document. Depth, size, and what aliases and variables unfold to are bounded.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::Value;

use super::{
    ReadOptions,
    fill::{self, FileMarks},
    scalar,
    tree::{Content, MapEntry, YamlNode},
};

/// Deepest nesting; Kubernetes' objects have about 20 levels.
const MAX_DEPTH: usize = 500;
/// Longest file, bytes.
const MAX_BYTES: usize = 8 << 20;
/// Most values of a file: some 8,000 Pods or Deployments, each by itself.
const MAX_VALUES: usize = 300_000;
/// Most values that the aliases of a file may unfold to.
const MAX_UNFOLDED: usize = 100_000;
/// Most bytes of text that a file's aliases and variables may unfold to, its own text included.
const MAX_TEXT: usize = 32 << 20;
/// Longest key: a label's or an annotation's has 317 bytes at most.
const MAX_KEY: usize = 1024;
/// Most uses of variables in a file.
const MAX_USES: usize = 100_000;

/// A mistake on a line, of no field.
pub(super) type Complaint = (usize, String, &'static str);

/// Contents of a file.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub documents: Vec<YamlNode>,
    pub complaints: Vec<Complaint>,
    pub marks: FileMarks,
}

/// Parses a file. What stands before a mistake in the YAML is not given out: half a file is no input.
pub(super) fn parse(text: &str, options: &ReadOptions) -> Documents {
    if text.len() > MAX_BYTES {
        let complaint = (1, format!("the file has {} bytes", text.len()), "8 MiB at most");
        return Documents { complaints: vec![complaint], ..Documents::default() };
    }
    let (marked, marks) = fill::mark(text, MAX_USES);
    if let Some(line) = marks.beyond() {
        let complaint = (line, "the file uses too many variables".into(), "100,000 uses at most");
        return Documents { complaints: vec![complaint], ..Documents::default() };
    }
    let mut builder = Builder {
        options,
        marks,
        open: Vec::new(),
        done: Vec::new(),
        anchors: BTreeMap::new(),
        values: 0,
        unfolded: 0,
        text: 0,
    };
    let mut complaints = Vec::new();
    for event in Parser::new_from_str(&marked) {
        let result = match event {
            Ok((event, span)) => builder.event(event, span.start.line()),
            Err(error) => Err(syntax(error.marker().line(), error.info(), text)),
        };
        if let Err(complaint) = result {
            complaints.push(complaint);
            (builder.done, builder.open) = (Vec::new(), Vec::new());
            break;
        }
    }
    Documents { documents: builder.done, complaints, marks: builder.marks }
}

/// The parser's complaint; of a tab it knows only where the scalar before it starts.
fn syntax(line: usize, info: &str, text: &str) -> Complaint {
    let tab = text
        .lines()
        .enumerate()
        .skip(line.saturating_sub(1))
        .find(|(_, line)| line.trim_start_matches(' ').starts_with('\t'));
    match tab.filter(|_| info.contains("tab")) {
        Some((at, _)) => (at + 1, format!("does not parse as YAML: {info}"), "spaces to indent, no tabs"),
        None => (line.max(1), format!("does not parse as YAML: {info}"), "YAML"),
    }
}

/// A list or mapping that is not closed.
struct Open {
    anchor: usize,
    line: usize,
    content: Content,
    key: Option<(String, usize)>,
}

struct Builder<'a> {
    options: &'a ReadOptions,
    marks: FileMarks,
    open: Vec<Open>,
    done: Vec<YamlNode>,
    anchors: BTreeMap<usize, YamlNode>,
    /// Values so far, those of aliases aside.
    values: usize,
    /// Values of aliases.
    unfolded: usize,
    /// Bytes of text, those of aliases included.
    text: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, line: usize) -> Result<(), Complaint> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), line)?;
                self.close(YamlNode { line, content: Content::Scalar(value) }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, line, Content::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(anchor, line, Content::Mapping(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let mut node = YamlNode { line: open.line, content: open.content };
                merge(&mut node)?;
                self.close(node, open.anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    return Err((line, "an alias stands inside its own anchor".into(), "an alias after its anchor"));
                };
                self.count(&node, line)?;
                self.close(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, node: &YamlNode, line: usize) -> Result<(), Complaint> {
        let (values, bytes) = node.size();
        self.unfolded = self.unfolded.saturating_add(values);
        if self.unfolded > MAX_UNFOLDED {
            return Err((line, "the file's anchors and aliases unfold to too much".into(), "100,000 values at most"));
        }
        self.count_text(bytes, line)
    }

    fn count_text(&mut self, bytes: usize, line: usize) -> Result<(), Complaint> {
        self.text = self.text.saturating_add(bytes);
        if self.text > MAX_TEXT {
            return Err((line, "the file's aliases and variables unfold to too much text".into(), "32 MiB at most"));
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize, line: usize, content: Content) -> Result<(), Complaint> {
        if self.open.len() >= MAX_DEPTH {
            return Err((line, "is nested too deeply".into(), "500 levels at most"));
        }
        self.open.push(Open { anchor, line, content, key: None });
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, Complaint> {
        self.count_text(self.marks.filled_bytes(text, &self.options.env), line)?;
        let filled = self.marks.fill(text, &self.options.env);
        match tag.map(|tag| (tag.is_yaml_core_schema(), tag.suffix.as_str())) {
            None if style == ScalarStyle::Plain => Ok(scalar::plain(&filled)),
            None | Some((true, "str")) => Ok(Value::String(filled)),
            Some((true, "int" | "float" | "bool" | "null")) => Ok(scalar::plain(&filled)),
            Some((_, suffix)) => Err((line, format!("the tag !{suffix} has no meaning here"), "no tags")),
        }
    }

    /// Puts a finished value where it belongs.
    fn close(&mut self, node: YamlNode, anchor: usize) -> Result<(), Complaint> {
        let is_key =
            self.open.last().is_some_and(|open| matches!(open.content, Content::Mapping(_)) && open.key.is_none());
        self.values += usize::from(!is_key);
        if self.values > MAX_VALUES {
            return Err((node.line, "the file holds too many values".into(), "300,000 at most"));
        }
        if anchor != 0 {
            self.count(&node, node.line)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            if !node.is_null() {
                self.done.push(node);
            }
            return Ok(());
        };
        match (&mut open.content, open.key.take()) {
            (Content::List(items), _) => items.push(node),
            (Content::Mapping(entries), Some((key, line))) => entries.push(MapEntry { key, line, value: node }),
            (Content::Mapping(_), None) => open.key = Some((key_text(&node)?, node.line)),
            (Content::Scalar(_), _) => {}
        }
        Ok(())
    }
}

/// A key as text.
fn key_text(node: &YamlNode) -> Result<String, Complaint> {
    match &node.content {
        Content::Scalar(Value::String(text)) if text.len() > MAX_KEY => {
            Err((node.line, format!("a key has {} bytes", text.len()), "1,024 at most"))
        }
        Content::Scalar(Value::String(text)) => Ok(text.clone()),
        Content::Scalar(Value::Null) => Ok(String::new()),
        Content::Scalar(value) => Ok(value.to_string()),
        _ => Err((node.line, "a list or a mapping stands where a key has to be".into(), "text")),
    }
}

/// Unfolds `<<`: entries of the mappings named there, unless the mapping has them itself.
fn merge(node: &mut YamlNode) -> Result<(), Complaint> {
    let Content::Mapping(entries) = &mut node.content else { return Ok(()) };
    let Some(at) = entries.iter().position(|entry| entry.key == "<<") else { return Ok(()) };
    let merged = entries.remove(at);
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let sources: Vec<&YamlNode> = match &merged.value.content {
        Content::List(items) => items.iter().collect(),
        _ => vec![&merged.value],
    };
    for source in sources {
        if !matches!(source.content, Content::Mapping(_)) {
            return Err((merged.line, "<< does not name a mapping".into(), "an alias of a mapping, or a list of them"));
        }
        for entry in source.entries() {
            if known.insert(entry.key.clone()) {
                entries.push(entry.clone());
            }
        }
    }
    Ok(())
}
