/** How a state looks: always a colour, an icon and a word together. */
import {
  IconAlertTriangle,
  IconAnchor,
  IconArrowsExchange,
  IconBan,
  IconCheck,
  IconCircleDashed,
  IconClock,
  IconHourglass,
  IconLock,
  IconPlayerPause,
  IconPlayerSkipForward,
  IconPlayerTrackNext,
  IconPointFilled,
  IconRefresh,
  IconX,
  type TablerIcon,
} from "@tabler/icons-react";
import type {
  Approval,
  DeploymentStatus,
  EnvironmentState,
  Runner,
  StageStatus,
  StepRegistry,
  StepRegistryBuild,
  StepStatus,
} from "@/api/types";

export type Tone = "good" | "bad" | "warn" | "busy" | "quiet";

export type Look = { word: string; tone: Tone; icon: TablerIcon; moves?: boolean };

export const TONE_COLOUR: Record<Tone, string> = {
  good: "kelp",
  bad: "buoy",
  warn: "lantern",
  busy: "tide",
  quiet: "gray",
};

type AnyRunStatus = DeploymentStatus | StageStatus | StepStatus;

export const RUN_LOOK: Record<AnyRunStatus, Look> = {
  pending: { word: "not yet", tone: "quiet", icon: IconCircleDashed },
  ready: { word: "ready", tone: "quiet", icon: IconCircleDashed },
  queued: { word: "queued", tone: "quiet", icon: IconClock },
  running: { word: "running", tone: "busy", icon: IconPointFilled, moves: true },
  waiting: { word: "waiting", tone: "warn", icon: IconHourglass },
  cancelling: { word: "stopping", tone: "warn", icon: IconBan, moves: true },
  succeeded: { word: "succeeded", tone: "good", icon: IconCheck },
  failed: { word: "failed", tone: "bad", icon: IconX },
  cancelled: { word: "cancelled", tone: "quiet", icon: IconBan },
  superseded: { word: "replaced", tone: "quiet", icon: IconPlayerTrackNext },
  skipped: { word: "skipped", tone: "quiet", icon: IconPlayerSkipForward },
};

export const ENVIRONMENT_LOOK: Record<EnvironmentState, Look> = {
  clean: { word: "clean", tone: "good", icon: IconCheck },
  dirty: { word: "changed", tone: "quiet", icon: IconPointFilled },
  resetting: { word: "resetting", tone: "busy", icon: IconRefresh, moves: true },
  contested: { word: "handing over", tone: "warn", icon: IconArrowsExchange, moves: true },
  unknown: { word: "needs a look", tone: "bad", icon: IconAlertTriangle },
};

export const LOCK_LOOK: Record<"free" | "held" | "mine", Look> = {
  free: { word: "free", tone: "good", icon: IconAnchor },
  held: { word: "held", tone: "warn", icon: IconLock },
  mine: { word: "yours", tone: "busy", icon: IconLock },
};

export const APPROVAL_LOOK: Record<Approval["status"], Look> = {
  pending: { word: "waiting", tone: "warn", icon: IconHourglass },
  approved: { word: "approved", tone: "good", icon: IconCheck },
  rejected: { word: "rejected", tone: "bad", icon: IconX },
  expired: { word: "expired", tone: "quiet", icon: IconClock },
  lapsed: { word: "no longer needed", tone: "quiet", icon: IconBan },
};

export const REGISTRY_LOOK: Record<StepRegistry["status"], Look> = {
  pending: { word: "not looked at yet", tone: "quiet", icon: IconClock },
  building: { word: "building", tone: "busy", icon: IconPointFilled, moves: true },
  ready: { word: "ready", tone: "good", icon: IconCheck },
  failed: { word: "failed", tone: "bad", icon: IconX },
};

export const BUILD_LOOK: Record<StepRegistryBuild["status"], Look> = {
  building: { word: "building", tone: "busy", icon: IconPointFilled, moves: true },
  succeeded: { word: "succeeded", tone: "good", icon: IconCheck },
  failed: { word: "failed", tone: "bad", icon: IconX },
  interrupted: { word: "interrupted", tone: "quiet", icon: IconBan },
};

export const RUNNER_LOOK: Record<Runner["state"], Look> = {
  pending: { word: "not registered yet", tone: "quiet", icon: IconClock },
  online: { word: "online", tone: "good", icon: IconCheck },
  draining: { word: "finishing", tone: "warn", icon: IconHourglass, moves: true },
  offline: { word: "offline", tone: "quiet", icon: IconBan },
  lost: { word: "lost", tone: "bad", icon: IconAlertTriangle },
};

export const PAUSED: Look = { word: "paused", tone: "warn", icon: IconPlayerPause };
