//! Registration and authentication of remote runners.

use berth_api::problem::Code;
use berth_api::remote as wire;
use berth_api::runner::SecretText;
use berth_core::environment::fence::EpochEvidence;
use berth_core::event::EventKind;
use berth_core::name::Slug;
use berth_core::pipeline::container::{CONTAINER_LABEL, PRIVILEGED_LABELS};
use berth_core::pipeline::grammar::Label;
use berth_core::runner::{LABELS_MAX, LOCAL_LABEL, PROTOCOL, PROTOCOL_MIN, Runner, SLOTS_MAX};
use berth_engine::events::runner_event;
use berth_engine::{PreviousProcess, RemoteCall, RunnerCaller, valid_exposed_paths};
use berth_store::TxContext;
use berth_store::tables::{instance, runner};

use super::runners::check_name_free;
use super::{ApiResponse, App};
use crate::auth::tokens::{TokenKind, generate_token, hash_token, is_well_formed, looks_like_token};
use crate::error::AppError;

const PROGRAM_CHARS_MAX: usize = 64;
/// Labels for the operating system, the architecture and containers, which runners report automatically.
const SYSTEM_LABELS: &[&str] = &[
    "linux",
    "macos",
    "freebsd",
    "windows",
    "x86_64",
    "aarch64",
    "arm",
    "riscv64",
    "powerpc64",
    "s390x",
    CONTAINER_LABEL,
];

impl App {
    /// Returns the runner that a credential belongs to.
    pub(crate) async fn find_runner_by_credential(&self, text: &str) -> Result<RunnerCaller, AppError> {
        let unknown = || {
            AppError::unauthenticated(
                "this is not a valid runner credential, or the runner was removed; register it again with a new token",
            )
        };
        if !is_well_formed(TokenKind::Runner, text) {
            return Err(unknown());
        }
        let hashed = hash_token(text);
        let found = self.services.store.read(None, move |db| runner::by_credential(db, &hashed)).await?;
        found.map(|(org, runner)| RunnerCaller { org, runner }).ok_or_else(unknown)
    }

    /// Returns the runner that a registration token belongs to. Fails if the token was used or has expired.
    pub(crate) async fn find_runner_by_token(&self, text: &str) -> Result<RunnerCaller, AppError> {
        let hashed = hash_token(text);
        let found = match is_well_formed(TokenKind::Runner, text) {
            false => None,
            true => {
                let read = self.services.store.read(None, move |db| {
                    Ok::<_, AppError>(runner::by_token(db, &hashed)?.map(|found| (found, db.now())))
                });
                read.await?
            }
        };
        let Some(((org, runner), now)) = found else {
            return Err(AppError::unauthenticated(
                "this is not a valid registration token, or its runner was removed; add the runner again",
            ));
        };
        if runner.registered_at.is_some() {
            return Err(AppError::unauthenticated(
                "this registration token was already used and works only once; add another runner",
            ));
        }
        if runner.token_expires_at <= now {
            return Err(AppError::unauthenticated(
                "this registration token has expired after an hour; add the runner again",
            ));
        }
        Ok(RunnerCaller { org, runner })
    }

    /// Exchanges a registration token for a credential.
    pub(crate) async fn register_runner(
        &self,
        who: RunnerCaller,
        said: wire::RegistrationRequest,
    ) -> Result<ApiResponse<wire::RegisteredRunner>, AppError> {
        check_protocol(said.protocol, &said.version)?;
        let name = match (&who.runner.name, said.name.as_deref()) {
            (Some(chosen), _) => chosen.clone(),
            (None, Some(wanted)) => {
                Slug::parse(wanted).map_err(|error| AppError::invalid_member("/name", error.to_string()))?
            }
            (None, None) => {
                return Err(AppError::invalid_member("/name", "is required: the runner has no name yet"));
            }
        };
        let credential = generate_token(TokenKind::Runner);
        let hashed = hash_token(credential.reveal());
        let id = who.runner.id;
        let named = self.services.store.transact(TxContext::system(Some(who.org)), move |tx| {
            check_name_free(tx, &name, Some(id))?;
            if !runner::register(tx, id, &name, &hashed)? {
                return Err(AppError::unauthenticated("this registration token was just used"));
            }
            let now = Runner { name: Some(name.clone()), ..who.runner };
            tx.record(runner_event(EventKind::RunnerRegistered, &now))?;
            Ok::<_, AppError>(name)
        });
        Ok(ApiResponse::ok(wire::RegisteredRunner {
            runner_id: id.to_string(),
            name: named.await?.to_string(),
            credential: SecretText::new(credential.reveal().to_owned()),
        }))
    }

