//! The history of an environment: a paginated list of past sessions.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::world::get;

/// A shop in which qa-1 was claimed and released this many times.
async fn create_history(times: usize) -> EnvironmentsFixture {
    let shop = EnvironmentsFixture::new().await;
    for number in 0..times {
        let session = shop.claim_session(&shop.grace, &json!({"context": format!("no. {number}")})).await;
        shop.release(&shop.grace, &session).await;
    }
    shop
}

#[tokio::test]
async fn history_is_newest_first_with_one_entry_for_each_session() {
    let shop = EnvironmentsFixture::new().await;
    let first = shop.claim_session(&shop.grace, &json!({"context": "load test", "commitId": "one"})).await;
    let second = expect_data(shop.force_claim(&shop.ada, &json!({"reason": "hotfix"})).await, 201);
    let page = shop.send(get(&environments_path("qa-1/history")).with_account(&shop.ada)).await;
    let entries = page.body["data"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    let seen = |entry: &Value| {
        ["sessionId", "fence", "status", "endReason", "deploymentCount"].map(|member| entry[member].clone())
    };
    assert_eq!(
        seen(&entries[0]),
        [second["sessionId"].clone(), json!(2), json!("active"), json!(null), json!(0)]
    );
    assert_eq!(
        seen(&entries[1]),
        [first["sessionId"].clone(), json!(1), json!("overridden"), json!("overridden"), json!(1)]
    );
    assert_eq!(
        (&entries[0]["endedAt"], &entries[0]["endedBy"]),
        (&json!(null), &json!(null)),
        "while it is active"
    );
    assert_eq!(
        (&entries[1]["endedBy"]["name"], &entries[1]["context"]),
        (&json!("ada"), &json!("load test"))
    );
    assert_eq!(
        page.body["pagination"],
        json!({"page": 1, "limit": 50, "total": 2, "totalPages": 1, "hasMore": false})
    );
}

#[tokio::test]
async fn history_pages_are_linked_without_gaps() {
    let shop = create_history(5).await;
    let mut path = environments_path("qa-1/history?limit=2");
    let mut fences = Vec::new();
    for (page, has_more) in [(1, true), (2, true), (3, false)] {
        let reply = shop.send(get(&path).with_account(&shop.ada)).await;
        let wanted = json!({"page": page, "limit": 2, "total": 5, "totalPages": 3, "hasMore": has_more});
        assert_eq!(reply.body["pagination"], wanted);
        fences.extend(
            reply.body["data"].as_array().unwrap().iter().map(|entry| entry["fence"].as_i64().unwrap()),
        );
        let links = reply.header("link");
        assert_eq!(links.contains("rel=\"prev\""), page > 1, "{links}");
        assert!(
            links.contains("?page=1&limit=2>; rel=\"first\"")
                && links.contains("?page=3&limit=2>; rel=\"last\"")
        );
        let next = links.split(", ").find_map(|link| link.strip_suffix(">; rel=\"next\"")?.strip_prefix('<'));
        assert_eq!(next.is_some(), has_more);
        path = next.map(str::to_owned).unwrap_or_default();
    }
    assert_eq!(fences, [5, 4, 3, 2, 1]);
}

#[tokio::test]
async fn history_pages_start_anywhere_in_a_long_history() {
    const TIMES: i64 = 36;
    let shop = create_history(usize::try_from(TIMES).unwrap()).await;
    for limit in [1, 7, 16, 17, 35, 50] {
        let mut fences = Vec::new();
        for page in 1..=(TIMES + limit - 1) / limit {
            let path = environments_path(&format!("qa-1/history?limit={limit}&page={page}"));
            let reply = shop.send(get(&path).with_account(&shop.ada)).await;
            let entries = reply.body["data"].as_array().unwrap();
            assert!(entries.len() <= usize::try_from(limit).unwrap());
            fences.extend(entries.iter().map(|entry| entry["fence"].as_i64().unwrap()));
        }
        assert!(fences.iter().copied().eq((1..=TIMES).rev()), "in pages of {limit}: {fences:?}");
    }
}

#[tokio::test]
async fn history_page_past_the_end_is_empty_and_the_limit_is_bounded() {
    let shop = create_history(2).await;
    for page in ["3", "4503599627370496", "9007199254740991"] {
        let reply = shop
            .send(
                get(&environments_path(&format!("qa-1/history?limit=1&page={page}"))).with_account(&shop.ada),
            )
            .await;
        assert_eq!(
            (&reply.body["data"], &reply.body["pagination"]["total"]),
            (&json!([]), &json!(2)),
            "{page}"
        );
        assert_eq!(reply.body["pagination"]["hasMore"], false);
    }
    for (limit, effective) in [("1000", 1_000), ("1", 1), ("", 50)] {
        let reply = shop
            .send(get(&environments_path(&format!("qa-1/history?limit={limit}"))).with_account(&shop.ada))
            .await;
        assert_eq!(reply.body["pagination"]["limit"], effective);
    }
    for limit in ["1001", "9223372036854775807"] {
        let refused = shop
            .send(get(&environments_path(&format!("qa-1/history?limit={limit}"))).with_account(&shop.ada))
            .await;
        refused.assert_problem(400, "invalid_parameter");
        assert!(refused.text.contains("from 1 to 1000"), "{}", refused.text);
    }
    let none = shop.send(get(&environments_path("qa-2/history")).with_account(&shop.ada)).await;
    assert_eq!(
        none.body["pagination"],
        json!({"page": 1, "limit": 50, "total": 0, "totalPages": 0, "hasMore": false})
    );
}

#[tokio::test]
async fn history_page_numbers_are_integers_from_one() {
    let shop = create_history(1).await;
    for (name, value) in [
        ("page", "0"),
        ("page", "-1"),
        ("page", "1.5"),
        ("page", "x"),
        ("page", "99999999999999999999"),
        ("limit", "0"),
        ("limit", "-5"),
        ("limit", "%2B5"),
        ("limit", "9223372036854775808"),
    ] {
        let refused = shop
            .send(get(&environments_path(&format!("qa-1/history?{name}={value}"))).with_account(&shop.ada))
            .await;
        refused.assert_problem(400, "invalid_parameter");
        assert_eq!(refused.body["errors"][0]["pointer"], name);
    }
    let ignored = shop.send(get(&environments_path("qa-1/history?offset=7")).with_account(&shop.ada)).await;
    assert_eq!(ignored.body["data"].as_array().unwrap().len(), 1, "offset is not for this list");
}

#[tokio::test]
async fn insights_count_sessions_takeovers_and_abandoned_tickets() {
    let shop = EnvironmentsFixture::new().await;
    let empty = shop.fetch("qa-1/insights").await;
    assert_eq!((&empty["sessions"], &empty["utilisation"]), (&json!(0), &json!(0.0)));
    assert_eq!(empty["holdSeconds"], json!({"median": null, "p90": null, "max": null}));

    shop.claim_session(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({})).await;
    let left = shop.join_queue(&shop.grace, &json!({})).await;
    let path = environments_path(&format!("qa-1/queue/{}", expect_str(&left["ticketId"])));
    shop.send(crate::world::call("DELETE", &path).with_account(&shop.grace)).await;
    shop.join_queue(&shop.grace, &json!({})).await;
    let held = json!({"sessionId": shop.fetch("qa-1").await["lock"]["sessionId"]});
    shop.release(&shop.ada, &held).await;

    let seen = shop.fetch("qa-1/insights?days=7").await;
    assert_eq!(
        ["sessions", "takeovers", "expired", "gaveUp"].map(|member| seen[member].as_i64().unwrap()),
        [3, 1, 0, 1]
    );
    assert!(seen["holdSeconds"]["max"].is_i64() && seen["waitSeconds"]["median"].is_i64(), "{seen}");
    let holders: Vec<_> =
        seen["holders"].as_array().unwrap().iter().map(|it| expect_str(&it["holder"]["name"])).collect();
    assert!(holders.contains(&"ada".to_owned()) && holders.contains(&"grace".to_owned()));
    for days in ["0", "367", "-1", "x"] {
        let refused = shop
            .send(get(&environments_path(&format!("qa-1/insights?days={days}"))).with_account(&shop.ada))
            .await;
        refused.assert_problem(400, "invalid_parameter");
    }
}
