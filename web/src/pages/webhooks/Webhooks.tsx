import { Button, Card, Group, Stack, Text } from "@mantine/core";
import { IconCheck, IconPlayerPause, IconPlus, IconWebhook } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Webhook } from "@/api/types";
import { useMay, useOrg } from "@/data/me";
import { webhooksQuery } from "@/data/webhooks";
import type { Look } from "@/theme/status";
import { Empty } from "@/ui/Empty";
import { Link } from "@/ui/Link";
import { Page } from "@/ui/Page";
import { Query } from "@/ui/Query";
import { Status } from "@/ui/Status";
import { NewWebhook } from "./NewWebhook";

export function webhookLook(webhook: Webhook): Look {
  return webhook.isActive
    ? { word: "active", tone: "good", icon: IconCheck }
    : { word: webhook.deactivated ? "switched off" : "off", tone: "warn", icon: IconPlayerPause };
}

/** Who else is told. */
export function Webhooks() {
  const org = useOrg();
  const mayWrite = useMay("webhooks:write");
  const webhooks = useQuery(webhooksQuery(org));
  const [isMaking, setMaking] = useState(false);
  return (
    <Page
      title="Webhooks"
      lead="Signed requests, or lines in a chat, for what happens here. At least once, also across crashes."
      actions={
        mayWrite && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setMaking(true)}>
            Create a webhook
          </Button>
        )
      }
    >
      <Query of={webhooks}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty icon={IconWebhook} title="Nobody else is told yet">
              Create one with the address that shall hear of deployments, take-overs or approvals.
            </Empty>
          ) : (
            <Stack>
              {data.map(each => (
                <Card key={each.id} padding="md" component="article" aria-label={each.name}>
                  <Group justify="space-between">
                    <div style={{ minWidth: 0 }}>
                      <Link
                        to="/o/$org/settings/webhooks/$webhookId"
                        params={{ org, webhookId: each.id }}
                        fw={600}
                      >
                        {each.name}
                      </Link>
                      <Text size="sm" c="dimmed" className="wrap">
                        {each.url}
                      </Text>
                    </div>
                    <Group gap="sm">
                      {each.pending > 0 && <Text size="sm">{each.pending} on their way</Text>}
                      <Status look={webhookLook(each)} />
                    </Group>
                  </Group>
                </Card>
              ))}
            </Stack>
          )
        }
      </Query>
      {isMaking && <NewWebhook onClose={() => setMaking(false)} />}
    </Page>
  );
}
