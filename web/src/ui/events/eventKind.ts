/** Words, icons and colours for kinds of events. */
import {
  IconAnchor,
  IconBell,
  IconBulb,
  IconGitBranch,
  IconKey,
  IconLock,
  IconMessages,
  IconPackage,
  IconPoint,
  IconRocket,
  IconRoute,
  IconServer,
  IconThumbUp,
  IconUsers,
  IconWebhook,
  type TablerIcon,
} from "@tabler/icons-react";
import type { Tone } from "@/theme/status";

const LABELS: Record<string, string> = {
  "*": "all events",
  session_claimed: "Environment claimed",
  session_overridden: "Environment taken over",
  session_released: "Environment released",
  session_expiring: "Session expires soon",
};

/** "deployment_failed" as "Deployment failed". */
export function formatEventKind(kind: string): string {
  const words = kind.replaceAll("_", " ");
  return LABELS[kind] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** Icons by the first word of the kind. */
const ICONS: Record<string, TablerIcon> = {
  analysis: IconBulb,
  approval: IconThumbUp,
  bypass: IconThumbUp,
  soak: IconThumbUp,
  deployment: IconRocket,
  finished: IconRocket,
  promotion: IconRocket,
  rollback: IconRocket,
  stage: IconRocket,
  step: IconRocket,
  pipeline: IconRoute,
  drain: IconAnchor,
  environment: IconAnchor,
  session: IconAnchor,
  ticket: IconAnchor,
  fix: IconGitBranch,
  forge: IconGitBranch,
  pull: IconGitBranch,
  repository: IconGitBranch,
  access: IconUsers,
  account: IconUsers,
  grant: IconUsers,
  invitation: IconUsers,
  member: IconUsers,
  organization: IconUsers,
  team: IconUsers,
  cli: IconKey,
  id: IconKey,
  identity: IconKey,
  login: IconKey,
  logins: IconKey,
  password: IconKey,
  recovery: IconKey,
  second: IconKey,
  token: IconKey,
  root: IconLock,
  secret: IconLock,
  image: IconPackage,
  registry: IconPackage,
  epoch: IconServer,
  runner: IconServer,
  webhook: IconWebhook,
  chat: IconMessages,
  slack: IconMessages,
  notification: IconBell,
};

/** Colours by the end of the kind. */
const TONES: [RegExp, Tone][] = [
  [/_(?:failed|refused|denied|rejected|unknown)$|^epoch_raised$/, "bad"],
  [/_(?:overridden|rolled_back|suspended|paused|stopped|expiring|expired|skipped|used)$/, "warn"],
  [/^login_/, "quiet"],
  [/_(?:succeeded|approved|granted|built)$/, "good"],
  [/_(?:started|requested)$/, "busy"],
];

export function eventStyle(kind: string): { icon: TablerIcon; tone: Tone } {
  return {
    icon: ICONS[kind.split("_")[0] ?? ""] ?? IconPoint,
    tone: TONES.find(([pattern]) => pattern.test(kind))?.[1] ?? "quiet",
  };
}
