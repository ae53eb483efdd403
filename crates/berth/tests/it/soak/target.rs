//! The system that steps deploy to. It checks fences and records every write.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Returns the script of a step that writes 20 times within a second. If the fence is a multiple of three, it writes
/// 200 times; if the fence is odd, it ignores SIGTERM.
pub(super) fn step_script(target: SocketAddr) -> String {
    format!(
        "[ $((BERTH_FENCE % 2)) = 0 ] || trap '' TERM
exec 3<>/dev/tcp/127.0.0.1/{}
writes=20; [ $((BERTH_FENCE % 3)) = 0 ] && writes=200
for n in $(seq $writes); do
  echo \"$BERTH_ENVIRONMENT $BERTH_FENCE $BERTH_ATTEMPT_ID $$ $n\" >&3
  read -r answer <&3
  [ \"$answer\" = ok ] || exit 3
  sleep 0.05
done
",
        target.port()
    )
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedWrite {
    pub(super) environment: String,
    pub(super) fence: u64,
    pub(super) attempt: String,
    pub(super) process: u32,
    pub(super) number: u32,
}

#[derive(Clone, Default)]
pub(super) struct WriteTarget(Arc<Mutex<WriteLog>>);

#[derive(Default)]
pub(super) struct WriteLog {
    highest: HashMap<String, u64>,
    pub(super) accepted: Vec<RecordedWrite>,
    /// Rejected writes: their fence was lower than one seen before, because a step was not stopped in time after its
    /// session had lost the environment.
    pub(super) refused: Vec<RecordedWrite>,
}

impl WriteTarget {
    /// Starts listening, for the rest of the test.
    pub(super) fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let target = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let target = target.clone();
                std::thread::spawn(move || target.serve(stream));
            }
        });
        address
    }

    fn serve(&self, mut stream: TcpStream) {
        let lines = BufReader::new(stream.try_clone().expect("a handle")).lines();
        for line in lines.map_while(Result::ok) {
            let answer = if self.record_write(parse_write(&line)) { "ok\n" } else { "no\n" };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    pub(super) fn record_write(&self, write: RecordedWrite) -> bool {
        let mut seen = self.0.lock().expect("unpoisoned");
        let highest = seen.highest.entry(write.environment.clone()).or_default();
        let is_good = write.fence >= *highest;
        *highest = write.fence.max(*highest);
        if is_good {
            seen.accepted.push(write);
        } else {
            seen.refused.push(write);
        }
        is_good
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().expect("unpoisoned").accepted.len()
    }

    /// Checks that no session wrote after a later session had, and that no attempt ran twice. Returns the number of
    /// writes.
    pub(super) fn check(&self) -> Result<usize, String> {
        let seen = self.0.lock().expect("unpoisoned");
        if let Some(late) = seen.refused.first() {
            return Err(format!("{} writes came too late, the first: {late:?}", seen.refused.len()));
        }
        let mut last: HashMap<&str, &RecordedWrite> = HashMap::new();
        for write in &seen.accepted {
            let before = last.insert(&write.attempt, write);
            let follows = before.map_or(write.number == 1, |before| {
                before.process == write.process && before.number + 1 == write.number
            });
            if !follows {
                return Err(format!("an attempt was executed twice: {before:?}, then {write:?}"));
            }
        }
        Ok(seen.accepted.len())
    }
}

fn parse_write(line: &str) -> RecordedWrite {
    let parts: Vec<_> = line.split(' ').collect();
    let [environment, fence, attempt, process, number] = parts[..] else { panic!("not a write: {line}") };
    let count = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("not a number: {line}"));
    RecordedWrite {
        environment: environment.into(),
        fence: fence.parse().unwrap_or_else(|_| panic!("not a fence: {line}")),
        attempt: attempt.into(),
        process: count(process),
        number: count(number),
    }
}

#[test]
fn target_detects_late_writes_and_repeated_attempts() {
    let told = |lines: &[&str]| {
        let target = WriteTarget::default();
        lines.iter().for_each(|line| {
            target.record_write(parse_write(line));
        });
        target.check()
    };
    assert_eq!(told(&["w1 1 a 7 1", "w1 1 a 7 2", "w2 1 b 8 1", "w1 2 c 9 1"]), Ok(4));
    assert!(told(&["w1 1 a 7 1", "w1 2 c 9 1", "w1 1 a 7 2"]).is_err());
    assert!(told(&["w1 1 a 7 1", "w1 1 a 8 1"]).is_err());
}
