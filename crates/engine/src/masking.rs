//! Masks runner output a second time, in case a runner failed to mask a value. Log output keeps its length when it is
//! masked, so offsets remain the same as on the runner.

use std::sync::Arc;

use berth_api::runner::{AttemptAssignment, SecretText, StepRunOutcome};
use berth_core::mask::SecretMasker;
use parking_lot::Mutex;
use quick_cache::sync::Cache;

/// Maximum number of attempts whose maskers are cached.
const KNOWN_MAX: usize = 4_096;
/// Number of bytes of preceding output that are kept, to find values that are split across two requests.
const TAIL_BYTES_MAX: usize = 1_024;

/// The maskers of running attempts, by nonce.
pub(super) struct AttemptMaskers(Cache<String, Arc<Mutex<AttemptMasker>>>);

impl Default for AttemptMaskers {
    fn default() -> Self {
        Self(Cache::new(KNOWN_MAX))
    }
}

struct AttemptMasker {
    masker: SecretMasker,
    /// The last bytes of output before `offset`.
    tail: Vec<u8>,
    offset: u64,
}

impl AttemptMaskers {
    pub(super) fn insert(&self, it: &AttemptAssignment) {
        let values = it.masked.iter().chain(it.secret_files.values());
        let values: Vec<&str> = values.map(SecretText::reveal).collect();
        let net = AttemptMasker { masker: SecretMasker::new(&values), tail: Vec::new(), offset: 0 };
        self.0.insert(it.attempt.nonce.clone(), Arc::new(Mutex::new(net)));
    }

    pub(super) fn contains(&self, nonce: &str) -> bool {
        self.0.contains_key(nonce)
    }

    pub(super) fn remove(&self, nonce: &str) {
        self.0.remove(nonce);
    }

    /// Masks secret values that the runner failed to mask. Returns whether there were any.
    pub(super) fn mask_in_place(&self, nonce: &str, offset: u64, bytes: &mut [u8]) -> bool {
        let Some(net) = self.0.get(nonce) else { return false };
        let mut net = net.lock();
        if net.offset != offset {
            net.tail.clear();
        }
        let before = net.tail.len();
        let mut whole = std::mem::take(&mut net.tail);
        whole.extend_from_slice(bytes);
        let found = net.masker.mask_in_place(&mut whole);
        let is_new = found && whole[before..] != *bytes;
        bytes.copy_from_slice(&whole[before..]);
        let keep = whole.len().min(TAIL_BYTES_MAX);
        net.tail = whole.split_off(whole.len() - keep);
        net.offset = offset + bytes.len() as u64;
        is_new
    }

    /// Masks the outputs and error texts in an outcome, because users see them as well.
    pub(super) fn mask_outcome(&self, nonce: &str, outcome: StepRunOutcome) -> StepRunOutcome {
        let Some(net) = self.0.get(nonce) else { return outcome };
        let net = net.lock();
        let masker = &net.masker;
        match outcome {
            StepRunOutcome::Succeeded { mut outputs, artifacts } => {
                outputs.values_mut().for_each(|value| *value = masker.mask(value));
                StepRunOutcome::Succeeded { outputs, artifacts }
            }
            StepRunOutcome::Failed { cause, detail, exit_code } => {
                StepRunOutcome::Failed { cause, detail: masker.mask(&detail), exit_code }
            }
            StepRunOutcome::NeverStarted { detail, known_fence } => {
                StepRunOutcome::NeverStarted { detail: masker.mask(&detail), known_fence }
            }
            StepRunOutcome::Unanswered { detail } => {
                StepRunOutcome::Unanswered { detail: masker.mask(&detail) }
            }
            StepRunOutcome::ApprovalRequired { context } => {
                StepRunOutcome::ApprovalRequired { context: context.map(|text| masker.mask(&text)) }
            }
            other @ (StepRunOutcome::Stopped
            | StepRunOutcome::Interrupted
            | StepRunOutcome::Waiting { .. }) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use berth_api::runner::AttemptRef;
    use serde_json::Map;

    use super::*;

    fn maskers_for(secret: &str) -> AttemptMaskers {
        let word = String::new;
        let attempt = AttemptRef {
            organization_id: word(),
            deployment_id: word(),
            step_id: word(),
            number: 1,
            nonce: "n".into(),
        };
        let maskers = AttemptMaskers::default();
        maskers.insert(&AttemptAssignment {
            attempt,
            step: word(),
            step_name: word(),
            kind: word(),
            custom: None,
            params: Map::new(),
            env: BTreeMap::new(),
            secret_files: BTreeMap::new(),
            masked: vec![SecretText::new(secret.to_owned())],
            facts: BTreeMap::new(),
            outputs: Vec::new(),
            artifacts: BTreeMap::new(),
            needs_artifacts: Vec::new(),
            has_source: false,
            source_key: None,
            source_paths: Vec::new(),
            timeout_s: 1,
            network: berth_api::runner::Network::Host,
            granted_ms_ago: 0,
            holder: None,
            container: None,
            registry_credential: None,
            kubeconfig: None,
            is_untrusted: false,
        });
        maskers
    }

    fn mask_pieces(maskers: &AttemptMaskers, pieces: &[&str]) -> String {
        let (mut out, mut offset) = (String::new(), 0);
        for piece in pieces {
            let mut bytes = piece.as_bytes().to_vec();
            maskers.mask_in_place("n", offset, &mut bytes);
            assert_eq!(bytes.len(), piece.len(), "nothing moves");
            offset += piece.len() as u64;
            out += &String::from_utf8(bytes).unwrap();
        }
        out
    }

    #[test]
    fn se05_unmasked_runner_output_is_masked_without_changing_length() {
        assert_eq!(
            mask_pieces(&maskers_for("hunter2-hunter2"), &["it is hunter2-hunter2.\n"]),
            "it is ***************.\n"
        );
        assert_eq!(mask_pieces(&maskers_for("hunter2-hunter2"), &["it is ***.\n"]), "it is ***.\n");
        // The first part of the value is already stored, so only the rest can be masked.
        assert_eq!(
            mask_pieces(&maskers_for("hunter2-hunter2"), &["is hunter2-h", "unter2!"]),
            "is hunter2-h******!"
        );
    }

    #[test]
    fn se05_outputs_and_failure_details_are_masked() {
        let nets = maskers_for("hunter2-hunter2");
        let outputs = BTreeMap::from([("a".to_owned(), "x hunter2-hunter2".to_owned())]);
        let StepRunOutcome::Succeeded { outputs, .. } =
            nets.mask_outcome("n", StepRunOutcome::Succeeded { outputs, artifacts: BTreeMap::new() })
        else {
            panic!("another outcome");
        };
        assert_eq!(outputs["a"], "x ***");
        let never = nets.mask_outcome("n", StepRunOutcome::never_started("no hunter2-hunter2".into()));
        assert_eq!(never, StepRunOutcome::never_started("no ***".into()));
    }
}
