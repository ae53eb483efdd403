import { Card, Group, Progress, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type EnvironmentKey, usageQuery } from "@/data/environments";
import { formatDuration, formatRoughDuration } from "@/format/time";
import { QueryResult } from "@/ui/QueryResult";
import { StatCard } from "@/ui/StatCard";

const SHOWN_MAX = 5;

function formatPercent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Usage of an environment: utilization, waiting times and holders. */
export function UsageSection({ where }: { where: EnvironmentKey }) {
  const [days, setDays] = useState("30");
  const insights = useQuery(usageQuery(where, Number(days)));
  return (
    <section aria-label="Usage">
      <Group justify="space-between" mb="sm">
        <Title order={2}>Usage</Title>
        <SegmentedControl
          size="xs"
          data={["7", "30", "90"].map(value => ({ value, label: `${value} days` }))}
          value={days}
          onChange={setDays}
          aria-label="Period"
        />
      </Group>
      <QueryResult of={insights}>
        {found => {
          const total = found.holders.reduce((sum, each) => sum + each.seconds, 0);
          const wait = found.waitSeconds;
          return (
            <Stack>
              <SimpleGrid cols={2} spacing="xs">
                <StatCard
                  label="Utilization"
                  value={formatPercent(found.utilisation)}
                  note={found.sessions === 1 ? "1 session" : `${found.sessions} sessions`}
                />
                <StatCard
                  label="Median wait"
                  value={wait.median == null ? "–" : formatRoughDuration(wait.median)}
                  note={wait.p90 == null ? "No wait has ended yet" : `p90 ${formatRoughDuration(wait.p90)}`}
                />
                <StatCard
                  label="Median session"
                  value={
                    found.holdSeconds.median == null ? "–" : formatRoughDuration(found.holdSeconds.median)
                  }
                  note={
                    found.holdSeconds.max == null
                      ? undefined
                      : `Longest ${formatRoughDuration(found.holdSeconds.max)}`
                  }
                />
                <StatCard label="Takeovers" value={found.takeovers} note={`${found.expired} expired`} />
              </SimpleGrid>
              {total > 0 && (
                <Card padding="md">
                  <Text size="sm" c="dimmed" mb="xs">
                    Usage by person
                  </Text>
                  <Stack gap={8}>
                    {found.holders.slice(0, SHOWN_MAX).map(each => (
                      <div key={each.holder.id}>
                        <Group justify="space-between" fz="sm">
                          <span>{each.holder.name}</span>
                          <Text span inherit c="dimmed">
                            {formatDuration(each.seconds)}, {formatPercent(each.seconds / total)}
                          </Text>
                        </Group>
                        <Progress
                          value={(each.seconds / total) * 100}
                          aria-label={`${each.holder.name}, share of the time held`}
                          size="sm"
                        />
                      </div>
                    ))}
                  </Stack>
                </Card>
              )}
            </Stack>
          );
        }}
      </QueryResult>
    </section>
  );
}
