//! Compares the log store with a plain `Vec<u8>` for random appends and reads.

use std::io::ErrorKind;
use std::path::Path;

use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::time::Timestamp;
use proptest::prelude::*;

use super::index::BLOCK_BYTES;
use super::*;

fn key(attempt: u32) -> LogKey {
    let at = Timestamp::from_micros(1);
    LogKey {
        org: OrgId::from_parts(at, [1; 10]),
        deployment: DeploymentId::from_parts(at, [2; 10]),
        step: StepRunId::from_parts(at, [3; 10]),
        attempt,
        stream: LogStream::Step,
    }
}

fn store_in(dir: &Path) -> LogStore {
    LogStore::new(dir.join("logs"))
}

fn write(store: &LogStore, key: &LogKey, bytes: &[u8]) {
    for (number, chunk) in bytes.chunks(LOG_CHUNK_BYTES_MAX).enumerate() {
        let offset = (number * LOG_CHUNK_BYTES_MAX) as u64;
        let length = offset + chunk.len() as u64;
        assert_eq!(store.append(key, offset, chunk).unwrap(), AppendResult::Written { length });
    }
}

/// Reference implementation of splitting lines.
fn lines_of(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let shown = |line: &[u8]| {
        if line.len() > LOG_LINE_SHOWN_BYTES_MAX {
            return String::from_utf8_lossy(whole_chars(&line[..LOG_LINE_SHOWN_BYTES_MAX])).into_owned();
        }
        String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
    };
    lines.into_iter().map(shown).collect()
}

/// Compares all ways of reading with the reference implementation.
fn check_reading(log: &mut LogReader, bytes: &[u8], picks: &[prop::sample::Index]) {
    let lines = lines_of(bytes);
    assert_eq!((log.length(), log.line_count()), (bytes.len() as u64, lines.len() as u64));
    let texts = |answer: &LogLines| answer.lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>();
    for pick in picks {
        let from = pick.index(bytes.len() + 1);
        for max in [0, 1, 7, BLOCK_BYTES + 3, usize::MAX] {
            let to = from.saturating_add(max).min(bytes.len());
            assert_eq!(log.read_bytes(from as u64, max).unwrap(), &bytes[from..to]);
        }
        let before = bytes[..from].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(log.line_at(from as u64).unwrap(), before as u64 + 1);

        let first = pick.index(lines.len() + 1);
        let answer = log.lines(first as u64 + 1, u64::MAX).unwrap();
        let shown = texts(&answer);
        assert_eq!(shown, lines[first..first + shown.len()]);
        let next = (first + shown.len() < lines.len()).then_some((first + shown.len() + 1) as u64);
        assert_eq!(answer.next, next);
        assert!(answer.lines.iter().zip(first as u64 + 1..).all(|(line, number)| line.number == number));

        let count = pick.index(lines.len() + 3);
        let tail = texts(&log.tail(count as u64).unwrap());
        assert_eq!(tail, lines[lines.len() - tail.len()..]);
        let (bytes, is_all) =
            (tail.iter().map(String::len).sum::<usize>(), tail.len() >= count.min(lines.len()));
        assert!(is_all || bytes + LOG_LINE_SHOWN_BYTES_MAX * 3 > LOG_ANSWER_BYTES_MAX);
    }
    check_search(log, bytes, "aB", 3);
    check_search(log, bytes, "b", LOG_MATCHES_MAX);
}

fn check_search(log: &mut LogReader, bytes: &[u8], text: &str, limit: usize) {
    let wanted = text.to_ascii_lowercase();
    let lines = bytes.split(|byte| *byte == b'\n').zip(1u64..);
    let has = |line: &[u8]| {
        line.to_ascii_lowercase().windows(wanted.len()).any(|window| window == wanted.as_bytes())
    };
    let wanted: Vec<u64> = lines.filter(|(line, _)| has(line)).map(|(_, number)| number).collect();
    let (query, mut from, mut found) = (LogQuery::new(text).unwrap(), Some(0), Vec::new());
    while let Some(at) = from {
        let part = log.search(&query, at, limit).unwrap();
        assert!(part.lines.len() <= limit);
        assert!(part.next.is_none_or(|next| next > at || !part.lines.is_empty() || next == at && at == 0));
        found.extend(part.lines.iter().map(|line| line.number));
        from = part.next;
    }
    assert_eq!(found, wanted);
}

