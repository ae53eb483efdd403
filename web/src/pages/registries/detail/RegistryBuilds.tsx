import { Button, Card, Code, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { StepRegistry, StepRegistryBuild } from "@/api/types";
import { BUILD_LINES_SHOWN_MAX, buildLogQuery, registryBuildsQuery } from "@/data/registries";
import { formatCommit } from "@/format/commit";
import { BUILD_STATUS_STYLE } from "@/theme/status";
import { CommitId } from "@/ui/CommitId";
import { stripAnsi } from "@/ui/log/ansi";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { StatusText } from "@/ui/StatusBadge";

type Props = { org: string; registry: StepRegistry };

/** Builds, newest first. The newest is open unless it succeeded. */
export function RegistryBuilds({ org, registry }: Props) {
  const builds = useQuery(registryBuildsQuery(org, registry));
  const [chosen, setChosen] = useState<number | "none" | null>(null);
  return (
    <Card component="section" aria-label="Builds">
      <Title order={2} mb="sm">
        Builds
      </Title>
      <QueryResult of={builds}>
        {({ data }) => {
          const newest = data[0];
          const open = chosen ?? (newest && newest.status !== "succeeded" ? newest.number : "none");
          return data.length === 0 ? (
            <Text c="dimmed" role="status">
              No builds yet. The first one starts automatically.
            </Text>
          ) : (
            <Table.ScrollContainer minWidth={520}>
              <Table fz="sm">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Th>Build</Table.Th>
                    <Table.Th>Status</Table.Th>
                    <Table.Th>Commit</Table.Th>
                    <Table.Th>Started</Table.Th>
                    <Table.Th>Reference</Table.Th>
                    <Table.Th aria-label="Log" />
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {data.map(each => (
                    <BuildRow
                      key={each.number}
                      org={org}
                      registry={registry}
                      build={each}
                      isOpen={open === each.number}
                      onToggle={() => setChosen(open === each.number ? "none" : each.number)}
                    />
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
          );
        }}
      </QueryResult>
    </Card>
  );
}

type BuildProps = Props & { build: StepRegistryBuild; isOpen: boolean; onToggle: () => void };

function BuildRow({ org, registry, build, isOpen, onToggle }: BuildProps) {
  const id = `build-${build.number}`;
  return (
    <>
      <Table.Tr>
        <Table.Td className="tabular">#{build.number}</Table.Td>
        <Table.Td>
          <StatusText status={BUILD_STATUS_STYLE[build.status]} />
        </Table.Td>
        <Table.Td>
          <CommitId id={build.commit} />
        </Table.Td>
        <Table.Td>
          <RelativeTime at={build.startedAt} />
        </Table.Td>
        <Table.Td>
          {build.status === "succeeded" && (
            <Code>
              {registry.name}/…@{formatCommit(build.commit)}
            </Code>
          )}
        </Table.Td>
        <Table.Td ta="right">
          <Button
            size="compact-xs"
            variant="default"
            aria-expanded={isOpen}
            aria-controls={id}
            aria-label={`Log of build ${build.number}`}
            onClick={onToggle}
          >
            Log
          </Button>
        </Table.Td>
      </Table.Tr>
      <Table.Tr id={id} hidden={!isOpen}>
        <Table.Td colSpan={6}>
          {isOpen && (
            <Stack gap="xs">
              {build.error && (
                <Text size="sm" c="var(--berth-bad)" className="wrap">
                  {build.error}
                </Text>
              )}
              <BuildLog org={org} registryId={registry.name} number={build.number} />
            </Stack>
          )}
        </Table.Td>
      </Table.Tr>
    </>
  );
}

function BuildLog({ org, registryId, number }: { org: string; registryId: string; number: number }) {
  const log = useQuery(buildLogQuery(org, registryId, number));
  return (
    <QueryResult of={log}>
      {({ entries, lines, complete }) => (
        <>
          {lines > BUILD_LINES_SHOWN_MAX && (
            <Text size="xs" c="dimmed">
              Last {BUILD_LINES_SHOWN_MAX} of {lines.toLocaleString()} lines
            </Text>
          )}
          <Code
            block
            tabIndex={0}
            role="region"
            aria-label={`Output of build ${number}`}
            mah="24rem"
            style={{ overflow: "auto" }}
          >
            {entries.length === 0
              ? complete
                ? "No output"
                : "No output yet"
              : entries.map(each => stripAnsi(each.text)).join("\n")}
          </Code>
        </>
      )}
    </QueryResult>
  );
}
