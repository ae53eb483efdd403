import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { Approval } from "@/api/types";

/** Why more people have to approve than the rule says, who cannot, and whether there are enough others. */
export function Shortfall({ approval }: { approval: Approval }) {
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
        <Alert color="lantern" icon={<IconAlertTriangle />} title="Too few people can approve">
          {unreachable}
        </Alert>
      )}
    </>
  );
}
