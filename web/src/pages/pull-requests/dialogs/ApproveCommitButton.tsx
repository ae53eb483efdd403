import { Button } from "@mantine/core";
import { useState } from "react";
import type { PullRequest } from "@/api/types";
import { usePermissionSomewhere } from "@/data/me";
import { formatCommit } from "@/format/commit";
import { ApproveCommitDialog } from "./ApproveCommitDialog";

type Props = { pullRequest: PullRequest; size?: string };

/** Approves the head commit of a fork; nothing if it needs no approval or the user may not claim environments. */
export function ApproveCommitButton({ pullRequest, size }: Props) {
  const mayClaim = usePermissionSomewhere("environments:claim");
  const [isOpen, setOpen] = useState(false);
  if (!pullRequest.needsApproval || !mayClaim) return null;
  return (
    <>
      <Button size={size} onClick={() => setOpen(true)}>
        Approve {formatCommit(pullRequest.head)} for deployment
      </Button>
      {isOpen && <ApproveCommitDialog pullRequest={pullRequest} onClose={() => setOpen(false)} />}
    </>
  );
}
