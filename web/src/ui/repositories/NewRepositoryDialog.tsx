import { NativeSelect, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { useOrg } from "@/data/me";
import { useAddRepository } from "@/data/repositories";
import { ConfirmDialog } from "@/ui/ConfirmDialog";
import { SecretSelect } from "@/ui/fields/SecretSelect";

const SYNC_INTERVALS = [
  { value: "10", label: "Every 10 seconds" },
  { value: "60", label: "Every minute" },
  { value: "300", label: "Every 5 minutes" },
  { value: "3600", label: "Every hour" },
];

export function NewRepositoryDialog({ onClose }: { onClose: () => void }) {
  const org = useOrg();
  const register = useAddRepository(org);
  const navigate = useNavigate();
  const form = useForm({ initialValues: { url: "", credential: "", poll: "60" } });
  const { url, credential, poll } = form.values;
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Add repository"
      action="Add"
      mutation={register}
      disabled={url.trim() === ""}
      input={{ url: url.trim(), credential: credential || undefined, pollSeconds: Number(poll) }}
      success={() => "Repository added"}
      onSuccess={({ id }) =>
        navigate({
          to: "/o/$org/settings/repositories/$repositoryId",
          params: { org, repositoryId: id },
          search: { added: "yes" },
        })
      }
    >
      <Text size="sm" c="dimmed">
        Berth finds its pipelines and deploys the newest commit of each tracked branch.
      </Text>
      <TextInput
        label="URL"
        placeholder="https://git.acme.test/shop.git"
        required
        data-autofocus
        {...form.getInputProps("url")}
      />
      <SecretSelect {...form.getInputProps("credential")} />
      <NativeSelect label="Sync interval" data={SYNC_INTERVALS} {...form.getInputProps("poll")} />
    </ConfirmDialog>
  );
}
