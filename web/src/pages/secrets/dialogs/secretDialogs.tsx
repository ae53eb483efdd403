import { List, Text } from "@mantine/core";
import { useState } from "react";
import type { Secret } from "@/api/types";
import { useOrg } from "@/data/me";
import { useDeleteSecret, useUpdateSecret } from "@/data/secrets";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { SecretValueInput } from "@/ui/fields/SecretValueInput";

type Props = { secret: Secret; onClose: () => void };

export function UpdateSecretDialog({ secret, onClose }: Props) {
  const change = useUpdateSecret(useOrg());
  const [value, setValue] = useState("");
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Update ${secret.name}`}
      action="Update"
      mutation={change}
      disabled={value === ""}
      input={{ id: secret.id, value }}
      success={changed => `${secret.name} updated to version ${changed.version}`}
    >
      <Text size="sm" c="dimmed">
        Running deployments keep version {secret.version}. New deployments use the new value.
      </Text>
      <SecretValueInput
        data-autofocus
        value={value}
        onChange={event => setValue(event.currentTarget.value)}
      />
    </ConfirmDialog>
  );
}

export function DeleteSecretDialog({ secret, onClose }: Props) {
  const remove = useDeleteSecret(useOrg());
  const isUsed = secret.usedBy.length > 0;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Delete ${secret.name}?`}
      action={isUsed ? "Delete anyway" : "Delete"}
      danger
      mutation={remove}
      input={{ id: secret.id, force: isUsed }}
      success={() => `${secret.name} deleted`}
    >
      {isUsed ? (
        <>
          <Text size="sm">These pipelines use it, and their next deployments will fail:</Text>
          <List size="sm">
            {secret.usedBy.map(each => (
              <List.Item key={each.pipelineId}>{each.slug}</List.Item>
            ))}
          </List>
        </>
      ) : (
        <Text size="sm">No pipeline uses it. Its value cannot be recovered.</Text>
      )}
    </ConfirmDialog>
  );
}
