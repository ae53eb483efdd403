//! Docker, Podman, registries of images.

use crate::category::Category::{Container, Credentials, Network, Permission};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "docker-socket",
        category: Permission,
        patterns: &[
            r"permission denied while trying to connect to the (?P<what>Docker daemon socket|docker API)",
        ],
        says: "The user of the step may not talk to Docker ({what}).",
        advice: "Let the runner's user into the docker group, or build with a tool that needs no daemon.",
        ..CAUSE
    },
    Rule {
        id: "docker-daemon",
        category: Container,
        patterns: &[
            r"Cannot connect to the Docker daemon(?: at (?P<what>\S+))?",
            r"(?P<what>Cannot connect to Podman)",
            r"failed to connect to the docker API at (?P<what>\S+)",
            r"(?P<what>Is the docker daemon running)",
        ],
        says: "No container engine answers at {what}.",
        advice: "Start the engine on the machine that runs the step, or correct DOCKER_HOST.",
        ..CAUSE
    },
    Rule {
        id: "image-reference",
        category: Container,
        patterns: &[
            r"(?P<what>invalid reference format(?:: .+)?)",
            r"(?P<what>repository name (?:\([^)]*\) )?must be lowercase)",
        ],
        says: "The name of an image is none: {what}.",
        advice: "Use lower case and name:tag; an empty variable in the name is the usual reason.",
        ..CAUSE
    },
    Rule {
        id: "image-not-found",
        category: Container,
        patterns: &[
            r"(?P<what>manifest (?:unknown|for \S+ not found).*)",
            r"pull access denied for (?P<what>[^\s,]+)",
            r"(?P<what>\S+): not found: manifest",
            r"(?P<what>no matching manifest for \S+)",
            r"Unable to find image '(?P<what>[^']+)' locally$",
            r"failed to resolve source metadata for (?P<what>[^\s]+):",
        ],
        says: "The registry does not have the image or hides it: {what}.",
        advice: "Correct name, tag and platform; log in if the image is private.",
        ..CAUSE
    },
    Rule {
        id: "registry-credentials",
        category: Credentials,
        patterns: &[
            r"(?P<what>unauthorized: .*authentication required)",
            r"(?P<what>denied: requested access to the resource is denied)",
            r"(?P<what>no basic auth credentials)",
            r"(?P<what>unauthorized: incorrect username or password)",
        ],
        says: "The image registry does not accept who we are: {what}.",
        advice: "Log in to the registry in this step, with a secret that may push or pull there.",
        ..CAUSE
    },
    Rule {
        id: "registry-rate",
        category: Network,
        patterns: &[
            r"(?P<what>toomanyrequests: .+)",
            r"(?P<what>You have reached your (?:unauthenticated )?pull rate limit)",
        ],
        says: "The image registry answers no more for a while: {what}.",
        advice: "Log in, or pull through a mirror of your own.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-missing",
        category: Container,
        patterns: &[
            r"failed to read dockerfile: (?P<what>.+)",
            r"unable to (?:prepare context|evaluate symlinks in Dockerfile path): (?P<what>.+)",
        ],
        says: "The Dockerfile or its directory is not there: {what}.",
        advice: "Correct the path after `docker build`, or `-f`.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-copy",
        category: Container,
        patterns: &[
            r"failed to (?:compute cache key|calculate checksum of ref).*?(?P<what>\x22?/\S+): not found",
            r"(?:COPY|ADD) failed: (?P<what>.+)",
        ],
        says: "The Dockerfile copies what is not in its context: {what}.",
        advice: "Build it before, correct the path, or look at .dockerignore.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-syntax",
        category: Container,
        patterns: &[r"dockerfile parse error (?:on )?(?P<what>.+)", r"(?P<what>unknown instruction: \S+)"],
        says: "The Dockerfile cannot be read: {what}.",
        advice: "Correct that line.",
        ..CAUSE
    },
    Rule {
        id: "container-name",
        category: Container,
        patterns: &[
            r"The container name \x22(?P<what>[^\x22]+)\x22 is already in use",
            r"Bind for (?P<what>\S+) failed: port is already allocated",
        ],
        says: "A container of before is in the way: {what}.",
        advice: "Remove it first (`docker rm -f`), or use `--rm` and another name or port.",
        ..CAUSE
    },
    Rule {
        id: "container-start",
        category: Container,
        patterns: &[
            r"OCI runtime (?:create|exec) failed: .*?(?P<what>exec:? .+|mount.+)",
            r"failed to create (?:shim )?task(?: for container)?: (?P<what>.+)",
        ],
        says: "The container does not start: {what}.",
        advice: "Look at its command, its entry point and its mounts.",
        ..CAUSE
    },
    Rule {
        id: "exec-format",
        category: Container,
        patterns: &[
            r"(?P<what>\S+): (?:cannot execute binary file: )?[Ee]xec format error",
            r"(?P<what>exec user process caused: exec format error)",
        ],
        says: "A program was made for another kind of machine: {what}.",
        advice: "Build for the platform that runs it (`--platform`), and begin scripts with a #! line.",
        ..CAUSE
    },
    Rule {
        id: "docker-build-report",
        category: Container,
        patterns: &[
            r"failed to solve: process (?P<what>.+) did not complete successfully",
            r"The command '(?P<what>.+)' returned a non-zero code",
            r"Error: building at STEP (?P<what>.+): while running runtime",
        ],
        says: "A command of the image's build failed: {what}.",
        advice: "The output of that command is above.",
        ..REPORT
    },
];
