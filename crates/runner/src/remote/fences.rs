//! The fences that a runner has seen: the highest epoch, and the last holder of each environment that it worked for.
//! Because the runner stores them itself, they survive a restore of the server's database from a backup.

use std::fmt::Write as _;

use berth_core::environment::fence::Fence;
use berth_core::id::{EnvironmentId, SessionId};

/// Maximum number of stored holders. Beyond it, the least recently used one is dropped. This is safe, because the
/// server checks fences as well.
const ENVIRONMENTS_MAX: usize = 1_024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenFences {
    epoch: i64,
    /// In order of last use, most recent last.
    holders: Vec<EnvironmentHolder>,
}

/// The session on whose behalf a step changes an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnvironmentHolder {
    pub(crate) environment: EnvironmentId,
    pub(crate) fence: Fence,
    /// `None` for a reset of the environment, or if the server is too old to send it.
    pub(crate) session: Option<SessionId>,
}

impl EnvironmentHolder {
    /// Whether both holders have the same fence but different sessions. This happens if a restored database has lost a
    /// claim and issues its fence again.
    fn conflicts_with(&self, than: &Self) -> bool {
        let is_known = self.session.is_some() && than.session.is_some();
        self.fence == than.fence && is_known && self.session != than.session
    }

    /// Formats the holder as a line of the spool.
    fn to_line(self) -> String {
        let Self { environment, fence, session } = self;
        let session = session.map(|session| format!(" {session}")).unwrap_or_default();
        format!("={environment} {fence}{session}\n")
    }

    /// Parses a line of the spool. Lines written by older versions contain no session.
    fn parse_line(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix('=')?.split(' ');
        let (environment, fence) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let session = words.next().and_then(|session| session.parse().ok());
        Some(Self { environment, fence: Fence::from_number(fence), session })
    }
}

impl SeenFences {
    /// Returns the highest epoch seen so far.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Raises the epoch to that of the server, if it is higher. Older servers do not send an epoch.
    #[must_use]
    pub fn with_epoch(mut self, epoch: Option<i64>) -> Self {
        self.epoch = epoch.map_or(self.epoch, |epoch| self.epoch.max(epoch));
        self
    }

    /// If `holder` must be refused, returns the fence that takes precedence: the higher fence of a later holder of the
    /// same environment, or the same fence if a different holder has it.
    pub(super) fn superseding_fence(&self, holder: &EnvironmentHolder) -> Option<Fence> {
        let known = self.holders.iter().find(|known| known.environment == holder.environment)?;
        (known.fence > holder.fence || known.conflicts_with(holder)).then_some(known.fence)
    }

    /// Records a holder. Returns the line to append to the spool, which is empty if nothing has changed.
    pub(super) fn record(&mut self, holder: EnvironmentHolder) -> String {
        let at = self.holders.iter().position(|known| known.environment == holder.environment);
        let before = at.map(|at| self.holders.remove(at));
        if self.holders.len() >= ENVIRONMENTS_MAX {
            self.holders.remove(0);
        }
        let last = match before {
            Some(before) if before.fence > holder.fence => before,
            // Keep the known session: the new holder has the same fence, but its session may be missing.
            Some(before) if before.fence == holder.fence && before.session.is_some() => before,
            _ => holder,
        };
        self.holders.push(last);
        self.epoch = self.epoch.max(holder.fence.epoch());
        if before == Some(last) { String::new() } else { last.to_line() }
    }

    /// Applies a line of the spool. Unknown lines are ignored.
    pub(super) fn apply_line(&mut self, line: &str) {
        if let Some(epoch) = line.strip_prefix('^') {
            self.epoch = epoch.parse().map_or(self.epoch, |epoch| self.epoch.max(epoch));
        }
        if let Some(holder) = EnvironmentHolder::parse_line(line) {
            self.record(holder);
        }
    }

    /// Formats all fences as lines for a rewritten spool.
    pub(super) fn to_lines(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "^{}", self.epoch);
        self.holders.iter().for_each(|holder| text += &holder.to_line());
        text
    }
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;

    use super::*;

    fn holder(environment: i64, fence: i64, session: Option<u8>) -> EnvironmentHolder {
        EnvironmentHolder {
            environment: EnvironmentId::from_parts(Timestamp::from_micros(environment * 1_000), [0; 10]),
            fence: Fence::from_number(fence),
            session: session.map(|it| SessionId::from_parts(Timestamp::from_micros(1), [it; 10])),
        }
    }

    fn fence(number: i64) -> Fence {
        Fence::from_number(number)
    }

    #[test]
    fn highest_fence_of_each_environment_is_stored() {
        let mut seen = SeenFences::default();
        let instead_of =
            |seen: &SeenFences, environment, fence| seen.superseding_fence(&holder(environment, fence, None));
        assert!(!seen.record(holder(1, 5, None)).is_empty());
        assert_eq!(instead_of(&seen, 1, 4), Some(fence(5)));
        assert_eq!(instead_of(&seen, 1, 5), None, "the same holder");
        assert_eq!(instead_of(&seen, 2, 1), None);
        assert_eq!(seen.record(holder(1, 3, None)), "");
        assert!(!seen.record(holder(1, 7 << 40 | 6, None)).is_empty());
        assert_eq!((seen.epoch(), instead_of(&seen, 1, 6)), (7, Some(fence(7 << 40 | 6))));
    }

    #[test]
    fn same_fence_of_another_session_conflicts() {
        let mut seen = SeenFences::default();
        // The first holder has no session, as in a reset or with an older server.
        for session in [None, Some(1), None, Some(1)] {
            assert_eq!(seen.superseding_fence(&holder(1, 5, session)), None, "{session:?}");
            seen.record(holder(1, 5, session));
        }
        assert_eq!(seen.superseding_fence(&holder(1, 5, Some(2))), Some(fence(5)));
        assert_eq!(seen.superseding_fence(&holder(1, 6, Some(2))), None);
        seen.record(holder(1, 6, None));
        assert_eq!(
            seen.superseding_fence(&holder(1, 6, Some(2))),
            None,
            "the session before had another fence"
        );
    }

    #[test]
    fn seen_fences_round_trip_through_lines() {
        let mut seen = SeenFences::default().with_epoch(Some(9)).with_epoch(None).with_epoch(Some(3));
        let written = [holder(1, 5, None), holder(2, 1, Some(1))].map(|holder| seen.record(holder));
        assert!(written.iter().all(|line| seen.to_lines().contains(line)));
        let mut read = SeenFences::default();
        format!("boot\n+nonce\n=env_odd 5\n= \n^x\n{}", seen.to_lines())
            .lines()
            .for_each(|line| read.apply_line(line));
        assert_eq!((read.epoch(), read), (9, seen));
    }

    #[test]
    fn seen_fences_drop_least_recently_used() {
        let mut seen = SeenFences::default();
        let most = i64::try_from(ENVIRONMENTS_MAX).unwrap();
        assert!((0..most).all(|number| !seen.record(holder(number, 2, None)).is_empty()));
        // Environment 0 is used again, so it becomes the most recent one.
        seen.record(holder(0, 2, None));
        seen.record(holder(most, 2, None));
        let known = [0, 1, 2, most].map(|number| seen.superseding_fence(&holder(number, 1, None)).is_some());
        assert_eq!(known, [true, false, true, true]);
        assert_eq!(seen.to_lines().lines().count(), ENVIRONMENTS_MAX + 1);
    }
}
