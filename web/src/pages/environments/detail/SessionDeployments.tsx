import { Button, Card, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Deployment } from "@/api/types";
import { type EnvironmentKey, sessionQuery } from "@/data/environments";
import { RUN_STATUS_STYLE } from "@/theme/status";
import { CommitLine } from "@/ui/commits/CommitLine";
import { Link } from "@/ui/Link";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusBadge } from "@/ui/StatusBadge";

const SHOWN_MAX = 5;

/** Deployments of the active session, newest first. */
export function SessionDeployments({ where, sessionId }: { where: EnvironmentKey; sessionId: string }) {
  const session = useQuery(sessionQuery(where, sessionId));
  const [showsAll, setShowsAll] = useState(false);
  return (
    <Card component="section" aria-label="Deployments in this session">
      <Title order={2} mb="sm">
        Deployments in this session
      </Title>
      <QueryResult of={session}>
        {found => (
          <Stack gap="sm">
            {found.drain && !found.drain.completedAt && (
              <Text c="var(--berth-warn)">
                Handing over: cancelling {found.drain.pending.length} of the previous holder’s deployments,
                until <RelativeTime at={found.drain.deadline} /> at the latest
              </Text>
            )}
            {found.deployments.length === 0 && <Text c="dimmed">No deployments yet</Text>}
            <SessionDeploymentRows
              org={where.org}
              of={showsAll ? found.deployments : found.deployments.slice(0, SHOWN_MAX)}
            />
            {found.deployments.length > SHOWN_MAX && !showsAll && (
              <Button variant="subtle" size="compact-sm" w="fit-content" onClick={() => setShowsAll(true)}>
                Show {found.deployments.length - SHOWN_MAX} more
              </Button>
            )}
          </Stack>
        )}
      </QueryResult>
    </Card>
  );
}

type PastProps = { where: EnvironmentKey; sessionId: string; count: number };

/** Deployments of an ended session, with links to their logs. */
export function PastSessionDeployments({ where, sessionId, count }: PastProps) {
  const session = useQuery(sessionQuery(where, sessionId));
  return (
    <QueryResult of={session}>
      {({ deployments }) => (
        <>
          <SessionDeploymentRows org={where.org} of={deployments} />
          {count > deployments.length && (
            <Text size="sm" c="dimmed">
              Only the newest {deployments.length} are shown
            </Text>
          )}
        </>
      )}
    </QueryResult>
  );
}

function SessionDeploymentRows({ org, of }: { org: string; of: Deployment[] }) {
  return (
    <>
      {of.map(each => (
        <Group key={each.id} gap="2px 12px">
          <StatusBadge status={RUN_STATUS_STYLE[each.status]} />
          <Link to="/o/$org/deployments/$deploymentId" params={{ org, deploymentId: each.id }}>
            #{each.number}
          </Link>
          <CommitLine commitId={each.commitId} commit={each.commit} at={each.createdAt} />
          {each.blockedBy[0] && (
            <Text size="sm" c="dimmed">
              {each.blockedBy[0].detail}
            </Text>
          )}
        </Group>
      ))}
    </>
  );
}
