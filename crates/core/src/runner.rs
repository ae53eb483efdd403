//! Remote runners, and the timeouts after which one counts as lost.

use std::time::Duration;

use crate::id::RunnerId;
use crate::name::Slug;
use crate::pipeline::grammar::Label;
use crate::time::Timestamp;

/// Protocol version between runner and server.
pub const PROTOCOL: u32 = 2;
/// Validity of a registration token.
pub const TOKEN_S: i64 = 60 * 60;
/// A runner that was silent for this long is not online.
pub const ONLINE_S: i64 = 15;
pub const LABELS_MAX: usize = 32;
/// Concurrent steps per runner.
pub const SLOTS_MAX: i64 = 256;
/// Paths that an operator exposes to every step of a runner.
pub const EXPOSED_MAX: usize = 32;
pub const EXPOSED_BYTES_MAX: usize = 1024;
/// Label of the server's embedded runner only; steps select it with `runs_on`.
pub const LOCAL_LABEL: &str = "local";
/// The id of the embedded runner.
pub const EMBEDDED: &str = "embedded";

/// The greatest assumed clock rate of a server relative to a runner, as a fraction.
const CLOCK_RATE: (u32, u32) = (3, 2);
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
const SELF_STOP_MIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub id: RunnerId,
    /// `None` until the runner registers, unless an admin chose it.
    pub name: Option<Slug>,
    pub labels: Vec<Label>,
    /// Labels that the runner may have in addition to its OS and architecture; set by an admin at creation.
    pub allowed_labels: Vec<Label>,
    /// The isolation level that the runner reports. `None` until it registers.
    pub isolation: Option<String>,
    /// Paths that every step of this runner can access.
    pub exposed: Vec<String>,
    pub slots: i64,
    /// Version of the runner program.
    pub program: Option<String>,
    pub created_at: Timestamp,
    pub token_expires_at: Timestamp,
    pub registered_at: Option<Timestamp>,
    /// Identifies the runner process; new at every start.
    pub boot: Option<String>,
    pub is_draining: bool,
    pub seen_at: Option<Timestamp>,
    /// When it shut down cleanly.
    pub left_at: Option<Timestamp>,
    /// Milliseconds of silence after which this process stops its steps and counts as lost.
    pub lost_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerStatus {
    /// Its registration token was not used yet.
    Pending,
    Online,
    /// Finishes its steps and takes no new ones.
    Draining,
    Offline,
    /// Went silent without a clean shutdown.
    Lost,
}

impl Runner {
    pub fn state(&self, now: Timestamp, times: &RunnerTimeouts) -> RunnerStatus {
        let Some(seen) = self.seen_at else { return RunnerStatus::Pending };
        let silent = now.seconds_since(seen);
        if self.left_at.is_some() {
            RunnerStatus::Offline
        } else if silent >= self.lost_ms.unwrap_or_else(|| times.lost_ms()) / 1_000 {
            RunnerStatus::Lost
        } else if silent >= ONLINE_S {
            RunnerStatus::Offline
        } else if self.is_draining {
            RunnerStatus::Draining
        } else {
            RunnerStatus::Online
        }
    }

    /// The runner name on its attempts, derived from its credential and boot id.
    pub fn process_key(&self) -> Option<String> {
        self.boot.as_deref().map(|boot| runner_key(self.id, boot))
    }
}

pub fn runner_key(id: RunnerId, boot: &str) -> String {
    format!("{id}.{boot}")
}

/// The runner of an attempt. `None` for an embedded runner.
pub fn parse_runner_key(mark: &str) -> Option<RunnerId> {
    mark.split_once('.').and_then(|(id, _)| id.parse().ok())
}

/// When a silent runner stops its own steps, and when the server considers it lost. The first is always earlier, even
/// if the runner's clock is slower by half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerTimeouts {
    pub lost: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub stop_grace: Duration,
    /// Time without a response after which a runner stops its steps.
    pub self_stop: Duration,
    pub heartbeat: Duration,
}

