import { Card, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { analysisSettingsQuery } from "@/data/analyses";
import { useOrg, usePermission } from "@/data/me";
import { Snippet } from "@/ui/Copy";
import { Page } from "@/ui/Page";
import { QueryResult } from "@/ui/QueryResult";
import { RelativeTime } from "@/ui/RelativeTime";
import { AnalysisSettingsForm } from "./AnalysisSettingsForm";

const AUTOMATIC_YAML = `pipeline:
  analysis: { on_failure: true }
`;

/** Settings of failure analysis. */
export function AnalysisSettingsPage() {
  const org = useOrg();
  const mayWrite = usePermission("analysis:settings");
  const settings = useQuery(analysisSettingsQuery(org));
  return (
    <Page
      title="Failure analysis"
      lead="Find out why steps fail, with built-in rules and optionally an AI model"
    >
      <QueryResult of={settings}>
        {found => (
          <Stack gap="lg">
            <Card>
              <AnalysisSettingsForm key={found.updatedAt ?? ""} settings={found} mayWrite={mayWrite} />
              {found.updatedAt && (
                <Text size="sm" c="dimmed" mt="sm">
                  Last changed <RelativeTime at={found.updatedAt} />
                </Text>
              )}
            </Card>
            <Card component="section" aria-label="Automatic analysis">
              <Title order={2} mb={4}>
                Automatic analysis
              </Title>
              <Text size="sm" c="dimmed" mb="sm">
                By default, you start an analysis on the page of a failed step. To analyze every failure
                automatically, add this to the pipeline definition:
              </Text>
              <Snippet label="Analysis on failure" text={AUTOMATIC_YAML} />
            </Card>
          </Stack>
        )}
      </QueryResult>
    </Page>
  );
}
