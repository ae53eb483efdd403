//! Formats JSON for readers: short values stay on one line.

use serde_json::Value;

const LINE_CHARS_MAX: usize = 120;

pub(super) fn format_json(value: &Value) -> String {
    format_value(value, 0)
}

fn format_value(value: &Value, depth: usize) -> String {
    let line = one_line(value);
    if depth * 2 + line.chars().count() <= LINE_CHARS_MAX {
        return line;
    }
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    match value {
        Value::Array(items) => {
            let items: Vec<_> =
                items.iter().map(|it| format!("{inner}{}", format_value(it, depth + 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{inner}\"{name}\": {}", format_value(value, depth + 1))
            };
            format!("{{\n{}\n{outer}}}", fields.iter().map(field).collect::<Vec<_>>().join(",\n"))
        }
        _ => line,
    }
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("\"{name}\": {}", one_line(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}
