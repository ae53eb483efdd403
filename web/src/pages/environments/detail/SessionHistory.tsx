import { Anchor, Pagination, Stack, Text, Timeline } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconAnchor, IconArrowsExchange, IconBolt, IconClock, IconLock } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useId } from "react";
import type { HistoryEntry } from "@/api/types";
import { type EnvironmentKey, sessionHistoryQuery } from "@/data/environments";
import { formatHolder } from "@/format/holder";
import { formatDuration } from "@/format/time";
import { CommitId } from "@/ui/CommitId";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { PastSessionDeployments } from "./SessionDeployments";
import { SessionTimeline } from "./SessionTimeline";

const ROUTE = "/o/$org/environments/$pipelineId/$envName";

/** Past sessions, newest first. */
export function SessionHistory({ where }: { where: EnvironmentKey }) {
  const page = Math.max(1, Number(useSearch({ from: ROUTE }).page ?? 1) || 1);
  const navigate = useNavigate({ from: ROUTE });
  const history = useQuery(sessionHistoryQuery(where, page));
  return (
    <QueryResult of={history}>
      {({ data, pagination }) => (
        <Stack>
          {data.length === 0 && <Text c="dimmed">No sessions yet</Text>}
          <SessionTimeline sessions={data} />
          <Timeline bulletSize={26} lineWidth={2} color="tide">
            {data.map(each => (
              <Timeline.Item
                key={each.sessionId}
                bullet={<SessionIcon entry={each} />}
                title={formatHolder(each)}
              >
                <SessionEntry where={where} entry={each} />
              </Timeline.Item>
            ))}
          </Timeline>
          {pagination.totalPages > 1 && (
            <Pagination
              total={pagination.totalPages}
              value={page}
              onChange={next => navigate({ search: { page: String(next) }, resetScroll: false })}
              getControlProps={control => ({ "aria-label": `${control} page` })}
            />
          )}
        </Stack>
      )}
    </QueryResult>
  );
}

const ICONS = {
  released: IconAnchor,
  handed_over: IconArrowsExchange,
  overridden: IconBolt,
  expired: IconClock,
  idle: IconClock,
  lease: IconClock,
  agents_stopped: IconBolt,
  environment_deleted: IconAnchor,
  restored: IconAnchor,
};

function SessionIcon({ entry }: { entry: HistoryEntry }) {
  const Icon = entry.endReason ? ICONS[entry.endReason] : IconLock;
  return <Icon size={14} aria-hidden />;
}

function formatEnd({ endReason, endedBy, holder }: HistoryEntry): string {
  const by = endedBy?.name ?? "another user";
  switch (endReason) {
    case "released":
      return endedBy && endedBy.id !== holder.id ? `released by ${by}` : "released";
    case "handed_over":
      return "handed over";
    case "overridden":
      return `taken over by ${by}`;
    case "expired":
      return "expired";
    case "idle":
      return "released after inactivity";
    case "lease":
      return "ended without a heartbeat";
    case "agents_stopped":
      return `ended when ${by} stopped all agents`;
    case "environment_deleted":
      return "environment deleted";
    case "restored":
      return "ended by a database restore";
    default:
      return "active";
  }
}

function SessionEntry({ where, entry }: { where: EnvironmentKey; entry: HistoryEntry }) {
  const [open, { toggle }] = useDisclosure();
  const list = useId();
  const count = entry.deploymentCount === 1 ? "1 deployment" : `${entry.deploymentCount} deployments`;
  return (
    <Stack gap={2}>
      {entry.context && (
        <Text size="sm" className="wrap">
          “{entry.context}”
        </Text>
      )}
      <Text size="sm" c="dimmed" component="div">
        <RelativeTime at={entry.claimedAt} /> · {formatDuration(entry.durationSeconds)} · {formatEnd(entry)} ·{" "}
        {entry.deploymentCount === 0 ? (
          count
        ) : (
          <Anchor
            component="button"
            type="button"
            inherit
            underline="always"
            onClick={toggle}
            aria-expanded={open}
            aria-controls={list}
          >
            {count}
          </Anchor>
        )}
        {entry.commitId && (
          <>
            , last commit <CommitId id={entry.commitId} />
          </>
        )}{" "}
        · fencing token {entry.fence}
      </Text>
      <Stack id={list} gap={4} hidden={!open}>
        {open && (
          <PastSessionDeployments where={where} sessionId={entry.sessionId} count={entry.deploymentCount} />
        )}
      </Stack>
    </Stack>
  );
}
