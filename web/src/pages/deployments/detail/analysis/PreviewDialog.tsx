import { Modal, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { previewQuery } from "@/data/analyses";
import { Query } from "@/ui/Query";
import { Sent } from "./Sent";

type Props = { org: string; deploymentId: string; stepId: string; onClose: () => void };

/** What would leave the server, before it does. */
export function PreviewDialog({ org, deploymentId, stepId, onClose }: Props) {
  const preview = useQuery(previewQuery(org, deploymentId, stepId));
  return (
    <Modal opened onClose={onClose} size="xl" title={<Text fw={650}>What would be sent</Text>}>
      <Query of={preview}>
        {({ analyser, url, body }) =>
          url == null || body == null ? (
            <Text>Nothing: the rules answer, on this server.</Text>
          ) : (
            <Stack gap="sm">
              <Text size="sm" className="wrap">
                To <b>{analyser}</b> at <code>{url}</code>, as it stands here. Secrets are masked as they are
                in the log. Nothing was sent yet.
              </Text>
              <Sent body={body} label="What would be sent" />
            </Stack>
          )
        }
      </Query>
    </Modal>
  );
}
