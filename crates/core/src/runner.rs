//! Remote runners, and the timeouts after which a runner counts as lost.

use std::time::Duration;

use crate::id::RunnerId;
use crate::name::Slug;
use crate::pipeline::grammar::Label;
use crate::time::Timestamp;

/// Version of the protocol between runner and server.
pub const PROTOCOL: u32 = 2;
/// The oldest version of the protocol that a server accepts. Servers are upgraded before runners.
pub const PROTOCOL_MIN: u32 = 2;
/// How long a registration token is valid, in seconds.
pub const TOKEN_S: i64 = 60 * 60;
/// After this many seconds without a heartbeat, a runner is no longer shown as online.
pub const ONLINE_S: i64 = 15;
pub const LABELS_MAX: usize = 32;
/// Maximum number of steps that a runner executes concurrently.
pub const SLOTS_MAX: i64 = 256;
/// Maximum number of paths that an operator may expose to the steps of a runner.
pub const EXPOSED_MAX: usize = 32;
pub const EXPOSED_BYTES_MAX: usize = 1024;
/// A label that only the server's embedded runner has; steps select it with `runs_on`.
pub const LOCAL_LABEL: &str = "local";
/// The id of the embedded runner.
pub const EMBEDDED: &str = "embedded";

/// The server's clock is assumed to run at most 3/2 times as fast as a runner's clock.
const CLOCK_RATE: (u32, u32) = (3, 2);
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
const SELF_STOP_MIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub id: RunnerId,
    /// Chosen by an admin, or by the runner when it registers; `None` until then.
    pub name: Option<Slug>,
    pub labels: Vec<Label>,
    /// Labels that the runner may have in addition to its OS and architecture. Set by the admin who created the runner.
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
    /// Identifies the runner process; different after each start.
    pub boot: Option<String>,
    pub is_draining: bool,
    pub seen_at: Option<Timestamp>,
    /// When the runner shut down cleanly.
    pub left_at: Option<Timestamp>,
    /// Milliseconds without a heartbeat after which this runner process counts as lost. It stops its own steps earlier.
    pub lost_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerStatus {
    /// Not registered yet.
    Pending,
    Online,
    /// The runner finishes its steps and is granted no new ones.
    Draining,
    Offline,
    /// No heartbeat for `lost_ms`, without a clean shutdown.
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

    /// The name recorded in this process's attempts, made of the runner's id and its boot id.
    pub fn process_key(&self) -> Option<String> {
        self.boot.as_deref().map(|boot| runner_key(self.id, boot))
    }
}

pub fn runner_key(id: RunnerId, boot: &str) -> String {
    format!("{id}.{boot}")
}

/// The runner whose name was recorded in an attempt; `None` for an embedded runner.
pub fn parse_runner_key(mark: &str) -> Option<RunnerId> {
    mark.split_once('.').and_then(|(id, _)| id.parse().ok())
}

/// When a runner that has lost contact with the server stops its own steps, and when the server considers it lost. The
/// runner always stops first, even if the server's clock runs 1.5 times as fast as the runner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerTimeouts {
    pub lost: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub stop_grace: Duration,
    /// Time without a response from the server after which a runner stops its steps.
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

    /// The default with an external database. A failover of the database may take half a minute and must not stop
    /// steps.
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
    fn runner_status_follows_time_since_last_heartbeat() {
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
    fn runner_key_round_trips_to_runner_id() {
        let id = runner().id;
        assert_eq!(parse_runner_key(&runner_key(id, "a.b")), Some(id));
        assert_eq!(parse_runner_key("boot_Zx41"), None);
        assert_eq!(parse_runner_key("run_x.y"), None);
    }

    #[test]
    fn l12_runner_stops_its_steps_before_it_counts_as_lost() {
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
