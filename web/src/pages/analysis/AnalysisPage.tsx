import { Card, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { analysisSettingsQuery } from "@/data/analyses";
import { useMay, useOrg } from "@/data/me";
import { Snippet } from "@/ui/Copy";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { When } from "@/ui/When";
import { SettingsForm } from "./SettingsForm";

const AUTOMATIC = `pipeline:
  analysis: { on_failure: true }
`;

/** Settings of failure analysis. */
export function AnalysisPage() {
  const org = useOrg();
  const mayWrite = useMay("analysis:settings");
  const settings = useQuery(analysisSettingsQuery(org));
  return (
    <Page
      title="Failure analysis"
      lead="Find out why steps fail, with built-in rules and optionally an AI model"
    >
      <Query of={settings}>
        {found => (
          <Stack gap="lg">
            <Card>
              <SettingsForm key={found.updatedAt ?? ""} settings={found} mayWrite={mayWrite} />
              {found.updatedAt && (
                <Text size="sm" c="dimmed" mt="sm">
                  Last changed <When at={found.updatedAt} />
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
              <Snippet label="Analysis on failure" text={AUTOMATIC} />
            </Card>
          </Stack>
        )}
      </Query>
    </Page>
  );
}