fn some_text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => prop::collection::vec(prop::sample::select(b"abAB \r\xff\xc3\xa9".to_vec()), 0..40),
        1 => Just(b"--- group ab".to_vec()),
        1 => Just("ä€🚢".as_bytes().to_vec()),
        1 => (0usize..200_000, any::<bool>()).prop_map(|(count, found)| {
            let mut line = vec![b'x'; count];
            line.extend_from_slice(if found { b"aBx" } else { b"ax\r" });
            line
        }),
    ];
    (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lines, ends)| {
        let mut text = lines.join(&b'\n');
        text.extend_from_slice(if ends { b"\n" } else { b"" });
        text
    })
}

#[derive(Debug, Clone)]
enum LogOperation {
    /// Offset relative to the end of the log, and number of bytes.
    Append(i64, usize),
    /// The process crashes and restarts.
    Crash,
    Flush,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn log_reads_match_writes_before_and_after_sealing(
        text in some_text(), picks in prop::collection::vec(any::<prop::sample::Index>(), 4)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (store_in(dir.path()), key(1));
        write(&store, &key, &text);
        if let Some(mut log) = store.open(&key).unwrap() {
            check_reading(&mut log, &text, &picks);
        }
        let sealed = store.seal(&key).unwrap();
        prop_assert_eq!((sealed.bytes, sealed.lines), (text.len() as u64, lines_of(&text).len() as u64));
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
        prop_assert_eq!(&sealed.sha256[..], digest.as_ref());
        for store in [&store, &store_in(dir.path())] {
            prop_assert_eq!(store.seal(&key).unwrap(), sealed);
            match store.open(&key).unwrap() {
                Some(mut log) => check_reading(&mut log, &text, &picks),
                None => prop_assert!(text.is_empty()),
            }
        }
    }

    #[test]
    fn appends_with_repeats_gaps_and_crashes_yield_same_bytes(
        moves in prop::collection::vec(prop_oneof![
            8 => (-300i64..=20, 0usize..400).prop_map(|(from, count)| LogOperation::Append(from, count)),
            1 => Just(LogOperation::Crash),
            1 => Just(LogOperation::Flush),
        ], 0..60)
    ) {
        // Each byte is a function of its offset, so a repeated append has the same content.
        let byte = |at: u64| b"one\ntwo\r\n\xff"[usize::try_from(at % 10).unwrap()];
        let dir = tempfile::tempdir().unwrap();
        let (mut store, key) = (store_in(dir.path()), key(1));
        let mut model = Vec::new();
        for next in moves {
            match next {
                LogOperation::Append(from, count) => {
                    let length = model.len() as u64;
                    let offset = length.saturating_add_signed(from);
                    let bytes: Vec<u8> = (offset..offset + count as u64).map(byte).collect();
                    let told = store.append(&key, offset, &bytes).unwrap();
                    if offset > length {
                        prop_assert_eq!(told, AppendResult::Gap { length });
                    } else {
                        let end = length.max(offset + count as u64);
                        model.extend((length..end).map(byte));
                        prop_assert_eq!(told, AppendResult::Written { length: end });
                    }
                }
                LogOperation::Crash => store = store_in(dir.path()),
                LogOperation::Flush => store.flush_all(),
            }
            let read = store.open(&key).unwrap().map(|mut log| log.read_bytes(0, usize::MAX).unwrap());
            prop_assert_eq!(read.unwrap_or_default(), &model[..]);
        }
        let sealed = store.seal(&key).unwrap();
        prop_assert_eq!((sealed.bytes, sealed.lines), (model.len() as u64, lines_of(&model).len() as u64));
    }
}

#[test]
fn log_response_stops_at_limits_and_names_next_line() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    let text =
        "short\n".repeat(LOG_LINES_MAX + 1) + &("x".repeat(LOG_LINE_SHOWN_BYTES_MAX + 1) + "\n").repeat(20);
    write(&store, &key, text.as_bytes());
    for _ in 0..2 {
        let mut log = store.open(&key).unwrap().unwrap();
        let first = log.lines(1, u64::MAX).unwrap();
        assert_eq!((first.lines.len(), first.next), (LOG_LINES_MAX, Some(LOG_LINES_MAX as u64 + 1)));
        let long = log.lines(LOG_LINES_MAX as u64 + 2, u64::MAX).unwrap();
        assert_eq!((long.lines.len(), long.next), (16, Some(LOG_LINES_MAX as u64 + 18)));
        assert!(long.lines[0].truncated && long.lines[0].text.len() == LOG_LINE_SHOWN_BYTES_MAX);
        assert_eq!(log.lines(3, 4).unwrap().next, Some(5));
        let tail = log.tail(30).unwrap();
        assert_eq!((tail.lines.len(), tail.next), (16, None));
        assert_eq!(log.tail(0).unwrap().lines, []);
        assert_eq!(log.lines(9, 3).unwrap().lines, []);
        store.seal(&key).unwrap();
    }
}

