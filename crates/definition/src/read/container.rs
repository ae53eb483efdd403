//! Reads the container of a step and its services.

use std::collections::BTreeMap;

use berth_core::name::InvalidName;
use berth_core::pipeline::container::{
    ContainerOptions, CpuLimit, ImagePullPolicy, MemoryLimit, SERVICE_READY_S, SERVICE_READY_S_MAX,
    SERVICES_MAX, ServiceDefinition, ServiceReadiness, StepServices,
};
use berth_core::pipeline::grammar::ServiceName;
use berth_core::pipeline::image::ImageReference;
use berth_core::pipeline::model::StepType;
use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::step::{BuiltinStepType, NetworkAccess};
use berth_core::wording::quote;

use super::step::env;
use crate::cursor::{FieldReader, NodeCursor, ReadNode, parse_key};
use crate::report::DefinitionProblem;
use crate::tree::YamlValue;

const USER_CHARS_MAX: usize = 64;

/// The container and the services of a step, and the network of a step without a container.
pub(super) struct ContainerPart {
    pub(super) container: Option<ContainerOptions>,
    pub(super) network: Option<NetworkAccess>,
    pub(super) services: StepServices,
}

pub(super) fn read(fields: &FieldReader<'_>, kind: &StepType) -> ContainerPart {
    let services = fields.get("services").map(|at| services(&at)).unwrap_or_default();
    let Some(at) = fields.get("container") else {
        if let Some(at) = fields.get("services") {
            let message = "services need a step in a container; add `container: { image: … }` to the step";
            at.add_at_key(DefinitionProblem::error("services_without_container", message));
        }
        return ContainerPart { container: None, network: fields.read("network"), services };
    };
    check_type(&at, fields, kind);
    if let Some(at) = fields.at.get("network") {
        let message =
            "the network of a step in a container is set in its `container`: `container: { network: … }`";
        at.add_at_key(DefinitionProblem::error("unused_network", message));
    }
    let container = container(&at);
    let network = container.as_ref().and_then(|it| it.network);
    if !services.is_empty() && network.is_some_and(|network| network != NetworkAccess::Bridge) {
        let message = "a step reaches its services only with `network: bridge`; remove the services, or change the network";
        at.descend("/network").error("services_without_network", message);
    }
    ContainerPart { container, network: None, services }
}

/// Only steps that run a command can run in a container.
fn check_type(at: &NodeCursor<'_>, fields: &FieldReader<'_>, kind: &StepType) {
    let runs_command = match kind {
        StepType::Builtin(BuiltinStepType::Script) => true,
        StepType::Builtin(BuiltinStepType::WaitFor) => fields.at.descend("/params").get("url").is_none(),
        StepType::Builtin(_) | StepType::Custom(_) => false,
    };
    if !runs_command {
        let message = "only steps that run a command run in a container: `script`, and `wait_for` with `run`";
        at.add_at_key(DefinitionProblem::error("unused_container", message));
    }
}

fn container(at: &NodeCursor<'_>) -> Option<ContainerOptions> {
    if let Some(at) = at.get("env") {
        let message = "variables of a container are set in the step's `env`";
        at.add_at_key(DefinitionProblem::error("unused_env", message));
        return None;
    }
    let fields = at.fields(&["image", "user", "network", "memory", "cpus", "pull", "credential"])?;
    let image = fields.require("image").and_then(|at| image(&at));
    let user = fields.get("user").and_then(|at| user(&at));
    let network = fields.get("network").and_then(|at| network(&at));
    let memory = fields.get("memory").and_then(|at| at.parse_text("bad_memory", MemoryLimit::parse));
    let cpus = fields.get("cpus").and_then(|at| cpus(&at));
    let pull = fields.get("pull").and_then(|at| at.choice(&ImagePullPolicy::ALL)).unwrap_or_default();
    let credential = fields.read("credential");
    Some(ContainerOptions { image: image?, user, network, memory, cpus, pull, credential })
}

fn services(at: &NodeCursor<'_>) -> StepServices {
    let found: BTreeMap<_, _> = at.named_entries("services", parse_key(ServiceName::parse), service);
    if found.len() > SERVICES_MAX {
        let message = format!("{} services, but at most {SERVICES_MAX} are allowed", found.len());
        at.add_at_key(DefinitionProblem::error("too_many", message));
    }
    found
}

fn service(at: &NodeCursor<'_>) -> Option<ServiceDefinition> {
    let fields = at.fields(&["image", "env", "ready"])?;
    let image = fields.require("image").and_then(|at| image(&at));
    let (env, ready) = (env(&fields), fields.read("ready"));
    Some(ServiceDefinition { image: image?, env, ready })
}

impl ReadNode for ServiceReadiness {
    fn read(at: &NodeCursor<'_>) -> Option<Self> {
        let fields = at.fields(&["tcp", "within"])?;
        let port = fields.require("tcp")?.whole_number(1, u32::from(u16::MAX))?;
        Some(Self {
            tcp: u16::try_from(port).ok()?,
            within: match fields.get("within") {
                Some(at) => at.duration(1, SERVICE_READY_S_MAX)?,
                None => DurationSeconds::from_secs(SERVICE_READY_S),
            },
        })
    }
}

fn network(at: &NodeCursor<'_>) -> Option<NetworkAccess> {
    at.choice(&NetworkAccess::OF_CONTAINERS.map(|network| (network.as_str(), network)))
}

/// An image may contain expressions. It is then checked again when the step starts.
fn image(at: &NodeCursor<'_>) -> Option<String> {
    let text = at.raw_text()?;
    if !text.contains("${{")
        && let Err(why) = ImageReference::parse(text)
    {
        at.error("bad_image", format!("{} {why}", quote(text)));
        return None;
    }
    Some(text.to_owned())
}

fn user(at: &NodeCursor<'_>) -> Option<String> {
    let text = match &at.node.value {
        YamlValue::Number { text, .. } => text,
        _ => at.text()?,
    };
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('-')
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    let (name, group) = text.split_once(':').unwrap_or((text, "0"));
    if text.len() > USER_CHARS_MAX || !is_word(name) || !is_word(group) {
        at.error(
            "bad_user",
            format!("{} is not a user; write a name such as `node`, or ids such as `1000:1000`", quote(text)),
        );
        return None;
    }
    Some(text.to_owned())
}

fn cpus(at: &NodeCursor<'_>) -> Option<CpuLimit> {
    let YamlValue::Number { value, .. } = &at.node.value else {
        at.wrong_type("a number");
        return None;
    };
    let limit = CpuLimit::try_from(value.as_f64().unwrap_or(f64::NAN));
    limit.map_err(|InvalidName(why)| at.error("out_of_range", why)).ok()
}
