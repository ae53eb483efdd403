import { Group, Stack, Text } from "@mantine/core";
import { IconRoute } from "@tabler/icons-react";
import { SERVER_URL } from "@/data/serverUrl";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/Link";
import { FIRST_PIPELINE, FIRST_PIPELINE_PATH } from "@/ui/snippets";

/** Empty state: YAML and commands for a first pipeline. */
export function NoPipelines({ org }: { org: string }) {
  const commands = `berth pipeline validate ${FIRST_PIPELINE_PATH}
git add .berth && git commit -m "Add pipeline" && git push
curl ${SERVER_URL}/api/v1/organizations/${org}/repositories \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"url": "https://git.example.com/shop.git"}'
`;
  return (
    <EmptyState icon={IconRoute} title="No pipelines yet">
      <Stack w="100%" gap="sm">
        <Text c="dimmed">
          Pipelines are defined in your repository. Save this as <code>{FIRST_PIPELINE_PATH}</code>, and
          replace the step with the commands that deploy your software:
        </Text>
        <Snippet text={FIRST_PIPELINE} label="Example pipeline" />
        <Text c="dimmed">
          Validate, commit and push it, then add the repository. Berth deploys the newest commit of the
          tracked branch.
        </Text>
        <Group>
          <LinkButton to="/o/$org/settings/repositories" params={{ org }}>
            Add repository
          </LinkButton>
        </Group>
        <Snippet text={commands} label="Commands" />
      </Stack>
    </EmptyState>
  );
}
