//! Rules for Docker, Podman and image registries.

use crate::category::Category::{Container, Credentials, Network, Permission};
use crate::rule::{CAUSE, REPORT, Rule};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "docker-socket",
        category: Permission,
        patterns: &[
            r"permission denied while trying to connect to the (?P<what>Docker daemon socket|docker API)",
        ],
        says: "The step's user has no access to Docker ({what}).",
        advice: "Add the runner's user to the docker group, or build with a tool that needs no daemon.",
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
        says: "No container engine is running at {what}.",
        advice: "Start the engine on the machine that runs the step, or fix DOCKER_HOST.",
        ..CAUSE
    },
    Rule {
        id: "image-reference",
        category: Container,
        patterns: &[
            r"(?P<what>invalid reference format(?:: .+)?)",
            r"(?P<what>repository name (?:\([^)]*\) )?must be lowercase)",
        ],
        says: "Invalid image name: {what}.",
        advice: "Use lower case and name:tag. The usual cause is an empty variable in the name.",
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
        says: "The image does not exist or access is denied: {what}.",
        advice: "Check name, tag and platform; log in if the image is private.",
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
        says: "The image registry rejects the credentials: {what}.",
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
        says: "The image registry's rate limit was reached: {what}.",
        advice: "Log in, or pull through your own mirror.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-missing",
        category: Container,
        patterns: &[
            r"failed to read dockerfile: (?P<what>.+)",
            r"unable to (?:prepare context|evaluate symlinks in Dockerfile path): (?P<what>.+)",
        ],
        says: "The Dockerfile or the build context does not exist: {what}.",
        advice: "Fix the path after `docker build`, or the `-f` option.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-copy",
        category: Container,
        patterns: &[
            r"failed to (?:compute cache key|calculate checksum of ref).*?(?P<what>\x22?/\S+): not found",
            r"(?:COPY|ADD) failed: (?P<what>.+)",
        ],
        says: "The Dockerfile copies a file that is not in the build context: {what}.",
        advice: "Build the file first, fix the path, or check .dockerignore.",
        ..CAUSE
    },
    Rule {
        id: "dockerfile-syntax",
        category: Container,
        patterns: &[r"dockerfile parse error (?:on )?(?P<what>.+)", r"(?P<what>unknown instruction: \S+)"],
        says: "The Dockerfile has a syntax error: {what}.",
        advice: "Fix that line.",
        ..CAUSE
    },
    Rule {
        id: "container-name",
        category: Container,
        patterns: &[
            r"The container name \x22(?P<what>[^\x22]+)\x22 is already in use",
            r"Bind for (?P<what>\S+) failed: port is already allocated",
        ],
        says: "The container name or port is already in use: {what}.",
        advice: "Remove the old container first (`docker rm -f`), or use `--rm` and a different name or port.",
        ..CAUSE
    },
    Rule {
        id: "container-start",
        category: Container,
        patterns: &[
            r"OCI runtime (?:create|exec) failed: .*?(?P<what>exec:? .+|mount.+)",
            r"failed to create (?:shim )?task(?: for container)?: (?P<what>.+)",
        ],
        says: "The container failed to start: {what}.",
        advice: "Check its command, entry point and mounts.",
        ..CAUSE
    },
    Rule {
        id: "exec-format",
        category: Container,
        patterns: &[
            r"(?P<what>\S+): (?:cannot execute binary file: )?[Ee]xec format error",
            r"(?P<what>exec user process caused: exec format error)",
        ],
        says: "A program was built for a different architecture: {what}.",
        advice: "Build for the platform that runs it (`--platform`); start scripts with a #! line.",
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
        says: "A command of the image build failed: {what}.",
        advice: "Its output is above.",
        ..REPORT
    },
];
