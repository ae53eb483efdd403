//! The encodings in which a credential could leak, and a search for all of them.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Values that must not leak, each with the operations whose responses may nevertheless contain it.
#[derive(Default)]
pub(crate) struct CanarySet {
    planted: Vec<PlantedCanary>,
    /// Finds the encodings of all values in one pass. Built again after a value was added.
    search: OnceLock<AhoCorasick>,
}

struct PlantedCanary {
    what: String,
    value: String,
    encodings: Vec<(&'static str, String)>,
    visible_in: &'static [&'static str],
}

impl CanarySet {
    /// Adds a value that must not appear anywhere.
    pub(crate) fn plant(&mut self, what: &str, value: &str) {
        self.plant_visible_in(what, value, &[]);
    }

    /// Adds a value that may appear only in the responses of these operations.
    pub(crate) fn plant_visible_in(&mut self, what: &str, value: &str, visible_in: &'static [&'static str]) {
        assert!(value.len() >= 15, "{what} is too short to be recognised");
        self.search = OnceLock::new();
        self.planted.push(PlantedCanary {
            what: what.into(),
            value: value.into(),
            encodings: encode_all_ways(value),
            visible_in,
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.planted.len()
    }

    /// Returns the value at this position, starting over after the last one.
    pub(crate) fn value(&self, number: usize) -> &str {
        &self.planted[number % self.planted.len()].value
    }

    /// Returns a description of every value that is found in the text, unless the operation may return it.
    pub(crate) fn find_leaks(&self, text: &str, operation: &str) -> Vec<String> {
        let forms =
            || self.planted.iter().flat_map(|planted| planted.encodings.iter().map(move |it| (planted, it)));
        let search = self.search.get_or_init(|| {
            AhoCorasick::new(forms().map(|(_, (_, form))| form))
                .expect("an automaton of a few hundred patterns")
        });
        let found: BTreeSet<usize> =
            search.find_overlapping_iter(text).map(|found| found.pattern().as_usize()).collect();
        let leaks = forms().enumerate().filter(|(number, (planted, _))| {
            found.contains(number) && !planted.visible_in.contains(&operation)
        });
        leaks.map(|(_, (planted, (form, _)))| format!("{} ({form})", planted.what)).collect()
    }
}

fn encode_all_ways(value: &str) -> Vec<(&'static str, String)> {
    let bytes = value.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let json = serde_json::to_string(value).unwrap();
    let mut forms = vec![
        ("raw", value.to_owned()),
        ("hex", hex.to_uppercase()),
        ("hex", hex),
        ("URL-encoded", percent_encode(value)),
        ("form-encoded", percent_encode(value).replace("%20", "+")),
        ("JSON", json.trim_matches('"').to_owned()),
        ("Rust", format!("{value:?}").trim_matches('"').to_owned()),
    ];
    // Inside longer data, the base64 encoding of a value depends on the position of its first byte modulo three.
    for skipped in 0..3 {
        let rest = &bytes[skipped..];
        let whole = &rest[..rest.len() / 3 * 3];
        forms.push(("base64", STANDARD_NO_PAD.encode(whole)));
        forms.push(("base64 for URLs", URL_SAFE_NO_PAD.encode(whole)));
    }
    // For simple values, many of these encodings are identical; keeps only one of each.
    let mut seen = BTreeSet::new();
    forms.retain(|(_, text)| seen.insert(text.clone()));
    forms
}

/// Percent-encodes everything except the unreserved characters of a URI.
pub(crate) fn percent_encode(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let each = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    value.bytes().map(each).collect()
}

#[test]
fn canary_is_found_in_every_encoding() {
    let mut canaries = CanarySet::default();
    canaries.plant_visible_in("it", "Grüße/aus+dem Hafen\"", &["GET /me"]);
    for text in [
        "xxGrüße/aus+dem Hafen\"xx",
        "477Fgrüße 4772c3bcc39f652f6175732b64656d20486166656e22",
        "Gr%C3%BC%C3%9Fe%2Faus%2Bdem%20Hafen%22",
        r#"{"a":"Grüße/aus+dem Hafen\""}"#,
        &STANDARD_NO_PAD.encode("Basic Grüße/aus+dem Hafen\" and more"),
        &STANDARD_NO_PAD.encode("a Grüße/aus+dem Hafen\" and more"),
        &URL_SAFE_NO_PAD.encode("Grüße/aus+dem Hafen\" and more"),
    ] {
        assert!(!canaries.find_leaks(text, "").is_empty(), "{text}");
        assert!(canaries.find_leaks(text, "GET /me").is_empty());
    }
    assert!(canaries.find_leaks("Grüße/aus+dem Hafe", "").is_empty());
}
