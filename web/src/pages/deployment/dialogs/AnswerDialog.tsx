import { Text, Textarea } from "@mantine/core";
import { useState } from "react";
import type { Approval } from "@/api/types";
import { useAnswer } from "@/data/approvals";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { shortCommit } from "@/words/commit";

const TEXT_CHARS_MAX = 1_000;

type Props = { org: string; approval: Approval; choice: "approve" | "reject"; onClose: () => void };

/** Yes or no to exactly what is shown. */
export function AnswerDialog({ org, approval, choice, onClose }: Props) {
  const answer = useAnswer(org);
  const [text, setText] = useState("");
  const isYes = choice === "approve";
  const starts = approval.given + 1 >= approval.rule.approvals;
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`${isYes ? "Approve" : "Reject"} ${approval.stage}?`}
      action={isYes ? "Approve" : "Reject"}
      danger={!isYes}
      pending={answer.isPending}
      error={answer.error}
      onConfirm={() =>
        answer.mutate(
          { id: approval.id, choice, text },
          {
            onSuccess: () => {
              tell(isYes ? "Approved." : "Rejected.");
              onClose();
            },
          },
        )
      }
    >
      <Text size="sm" className="wrap">
        {approval.commitId && (
          <>
            Commit <code>{shortCommit(approval.commitId)}</code>.{" "}
          </>
        )}
        {isYes
          ? starts
            ? "With your answer it starts at once."
            : "More people have to answer before it starts."
          : "One no ends it: the stage fails, and a retry asks again."}
      </Text>
      <Textarea
        label={isYes ? "Comment" : "Why"}
        value={text}
        maxLength={TEXT_CHARS_MAX}
        onChange={event => setText(event.currentTarget.value)}
        data-autofocus
        autosize
        minRows={2}
      />
    </Confirm>
  );
}
