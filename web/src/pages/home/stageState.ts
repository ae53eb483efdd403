/** State of a stage in one icon, colour and phrase. */
import { IconArrowDown, IconCheck } from "@tabler/icons-react";
import type { Approval, Stage } from "@/api/types";
import type { StageOccupant } from "@/data/stageOccupants";
import {
  APPROVAL_STATUS_STYLE,
  PAUSED_STATUS_STYLE,
  RUN_STATUS_STYLE,
  type StatusStyle,
} from "@/theme/status";

const UP_TO_DATE: StatusStyle = { label: "up to date", tone: "good", icon: IconCheck };
const DEPLOYED: StatusStyle = { label: "deployed", tone: "good", icon: IconCheck };
const NOT_DEPLOYED: StatusStyle = { ...RUN_STATUS_STYLE.pending, label: "not deployed" };

type StateInput = {
  stage: Stage;
  head: string | null;
  occupant?: StageOccupant;
  approval?: Approval;
};

/** What is in progress counts more than what failed, and that more than what is deployed. */
export function stageStatus({ stage, head, occupant, approval }: StateInput): StatusStyle {
  const { current, failed, paused } = stage;
  if (approval) {
    const behind = current?.behindBy ? `${formatBehind(current.behindBy)}, ` : "";
    return { ...APPROVAL_STATUS_STYLE.pending, label: `${behind}needs approval` };
  }
  if (occupant) return RUN_STATUS_STYLE[occupant.stage.status];
  if (failed) return RUN_STATUS_STYLE.failed;
  if (paused) return PAUSED_STATUS_STYLE;
  if (!current) return NOT_DEPLOYED;
  if (current.behindBy === 0 || current.commitId === head) return UP_TO_DATE;
  if (current.behindBy) return { label: formatBehind(current.behindBy), tone: "warn", icon: IconArrowDown };
  return DEPLOYED;
}

function formatBehind(count: number): string {
  return `${count} behind`;
}

/** The stage that is behind the one before it, so that its commit can be promoted; the last one of several. */
export function findPromotion(stages: Stage[], isBusy: boolean): { commitId: string; to: string } | null {
  if (isBusy) return null;
  for (let at = stages.length - 1; at > 0; at--) {
    const from = stages[at - 1];
    const to = stages[at];
    if (!from?.current || !to || from.failed || to.paused) continue;
    const isNewer = to.current ? Date.parse(from.current.at) > Date.parse(to.current.at) : true;
    if (isNewer && from.current.commitId !== to.current?.commitId)
      return { commitId: from.current.commitId, to: to.name };
  }
  return null;
}
