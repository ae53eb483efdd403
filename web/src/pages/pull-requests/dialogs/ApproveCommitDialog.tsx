import { List, Text } from "@mantine/core";
import type { PullRequest } from "@/api/types";
import { useOrg } from "@/data/me";
import { useApproveCommit } from "@/data/pullRequests";
import { formatCommit } from "@/format/commit";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

type Props = { pullRequest: PullRequest; onClose: () => void };

/** Asks before a commit from a fork is deployed. */
export function ApproveCommitDialog({ pullRequest, onClose }: Props) {
  const { repositoryId, number, head, author } = pullRequest;
  const commit = formatCommit(head);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Approve ${commit} for deployment?`}
      action={`Approve ${commit}`}
      mutation={useApproveCommit({ org: useOrg(), repositoryId, number })}
      input={head}
      success={() => `${commit} approved`}
    >
      <Text size="sm" className="wrap">
        Berth runs the code that {author.name} wrote in a fork, in your environments and on your runners.
      </Text>
      <List size="sm">
        <List.Item>The approval covers only this commit. Later commits need another one.</List.Item>
        <List.Item>Its deployments get no secrets and no ID tokens.</List.Item>
        <List.Item>Read the changes on the forge first.</List.Item>
      </List>
    </ConfirmDialog>
  );
}
