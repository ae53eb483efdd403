import { Modal, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { previewQuery } from "@/data/analyses";
import { QueryResult } from "@/ui/QueryResult";
import { RequestBody } from "./RequestBody";

type Props = { org: string; deploymentId: string; stepId: string; onClose: () => void };

/** Shows the request that an analysis would send to the model. */
export function PreviewDialog({ org, deploymentId, stepId, onClose }: Props) {
  const preview = useQuery(previewQuery(org, deploymentId, stepId));
  return (
    <Modal opened onClose={onClose} size="xl" title={<Text fw={650}>Preview request</Text>}>
      <QueryResult of={preview}>
        {({ analyser, url, body }) =>
          url == null || body == null ? (
            <Text>Nothing is sent. Rules on this server analyze the failure.</Text>
          ) : (
            <Stack gap="sm">
              <Text size="sm" className="wrap">
                This request would be sent to <b>{analyser}</b> at <code>{url}</code>. Secrets are masked.
                Nothing has been sent yet.
              </Text>
              <RequestBody body={body} label="Request body" />
            </Stack>
          )
        }
      </QueryResult>
    </Modal>
  );
}
