import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useChangeWebhook } from "@/data/webhooks";
import { Confirm } from "@/ui/Confirm";
import { tell } from "@/ui/notify";
import { Kinds } from "../webhooks/Kinds";

/** Where it goes, and what it is told of. */
export function ChangeWebhook({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const change = useChangeWebhook(useOrg(), webhook.id);
  const form = useForm({ initialValues: { url: webhook.url, kinds: webhook.kinds } });
  const { url, kinds } = form.values;
  return (
    <Confirm
      opened
      onClose={onClose}
      title={`Change ${webhook.name}`}
      action="Change it"
      pending={change.isPending}
      error={change.error}
      disabled={!form.isDirty() || kinds.length === 0}
      onConfirm={() =>
        change.mutate(
          { url: url === webhook.url ? undefined : url, kinds },
          {
            onSuccess: () => {
              tell(`${webhook.name} is changed.`);
              onClose();
            },
          },
        )
      }
    >
      <TextInput label="Address" type="url" required data-autofocus {...form.getInputProps("url")} />
      <Kinds
        value={kinds}
        error={kinds.length === 0 ? "Choose at least one" : undefined}
        onChange={chosen => form.setFieldValue("kinds", chosen)}
      />
    </Confirm>
  );
}
