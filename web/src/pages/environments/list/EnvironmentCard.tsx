import { Card, Group, Stack, Title } from "@mantine/core";
import type { Environment } from "@/api/types";
import { useOrg } from "@/data/me";
import { ENVIRONMENT_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { StatusBadge } from "@/ui/StatusBadge";
import { EnvironmentActions } from "../EnvironmentActions";
import { SessionSummary } from "../SessionSummary";

/** `pipelineId` is the slug of the pipeline. */
type Props = { pipelineId: string; environment: Environment };

export function EnvironmentCard({ pipelineId, environment }: Props) {
  const org = useOrg();
  const { envName } = environment;
  return (
    <Card component="article" aria-label={envName} data-environment={envName}>
      <Stack gap="sm" h="100%" justify="space-between">
        <Stack gap="sm">
          <Group justify="space-between" gap="xs">
            <Title order={3} fz="lg">
              <Link
                to="/o/$org/environments/$pipelineId/$envName"
                params={{ org, pipelineId, envName }}
                inherit
                c="inherit"
                underline="hover"
              >
                {envName}
              </Link>
            </Title>
            {environment.state !== "clean" && environment.state !== "dirty" && (
              <StatusBadge status={ENVIRONMENT_STATUS_STYLE[environment.state]} />
            )}
          </Group>
          <SessionSummary where={{ org, pipelineId, envName }} environment={environment} />
        </Stack>
        <EnvironmentActions
          where={{ org, pipelineId, envName }}
          environment={environment}
          pipeline={pipelineId}
        />
      </Stack>
    </Card>
  );
}
