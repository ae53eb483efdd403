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

/** Who says why steps fail, and what it may cost. */
export function AnalysisPage() {
  const org = useOrg();
  const mayWrite = useMay("analysis:settings");
  const settings = useQuery(analysisSettingsQuery(org));
  return (
    <Page
      title="Failure analysis"
      lead="Rules on this server say why a step failed. A model can be asked too, if you choose one."
    >
      <Query of={settings}>
        {found => (
          <Stack gap="lg">
            <Card>
              <SettingsForm key={found.updatedAt ?? ""} settings={found} mayWrite={mayWrite} />
              {found.updatedAt && (
                <Text size="sm" c="dimmed" mt="sm">
                  Changed <When at={found.updatedAt} />
                </Text>
              )}
            </Card>
            <Card component="section" aria-label="Without being asked">
              <Title order={2} mb={4}>
                Without being asked
              </Title>
              <Text size="sm" c="dimmed" mb="sm">
                A failed step has a button for it. A pipeline that has this in its definition asks by itself,
                whenever a step of it fails.
              </Text>
              <Snippet label="Analysis on failure" text={AUTOMATIC} />
            </Card>
          </Stack>
        )}
      </Query>
    </Page>
  );
}
