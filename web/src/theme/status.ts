/** Colour, icon and label of every status. */
import {
  IconAlertTriangle,
  IconArrowsExchange,
  IconBan,
  IconCheck,
  IconCircle,
  IconCircleDashed,
  IconClock,
  IconHourglass,
  IconLoader2,
  IconLock,
  IconPlayerPause,
  IconPlayerSkipForward,
  IconPlayerTrackNext,
  IconPointFilled,
  IconQuestionMark,
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
  Webhook,
} from "@/api/types";

export type Tone = "good" | "bad" | "warn" | "busy" | "unknown" | "quiet";

export type StatusStyle = {
  label: string;
  tone: Tone;
  icon: TablerIcon;
  /** The icon breathes, or turns if it is a ring. */
  isAnimated?: boolean;
};

type AnyRunStatus = DeploymentStatus | StageStatus | StepStatus;

export const RUN_STATUS_STYLE: Record<AnyRunStatus, StatusStyle> = {
  pending: { label: "pending", tone: "quiet", icon: IconCircleDashed },
  ready: { label: "ready", tone: "quiet", icon: IconCircleDashed },
  queued: { label: "queued", tone: "quiet", icon: IconClock },
  running: { label: "running", tone: "busy", icon: IconLoader2, isAnimated: true },
  waiting: { label: "waiting", tone: "warn", icon: IconPlayerPause },
  cancelling: { label: "cancelling", tone: "warn", icon: IconBan, isAnimated: true },
  succeeded: { label: "succeeded", tone: "good", icon: IconCheck },
  failed: { label: "failed", tone: "bad", icon: IconX },
  cancelled: { label: "cancelled", tone: "quiet", icon: IconBan },
  superseded: { label: "superseded", tone: "quiet", icon: IconPlayerTrackNext },
  skipped: { label: "skipped", tone: "quiet", icon: IconPlayerSkipForward },
};

/** A step whose outcome a user has to decide. */
export const UNKNOWN_STATUS_STYLE: StatusStyle = {
  label: "unknown",
  tone: "unknown",
  icon: IconQuestionMark,
};

export const ENVIRONMENT_STATUS_STYLE: Record<EnvironmentState, StatusStyle> = {
  clean: { label: "clean", tone: "good", icon: IconCheck },
  dirty: { label: "modified", tone: "quiet", icon: IconPointFilled },
  resetting: { label: "resetting", tone: "busy", icon: IconRefresh, isAnimated: true },
  contested: { label: "handing over", tone: "warn", icon: IconArrowsExchange, isAnimated: true },
  unknown: { label: "unknown", tone: "unknown", icon: IconQuestionMark },
};

export const LOCK_STATUS_STYLE: Record<"free" | "held" | "mine", StatusStyle> = {
  free: { label: "free", tone: "good", icon: IconCircle },
  held: { label: "held", tone: "warn", icon: IconLock },
  mine: { label: "held by you", tone: "busy", icon: IconLock },
};

export const APPROVAL_STATUS_STYLE: Record<Approval["status"], StatusStyle> = {
  pending: { label: "pending", tone: "warn", icon: IconHourglass },
  approved: { label: "approved", tone: "good", icon: IconCheck },
  rejected: { label: "rejected", tone: "bad", icon: IconX },
  expired: { label: "expired", tone: "quiet", icon: IconClock },
  lapsed: { label: "no longer needed", tone: "quiet", icon: IconBan },
};

export const REGISTRY_STATUS_STYLE: Record<StepRegistry["status"], StatusStyle> = {
  pending: { label: "not synced yet", tone: "quiet", icon: IconClock },
  building: { label: "building", tone: "busy", icon: IconLoader2, isAnimated: true },
  ready: { label: "ready", tone: "good", icon: IconCheck },
  failed: { label: "failed", tone: "bad", icon: IconX },
};

export const BUILD_STATUS_STYLE: Record<StepRegistryBuild["status"], StatusStyle> = {
  building: { label: "building", tone: "busy", icon: IconLoader2, isAnimated: true },
  succeeded: { label: "succeeded", tone: "good", icon: IconCheck },
  failed: { label: "failed", tone: "bad", icon: IconX },
  interrupted: { label: "interrupted", tone: "quiet", icon: IconBan },
};

export const RUNNER_STATUS_STYLE: Record<Runner["state"], StatusStyle> = {
  pending: { label: "not registered yet", tone: "quiet", icon: IconClock },
  online: { label: "online", tone: "good", icon: IconCheck },
  draining: { label: "draining", tone: "warn", icon: IconHourglass, isAnimated: true },
  offline: { label: "offline", tone: "quiet", icon: IconBan },
  lost: { label: "lost", tone: "bad", icon: IconAlertTriangle },
};

export const PAUSED_STATUS_STYLE: StatusStyle = { label: "paused", tone: "warn", icon: IconPlayerPause };

export function chatStatusStyle({ failures }: { failures: number }): StatusStyle {
  return failures > 0
    ? { label: "failing", tone: "bad", icon: IconAlertTriangle }
    : { label: "active", tone: "good", icon: IconCheck };
}

export function webhookStatusStyle({ isActive }: Webhook): StatusStyle {
  return isActive
    ? { label: "active", tone: "good", icon: IconCheck }
    : { label: "disabled", tone: "warn", icon: IconPlayerPause };
}
