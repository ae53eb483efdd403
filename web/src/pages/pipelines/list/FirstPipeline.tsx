import { Stack, Text } from "@mantine/core";
import { IconRoute } from "@tabler/icons-react";
import { SERVER_URL } from "@/data/serverUrl";
import { Snippet } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";

const YAML = `version: 1
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

/** What to paste so that there is a first pipeline. */
export function FirstPipeline({ org }: { org: string }) {
  const commands = `berth pipeline validate .berth/shop/pipeline.yaml
git add .berth && git commit -m "A pipeline"
curl ${SERVER_URL}/api/v1/organizations/${org}/repositories \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"url": "https://git.example.com/shop.git"}'
`;
  return (
    <Empty icon={IconRoute} title="No pipelines yet">
      <Stack w="100%" gap="sm">
        <Text c="dimmed">
          A pipeline is a file in a repository. Save this as <code>.berth/shop/pipeline.yaml</code>, beside a{" "}
          <code>deploy.sh</code>:
        </Text>
        <Snippet text={YAML} label="A first pipeline" />
        <Text c="dimmed">
          Check it, commit it, and register the repository, here or under{" "}
          <Link to="/o/$org/settings/repositories" params={{ org }}>
            Organization Settings → Repositories
          </Link>
          . Its pipelines are found, and the head of the branch is deployed at once.
        </Text>
        <Snippet text={commands} label="Commands to register it" />
      </Stack>
    </Empty>
  );
}
