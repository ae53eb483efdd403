//! Runners on other machines: what is known of them, and the times that make it safe to call one lost.

use std::time::Duration;

use crate::id::RunnerId;
use crate::name::Slug;
use crate::pipeline::grammar::Label;
use crate::time::Timestamp;

/// What a runner and a server have to agree on to understand each other.
pub const PROTOCOL: u32 = 2;
/// How long the token of a new runner is good.
pub const TOKEN_S: i64 = 60 * 60;
/// A runner that was not heard of for so long is not counted on.
pub const ONLINE_S: i64 = 15;
pub const LABELS_MAX: usize = 32;
/// Steps at once.
pub const SLOTS_MAX: i64 = 256;
/// Paths that the operator of a runner exposes to every step.
pub const EXPOSED_MAX: usize = 32;
pub const EXPOSED_BYTES_MAX: usize = 1024;
/// Only the runner inside the server has it: whoever wants that one says so in `runs_on`.
pub const LOCAL_LABEL: &str = "local";
/// The runner inside the server, where others have an id.
pub const EMBEDDED: &str = "embedded";

/// How much faster a server's clock may run than a runner's, as a fraction.
const CLOCK_RATE: (u32, u32) = (3, 2);
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
const SELF_STOP_MIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub id: RunnerId,
    /// None while it has not come, and nobody has chosen one for it.
    pub name: Option<Slug>,
    pub labels: Vec<Label>,
    /// Labels it may have in addition to its system and architecture; the admin who creates it sets them.
    pub allowed_labels: Vec<Label>,
    /// How it isolates steps, as it says itself. None while it has not come.
    pub isolation: Option<String>,
    /// Paths that every step there can reach.
    pub exposed: Vec<String>,
    pub slots: i64,
    /// Of the program it runs.
    pub program: Option<String>,
    pub created_at: Timestamp,
    pub token_expires_at: Timestamp,
    pub registered_at: Option<Timestamp>,
    /// The process that speaks for it: new at each of its starts.
    pub boot: Option<String>,
    pub is_draining: bool,
    pub seen_at: Option<Timestamp>,
    /// When it said goodbye.
    pub left_at: Option<Timestamp>,
    /// What this process was told: silent for so long, it has stopped its steps and is lost.
    pub lost_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its token was not used yet.
    Pending,
    Online,
    /// It finishes what it runs and takes nothing more.
    Draining,
    Offline,
    /// It went silent without a goodbye.
    Lost,
}

impl Runner {
    pub fn state(&self, now: Timestamp, times: &Times) -> State {
        let Some(seen) = self.seen_at else { return State::Pending };
        let silent = now.seconds_since(seen);
        if self.left_at.is_some() {
            State::Offline
        } else if silent >= self.lost_ms.unwrap_or_else(|| times.lost_ms()) / 1_000 {
            State::Lost
        } else if silent >= ONLINE_S {
            State::Offline
        } else if self.is_draining {
            State::Draining
        } else {
            State::Online
        }
    }

    /// How its attempts are marked. Who it is comes from its credential; what it calls itself only follows.
    pub fn mark(&self) -> Option<String> {
        self.boot.as_deref().map(|boot| mark(self.id, boot))
    }
}

pub fn mark(id: RunnerId, boot: &str) -> String {
    format!("{id}.{boot}")
}

/// Whose attempt it is that is marked so. Nothing for that of a runner inside a server.
pub fn marked(mark: &str) -> Option<RunnerId> {
    mark.split_once('.').and_then(|(id, _)| id.parse().ok())
}

/// When a silent runner stops its steps by itself, and when the server calls it lost. The first always comes before the
/// second, also on a clock that is slower by half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    pub lost: Duration,
    /// From TERM to KILL.
    pub stop_grace: Duration,
    /// Without an answer for so long a runner stops its steps.
    pub self_stop: Duration,
    pub heartbeat: Duration,
}

impl Times {
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

impl Times {
    pub fn lost_ms(&self) -> i64 {
        i64::try_from(self.lost.as_millis()).unwrap_or(i64::MAX)
    }

    /// Where a failover of the database takes its time: half a minute of it stops no step.
    pub const LOST_SHARED: Duration = Duration::from_secs(105);
}

impl Default for Times {
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
        let times = Times::default();
        let at = |it: &Runner, seconds| it.state(NOON.plus_seconds(seconds), &times);
        assert_eq!(at(&runner(), 0), State::Pending);
        let seen = Runner { seen_at: Some(NOON), ..runner() };
        assert_eq!([0, 14, 15, 44, 45].map(|s| at(&seen, s)), {
            use State::*;
            [Online, Online, Offline, Offline, Lost]
        });
        assert_eq!(at(&Runner { is_draining: true, ..seen.clone() }, 3), State::Draining);
        assert_eq!(at(&Runner { left_at: Some(NOON), ..seen.clone() }, 100), State::Offline);
        let patient = Runner { lost_ms: Some(60_000), ..seen };
        assert_eq!([59, 60].map(|s| at(&patient, s)), [State::Offline, State::Lost], "as it was told");
    }

    #[test]
    fn a_mark_says_whose_attempt_it_is() {
        let id = runner().id;
        assert_eq!(marked(&mark(id, "a.b")), Some(id));
        assert_eq!(marked("boot_Zx41"), None);
        assert_eq!(marked("run_x.y"), None);
    }

    #[test]
    fn l12_a_runner_has_stopped_its_steps_before_it_is_called_lost() {
        assert_eq!(Times::new(Duration::from_secs(45), Duration::from_secs(10)), Ok(Times::default()));
        for (lost, grace) in [(45_000, 10_000), (105_000, 10_000), (6_000, 1_000), (3_000, 1_000)] {
            let times = Times::new(Duration::from_millis(lost), Duration::from_millis(grace)).unwrap();
            assert!((times.self_stop + times.stop_grace) * 3 / 2 <= times.lost, "{times:?}");
            assert!(times.heartbeat * 4 <= times.self_stop, "{times:?}");
        }
        for (lost, grace) in [(45_000, 30_000), (2_000, 1_000), (0, 0), (1_000, 5_000)] {
            let refused = Times::new(Duration::from_millis(lost), Duration::from_millis(grace));
            assert!(refused.is_err(), "{refused:?}");
        }
    }
}
