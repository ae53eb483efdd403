import { Stack, Text } from "@mantine/core";
import { IconRoute } from "@tabler/icons-react";
import { SERVER_URL } from "@/data/serverUrl";
import { Snippet } from "@/ui/Copy";
import { EmptyState } from "@/ui/EmptyState";
import { Link } from "@/ui/Link";

const PIPELINE_YAML = `version: 1
pipeline:
  name: Shop
  tracks: main
  stages:
    - name: staging
    - name: production
  steps:
    - name: Deploy
      type: script
      params: { run: sh deploy.sh }
`;

/** Empty state: YAML and commands for a first pipeline. */
export function NoPipelines({ org }: { org: string }) {
  const commands = `berth pipeline validate .berth/shop/pipeline.yaml
git add .berth deploy.sh && git commit -m "Add pipeline"
curl ${SERVER_URL}/api/v1/organizations/${org}/repositories \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"url": "https://git.example.com/shop.git"}'
`;
  return (
    <EmptyState icon={IconRoute} title="No pipelines yet">
      <Stack w="100%" gap="sm">
        <Text c="dimmed">
          Pipelines are defined in your repository. Save this as <code>.berth/shop/pipeline.yaml</code>, and
          put a <code>deploy.sh</code> at the root of the repository:
        </Text>
        <Snippet text={PIPELINE_YAML} label="Example pipeline" />
        <Text c="dimmed">
          Validate and commit it, then add the repository with these commands or under{" "}
          <Link to="/o/$org/settings/repositories" params={{ org }}>
            Organization Settings → Repositories
          </Link>
          . Berth deploys the newest commit of the tracked branch.
        </Text>
        <Snippet text={commands} label="Commands" />
      </Stack>
    </EmptyState>
  );
}
