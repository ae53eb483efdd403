import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { Approval } from "@/api/types";

/** Why an approval needs more people than its rule says, who is excluded, and whether enough people remain. */
export function ApprovalShortfall({ approval }: { approval: Approval }) {
  const { raisedBecause, excluded, unreachable } = approval;
  return (
    <>
      {raisedBecause && (
        <Text size="sm" className="wrap">
          One more approval is needed: {raisedBecause}.
        </Text>
      )}
      {excluded.length > 0 && (
        <Text size="sm" c="dimmed" className="wrap">
          Cannot approve: {excluded.join(", ")}
        </Text>
      )}
      {unreachable && (
        <Alert color="lantern" icon={<IconAlertTriangle />} title="Not enough people can approve">
          {unreachable}
        </Alert>
      )}
    </>
  );
}
