import { Alert, Stack, Text } from "@mantine/core";
import { IconArrowBackUp, IconBan, IconBolt, IconPlayerTrackNext, IconUrgent } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { Deployment } from "@/api/types";
import { deploymentCommit } from "@/data/deploymentCommit";
import { deploymentQuery } from "@/data/deployments";
import { sessionQuery } from "@/data/environments";
import { formatCommit } from "@/format/commit";
import { isFinished } from "@/format/run";
import { Link } from "@/ui/Link";

type Props = { org: string; deployment: Deployment };

/** Notices about the whole deployment. */
export function DeploymentBanners({ org, deployment }: Props) {
  const { bypass, rollback, supersededBy, status, detail, cancelledBy, startedAt } = deployment;
  const linkTo = (deploymentId: string, label: string) => (
    <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }} inherit underline="always">
      {label}
    </Link>
  );
  const takenOver = useTakenOverSession(org, deployment);
  const isQuiet = !bypass && !rollback && !supersededBy && !["cancelled", "cancelling"].includes(status);
  if (isQuiet) return null;
  return (
    <Stack gap="xs">
      {bypass && (
        <Alert
          color="buoy"
          radius="lg"
          icon={<IconUrgent />}
          title={`${bypass.by.name} bypassed all gates`}
          data-banner="bypass"
        >
          <Text size="sm" className="wrap">
            Deployment windows, approvals and pauses do not apply. Reason: “{bypass.reason}”
          </Text>
        </Alert>
      )}
      {rollback && <RollbackBanner org={org} deployment={deployment} rollback={rollback} />}
      {supersededBy && (
        <Alert
          color="gray"
          radius="lg"
          icon={<IconPlayerTrackNext />}
          title="Superseded by a newer deployment"
        >
          <Text size="sm">
            Only the newest queued deployment runs. {linkTo(supersededBy, "View the newer deployment")}
          </Text>
        </Alert>
      )}
      {takenOver && (
        <Alert
          color="lantern"
          radius="lg"
          icon={<IconBolt />}
          title={`${takenOver.overriddenBy?.name ?? "Another user"} took over ${takenOver.envName} while this deployment was ${startedAt ? "running" : "queued"}`}
          data-banner="taken-over"
        >
          <Text size="sm" className="wrap">
            {takenOver.overrideReason && `Reason: “${takenOver.overrideReason}”. `}
            {startedAt
              ? `It was cancelled, and its fencing token ${takenOver.fence} is no longer valid.`
              : "It never started."}
          </Text>
        </Alert>
      )}
      {(status === "cancelled" || status === "cancelling") && (
        <Alert
          color="gray"
          radius="lg"
          icon={<IconBan />}
          title={`${status === "cancelled" ? "Cancelled" : "Cancelling"}${cancelledBy ? ` by ${cancelledBy.name}` : ""}`}
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

type RollbackProps = Props & { rollback: NonNullable<Deployment["rollback"]> };

function RollbackBanner({ org, deployment, rollback }: RollbackProps) {
  const { stage } = rollback;
  const verb = isFinished(deployment.status) ? "Redeployed" : "Redeploys";
  return (
    <Alert color="lantern" radius="lg" icon={<IconArrowBackUp />} title={`Rollback of ${stage}`}>
      <Text size="sm" className="wrap">
        {verb} <DeploymentLink org={org} deploymentId={rollback.to} /> in place of{" "}
        <DeploymentLink org={org} deploymentId={rollback.of} />. New deployments to {stage} are paused until
        the pipeline is resumed.
      </Text>
    </Alert>
  );
}

/** "#11 (4d6d0ebe)", linked. */
function DeploymentLink({ org, deploymentId }: { org: string; deploymentId: string }) {
  const found = useQuery(deploymentQuery(org, deploymentId)).data;
  return (
    <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId }} inherit underline="always">
      {found ? `#${found.number} (${formatCommit(deploymentCommit(found).commitId)})` : "a deployment"}
    </Link>
  );
}

/** The session of a deployment that was cancelled by a takeover. */
function useTakenOverSession(org: string, { pipelineId, envName, sessionId, status, cause }: Deployment) {
  const wasStopped = status === "cancelled" || status === "cancelling";
  const session = useQuery({
    ...sessionQuery({ org, pipelineId, envName: envName ?? "" }, sessionId ?? ""),
    enabled: wasStopped && cause === "session_ended" && envName != null && sessionId != null,
  });
  return session.data?.overridden ? session.data : undefined;
}
