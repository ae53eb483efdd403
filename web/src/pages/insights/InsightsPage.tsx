import { Card, Group, SegmentedControl, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { DeliveryInsights } from "@/api/types";
import { deliveryQuery } from "@/data/insights";
import { useOrg } from "@/data/me";
import { formatRoughDuration } from "@/format/time";
import { PipelineSelect } from "@/ui/fields/PipelineSelect";
import { LoadingRows } from "@/ui/LoadingRows";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { StatCard } from "@/ui/StatCard";

const DeploymentChart = lazy(() => import("./DeploymentChart"));

const ROUTE = "/o/$org/insights";
const PERIODS = ["7", "30", "90"];

function formatOptionalDuration(seconds: number | null | undefined): string {
  return seconds == null ? "–" : formatRoughDuration(seconds);
}

/** "2.4 per day"; per week or month if that is less than one. */
export function formatFrequency({ deployments, perDay }: DeliveryInsights["deploymentFrequency"]): string {
  if (deployments === 0) return "None in this period";
  if (perDay >= 1) return `${perDay.toFixed(1)} per day`;
  if (perDay * 7 >= 1) return `${(perDay * 7).toFixed(1)} per week`;
  return "Less than 1 per week";
}

/** The four DORA metrics. */
export function InsightsPage() {
  const org = useOrg();
  const { days: asked, pipeline } = useSearch({ from: ROUTE });
  const days = PERIODS.find(each => each === asked) ?? "30";
  const navigate = useNavigate({ from: ROUTE });
  const insights = useQuery(deliveryQuery(org, Number(days), pipeline));
  return (
    <Page title="Insights" lead="Deployment frequency, lead time, change failure rate and time to restore">
      <Group align="flex-end">
        <PipelineSelect
          aria-label="Pipeline"
          by="slug"
          none="All pipelines"
          value={pipeline}
          onChange={slug =>
            navigate({ search: now => ({ ...now, pipeline: slug || undefined }), replace: true })
          }
        />
        <SegmentedControl
          data={PERIODS.map(value => ({ value, label: `${value} days` }))}
          value={days}
          aria-label="Period"
          onChange={value => navigate({ search: now => ({ ...now, days: value }), replace: true })}
        />
      </Group>
      <QueryResult of={insights}>
        {({ deploymentFrequency, leadTime, changeFailureRate, timeToRestore, days: byDay, isCut }) => (
          <Stack>
            <SimpleGrid cols={{ base: 2, md: 4 }}>
              <StatCard
                label="Deployments"
                value={deploymentFrequency.deployments}
                note={formatFrequency(deploymentFrequency)}
              />
              <StatCard
                label="Median lead time"
                value={formatOptionalDuration(leadTime.medianSeconds)}
                note={
                  leadTime.p90Seconds == null
                    ? undefined
                    : `p90 ${formatOptionalDuration(leadTime.p90Seconds)}`
                }
              />
              <StatCard
                label="Change failure rate"
                value={changeFailureRate.rate == null ? "–" : `${Math.round(changeFailureRate.rate * 100)} %`}
                note={`${changeFailureRate.failed} failed, ${changeFailureRate.rolledBack} rolled back`}
              />
              <StatCard
                label="Median time to restore"
                value={formatOptionalDuration(timeToRestore.medianSeconds)}
                note={timeToRestore.open > 0 ? `${timeToRestore.open} not restored yet` : "No open failures"}
              />
            </SimpleGrid>
            {isCut && (
              <Text c="dimmed">Too many deployments to count. These metrics cover only the newest ones.</Text>
            )}
            <Card component="section" aria-label="Deployments by day">
              <Title order={2} mb="sm">
                Deployments by day
              </Title>
              {deploymentFrequency.deployments === 0 ? (
                <Text c="dimmed">
                  No deployment has reached the last stage of a pipeline in this period. Deployments are
                  counted from the first one on.
                </Text>
              ) : (
                <Suspense fallback={<LoadingRows rows={1} height={240} />}>
                  <DeploymentChart days={byDay} />
                </Suspense>
              )}
            </Card>
          </Stack>
        )}
      </QueryResult>
    </Page>
  );
}
