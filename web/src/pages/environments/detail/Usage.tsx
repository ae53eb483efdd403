import { Card, Group, Progress, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { insightsQuery, type Where } from "@/data/environments";
import { duration, roughly } from "@/format/time";
import { Query } from "@/ui/Query";
import { Stat } from "@/ui/Stat";

const SHOWN_MAX = 5;

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Usage of an environment: utilization, waiting times and holders. */
export function Usage({ where }: { where: Where }) {
  const [days, setDays] = useState("30");
  const insights = useQuery(insightsQuery(where, Number(days)));
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
      <Query of={insights}>
        {found => {
          const total = found.holders.reduce((sum, each) => sum + each.seconds, 0);
          const wait = found.waitSeconds;
          return (
            <Stack>
              <SimpleGrid cols={{ base: 2, md: 4 }}>
                <Stat
                  label="Utilization"
                  value={percent(found.utilisation)}
                  note={found.sessions === 1 ? "1 session" : `${found.sessions} sessions`}
                />
                <Stat
                  label="Median wait"
                  value={wait.median == null ? "–" : roughly(wait.median)}
                  note={wait.p90 == null ? "no one queued" : `p90 ${roughly(wait.p90)}`}
                />
                <Stat
                  label="Median session"
                  value={found.holdSeconds.median == null ? "–" : roughly(found.holdSeconds.median)}
                  note={
                    found.holdSeconds.max == null ? undefined : `longest ${roughly(found.holdSeconds.max)}`
                  }
                />
                <Stat label="Takeovers" value={found.takeovers} note={`${found.expired} expired`} />
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
                            {duration(each.seconds)}, {percent(each.seconds / total)}
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
      </Query>
    </section>
  );
}
