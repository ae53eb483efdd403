import { Text } from "@mantine/core";
import { useState } from "react";
import type { Approval } from "@/api/types";
import { useDecideApproval } from "@/data/approvals";
import { useOrg } from "@/data/me";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { CommitName } from "@/ui/commits/CommitLine";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { approval: Approval; title: string; choice: "approve" | "reject"; onClose: () => void };

/** Approves or rejects, with a comment. */
export function ApprovalDialog({ approval, title, choice, onClose }: Props) {
  const answer = useDecideApproval(useOrg());
  const [text, setText] = useState("");
  const approves = choice === "approve";
  const missing = approval.required - approval.given - 1;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`${approves ? "Approve" : "Reject"} ${title}?`}
      action={approves ? "Approve" : "Reject"}
      danger={!approves}
      mutation={answer}
      input={{ id: approval.id, choice, text }}
      success={() => `${title} ${approves ? "approved" : "rejected"}`}
    >
      <Text size="sm">
        {approves ? (
          <>
            {approval.commitId ? (
              <CommitName commitId={approval.commitId} commit={approval.commit} />
            ) : (
              "The deployment"
            )}{" "}
            continues{" "}
            {missing > 0
              ? `after ${missing} more ${missing === 1 ? "approval" : "approvals"}`
              : "immediately"}
            .
          </>
        ) : (
          "The stage fails, and none of its steps run."
        )}
      </Text>
      <ReasonField
        label={approves ? "Comment" : "Reason"}
        description="Visible to everyone in the organization"
        data-autofocus
        value={text}
        onChange={setText}
      />
    </ConfirmDialog>
  );
}