#[test]
fn log_search_stops_at_scan_limit_and_resumes_within_line() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    let half = usize::try_from(LOG_SCAN_BYTES_MAX).unwrap();
    let mut text = vec![b'x'; half + 10];
    text.splice(half - 2..half + 2, *b"find");
    text.extend_from_slice(b"\nFIND me\n");
    write(&store, &key, &text);
    let mut log = store.open(&key).unwrap().unwrap();
    let query = LogQuery::new("Find").unwrap();
    let first = log.search(&query, 0, 10).unwrap();
    let next = first.next.unwrap();
    assert!(first.lines.is_empty() && next < LOG_SCAN_BYTES_MAX);
    let second = log.search(&query, next, 10).unwrap();
    assert_eq!(
        (second.lines.iter().map(|line| line.number).collect::<Vec<_>>(), second.next),
        (vec![1, 2], None)
    );
    for bad in ["", "a\nb", &"x".repeat(2_000)] {
        assert!(LogQuery::new(bad).is_none());
    }
}

#[test]
fn append_beyond_chunk_limit_or_seal_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    let most = vec![b'x'; LOG_CHUNK_BYTES_MAX + 1];
    assert!(matches!(store.append(&key, 0, &most), Err(LogError::ChunkTooLarge)));
    store.append(&key, 0, &most[1..]).unwrap();
    let length = LOG_CHUNK_BYTES_MAX as u64;
    store.seal(&key).unwrap();
    assert_eq!(store.append(&key, 0, b"xx").unwrap(), AppendResult::Written { length });
    assert!(matches!(store.append(&key, length, b"x"), Err(LogError::Sealed { .. })));
    assert!(matches!(store_in(dir.path()).append(&key, length, b"x"), Err(LogError::Sealed { .. })));
}

#[test]
fn full_log_table_evicts_idle_logs_and_admits_writers() {
    let dir = tempfile::tempdir().unwrap();
    let store = LogStore::with_capacity(
        dir.path().join("logs"),
        AdmissionCapacity { total: 2, share: 2 },
        false,
        None,
    );
    for attempt in 1..=5 {
        store.append(&key(attempt), 0, b"one\n").unwrap();
    }
    for attempt in 1..=5 {
        assert_eq!(store.append(&key(attempt), 4, b"two\n").unwrap(), AppendResult::Written { length: 8 });
    }
    let _followed = [store.watch(&key(1)).unwrap(), store.watch(&key(2)).unwrap()];
    assert!(matches!(store.watch(&key(3)), Err(LogError::Busy)));
    store.append(&key(2), 8, b"x").unwrap();
    store.append(&key(3), 8, b"x").unwrap();
}

#[test]
fn full_disk_recovers_and_failing_disk_ends_log() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    let fail = |kind: ErrorKind| *store.log(&key, store::LogAccess::Write).unwrap().fault.lock() = Some(kind);
    store.append(&key, 0, b"one\n").unwrap();
    fail(ErrorKind::StorageFull);
    assert!(matches!(store.append(&key, 4, b"two\n"), Err(LogError::Full)));
    assert_eq!(store.append(&key, 4, b"two\n").unwrap(), AppendResult::Written { length: 8 });
    let mut watch = store.watch(&key).unwrap();
    fail(ErrorKind::Other);
    assert!(matches!(store.append(&key, 8, b"x"), Err(LogError::Damaged { length: 8 })));
    assert_eq!(watch.progress(), LogProgress { length: 8, ended: true, damaged: Some(8) });
    assert!(matches!(store.append(&key, 8, b"x"), Err(LogError::Sealed { length: 8 })));
    for store in [&store, &store_in(dir.path())] {
        let mut log = store.open(&key).unwrap().unwrap();
        assert_eq!((log.damaged_from(), log.read_bytes(0, 99).unwrap()), (Some(8), b"one\ntwo\n".to_vec()));
    }
}