impl RunnerTimeouts {
    pub fn new(lost: Duration, stop_grace: Duration) -> Result<Self, String> {
        let (server, runner) = CLOCK_RATE;
        let on_its_clock = lost * runner / server;
        let self_stop = on_its_clock.checked_sub(stop_grace).filter(|left| *left >= SELF_STOP_MIN);
        let self_stop = self_stop.ok_or_else(|| {
            format!(
                "a runner cannot be called lost after {} ms while its steps have {} ms to stop: \
                 two thirds of the first must be longer than the second by {} ms or more",
                lost.as_millis(),
                stop_grace.as_millis(),
                SELF_STOP_MIN.as_millis(),
            )
        })?;
        Ok(Self { lost, stop_grace, self_stop, heartbeat: HEARTBEAT_MAX.min(self_stop / 4) })
    }
}

impl RunnerTimeouts {
    pub fn lost_ms(&self) -> i64 {
        i64::try_from(self.lost.as_millis()).unwrap_or(i64::MAX)
    }

    /// For a shared database, whose failover may take half a minute without stopping steps.
    pub const LOST_SHARED: Duration = Duration::from_secs(105);
}

impl Default for RunnerTimeouts {
    fn default() -> Self {
        Self {
            lost: Duration::from_secs(45),
            stop_grace: Duration::from_secs(10),
            self_stop: Duration::from_secs(20),
            heartbeat: HEARTBEAT_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_micros(43_200_000_000);

    fn runner() -> Runner {
        Runner {
            id: RunnerId::from_parts(NOON, [1; 10]),
            name: None,
            labels: Vec::new(),
            allowed_labels: Vec::new(),
            isolation: None,
            exposed: Vec::new(),
            slots: 4,
            program: None,
            created_at: NOON,
            token_expires_at: NOON.plus_seconds(TOKEN_S),
            registered_at: None,
            boot: None,
            is_draining: false,
            seen_at: None,
            left_at: None,
            lost_ms: None,
        }
    }

    #[test]
    fn a_runner_is_what_it_was_last_heard_to_be() {
        let times = RunnerTimeouts::default();
        let at = |it: &Runner, seconds| it.state(NOON.plus_seconds(seconds), &times);
        assert_eq!(at(&runner(), 0), RunnerStatus::Pending);
        let seen = Runner { seen_at: Some(NOON), ..runner() };
        assert_eq!([0, 14, 15, 44, 45].map(|s| at(&seen, s)), {
            use RunnerStatus::*;
            [Online, Online, Offline, Offline, Lost]
        });
        assert_eq!(at(&Runner { is_draining: true, ..seen.clone() }, 3), RunnerStatus::Draining);
        assert_eq!(at(&Runner { left_at: Some(NOON), ..seen.clone() }, 100), RunnerStatus::Offline);
        let patient = Runner { lost_ms: Some(60_000), ..seen };
        assert_eq!(
            [59, 60].map(|s| at(&patient, s)),
            [RunnerStatus::Offline, RunnerStatus::Lost],
            "as it was told"
        );
    }

    #[test]
    fn a_mark_says_whose_attempt_it_is() {
        let id = runner().id;
        assert_eq!(parse_runner_key(&runner_key(id, "a.b")), Some(id));
        assert_eq!(parse_runner_key("boot_Zx41"), None);
        assert_eq!(parse_runner_key("run_x.y"), None);
    }

    #[test]
    fn l12_a_runner_has_stopped_its_steps_before_it_is_called_lost() {
        assert_eq!(
            RunnerTimeouts::new(Duration::from_secs(45), Duration::from_secs(10)),
            Ok(RunnerTimeouts::default())
        );
        for (lost, grace) in [(45_000, 10_000), (105_000, 10_000), (6_000, 1_000), (3_000, 1_000)] {
            let times =
                RunnerTimeouts::new(Duration::from_millis(lost), Duration::from_millis(grace)).unwrap();
            assert!((times.self_stop + times.stop_grace) * 3 / 2 <= times.lost, "{times:?}");
            assert!(times.heartbeat * 4 <= times.self_stop, "{times:?}");
        }
        for (lost, grace) in [(45_000, 30_000), (2_000, 1_000), (0, 0), (1_000, 5_000)] {
            let refused = RunnerTimeouts::new(Duration::from_millis(lost), Duration::from_millis(grace));
            assert!(refused.is_err(), "{refused:?}");
        }
    }
}
