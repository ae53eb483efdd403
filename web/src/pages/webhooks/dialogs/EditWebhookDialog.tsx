import { TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { Webhook } from "@/api/types";
import { useOrg } from "@/data/me";
import { useChangeWebhook } from "@/data/webhooks";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { EventKindPicker } from "@/ui/events/EventKindPicker";

/** Edits the URL and the events of a webhook. */
export function EditWebhookDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const change = useChangeWebhook(useOrg(), webhook.id);
  const form = useForm({ initialValues: { url: webhook.url, kinds: webhook.kinds } });
  const { url, kinds } = form.values;
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`Edit ${webhook.name}`}
      action="Save"
      mutation={change}
      disabled={!form.isDirty() || kinds.length === 0}
      input={{ url: url === webhook.url ? undefined : url, kinds }}
      success={() => `${webhook.name} saved`}
    >
      <TextInput label="URL" type="url" required data-autofocus {...form.getInputProps("url")} />
      <EventKindPicker
        value={kinds}
        error={kinds.length === 0 ? "Select at least one event" : undefined}
        onChange={chosen => form.setFieldValue("kinds", chosen)}
      />
    </ConfirmDialog>
  );
}
