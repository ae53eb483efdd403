import { Alert, Stack, Text } from "@mantine/core";
import {
  IconAlertTriangle,
  IconArrowBackUp,
  IconBan,
  IconBolt,
  IconPlayerTrackNext,
  IconUrgent,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Deployment } from "@/api/types";
import { sessionQuery } from "@/data/environments";
import { formatCause } from "@/format/run";
import { Link } from "@/ui/Link";

type Props = { org: string; deployment: Deployment };

/** Notices about the whole deployment. */
export function Banners({ org, deployment }: Props) {
  const { bypass, rollback, supersededBy, status, cause, detail, cancelledBy, startedAt } = deployment;
  const to = (deploymentId: string, words: string) => (
    <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }} inherit underline="always">
      {words}
    </Link>
  );
  const overrun = useOverrun(org, deployment);
  const isQuiet =
    !bypass && !rollback && !supersededBy && !["failed", "cancelled", "cancelling"].includes(status);
  if (isQuiet) return null;
  return (
    <Stack gap="xs">
      {bypass && (
        <Alert
          color="buoy"
          radius="lg"
          icon={<IconUrgent />}
          title={`${bypass.by.name} let this pass every gate`}
          data-banner="bypass"
        >
          <Text size="sm" className="wrap">
            Windows, approvals and pauses do not hold it. Why: “{bypass.reason}”
          </Text>
        </Alert>
      )}
      {rollback && (
        <Alert color="lantern" radius="lg" icon={<IconArrowBackUp />} title={`Takes ${rollback.stage} back`}>
          <Text size="sm">
            It goes back to {to(rollback.to, "this deployment")}, in place of {to(rollback.of, "that one")}.
            Nothing newer comes into {rollback.stage} until the pipeline is resumed.
          </Text>
        </Alert>
      )}
      {supersededBy && (
        <Alert color="gray" radius="lg" icon={<IconPlayerTrackNext />} title="Replaced by a newer one">
          <Text size="sm">
            Only the newest of those that wait is needed: {to(supersededBy, "look at it")}.
          </Text>
        </Alert>
      )}
      {status === "failed" && (
        <Alert
          color="buoy"
          radius="lg"
          icon={<IconAlertTriangle />}
          title={cause ? formatCause(cause) : "It failed"}
        >
          {detail && (
            <Text size="sm" className="wrap">
              {detail}
            </Text>
          )}
        </Alert>
      )}
      {overrun && (
        <Alert
          color="lantern"
          radius="lg"
          icon={<IconBolt />}
          title={`${overrun.overriddenBy?.name ?? "Somebody"} took ${overrun.envName} over while this ${startedAt ? "ran" : "waited"}`}
          data-banner="taken-over"
        >
          <Text size="sm" className="wrap">
            {overrun.overrideReason && `Why: “${overrun.overrideReason}”. `}
            {startedAt
              ? `It was stopped, and a write that carries its hold no. ${overrun.fence} comes too late.`
              : "It never began."}
          </Text>
        </Alert>
      )}
      {(status === "cancelled" || status === "cancelling") && (
        <Alert
          color="gray"
          radius="lg"
          icon={<IconBan />}
          title={`${status === "cancelled" ? "Cancelled" : "Being cancelled"}${cancelledBy ? ` by ${cancelledBy.name}` : ""}`}
        >
          {detail && (
            <Text size="sm" className="wrap">
              {detail}
            </Text>
          )}
        </Alert>
      )}
    </Stack>
  );
}

/** The session of a deployment that was cancelled by a takeover. */
function useOverrun(org: string, { pipelineId, envName, sessionId, status, cause }: Deployment) {
  const wasStopped = status === "cancelled" || status === "cancelling";
  const session = useQuery({
    ...sessionQuery({ org, pipelineId, envName: envName ?? "" }, sessionId ?? ""),
    enabled: wasStopped && cause === "session_ended" && envName != null && sessionId != null,
  });
  return session.data?.overridden ? session.data : undefined;
}