#[test]
fn modified_sealed_log_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    write(&store, &key, "some line\n".repeat(100_000).as_bytes());
    store.seal(&key).unwrap();
    let find = |dir: &Path| std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let path = find(&find(&find(&dir.path().join("logs"))));
    assert!(path.to_string_lossy().ends_with(".1.zst"), "{}", path.display());
    let good = std::fs::read(&path).unwrap();
    let step = good.len() / 64;
    for at in (0..good.len()).step_by(step).chain(good.len() - 80..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&path, &bad).unwrap();
        let read = store_in(dir.path()).open(&key).and_then(|log| log.unwrap().read_bytes(0, usize::MAX));
        assert!(read.is_err(), "byte {at} of {}", good.len());
    }
    for length in [0, 1, 71, 72, 73, good.len() - 1] {
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(store_in(dir.path()).open(&key).is_err(), "{length} bytes");
    }
}

#[test]
fn crash_before_removal_of_plain_file_leaves_readable_log() {
    let dir = tempfile::tempdir().unwrap();
    let (before, key) = (store_in(dir.path()), key(1));
    write(&before, &key, b"one\ntwo");
    let find = |dir: &Path| std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let plain = find(&find(&find(&dir.path().join("logs"))));
    std::fs::write(plain.with_extension("1.part"), b"half").unwrap();
    assert_eq!(store_in(dir.path()).open(&key).unwrap().unwrap().line_count(), 2);
    before.seal(&key).unwrap();
    std::fs::write(&plain, b"one\ntwo").unwrap();
    let after = store_in(dir.path());
    assert!(after.open(&key).unwrap().unwrap().seal().is_some());
    assert!(matches!(after.append(&key, 7, b"x"), Err(LogError::Sealed { length: 7 })));
    assert!(!plain.exists());
}

#[tokio::test]
async fn log_follower_is_woken_by_appends_and_by_seal() {
    let dir = tempfile::tempdir().unwrap();
    let (store, key) = (store_in(dir.path()), key(1));
    let mut watch = store.watch(&key).unwrap();
    assert_eq!(watch.progress(), LogProgress::default());
    let writer = {
        let store = store.clone();
        tokio::task::spawn_blocking(move || {
            for number in 0..200u64 {
                store.append(&key, number * 4, b"abc\n").unwrap();
            }
            store.seal(&key).unwrap();
        })
    };
    let mut seen = Vec::new();
    loop {
        let news = watch.progress();
        seen.extend(watch.read(seen.len() as u64, 100).unwrap());
        if news.ended && seen.len() as u64 == news.length {
            break;
        }
        if seen.len() as u64 == news.length {
            watch.wait_for_change().await;
        }
    }
    writer.await.unwrap();
    assert_eq!(seen, b"abc\n".repeat(200));
    assert_eq!(watch.line_count().unwrap(), 200);
}

#[tokio::test]
async fn ended_log_is_sealed_later_even_after_crash() {
    let dir = tempfile::tempdir().unwrap();
    let before = store_in(dir.path());
    assert_eq!(before.list_unsealed().unwrap(), []);
    before.append(&key(1), 0, b"one\n").unwrap();
    before.append(&key(2), 0, b"two\n").unwrap();
    before.seal_later(&key(2));
    before.wait_for_ended().await;
    before.seal_ended();
    assert!(before.open(&key(2)).unwrap().unwrap().seal().is_some());
    before.seal_later(&key(1));
    let after = store_in(dir.path());
    assert_eq!(after.list_unsealed().unwrap(), [key(1)]);
    after.list_unsealed().unwrap().iter().for_each(|left| after.seal_later(left));
    after.seal_ended();
    assert_eq!(after.list_unsealed().unwrap(), []);
    assert_eq!(after.open(&key(1)).unwrap().unwrap().read_bytes(0, 9).unwrap(), b"one\n");
}

#[test]
fn removed_deployment_leaves_no_logs() {
    let dir = tempfile::tempdir().unwrap();
    let (store, one, two) = (store_in(dir.path()), key(1), key(2));
    store.append(&one, 0, b"one\n").unwrap();
    store.append(&two, 0, b"two\n").unwrap();
    store.seal(&two).unwrap();
    let mut watch = store.watch(&one).unwrap();
    store.remove(one.org, one.deployment).unwrap();
    assert!(watch.progress().ended && watch.read(0, 9).unwrap().is_empty());
    assert!(store.open(&one).unwrap().is_none() && store.open(&two).unwrap().is_none());
    store.remove(one.org, one.deployment).unwrap();
}
