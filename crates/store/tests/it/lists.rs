//! Totals and offsets of lists.

use berth_core::pipeline::state::{self, Pipeline};
use berth_core::time::Timestamp;
use berth_store::pagination::PageStart;
use berth_store::tables::pipeline::{self, PipelineFilter};

use super::{StoreFixture, create_pipeline};

const ROWS: usize = 2_600;

#[test]
fn list_offset_and_total_are_exact() {
    let fixture = StoreFixture::new();
    // The ids contain times that are far apart and in no particular order.
    let all = fixture.transact(|tx| {
        (0..ROWS)
            .map(|n| {
                create_pipeline(tx, &format!("pipe-{n}"), Timestamp::from_micros(scatter(n) * 1_000_000))
            })
            .collect::<Result<Vec<_>, _>>()
    });
    let mut left = all.unwrap();
    left.sort_by_key(|pipeline| pipeline.id);
    check_pages(&fixture, &left);
    check_searches(&fixture, &left);

    let (gone, kept): (Vec<_>, Vec<_>) =
        left.into_iter().enumerate().partition(|(n, _)| scatter(*n) % 3 == 0);
    fixture
        .transact(move |tx| {
            for (_, pipeline) in gone {
                let decision = state::delete(&pipeline, None, tx.now()).unwrap();
                tx.commit(decision)?;
            }
            Ok(())
        })
        .unwrap();
    let kept: Vec<_> = kept.into_iter().map(|(_, pipeline)| pipeline).collect();
    check_pages(&fixture, &kept);
    check_searches(&fixture, &kept);
}

fn check_pages(fixture: &StoreFixture, expected: &[Pipeline]) {
    let expected: Vec<_> = expected.iter().map(|pipeline| pipeline.id).collect();
    let offsets = [
        0,
        1,
        19,
        999,
        1_000,
        1_001,
        expected.len() / 2,
        expected.len() - 1,
        expected.len(),
        usize::MAX >> 12,
    ];
    for offset in offsets {
        let from = PageStart::Offset(i64::try_from(offset).unwrap());
        let slice =
            fixture.transact(move |tx| pipeline::list(tx, &PipelineFilter::default(), &from, 20)).unwrap();
        let found: Vec<_> = slice.items.iter().map(|pipeline| pipeline.id).collect();
        let wanted: Vec<_> = expected.iter().skip(offset).take(20).copied().collect();
        assert_eq!(found, wanted, "at offset {offset}");
        assert_eq!(slice.total, Some(i64::try_from(expected.len()).unwrap()));
        assert_eq!(slice.has_more, offset < expected.len().saturating_sub(20));
    }

    let (mut walked, mut from) = (Vec::new(), PageStart::Offset(0));
    loop {
        let start = from.clone();
        let slice =
            fixture.transact(move |tx| pipeline::list(tx, &PipelineFilter::default(), &start, 200)).unwrap();
        walked.extend(slice.items.iter().map(|pipeline| pipeline.id));
        let Some(last) = walked.last().filter(|_| slice.has_more) else { break };
        from = PageStart::After(last.to_string());
    }
    assert_eq!(walked, expected);
}

/// Searches for text that every pipeline contains, that some contain, and that none contains.
fn check_searches(fixture: &StoreFixture, expected: &[Pipeline]) {
    for search in ["pipe", "PIPE-1", "e-12", "99", "-7", "2501", "pipe-13 ", "pepi", "ipe-ipe"] {
        let wanted: Vec<_> = expected
            .iter()
            .filter(|pipeline| pipeline.slug.as_str().contains(&search.to_lowercase()))
            .map(|pipeline| pipeline.id)
            .collect();
        let filter = PipelineFilter { search: Some(search.to_owned()), status: Some("active".to_owned()) };
        for offset in [0, wanted.len().min(7), wanted.len()] {
            let from = PageStart::Offset(i64::try_from(offset).unwrap());
            let filter = filter.clone();
            let page = fixture.transact(move |tx| pipeline::list(tx, &filter, &from, 20)).unwrap();
            let found: Vec<_> = page.items.iter().map(|pipeline| pipeline.id).collect();
            assert_eq!(
                found,
                wanted[offset..].iter().take(20).copied().collect::<Vec<_>>(),
                "{search} at {offset}"
            );
            assert_eq!(page.total, Some(i64::try_from(wanted.len()).unwrap()), "{search}");
        }
    }
}

#[test]
fn pipeline_search_is_case_insensitive_and_escapes_wildcards() {
    let fixture = StoreFixture::new();
    fixture
        .transact(|tx| {
            for (second, slug) in (0..).zip(["shop-api", "shop-web", "billing"]) {
                create_pipeline(tx, slug, tx.now().plus_seconds(second))?;
            }
            Ok(())
        })
        .unwrap();
    let found = |search: &str| {
        let filter = PipelineFilter { search: Some(search.to_owned()), status: None };
        let slice =
            fixture.transact(move |tx| pipeline::list(tx, &filter, &PageStart::Offset(0), 20)).unwrap();
        assert_eq!(slice.total, Some(i64::try_from(slice.items.len()).unwrap()));
        slice.items.iter().map(|pipeline| pipeline.slug.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found("SHOP"), ["shop-api", "shop-web"]);
    assert_eq!(found("ill"), ["billing"]);
    assert_eq!(found("%"), Vec::<String>::new());
    assert_eq!(found("_"), Vec::<String>::new());
}

/// Maps a number to another one. The order looks random but is always the same.
fn scatter(n: usize) -> i64 {
    i64::try_from((n * 7_919) % 10_007).unwrap()
}
