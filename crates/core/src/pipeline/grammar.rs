//! Identifiers in a definition: ids, variable names and labels. Validated once, then passed around as newtypes.

use super::limits::{NAME_CHARS_MAX, SECRET_NAME_CHARS_MAX};
use crate::name::name;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $check:expr, $message:literal) => {
        word!($(#[$doc])* $name, NAME_CHARS_MAX, $check, $message);
    };
    ($(#[$doc:meta])* $name:ident, $chars_max:expr, $check:expr, $message:literal) => {
        name!($(#[$doc])* $name, |text| {
            let check: fn(&str) -> bool = $check;
            let fits = (1..=$chars_max).contains(&text.len());
            if fits && check(text) { Ok(text.to_owned()) } else { Err($message) }
        });
    };
}

word!(
    /// The id of a step in its definition, such as `smoke-test`.
    StepId,
    |text| edge(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_'),
    "is not a step id; use 1 to 63 of a-z, 0-9, - and _, beginning with a letter or digit"
);

word!(
    /// The name of a stage. It is part of URLs, so it follows the same rules as a slug.
    StageName,
    |text| edge(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && !text.ends_with('-')
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
    "is not a stage name; use 1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"
);

word!(
    /// A variable, used in expressions as `vars.<name>`.
    VarName,
    member,
    "is not a variable name; use 1 to 63 letters, digits, _ and -, beginning with a letter or _"
);

word!(
    /// A step output, used in expressions as `steps.<id>.<name>`.
    OutputName,
    member,
    "is not an output name; use 1 to 63 letters, digits, _ and -, beginning with a letter or _"
);

word!(
    ArtifactName,
    member,
    "is not an artifact name; use 1 to 63 letters, digits, _ and -, beginning with a letter or _"
);

word!(
    /// A secret, used in expressions as `secrets.<NAME>`.
    SecretName,
    SECRET_NAME_CHARS_MAX,
    variable,
    "is not a secret name; use 1 to 128 letters, digits and _, beginning with a letter or _"
);

word!(
    /// An environment variable of a step. Names that control the shell, the dynamic loader or git are reserved.
    EnvVarName,
    |text| variable(text) && !is_reserved(text),
    "is not an environment variable name; use 1 to 63 letters, digits and _, beginning with a letter or _"
);

word!(
    /// A service of a step, which is also its host name: `db`.
    ServiceName,
    |text| edge(text, |c| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text != "localhost"
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
    "is not a service name; use 1 to 63 of a-z, 0-9 and -, beginning with a letter, such as `db`"
);

word!(
    /// A label of a runner or an environment: `linux`, `gpu-a100`.
    Label,
    |text| edge(text, |c| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')),
    "is not a label; use 1 to 63 letters, digits, ., _ and -, beginning with a letter or digit"
);

pub const RESERVED_PREFIXES: &[&str] = &["BERTH_", "LD_", "GIT_", "BASH_FUNC_"];
/// The last four can make a shell run code, or exit, before the script starts.
pub const RESERVED_NAMES: &[&str] =
    &["PATH", "NODE_OPTIONS", "BASH_ENV", "IFS", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "TMOUT"];

/// Whether Berth sets this variable, or the variable could change which program runs.
pub fn is_reserved(text: &str) -> bool {
    RESERVED_NAMES.contains(&text) || RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

impl StepId {
    /// The default id of a step: its name in lower case, with each sequence of characters other than letters and digits
    /// replaced by one `-`.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut slug = String::new();
        for c in name.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
            if slug.len() == NAME_CHARS_MAX {
                break;
            }
        }
        Self::parse(slug.trim_end_matches('-')).ok()
    }
}

/// Whether the text is a valid git branch name that git cannot mistake for an option.
pub fn is_branch(text: &str) -> bool {
    const BRANCH_BYTES_MAX: usize = 255;
    let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"~^:?*[\\".contains(c));
    let parts =
        text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"));
    (1..=BRANCH_BYTES_MAX).contains(&text.len())
        && plain
        && parts
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && text != "@"
}

fn edge(text: &str, first: fn(char) -> bool) -> bool {
    text.chars().next().is_some_and(first)
}

fn variable(text: &str) -> bool {
    edge(text, |c| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether the text can follow a dot in an expression.
fn member(text: &str) -> bool {
    edge(text, |c| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_id_defaults_to_slug_of_name() {
        for (name, id) in [
            ("Deploy", "deploy"),
            ("Smoke test", "smoke-test"),
            ("  Übung: go!  ", "bung-go"),
            ("2nd check", "2nd-check"),
            ("a_b", "a-b"),
        ] {
            assert_eq!(StepId::from_name(name).expect(name).as_str(), id);
        }
        assert_eq!(StepId::from_name(&"x".repeat(99)).expect("cut").as_str().len(), NAME_CHARS_MAX);
        assert_eq!(StepId::from_name("🚀"), None);
    }

    #[test]
    fn env_var_name_rejects_reserved_names_and_prefixes() {
        for bad in
            ["PATH", "NODE_OPTIONS", "BASH_ENV", "PS4", "TMOUT", "BERTH_OUTPUT", "LD_PRELOAD", "GIT_DIR"]
        {
            assert!(EnvVarName::parse(bad).is_err(), "{bad} was accepted");
        }
        for good in ["MY_PATH", "GITHUB", "LDAP_URL", "_x", "HOME_DIR"] {
            assert!(EnvVarName::parse(good).is_ok(), "{good} was refused");
        }
        for bad in ["", "1A", "A-B", "A B", "Ä", "A=B", "A\0"] {
            assert!(EnvVarName::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn branch_name_rejects_git_options() {
        for good in ["main", "release/1.x", "feature/ünï", "a@b"] {
            assert!(is_branch(good), "{good} was refused");
        }
        for bad in [
            "",
            "-x",
            "--upload-pack=x",
            "a b",
            "a..b",
            "a/",
            "/a",
            "a//b",
            "a.lock",
            ".a",
            "a.",
            "@",
            "a@{1}",
            "a\\b",
            "a:b",
        ] {
            assert!(!is_branch(bad), "{bad:?} was accepted");
        }
    }
}
