//! Names of registries and of their steps.

use crate::name::name;

const CUSTOM: &str = "CUSTOM:";
const PART_CHARS_MAX: usize = 63;

name!(
    /// The name of a registry, before the slash: `tools` in `tools/deploy`.
    RegistryName,
    |text| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_good = (1..=PART_CHARS_MAX).contains(&text.len())
            && text.chars().all(is_plain)
            && !text.starts_with('-');
        match is_good {
            true => Ok(text.to_owned()),
            false => {
                Err("must be 1 to 63 lower-case letters, digits and -, beginning with a letter or digit")
            }
        }
    }
);

/// The type of a custom step, as written in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeRef {
    /// From a named registry: `tools/deploy`, `tools/deploy@v2`.
    InRegistry { registry: RegistryName, step: String, version: Option<String> },
    /// From the only registry that has this step: `CUSTOM:DEPLOY`.
    Anywhere { step: String },
}

impl TypeRef {
    pub fn parse(text: &str) -> Option<Self> {
        if after_custom(text).is_some() {
            return step_key(text).map(|step| TypeRef::Anywhere { step });
        }
        let (path, version) = match text.split_once('@') {
            Some((path, version)) => (path, Some(version.to_owned())),
            None => (text, None),
        };
        let (registry, step) = path.split_once('/')?;
        let is_revision = |text: &String| {
            (1..=PART_CHARS_MAX).contains(&text.len())
                && text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))
        };
        if version.as_ref().is_some_and(|version| !is_revision(version)) {
            return None;
        }
        Some(TypeRef::InRegistry {
            registry: RegistryName::parse(registry).ok()?,
            step: step_key(step)?,
            version,
        })
    }
}

/// Converts a registry's own type name to the name used in definitions: `CUSTOM:SCRIPT:Deploy` becomes `script-deploy`.
/// Two types with the same result are the same type. `None` if no valid characters remain.
pub fn step_key(own: &str) -> Option<String> {
    let rest = after_custom(own).unwrap_or(own);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let key: String = rest.chars().map(plain).collect();
    let is_good = (1..=PART_CHARS_MAX).contains(&key.len())
        && rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'))
        && key.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_good.then_some(key)
}

fn after_custom(text: &str) -> Option<&str> {
    let start = text.get(..CUSTOM.len())?;
    start.eq_ignore_ascii_case(CUSTOM).then(|| &text[CUSTOM.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_ref_parses_registry_step_and_version() {
        let shown = |text: &str| match TypeRef::parse(text) {
            None => "no".into(),
            Some(TypeRef::Anywhere { step }) => format!("any {step}"),
            Some(TypeRef::InRegistry { registry, step, version }) => format!("{registry} {step} {version:?}"),
        };
        let cases = [
            ("tools/deploy", "tools deploy None"),
            ("tools/Script_Deploy@v1.2", r#"tools script-deploy Some("v1.2")"#),
            ("tools/deploy@0a1b2c", r#"tools deploy Some("0a1b2c")"#),
            ("CUSTOM:DEPLOY", "any deploy"),
            ("custom:My-Step", "any my-step"),
            ("CUSTOM:SCRIPT:DEPLOY", "any script-deploy"),
            ("script", "no"),
            ("tools/", "no"),
            ("/deploy", "no"),
            ("Tools/deploy", "no"),
            ("tools/deploy@", "no"),
            ("tools/deploy@-x", "no"),
            ("tools/a b", "no"),
            ("CUSTOM:", "no"),
            ("CUSTOM:a b", "no"),
            ("tools/sub/deploy", "no"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
