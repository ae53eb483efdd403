//! Property tests: compares the masker with a reference implementation for random values, encodings and chunk
//! boundaries.

use proptest::prelude::*;

use super::forms::secret_forms;
use super::{MASK, SecretMasker};
use crate::secret::is_maskable;

/// Reference implementation: searches for each value separately.
fn mask_reference(values: &[&str], text: &[u8]) -> Vec<u8> {
    let maskable: Vec<&str> = values.iter().copied().filter(|value| is_maskable(value)).collect();
    let mut covered = vec![false; text.len()];
    for form in secret_forms(&maskable) {
        for (start, window) in text.windows(form.len()).enumerate() {
            if window[0] == form[0] && window == form {
                covered[start..start + form.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (index, byte) in text.iter().enumerate() {
        if !covered[index] {
            out.push(*byte);
        } else if index == 0 || !covered[index - 1] {
            out.extend_from_slice(MASK);
        }
    }
    out
}

fn mask_stream(masker: &SecretMasker, chunks: &[&[u8]]) -> Vec<u8> {
    let mut stream = masker.stream();
    let mut out = Vec::new();
    for chunk in chunks {
        stream.push(chunk, &mut out);
    }
    stream.flush(&mut out);
    out
}

/// Values with shared prefixes, parts of the mask, quotes, newlines and non-ASCII bytes.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{4,12}",
        "[a-zA-Z0-9+/=_-]{6,24}",
        "[*ab]{4,8}",
        "[ \"'\\\\/$%&<>é\u{20ac}a-z]{4,12}",
        "([a-z]{6,9}\n){1,3}[a-z]{2,8}",
    ]
}

/// Values, and a byte string that contains some of their encodings between other bytes.
fn case() -> impl Strategy<Value = (Vec<String>, Vec<u8>)> {
    let values =
        (proptest::collection::vec(value(), 1..3), any::<bool>()).prop_map(|(mut values, longer)| {
            if longer {
                let longer = format!("{}{}", values[0], "tail");
                values.push(longer);
            }
            values
        });
    values.prop_flat_map(|values| {
        let refs: Vec<&str> = values.iter().map(String::as_str).filter(|v| is_maskable(v)).collect();
        let mut forms = secret_forms(&refs);
        forms.push(b"-".to_vec());
        let piece = prop_oneof![
            4 => proptest::sample::select(forms.clone()),
            1 => proptest::sample::select(forms).prop_map(|form| form[..form.len() / 2].to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..6),
            1 => Just(b"\x1b[0m\r\n".to_vec()),
            1 => Just(b"\xff\xfe".to_vec()),
            1 => Just(MASK.to_vec()),
        ];
        let text = proptest::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat());
        (Just(values), text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn se05_masking_is_independent_of_chunk_boundaries(
        (values, text) in case(),
        cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let masker = SecretMasker::new(&values);
        let wanted = mask_reference(&values, &text);
        let mut cuts = [cuts.0.index(text.len() + 1), cuts.1.index(text.len() + 1)];
        cuts.sort_unstable();
        let [first, second] = cuts;
        prop_assert_eq!(&mask_stream(&masker, &[&text]), &wanted);
        prop_assert_eq!(&mask_stream(&masker, &[&text[..first], &text[first..second], &text[second..]]), &wanted);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(&mask_stream(&masker, &single), &wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The surrounding bytes never occur in an encoding, so any remaining part of an encoding is a leak.
    #[test]
    fn se05_no_six_bytes_of_encoded_value_leak_at_any_chunk_boundary(
        value in "[a-zA-Z0-9'\"/ ]{6,20}", index in any::<prop::sample::Index>(),
    ) {
        prop_assume!(is_maskable(&value));
        let forms = secret_forms(&[&value]);
        let form = index.get(&forms);
        let text = [b"\x01\x02\xff", form.as_slice(), b"\x03\x1b[0m\n"].concat();
        let masker = SecretMasker::new(&[&value]);
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let out = mask_stream(&masker, &[&text[..first], &text[first..second], &text[second..]]);
                prop_assert_eq!(&out[..3], b"\x01\x02\xff");
                prop_assert!(out.ends_with(b"\x03\x1b[0m\n"));
                for window in form.windows(6) {
                    prop_assert!(!out.windows(6).any(|left| left == window), "{:?}", out);
                }
            }
        }
    }
}
