import { Alert, Group, Loader, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import type { Repository } from "@/api/types";
import { newestDeploymentsQuery } from "@/data/deployments";
import { useOrg } from "@/data/me";

/** Fallback for missed events. */
const POLL_MS = 2_000;

/** Progress of a repository that was just added. Opens the first deployment that its sync starts. */
export function FirstSync({ repository }: { repository: Repository }) {
  const org = useOrg();
  const navigate = useNavigate();
  const found = new Set(repository.pipelines.map(each => each.id));
  const deployments = useQuery({
    ...newestDeploymentsQuery(org),
    enabled: found.size > 0,
    refetchInterval: POLL_MS,
  });
  const started = deployments.data?.data.find(each => found.has(each.pipelineId))?.id;
  useEffect(() => {
    if (started)
      navigate({
        to: "/o/$org/deployments/$deploymentId",
        params: { org, deploymentId: started },
        replace: true,
      });
  }, [started, org, navigate]);
  if (repository.error) return null;
  if (repository.lastSyncedAt && found.size === 0) return null;
  const isSyncing = !repository.lastSyncedAt;
  return (
    <Alert color="tide" role="status">
      <Group gap="sm" wrap="nowrap">
        <Loader size="xs" />
        <Text size="sm">
          {isSyncing
            ? "Syncing the repository and looking for pipelines…"
            : "Pipelines found. This page opens their first deployment as soon as it starts. Pipelines that track no branch, or one without commits, are deployed from their own page."}
        </Text>
      </Group>
    </Alert>
  );
}
