//! References to container images: `[registry/]path[:tag][@sha256:digest]`.

use std::fmt;

/// Maximum length of an image reference.
pub const IMAGE_BYTES_MAX: usize = 512;
/// Maximum length of a tag, as in the OCI distribution specification.
const TAG_BYTES_MAX: usize = 128;
/// The registry of images without a registry in their name.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The first part of the names of images that were made on the machine.
const LOCAL_REGISTRY: &str = "localhost";
const DIGEST_PREFIX: &str = "sha256:";
const DIGEST_HEX_CHARS: usize = 64;

/// A valid image reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference {
    /// Registry and path, as written.
    pub name: String,
    pub tag: Option<String>,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: Option<String>,
}

/// Why a text is not an image reference; continues a sentence that begins with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidImage(&'static str);

impl ImageReference {
    pub fn parse(text: &str) -> Result<Self, InvalidImage> {
        if text.is_empty() {
            return Err(InvalidImage("is empty; write an image such as `node:22`"));
        }
        if text.len() > IMAGE_BYTES_MAX {
            return Err(InvalidImage("is longer than an image reference can be"));
        }
        if text.starts_with('-') {
            return Err(InvalidImage("begins with `-`; image names begin with a letter or digit"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest.to_owned())),
            Some(_) => {
                return Err(InvalidImage(
                    "has an invalid digest; a digest is `sha256:` and 64 hexadecimal digits",
                ));
            }
            None => (text, None),
        };
        // A colon before the last slash belongs to the port of the registry.
        let path_at = rest.rfind('/').map_or(0, |at| at + 1);
        let (name, tag) = match rest[path_at..].split_once(':') {
            Some((_, tag)) if is_tag(tag) => (&rest[..rest.len() - tag.len() - 1], Some(tag.to_owned())),
            Some(_) => {
                return Err(InvalidImage("has an invalid tag; a tag has letters, digits, `.`, `_`, `-`"));
            }
            None => (rest, None),
        };
        let (registry, path) = split_registry(name);
        if !registry.is_none_or(is_registry) {
            return Err(InvalidImage("has an invalid registry; write `host/path` or `host:port/path`"));
        }
        if !path.split('/').all(is_component) {
            return Err(InvalidImage(
                "is not an image name; a name has lower-case letters, digits, `.`, `_` and `-`, and parts separated by `/`",
            ));
        }
        Ok(Self { name: name.to_owned(), tag, digest })
    }

    /// Parses a reference to push to. It has a registry and no digest. Without a registry, `docker-archive:shop` would be
    /// a valid reference, but programs read it as a transport and a file.
    pub fn parse_destination(text: &str) -> Result<Self, InvalidImage> {
        let image = Self::parse(text)?;
        if image.digest.is_some() {
            return Err(InvalidImage("has a digest; write a tag instead"));
        }
        if split_registry(&image.name).0.is_none() {
            return Err(InvalidImage("has no registry; write it like `registry.acme.test/shop:1.2`"));
        }
        Ok(image)
    }

    /// The registry that the image comes from, with its port.
    pub fn registry(&self) -> &str {
        split_registry(&self.name).0.unwrap_or(DEFAULT_REGISTRY)
    }

    /// Whether the image belongs to the machine and to no registry.
    pub fn is_local(&self) -> bool {
        self.registry() == LOCAL_REGISTRY
    }

    /// The reference with this digest instead of a tag.
    pub fn with_digest(&self, digest: &str) -> String {
        format!("{}@{digest}", self.name)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

/// Whether the text is `sha256:` and 64 lower-case hexadecimal digits.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix(DIGEST_PREFIX).is_some_and(|hex| {
        hex.len() == DIGEST_HEX_CHARS && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest)) if first == LOCAL_REGISTRY || first.contains(['.', ':']) => (Some(first), rest),
        _ => (None, name),
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').unwrap_or((text, "443"));
    let is_host = !host.is_empty()
        && !host.starts_with(['-', '.'])
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_component(text: &str) -> bool {
    let is_edge =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_inside =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    is_edge(text.bytes().next()) && is_edge(text.bytes().last()) && text.bytes().all(is_inside)
}

fn is_tag(text: &str) -> bool {
    let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    starts && text.len() <= TAG_BYTES_MAX && text.bytes().all(is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn image_references_are_split_into_their_parts() {
        let parts = |text: &str| {
            let image = ImageReference::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(image.to_string(), text);
            (image.registry().to_owned(), image.name.clone(), image.tag.clone(), image.digest.is_some())
        };
        let owned = |registry: &str, name: &str, tag: Option<&str>, has_digest| {
            (registry.to_owned(), name.to_owned(), tag.map(str::to_owned), has_digest)
        };
        assert_eq!(parts("node"), owned("docker.io", "node", None, false));
        assert_eq!(parts("acme/node:22-slim"), owned("docker.io", "acme/node", Some("22-slim"), false));
        assert_eq!(parts("localhost/bb:1"), owned("localhost", "localhost/bb", Some("1"), false));
        assert_eq!(
            parts("127.0.0.1:5000/a/b_c:x"),
            owned("127.0.0.1:5000", "127.0.0.1:5000/a/b_c", Some("x"), false)
        );
        assert_eq!(
            parts(&format!("registry.acme.test/ci/node:22@{DIGEST}")),
            owned("registry.acme.test", "registry.acme.test/ci/node", Some("22"), true)
        );
    }

    #[test]
    fn destinations_need_a_registry_and_no_digest() {
        for text in ["registry.acme.test/shop:1", "127.0.0.1:5000/a/b", "localhost/a", "ghcr.io/acme/shop"] {
            assert!(ImageReference::parse_destination(text).is_ok(), "{text}");
        }
        for text in ["shop:1", "acme/shop:1", "docker-archive:evil", "dir:x", "oci:out", "docker-daemon:a"] {
            let why = ImageReference::parse_destination(text).expect_err(text).to_string();
            assert!(why.starts_with("has no registry"), "{text}: {why}");
        }
        let pinned = format!("registry.acme.test/shop@{DIGEST}");
        assert!(ImageReference::parse_destination(&pinned).is_err());
        assert!(ImageReference::parse("localhost/a:1").is_ok_and(|it| it.is_local()));
        assert!(ImageReference::parse("localhost:5000/a:1").is_ok_and(|it| !it.is_local()));
    }

    #[test]
    fn invalid_image_references_are_refused() {
        let long = "a".repeat(IMAGE_BYTES_MAX + 1);
        for text in [
            "",
            "-v",
            "--privileged",
            "a b",
            "a\nb",
            "Node",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:-x",
            "a:b:c",
            "../a",
            "a@sha256:12",
            "a@md5:00",
            "host:99999/a",
            "-host.test/a",
            "http://host/a",
            "a;b",
            "a$(b)",
            &long,
        ] {
            assert!(ImageReference::parse(text).is_err(), "{text:?}");
        }
    }
}
