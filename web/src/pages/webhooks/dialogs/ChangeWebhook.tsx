import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useChangeWebhook } from "@/data/webhooks";
import { Confirm } from "@/ui/Confirm";
import { Kinds } from "./Kinds";

/** Edits the URL and the events of a webhook. */
export function ChangeWebhook({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const change = useChangeWebhook(useOrg(), webhook.id);
  const form = useForm({ initialValues: { url: webhook.url, kinds: webhook.kinds } });
  const { url, kinds } = form.values;
  return (
    <Confirm
      onClose={onClose}
      title={`Edit ${webhook.name}`}
      action="Save"
      mutation={change}
      disabled={!form.isDirty() || kinds.length === 0}
      input={{ url: url === webhook.url ? undefined : url, kinds }}
      success={() => `${webhook.name} saved`}
    >
      <TextInput label="URL" type="url" required data-autofocus {...form.getInputProps("url")} />
      <Kinds
        value={kinds}
        error={kinds.length === 0 ? "Select at least one event" : undefined}
        onChange={chosen => form.setFieldValue("kinds", chosen)}
      />
    </Confirm>
  );
}
