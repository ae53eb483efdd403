import { Box, Button, Card, Group, Title } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Environment, EnvironmentState } from "@/api/types";
import { type EnvironmentKey, environmentQuery, findSite } from "@/data/environments";
import { pipelineQuery } from "@/data/pipelines";
import { ENVIRONMENT_STATUS_STYLE } from "@/theme/status";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { StatusBadge } from "@/ui/StatusBadge";
import { useLinkedAction } from "@/ui/useLinkedAction";
import { ENVIRONMENT_ACTIONS, type EnvironmentAction, EnvironmentActions } from "../EnvironmentActions";
import { SessionSummary } from "../SessionSummary";
import { ConfigurationCard } from "./ConfigurationCard";
import classes from "./environment.module.css";
import { QueueCard } from "./QueueCard";
import { SessionDeployments } from "./SessionDeployments";
import { SessionHistory } from "./SessionHistory";
import { TakeoverBanner } from "./TakeoverBanner";
import { UsageSection } from "./UsageSection";

/** States that need an explanation; the others follow from the session. */
const UNUSUAL_STATES: EnvironmentState[] = ["resetting", "contested", "unknown"];

/** One shared environment: session, queue, usage and session history. */
export function EnvironmentPage() {
  const { org, pipelineId, envName } = useParams({ from: "/o/$org/environments/$pipelineId/$envName" });
  const where: EnvironmentKey = { org, pipelineId, envName };
  const opened = useState<EnvironmentAction | null>(null);
  useLinkedAction(ENVIRONMENT_ACTIONS, opened[1]);
  const environment = useQuery(environmentQuery(where));
  const pipeline = useQuery(pipelineQuery(org, pipelineId));
  return (
    <QueryResult of={environment}>
      {found => (
        <Page
          title={envName}
          lead={
            <Group gap={6}>
              Shared environment of
              <Link to="/o/$org/pipelines/$pipelineId" params={{ org, pipelineId }}>
                {pipeline.data?.name ?? pipelineId}
              </Link>
              {UNUSUAL_STATES.includes(found.state) && (
                <StatusBadge status={ENVIRONMENT_STATUS_STYLE[found.state]} />
              )}
            </Group>
          }
          actions={<SiteButton environment={found} />}
        >
          <TakeoverBanner where={where} environment={found} />
          <Card component="section" aria-label="Session">
            <Group justify="space-between" align="flex-start" gap="md">
              <Box style={{ flex: "1 1 20rem", minWidth: 0 }}>
                <SessionSummary where={where} environment={found} isOnPage />
              </Box>
              <EnvironmentActions
                where={where}
                environment={found}
                pipeline={pipeline.data?.slug}
                opened={opened}
              />
            </Group>
          </Card>
          <div className={classes.page}>
            <div className={classes.columns}>
              <div className={classes.column}>
                {found.queueLength > 0 && <QueueCard where={where} environment={found} />}
                {found.lock && <SessionDeployments where={where} sessionId={found.lock.sessionId} />}
                <Card component="section" aria-label="Session history">
                  <Title order={2} mb="sm">
                    Session history
                  </Title>
                  <SessionHistory where={where} />
                </Card>
              </div>
              <div className={classes.column}>
                <ConfigurationCard environment={found} />
                <UsageSection where={where} />
              </div>
            </div>
          </div>
        </Page>
      )}
    </QueryResult>
  );
}

/** Opens the first web address in the environment's configuration. */
function SiteButton({ environment }: { environment: Environment }) {
  const site = findSite(environment);
  if (!site) return null;
  return (
    <Button
      component="a"
      href={site}
      target="_blank"
      rel="noopener noreferrer"
      variant="default"
      leftSection={<IconExternalLink size={16} />}
    >
      Open site
    </Button>
  );
}
