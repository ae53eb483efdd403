//! Query parameters: a number that is out of range, malformed or given twice is refused, and the error names the
//! parameter.

use berth_server::limits::{OFFSET_MAX, SEARCH_CHARS_MAX};
use serde_json::Value;

use super::{HostileTarget, pointers};

const LISTS: [&str; 4] = ["pipelines", "events", "members", "api-tokens"];

/// Values that every numeric parameter must refuse.
const NO_NUMBERS: [&str; 17] = [
    "-1",
    "-0",
    "9223372036854775808",
    "18446744073709551617",
    "99999999999999999999999999999999999999999",
    "1e9",
    "1.0",
    "0x10",
    "1%20",
    "%201",
    "+1",
    "%2B1",
    "%00",
    "1%00",
    "%ff",
    "%D9%A3",
    "null",
];

#[test]
fn page_numbers_out_of_range_are_refused_by_name() {
    let target = HostileTarget::new();
    let too_far = (OFFSET_MAX + 1).to_string();
    for list in LISTS {
        let check = |name: &str, value: &str| {
            let path = format!("/api/v1/organizations/acme/{list}?{name}={value}");
            let answer = target.expect_refusal(&target.api().request("GET", &path), 400, "invalid_parameter");
            assert_eq!(pointers(&answer), [name], "{path}");
            assert!(answer.text().contains("from"), "no range in {}", answer.text());
        };
        for value in NO_NUMBERS {
            check("limit", value);
            check("offset", value);
        }
        check("limit", "0");
        check("limit", "1001");
        check("offset", &too_far);
    }
    target.check_unharmed();
}

#[test]
fn repeated_or_unknown_parameters_are_refused() {
    let target = HostileTarget::new();
    let long = format!("search={}", "x".repeat(SEARCH_CHARS_MAX + 1));
    for (list, query, name) in [
        ("pipelines", "limit=1&limit=1", "limit"),
        ("pipelines", "offset=0&limit=5&offset=1", "offset"),
        ("pipelines", "limit=5&%6cimit=5", "limit"),
        ("pipelines", "cursor=nonsense", "cursor"),
        ("pipelines", "cursor=%00", "cursor"),
        ("pipelines", "cursor=MQ", "cursor"),
        ("pipelines", "cursor=cGxfeA&offset=0", "cursor"),
        ("pipelines", "status=Active", "status"),
        ("pipelines", "status=active&status=active", "status"),
        ("pipelines", "search=%00", "search"),
        ("pipelines", &long, "search"),
        ("events", "cursor=cGxfeA", "cursor"),
        ("events", "total=maybe", "total"),
        ("events", "from=yesterday", "from"),
        ("events", "from=2026-13-01T00:00:00Z", "from"),
        ("events", "to=%00", "to"),
        ("events", "kind=a&kind=b", "kind"),
    ] {
        let path = format!("/api/v1/organizations/acme/{list}?{query}");
        let answer = target.expect_refusal(&target.api().request("GET", &path), 400, "invalid_parameter");
        assert_eq!(pointers(&answer), [name], "{path}");
    }
    target.check_unharmed();
}

#[test]
fn page_size_is_limited_and_a_far_page_is_empty() {
    let target = HostileTarget::new();
    let page = |list: &str, query: &str| -> Value {
        let answer = target.api().get(&format!("/organizations/acme/{list}?{query}"));
        assert_eq!(answer.status, 200, "{list}?{query}: {}", answer.text());
        answer.json()
    };
    for list in LISTS {
        for (asked, limit) in [("1", 1), ("1000", 1_000), ("007", 7), ("", 50)] {
            assert_eq!(
                page(list, &format!("limit={asked}"))["pagination"]["limit"],
                limit,
                "{list}: {asked}"
            );
        }
        for far in [1_000, 2_147_483_648, OFFSET_MAX] {
            let found = page(list, &format!("offset={far}&limit=1000"));
            assert_eq!(found["data"].as_array().map(Vec::len), Some(0), "{list}: {far}");
            assert_eq!(found["pagination"]["hasMore"], false, "{list}: {far}");
            assert_eq!(found["pagination"]["nextCursor"], Value::Null, "{list}: {far}");
        }
    }
    assert_eq!(page("pipelines", "offset=2147483648")["pagination"]["total"], 1);
    for odd in ["", "&&&", "=", "%", "%zz=1", "unknown=%00", "Limit=0", "limit%00=0"] {
        assert_eq!(page("pipelines", odd)["pagination"]["limit"], 50, "{odd:?}");
    }
    target.check_unharmed();
}
