import { Text } from "@mantine/core";
import type { ApiToken } from "@/api/types";
import { useOrg } from "@/data/me";
import { useRevokeToken } from "@/data/tokens";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

export function RevokeTokenDialog({ token, onClose }: { token: ApiToken; onClose: () => void }) {
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Revoke ${token.name}?`}
      action="Revoke"
      danger
      mutation={useRevokeToken(useOrg())}
      input={token.id}
      success={() => `${token.name} revoked`}
    >
      <Text size="sm">Programs that use it lose access immediately. This cannot be undone.</Text>
    </ConfirmDialog>
  );
}
