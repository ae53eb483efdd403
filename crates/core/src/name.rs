//! Names chosen by users: validated once on input, then passed around as newtypes.

pub const SLUG_CHARS_MAX: usize = 63;
pub const DISPLAY_NAME_CHARS_MAX: usize = 120;
pub const EMAIL_CHARS_MAX: usize = 254;
pub const REASON_CHARS_MAX: usize = 4_000;
pub const CONTACT_CHARS_MAX: usize = 200;
pub const COMMIT_CHARS_MAX: usize = 255;

/// Why a string is not a valid name; shown to the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidName(pub &'static str);

/// Defines a newtype over a validated string.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, $crate::name::InvalidName> {
                let check: fn(&str) -> Result<String, &'static str> = $check;
                check(text).map(Self).map_err($crate::name::InvalidName)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::name::InvalidName;
            fn try_from(text: String) -> Result<Self, $crate::name::InvalidName> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

pub(crate) use name;

name!(
    /// The name of an organization or a pipeline in URLs, such as `shop-api`.
    Slug,
    |text| label(text).map_err(|()| {
        "must be 1 to 63 characters of a-z, 0-9 and -, beginning and ending with a letter or digit"
    })
);

name!(
    /// The name of an ephemeral environment; follows the same rules as a slug.
    EnvName,
    |text| label(text).map_err(|()| {
        "must be 1 to 63 characters of a-z, 0-9 and -, beginning and ending with a letter or digit"
    })
);

name!(
    /// A display name: printable characters, without surrounding whitespace.
    DisplayName,
    |text| line(text, DISPLAY_NAME_CHARS_MAX)
        .ok_or("must be 1 to 120 printable characters on one line")
);

name!(
    /// An email address as entered. Use [`Email::key`] for comparisons.
    Email,
    |text| {
        let text = text.trim();
        let plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
        let parts = text.split_once('@').filter(|(local, domain)| {
            !local.is_empty() && !domain.is_empty() && !domain.contains('@')
        });
        if plain && parts.is_some() && text.chars().count() <= EMAIL_CHARS_MAX {
            Ok(text.to_owned())
        } else {
            Err("must be an e-mail address of at most 254 characters, like ada@acme.test")
        }
    }
);

name!(
    /// Free text that a user gives as a reason or context. Line endings are normalized to `\n`.
    Reason,
    |text| {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let is_text = text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
        if is_text && text.chars().count() <= REASON_CHARS_MAX {
            Ok(text.trim().to_owned())
        } else {
            Err("must be at most 4,000 characters, without control characters other than tabs and line breaks")
        }
    }
);

name!(
    /// Whom to ask about a session, such as an e-mail address or `grace (#42)`. Grants no permission.
    Contact,
    |text| line(text, CONTACT_CHARS_MAX).ok_or("must be 1 to 200 printable characters on one line")
);

name!(
    /// A commit, branch or tag: anything that `git check-ref-format --allow-onelevel` accepts, including full and
    /// abbreviated hashes, but nothing that git could mistake for an option.
    CommitId,
    |text| {
        let is_ref = (1..=COMMIT_CHARS_MAX).contains(&text.chars().count())
            && !text.chars().any(|c| c.is_ascii_control() || " ~^:?*[\\".contains(c))
            && !text.contains("..")
            && !text.contains("@{")
            && text != "@"
            && !text.ends_with('.')
            && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"));
        if is_ref && !text.starts_with('-') {
            Ok(text.to_owned())
        } else {
            Err("must be a commit id, or the name of a branch or tag as git allows it, of at most 255 characters")
        }
    }
);

impl Email {
    /// A comparison key: different spellings of the same address have the same key.
    pub fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

impl From<Slug> for DisplayName {
    fn from(slug: Slug) -> Self {
        Self(slug.0)
    }
}

fn label(text: &str) -> Result<String, ()> {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let ok =
        bytes.len() <= SLUG_CHARS_MAX && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner);
    if ok { Ok(text.to_owned()) } else { Err(()) }
}

fn line(text: &str, chars_max: usize) -> Option<String> {
    let fits = text.chars().count() <= chars_max;
    let text = text.trim();
    let printable = text.chars().all(|c| !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c));
    (fits && !text.is_empty() && printable).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_id_rejects_git_options_and_path_traversal() {
        for good in [
            "a",
            "9fceb02",
            "main",
            "feature/login_2",
            "v1.2.3",
            "fix-#12",
            "ü",
            "a;b",
            "a@b",
            &"a".repeat(255),
        ] {
            assert_eq!(CommitId::parse(good).expect(good).as_str(), good);
        }
        for bad in
            ["", "-x", "--upload-pack=x", "a..b", "../x", "a b", "a\nb", "@", "a.lock", &"a".repeat(256)]
        {
            assert!(CommitId::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn slug_accepts_only_dns_labels() {
        for good in ["a", "shop", "shop-api", "0", &"a".repeat(63)] {
            assert_eq!(Slug::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a b", "a/b", "ü", "a\0", "..", &"a".repeat(64)] {
            assert!(Slug::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn display_name_is_trimmed_and_printable() {
        assert_eq!(DisplayName::parse("  Shop API ").expect("a name").as_str(), "Shop API");
        for bad in ["", "   ", "a\0b", "a\nb", "\u{202e}gpj.exe", &"x".repeat(121)] {
            assert!(DisplayName::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn contact_is_one_line_of_at_most_200_characters() {
        for good in ["grace", "grace@acme.test", "grace (#42)", "ü", &"x".repeat(200)] {
            assert_eq!(Contact::parse(good).expect(good).as_str(), good);
        }
        for bad in ["", "  ", "a\nb", "a\tb", "a\u{1b}[31m", "\u{202e}ecarg", &"x".repeat(201)] {
            assert!(Contact::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn email_key_ignores_case_and_whitespace() {
        let spelled = |text| Email::parse(text).expect("an address").key();
        assert_eq!(spelled("Ada@Acme.test"), spelled(" ada@acme.TEST "));
        for bad in ["", "ada", "@acme", "ada@", "a@b@c", "a b@c.d", "a\0@b"] {
            assert!(Email::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
