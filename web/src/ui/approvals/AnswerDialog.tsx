import { Text } from "@mantine/core";
import { useState } from "react";
import type { Approval } from "@/api/types";
import { useAnswer } from "@/data/approvals";
import { useOrg } from "@/data/me";
import { Commit } from "@/ui/Commit";
import { Confirm } from "@/ui/Confirm";
import { ReasonField } from "@/ui/fields/ReasonField";

type Props = { approval: Approval; title: string; choice: "approve" | "reject"; onClose: () => void };

/** A yes or a no, with a word about it. */
export function AnswerDialog({ approval, title, choice, onClose }: Props) {
  const answer = useAnswer(useOrg());
  const [text, setText] = useState("");
  const approves = choice === "approve";
  const missing = approval.required - approval.given - 1;
  return (
    <Confirm
      onClose={onClose}
      title={`${approves ? "Approve" : "Reject"} ${title}`}
      action={approves ? "Approve" : "Reject"}
      danger={!approves}
      mutation={answer}
      input={{ id: approval.id, choice, text }}
      success={() => (approves ? "Approved." : "Rejected.")}
    >
      <Text size="sm">
        {approves ? (
          <>
            {approval.commitId && <Commit id={approval.commitId} />} goes on{" "}
            {missing > 0 ? `after ${missing} more ${missing === 1 ? "yes" : "answers"}` : "at once"}.
          </>
        ) : (
          "One no ends it: the stage fails, and nothing of it runs."
        )}
      </Text>
      <ReasonField
        label={approves ? "Comment" : "Why"}
        description="Everybody sees it."
        data-autofocus
        value={text}
        onChange={setText}
      />
    </Confirm>
  );
}
