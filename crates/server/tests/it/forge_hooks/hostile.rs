//! Bodies that no forge sends.

use axum::body::{Body, Bytes};
use berth_core::forge::ForgeKind;
use berth_server::integrations::forges::hooks::{parse_delivery, verify_signature};
use berth_server::limits::HOOK_BODY_BYTES_MAX;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::Value;

use super::{ConnectedRepository, delivery_header, event_header, read_payload};
use crate::world::post;

const NAMES: &[&str] = &["opened", "updated", "closed", "merged", "draft", "fork", "comment", "push"];

fn headers_of(forge: ForgeKind, name: &str) -> HeaderMap {
    let pairs = [event_header(forge, name), (delivery_header(forge), "id-1")];
    let pair = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    pairs.into_iter().map(pair).collect()
}

fn any_payload() -> impl Strategy<Value = (ForgeKind, &'static str)> {
    (prop::sample::select(ForgeKind::ALL.to_vec()), prop::sample::select(NAMES.to_vec()))
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z/\u{0}]{0,3000}".prop_map(Value::from),
        Just(Value::Array(Vec::new())),
        Just(Value::Object(serde_json::Map::new())),
    ]
}

/// Replaces the member with this number, counted in depth-first order.
fn replace_member(value: &mut Value, number: &mut usize, by: &Value) -> bool {
    let members: Vec<&mut Value> = match value {
        Value::Object(members) => members.values_mut().collect(),
        Value::Array(items) => items.iter_mut().collect(),
        _ => Vec::new(),
    };
    for member in members {
        if *number == 0 {
            *member = by.clone();
            return true;
        }
        *number -= 1;
        if replace_member(member, number, by) {
            return true;
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn truncated_payload_is_not_json((forge, name) in any_payload(), part in 0.0..1.0f64) {
        let body = read_payload(forge, name);
        let body = std::str::from_utf8(&body).unwrap().trim_end();
        let end = body.floor_char_boundary((body.len() as f64 * part) as usize);
        prop_assert!(parse_delivery(forge, &headers_of(forge, name), &body.as_bytes()[..end]).is_err());
    }

    #[test]
    fn mutated_bytes_never_panic((forge, name) in any_payload(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut body = read_payload(forge, name);
        let at = at.index(body.len());
        body[at] = byte;
        let _ = parse_delivery(forge, &headers_of(forge, name), &body);
    }

    #[test]
    fn replaced_members_never_panic(
        (forge, name) in any_payload(), numbers in prop::collection::vec(0..400usize, 1..4), by in any_value(),
    ) {
        let mut body: Value = serde_json::from_slice(&read_payload(forge, name)).unwrap();
        for mut number in numbers {
            replace_member(&mut body, &mut number, &by);
        }
        let parsed = parse_delivery(forge, &headers_of(forge, name), body.to_string().as_bytes()).unwrap();
        prop_assert!(parsed.kind.chars().count() <= 200 && parsed.id.chars().count() <= 200);
        let shown = format!("{parsed:?}").replace("\\\\", "");
        prop_assert!(!shown.contains("\\0"), "a NUL cannot be stored: {shown}");
    }

    #[test]
    fn any_signature_but_the_right_one_is_wrong(forge in prop::sample::select(ForgeKind::ALL.to_vec()), sent: Vec<u8>) {
        let secret = berth_engine::credential::RedactedString::new("s3cret".into());
        let mut headers = HeaderMap::new();
        for name in ["x-hub-signature-256", "x-hub-signature", "x-gitlab-token", "x-gitea-signature"] {
            if let Ok(value) = HeaderValue::from_bytes(&sent) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let is_valid = verify_signature(forge, &secret, &headers, b"{}");
        prop_assert!(!is_valid);
    }
}

#[tokio::test]
async fn mutated_deliveries_are_answered_on_every_database() {
    let target = ConnectedRepository::new(ForgeKind::GitLab).await;
    let payload: Value = serde_json::from_slice(&read_payload(ForgeKind::GitLab, "opened")).unwrap();
    for number in 0..120 {
        for by in [Value::Null, Value::from("a\u{0}b"), Value::from(i64::MAX)] {
            let mut body = payload.clone();
            if !replace_member(&mut body, &mut { number }, &by) {
                continue;
            }
            let id = format!("m{number}-{by}").replace('\u{0}', "");
            let id: String = id.chars().filter(char::is_ascii_graphic).collect();
            let sent = target.delivery_of("opened", &id, body.to_string().into_bytes());
            let reply = target.world.send(sent).await;
            assert_eq!(reply.status, 200, "{number} {by}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn body_above_the_limit_is_refused_and_changes_nothing() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    let before = target.state().await;
    let mut large = read_payload(ForgeKind::GitHub, "opened");
    large.resize(HOOK_BODY_BYTES_MAX, b' ');
    let reply = target.world.send(target.delivery_of("opened", "a", large.clone())).await;
    assert_eq!(reply.body["data"]["outcome"], "pull request 42 updated", "at the limit: {}", reply.text);
    assert_ne!(target.state().await, before);
    let before = target.state().await;
    large.push(b' ');
    let reply = target.world.send(target.delivery_of("closed", "b", large)).await;
    reply.assert_problem(413, "body_too_large");
    // Without a length, the limit applies as the body arrives.
    let endless =
        futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 65_536])));
    let reply = target.world.send(post(&target.path).raw(Body::from_stream(endless))).await;
    reply.assert_problem(413, "body_too_large");
    assert_eq!(target.state().await, before);
    assert_eq!(target.outcomes().await.len(), 1);
}
