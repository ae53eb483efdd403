//! Resolves unquoted scalars by the core schema of YAML 1.2, except that only `true` and `false` are booleans.

use serde_json::Number;

use crate::tree::YamlValue;

/// `yes`, `on` and `True` stay strings, because users would not expect them to become booleans.
pub(super) fn resolve(text: &str) -> YamlValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return YamlValue::Null,
        "true" => return YamlValue::Bool(true),
        "false" => return YamlValue::Bool(false),
        _ => {}
    }
    match number(text) {
        Some(value) => YamlValue::Number { value, text: text.to_owned() },
        None => YamlValue::Text(text.to_owned()),
    }
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<i64>().ok().map(Number::from);
    }
    // `f64::from_str` also accepts `inf`, `nan` and `infinity`, which JSON cannot represent.
    let plain = unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    let starts = unsigned.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain || !starts {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

fn radix(digits: &str, base: u32) -> Option<Number> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { i64::from_str_radix(digits, base).ok().map(Number::from) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_scalars_follow_yaml_1_2_core_schema() {
        let kind = |text: &str| match resolve(text) {
            YamlValue::Null => "null".to_owned(),
            YamlValue::Bool(value) => format!("bool {value}"),
            YamlValue::Number { value, .. } => format!("number {value}"),
            YamlValue::Text(_) => "text".to_owned(),
            YamlValue::List(_) | YamlValue::Map(_) => "collection".to_owned(),
        };
        for (text, expected) in [
            ("", "null"),
            ("~", "null"),
            ("true", "bool true"),
            ("True", "text"),
            ("yes", "text"),
            ("off", "text"),
            ("12", "number 12"),
            ("-7", "number -7"),
            ("007", "number 7"),
            ("0x1F", "number 31"),
            ("0o17", "number 15"),
            ("1.50", "number 1.5"),
            ("1e3", "number 1000.0"),
            ("1.2.3", "text"),
            (".inf", "text"),
            (".nan", "text"),
            ("1e999", "text"),
            ("99999999999999999999", "text"),
            ("-", "text"),
            ("2026-12-24", "text"),
            ("09:00", "text"),
        ] {
            assert_eq!(kind(text), expected, "{text:?}");
        }
    }
}