    /// Handles the first request that a runner process sends after it starts.
    pub(crate) async fn runner_hello(
        &self,
        far: &RemoteCall,
        said: wire::RunnerHello,
    ) -> Result<wire::RunnerWelcome, AppError> {
        check_protocol(said.protocol, &said.version)?;
        let labels = restrict_labels(parse_labels(&said.labels)?, &far.caller.runner.allowed_labels)?;
        if !(1..=SLOTS_MAX).contains(&said.slots) {
            return Err(AppError::invalid_member("/slots", format!("must be from 1 to {SLOTS_MAX}")));
        }
        let program: String =
            said.version.chars().take(PROGRAM_CHARS_MAX).filter(|c| !c.is_control()).collect();
        let times = self.config.runner_times;
        let shown = labels.iter().map(ToString::to_string).collect();
        let hello = runner::RunnerHandshake {
            labels,
            slots: said.slots,
            program,
            protocol: i64::from(said.protocol),
            boot: said.boot,
            isolation: berth_engine::wire::isolation(said.isolation).to_owned(),
            exposed: valid_exposed_paths(&said.exposed),
            lost_ms: times.lost_ms(),
        };
        // Raise the epoch before the runner counts as online, so that no work is granted in a lower epoch than the
        // runner has seen.
        if let Some(seen) = said.epoch {
            far.handle_epoch_evidence(EpochEvidence::Epoch(seen)).await?;
        }
        far.hello(hello, said.before.map(|it| PreviousProcess { boot: it.boot, begun: it.begun })).await?;
        // Steps may be waiting for a runner with these labels.
        self.services.wake_engine();
        let (now, epoch) = self
            .services
            .store
            .read(None, |db| Ok::<_, AppError>((db.now(), instance::load_epoch(db)?)))
            .await?;
        let ms = |length: std::time::Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Ok(wire::RunnerWelcome {
            runner_id: far.caller.runner.id.to_string(),
            name: far.caller.runner.name.as_ref().map(ToString::to_string).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now_ms: now.as_micros() / 1_000,
            self_stop_ms: ms(times.self_stop),
            stop_grace_ms: ms(times.stop_grace),
            heartbeat_ms: ms(times.heartbeat),
            epoch: Some(epoch),
            labels: shown,
        })
    }
}

fn check_protocol(spoken: u32, version: &str) -> Result<(), AppError> {
    if (PROTOCOL_MIN..=PROTOCOL).contains(&spoken) {
        return Ok(());
    }
    let own = env!("CARGO_PKG_VERSION");
    let version: String = version.chars().take(PROGRAM_CHARS_MAX).collect();
    let text = format!(
        "this runner ({version}) speaks version {spoken} of the protocol, and this server ({own}) version {PROTOCOL}; \
         install the same version of berth on both"
    );
    Err(AppError::new(Code::InvalidState, text))
}

/// Returns the effective labels of a runner: the system labels and the allowed privileged labels that it reports, plus the
/// allowed labels that it names. If it names none, it gets all other allowed labels.
fn restrict_labels(said: Vec<Label>, allowed: &[Label]) -> Result<Vec<Label>, AppError> {
    if let Some(other) = said.iter().find(|label| !is_system(label) && !allowed.contains(label)) {
        let text = format!(
            "the label {other} is not allowed for this runner; remove it, or create a runner with this label"
        );
        return Err(AppError::invalid_member("/labels", text));
    }
    let is_named = |label: &Label| !is_system(label) && !is_privileged(label);
    let names_none = !said.iter().any(is_named);
    let mut labels = said;
    if names_none {
        labels.extend(allowed.iter().filter(|label| !is_privileged(label)).cloned());
    }
    labels.sort_unstable();
    labels.dedup();
    Ok(labels)
}

fn is_system(label: &Label) -> bool {
    SYSTEM_LABELS.contains(&label.as_str())
}

fn is_privileged(label: &Label) -> bool {
    PRIVILEGED_LABELS.contains(&label.as_str())
}

pub(super) fn parse_labels(said: &[String]) -> Result<Vec<Label>, AppError> {
    let bad = |text: String| AppError::invalid_member("/labels", text);
    if said.len() > LABELS_MAX {
        return Err(bad(format!("a runner has at most {LABELS_MAX} labels")));
    }
    let mut labels = Vec::with_capacity(said.len());
    for text in said {
        if text == LOCAL_LABEL {
            return Err(bad(format!("the label {LOCAL_LABEL} is reserved for the embedded runner")));
        }
        if looks_like_token(text) {
            return Err(bad("one of them looks like a token; labels are visible to every member".into()));
        }
        labels.push(Label::parse(text).map_err(|error| bad(error.to_string()))?);
    }
    labels.sort_unstable();
    labels.dedup();
    Ok(labels)
}
