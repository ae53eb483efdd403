//! What a runner has seen of fences, and does not forget when its server goes back to an older copy of its database: the
//! highest epoch, and the highest fence of each environment that it has executed work for.

use std::fmt::Write as _;

use berth_core::environment::fence::Fence;
use berth_core::id::EnvironmentId;

/// Environments whose fence is kept: those that had work here last. The server compares all of them anyway.
const ENVIRONMENTS_MAX: usize = 1_024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    epoch: i64,
    /// The one that had work last is the last.
    fences: Vec<(EnvironmentId, Fence)>,
}

impl Seen {
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// The server's own; older ones do not tell.
    #[must_use]
    pub fn and_epoch(mut self, epoch: Option<i64>) -> Self {
        self.epoch = epoch.map_or(self.epoch, |epoch| self.epoch.max(epoch));
        self
    }

    /// A higher fence of the environment than this one.
    pub(super) fn above(&self, environment: EnvironmentId, fence: Fence) -> Option<Fence> {
        let known = self.fences.iter().find(|(known, _)| *known == environment);
        known.map(|(_, known)| *known).filter(|known| *known > fence)
    }

    /// False: it was known already.
    pub(super) fn note(&mut self, environment: EnvironmentId, fence: Fence) -> bool {
        let at = self.fences.iter().position(|(known, _)| *known == environment);
        let before = at.map(|at| self.fences.remove(at).1);
        if self.fences.len() >= ENVIRONMENTS_MAX {
            self.fences.remove(0);
        }
        self.fences.push((environment, before.map_or(fence, |before| before.max(fence))));
        self.epoch = self.epoch.max(fence.epoch());
        before.is_none_or(|before| fence > before)
    }

    /// One of the lines it is written in; any other is not for it.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(epoch) = line.strip_prefix('^') {
            self.epoch = epoch.parse().map_or(self.epoch, |epoch| self.epoch.max(epoch));
        }
        let fence = line.strip_prefix('=').and_then(|rest| rest.split_once(' '));
        if let Some((environment, fence)) = fence
            && let (Ok(environment), Ok(fence)) = (environment.parse(), fence.parse())
        {
            self.note(environment, Fence::from_number(fence));
        }
    }

    pub(super) fn line(environment: EnvironmentId, fence: Fence) -> String {
        format!("={environment} {fence}\n")
    }

    /// All of it.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "^{}", self.epoch);
        self.fences.iter().for_each(|(environment, fence)| text += &Self::line(*environment, *fence));
        text
    }
}

#[cfg(test)]
mod tests {
    use berth_core::time::Timestamp;

    use super::*;

    fn environment(number: i64) -> EnvironmentId {
        EnvironmentId::from_parts(Timestamp::from_micros(number * 1_000), [0; 10])
    }

    fn fence(number: i64) -> Fence {
        Fence::from_number(number)
    }

    #[test]
    fn the_highest_fence_of_each_environment_is_kept() {
        let (mut seen, one, other) = (Seen::default(), environment(1), environment(2));
        assert!(seen.note(one, fence(5)));
        assert_eq!(seen.above(one, fence(4)), Some(fence(5)));
        assert_eq!(seen.above(one, fence(5)), None, "the same holder");
        assert_eq!(seen.above(other, fence(1)), None);
        assert!(!seen.note(one, fence(3)) && seen.note(one, fence(7 << 40 | 6)));
        assert_eq!((seen.epoch(), seen.above(one, fence(6))), (7, Some(fence(7 << 40 | 6))));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut seen = Seen::default().and_epoch(Some(9)).and_epoch(None).and_epoch(Some(3));
        seen.note(environment(1), fence(5));
        seen.note(environment(2), fence(1));
        let mut read = Seen::default();
        format!("boot\n+nonce\n=env_odd 5\n= \n^x\n{}", seen.lines())
            .lines()
            .for_each(|line| read.read(line));
        assert_eq!((read.epoch(), read), (9, seen));
    }

    #[test]
    fn it_stays_small_and_forgets_what_had_no_work_for_the_longest_time() {
        let mut seen = Seen::default();
        let most = i64::try_from(ENVIRONMENTS_MAX).unwrap();
        assert!((0..most).all(|number| seen.note(environment(number), fence(2))));
        // It had work again.
        seen.note(environment(0), fence(2));
        seen.note(environment(most), fence(2));
        let known = [0, 1, 2, most].map(|number| seen.above(environment(number), fence(1)).is_some());
        assert_eq!(known, [true, false, true, true]);
        assert_eq!(seen.lines().lines().count(), ENVIRONMENTS_MAX + 1);
    }
}
